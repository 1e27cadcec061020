"""Fitting the click model: additive stage, two sets of trees, the stack over them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.control.additive import additive_scores
from unskew.control.additive_stage import AdditiveStage, Sample, fit_additive_stage
from unskew.control.aggregate import Exposures, aggregate
from unskew.control.boosting import CrossFit, TreeSettings, cross_fit, fold_of_queries, grow_trees
from unskew.control.caution import Caution, be_cautious
from unskew.control.click_model import QueryClicks
from unskew.control.expected_place import ExpectedPlace
from unskew.control.groundwork import Shared, groundwork
from unskew.control.position_effect import PositionBasis
from unskew.control.stack import Stack, fit_stack
from unskew.control.term_source import TermMaker
from unskew.data.clicks import ClickLog
from unskew.deploy.lightgbm_text import read_text, write_text
from unskew.errors import LogError
from unskew.rankers.forest import additive_forest, merge_forests

Floats = npt.NDArray[np.float64]

PRESETS: dict[str, TreeSettings] = {
    # Where 300 small trees are still learning, held-out clicks choose between them and larger ones. MQ2007 and MQ2008
    # (500 training queries) hardly ever get there; 1,200 synthetic queries do.
    "default": TreeSettings(larger=TreeSettings(leaves=15, extra=False)),
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
    size : of the trees, as held-out clicks preferred it.
    examination : by position, where it was given.
    caution : how much of that effect is left to relevance; None where no position effect was estimated.
    """

    table: Exposures
    fold: IntArray
    sample: Sample
    place: ExpectedPlace
    additive: AdditiveStage
    trees: CrossFit
    boosted: CrossFit
    stack: Stack
    size: TreeSettings
    examination: Floats | None = None
    caution: Caution | None = None

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
    def weights(self) -> dict[str, float]:
        """The weights of the parts in f."""
        return self.stack.weights if self.caution is None else self.caution.weights

    @property
    def effect(self) -> Floats:
        """(J,) the position effect that f stands beside: the stack's, less what is left to relevance."""
        return self.stack.effect * (1.0 if self.caution is None else 1.0 - self.caution.left)

    @property
    def n_trees(self) -> int:
        """Trees of the forest, without those of the additive part."""
        return sum(self.trees.trees) + sum(self.boosted.trees)

    def forest(self, names: tuple[str, ...]) -> bytes:
        """f as one LightGBM text: the weighted mean of the fold models, control terms and position left behind."""
        weights, additive, place = self.weights, self.additive, self.place
        # What the stack and the additive stage both say of m(x), and of the features themselves.
        of_place = weights["place"] + weights["boosted"] * float(additive.place.mean())
        slope = weights["boosted"] * additive.weights.mean(axis=0) + of_place * place.weights
        edges, scores = self.sample.scores.edges, self.sample.scores.scores
        values = [score * one for score, one in zip(scores, slope)]
        models, shares = [additive_forest(names, edges, values, missing=self.sample.scores.missing)], [1.0]
        of_trees = ((self.trees, weights["trees"]), (self.boosted, weights["boosted"]), (place.trees, of_place))
        for part, weight in of_trees:
            for booster, trees in zip(part.boosters, part.trees):
                if trees and weight:
                    text = booster.model_to_string(num_iteration=trees)
                    models.append(replace(read_text(text), names=tuple(names)))
                    shares.append(weight / len(part.boosters))
        return write_text(merge_forests(models, shares))


class TooFewQueriesError(LogError):
    """Nothing can be held out."""


def click_table(log: ClickLog) -> Exposures:
    """The counts of the log's queries with clicks; at least two of them, so that one can be held out."""
    table = aggregate(log).informative()
    if table.n_queries < 2:
        raise TooFewQueriesError(
            "The click model learns from which of several items was clicked, and holds queries out to choose its "
            f"settings, but {'only one query has' if table.n_queries else 'no query has'} clicks and more than "
            "one item. It needs two or more."
        )
    return table


def fit_clicks(
    log: ClickLog,
    *,
    table: Exposures | None = None,
    position: bool = True,
    examination: Floats | None = None,
    terms: TermMaker | None = None,
    folds: int = 4,
    settings: TreeSettings | None = None,
    seed: int = 0,
    threads: int = 0,
    shared: Shared | None = None,
) -> ClickFit:
    """Fit the click model; without `position` all positions are taken to be seen alike.

    examination : (positions,) chances of a look, where they are known; the position effect is then not estimated.
    terms : makes the control columns of the table's rows; h is a weighted sum of them.
    shared : where fits find the groundwork of earlier ones to the same log, and leave their own.
    """
    table = click_table(log) if table is None else table
    settings = PRESETS["default"] if settings is None else settings
    fold = fold_of_queries(table.n_queries, min(folds, table.n_queries), seed=seed)
    basis = PositionBasis.up_to(table.longest if position and examination is None else 1)
    features = log.data.features
    looks = table.looked_at(examination)
    sample = Sample.of(features, looks, basis, seed=seed)
    ground = groundwork(features, table, fold, sample, seed=seed, threads=threads, shared=shared)
    data, place = ground.data, ground.place
    if terms is not None:
        sample = sample.with_terms(terms(table, place.held_out))
    additive = fit_additive_stage(sample, fold, place.held_out)
    given = additive.effect @ basis.columns(table.position).T
    if sample.terms is not None:
        given += sample.terms.scores(additive.terms, len(table))
    linear = additive_scores(sample.scores, additive.weights, features, table.row)
    linear += additive.place[:, None] * place.held_out
    trees, settings = grow_trees(data, looks, fold, given, settings=settings, seed=seed, threads=threads)
    later = seed + len(given)
    boosted = cross_fit(data, looks, fold, given + linear, settings=settings, seed=later, threads=threads)
    parts = _parts(sample, place, additive, trees, boosted)
    stack = fit_stack(basis, sample.table.position, QueryClicks.of(sample.table), parts)
    caution = be_cautious(basis, sample.table, parts, stack) if basis.size else None
    return ClickFit(looks, fold, sample, place, additive, trees, boosted, stack, settings, examination, caution)


def _parts(
    sample: Sample, place: ExpectedPlace, additive: AdditiveStage, trees: CrossFit, boosted: CrossFit
) -> dict[str, Floats]:
    rows = sample.rows
    parts = {
        "trees": trees.held_out[rows],
        "boosted": additive.held_out + boosted.held_out[rows],
        "place": place.held_out[rows],
    }
    return parts if sample.terms is None else {**parts, "terms": additive.held_out_terms}
