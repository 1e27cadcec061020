"""Fitting the click model: additive stage, two sets of trees, the stack over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.control.additive import additive_scores
from unskew.control.additive_stage import AdditiveStage, Sample, fit_additive_stage
from unskew.control.aggregate import Exposures, aggregate
from unskew.control.boosting import CrossFit, TreeSettings, cross_fit, fold_of_queries
from unskew.control.click_model import QueryClicks
from unskew.control.expected_place import ExpectedPlace, fit_expected_place
from unskew.control.position_effect import PositionBasis
from unskew.control.stack import Stack, fit_stack
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix, Terms
from unskew.deploy.lightgbm_text import read_text, write_text
from unskew.errors import LogError
from unskew.rankers.binned import binned
from unskew.rankers.forest import additive_forest, merge_forests

Floats = npt.NDArray[np.float64]

PRESETS: dict[str, TreeSettings] = {
    "default": TreeSettings(),
    # The paper's trees; the number of them is still chosen by held-out clicks.
    "paper": TreeSettings(
        leaves=255, rate=0.05, rounds=500, min_rows=2, l2=0.0, feature_fraction=1.0, bagging_fraction=1.0, extra=False
    ),
    "smoke": TreeSettings(rate=0.2, rounds=20, patience=5, min_rows=10, l2=1.0),
}


@dataclass(frozen=True, eq=False)
class ClickFit:
    """A fitted click model over the log's queries with clicks.

    table : the counts; fold : (queries,) the fold that did not see the query.
    sample : what the linear models were fitted on; place : m(x); additive : the additive stage.
    trees, boosted : fold models of trees from nothing, and of trees on top of the additive stage.
    stack : the weights of trees, boosted, place (and terms), and the position effect.
    """

    table: Exposures
    fold: IntArray
    sample: Sample
    place: ExpectedPlace
    additive: AdditiveStage
    trees: CrossFit
    boosted: CrossFit
    stack: Stack

    @property
    def parts(self) -> dict[str, Floats]:
        """Held-out scores of the parts, by row of `used`."""
        return _parts(self.sample, self.place, self.additive, self.trees, self.boosted)

    @property
    def basis(self) -> PositionBasis:
        return self.sample.basis

    @property
    def used(self) -> Exposures:
        """The counts of the queries that the additive stage and the stack were fitted on."""
        return self.sample.table

    @property
    def n_trees(self) -> int:
        """Trees of the forest, without those of the additive part."""
        return len(self.trees.boosters) * (self.trees.rounds + self.boosted.rounds)

    def forest(self, names: tuple[str, ...]) -> bytes:
        """f as one LightGBM text: the weighted mean of the fold models, control terms and position left behind."""
        weights, additive, place = self.stack.weights, self.additive, self.place
        # What the stack and the additive stage both say of m(x), and of the features themselves.
        of_place = weights["place"] + weights["boosted"] * float(additive.place.mean())
        slope = weights["boosted"] * additive.weights.mean(axis=0) + of_place * place.weights
        edges, scores = self.sample.scores.edges, self.sample.scores.scores
        values = [score * one for score, one in zip(scores, slope)]
        models, shares = [additive_forest(names, edges, values, missing=self.sample.scores.missing)], [1.0]
        for boosters, rounds, weight in (
            (self.trees.boosters, self.trees.rounds, weights["trees"]),
            (self.boosted.boosters, self.boosted.rounds, weights["boosted"]),
            (place.trees.boosters, place.trees.rounds, of_place),
        ):
            if rounds == 0 or weight == 0:
                continue
            for booster in boosters:
                models.append(replace(read_text(booster.model_to_string(num_iteration=rounds)), names=tuple(names)))
                shares.append(weight / len(boosters))
        return write_text(merge_forests(models, shares))


def click_table(log: ClickLog) -> Exposures:
    """The counts of the log's queries with clicks; at least two of them, so that one can be held out."""
    table = aggregate(log).informative()
    if table.n_queries < 2:
        raise LogError(
            "The click model learns from which of several items was clicked, and holds queries out to choose its "
            f"settings, but {table.n_queries} queries have clicks and more than one item. It needs two or more."
        )
    return table


def fit_clicks(
    log: ClickLog,
    *,
    table: Exposures | None = None,
    position: bool = True,
    terms: Callable[[Exposures], Terms] | None = None,
    folds: int = 4,
    settings: TreeSettings | None = None,
    seed: int = 0,
    threads: int = 0,
    data: lgb.Dataset | None = None,
) -> ClickFit:
    """Fit the click model; without `position` all positions are taken to be seen alike.

    terms : makes the control columns of the table's rows, which get trees of their own.
    data : the table's features binned, if that was done before.
    """
    table = click_table(log) if table is None else table
    settings = PRESETS["default"] if settings is None else settings
    fold = fold_of_queries(table.n_queries, min(folds, table.n_queries), seed=seed)
    basis = PositionBasis.up_to(table.longest if position else 1)
    features = log.data.features
    if data is None:
        data = binned(DesignMatrix(features, table.row), threads=threads)
    sample = Sample.of(features, table, basis, seed=seed)
    place = fit_expected_place(features, table, fold, sample, data, seed=seed, threads=threads)
    additive = fit_additive_stage(sample, fold, place.held_out)
    extra = None if terms is None else bin_terms(features, table, terms(table), threads)
    effect = additive.effect @ basis.columns(table.position).T
    linear = additive_scores(sample.scores, additive.weights, features, table.row)
    linear += additive.place[:, None] * place.held_out

    def boost(given: Floats, seed: int) -> CrossFit:
        return cross_fit(data, table, fold, given, settings=settings, terms=extra, seed=seed, threads=threads)

    trees, boosted = boost(effect, seed), boost(effect + linear, seed + len(effect))
    parts = _parts(sample, place, additive, trees, boosted)
    stack = fit_stack(basis, sample.table.position, QueryClicks.of(sample.table), parts)
    return ClickFit(table, fold, sample, place, additive, trees, boosted, stack)


def _parts(
    sample: Sample, place: ExpectedPlace, additive: AdditiveStage, trees: CrossFit, boosted: CrossFit
) -> dict[str, Floats]:
    rows = sample.rows
    parts = {
        "trees": trees.held_out[rows],
        "boosted": additive.held_out + boosted.held_out[rows],
        "place": place.held_out[rows],
    }
    terms = (trees.held_out_terms + boosted.held_out_terms)[rows] / 2
    return {**parts, "terms": terms} if np.ptp(terms) > 0 else parts


def bin_terms(features: npt.NDArray[np.float32], table: Exposures, terms: Terms, threads: int) -> lgb.Dataset:
    """The control columns alone, binned."""
    design = DesignMatrix(features, table.row, terms)
    return lgb.Dataset(design.extra(slice(None)), params={"verbosity": -1, "num_threads": threads}).construct()
