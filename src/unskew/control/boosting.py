"""Cross-fitted boosting of the click model: every fold's trees, stopped where held-out clicks are predicted best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, gather_segments
from unskew.control.aggregate import Exposures
from unskew.control.click_model import ClickObjective, QueryClicks
from unskew.rankers.binned import histograms

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TreeSettings:
    """How trees grow: strongly regularised, because clicks are few and their noise is large.

    rounds : the most; patience : rounds without a better held-out likelihood before stopping.
    larger : trees to try as well where these are still learning at their last round: the log can carry more.
    """

    leaves: int = 4
    rate: float = 0.07
    rounds: int = 300
    patience: int = 20
    min_rows: int = 50
    l2: float = 10.0
    feature_fraction: float = 0.5
    bagging_fraction: float = 0.5
    extra: bool = True
    larger: TreeSettings | None = None

    def parameters(self, *, seed: int, threads: int) -> dict[str, Any]:
        return {
            "objective": "none",
            "metric": "None",
            "num_leaves": self.leaves,
            "learning_rate": self.rate,
            "min_data_in_leaf": self.min_rows,
            "lambda_l2": self.l2,
            "feature_fraction": self.feature_fraction,
            "bagging_fraction": self.bagging_fraction,
            "bagging_freq": int(self.bagging_fraction < 1),
            "extra_trees": self.extra,
            "seed": seed,
            "num_threads": threads,
            "deterministic": True,
            **histograms(threads),
            "feature_pre_filter": False,
            "boost_from_average": False,
            "verbosity": -1,
        }


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Fold models and what each says about the queries it did not see.

    boosters : one a fold; trees : how many of its trees each model has at the best held-out likelihood.
    rounds : the round it was reached at; a round in which nothing could be split adds no tree.
    held_out : (n,) scores of every row, by the model that did not see its query.
    likelihood : (rounds tried + 1,) held-out log-likelihood after every round, without trees first.
    """

    boosters: list[lgb.Booster]
    trees: list[int]
    rounds: int
    held_out: Floats
    likelihood: Floats

    def predict(self, features: npt.NDArray[np.float32]) -> Floats:
        """(n,) mean of the fold models' scores."""
        models = [
            booster.predict(features, num_iteration=trees) if trees else np.zeros(len(features))
            for booster, trees in zip(self.boosters, self.trees)
        ]
        return np.mean(models, axis=0)


def fold_of_queries(n_queries: int, folds: int, *, seed: int) -> IntArray:
    """(queries,) folds of equal size, at random.

    >>> fold_of_queries(6, 3, seed=0).tolist()
    [0, 2, 2, 1, 0, 1]
    """
    return np.random.default_rng(seed).permutation(n_queries) % folds


def grow_trees(
    data: lgb.Dataset,
    table: Exposures,
    fold: IntArray,
    given: Floats,
    *,
    settings: TreeSettings,
    seed: int = 0,
    threads: int = 0,
) -> tuple[CrossFit, TreeSettings]:
    """As `cross_fit`, with trees of the size that held-out clicks prefer, and that size: what a log can carry."""
    small = cross_fit(data, table, fold, given, settings=settings, seed=seed, threads=threads)
    if settings.larger is None or len(small.likelihood) <= settings.rounds:
        return small, settings
    large = cross_fit(data, table, fold, given, settings=settings.larger, seed=seed, threads=threads)
    better = large.likelihood[large.rounds] > small.likelihood[small.rounds]
    return (large, settings.larger) if better else (small, settings)


def cross_fit(
    data: lgb.Dataset,
    table: Exposures,
    fold: IntArray,
    given: Floats,
    *,
    settings: TreeSettings,
    seed: int = 0,
    threads: int = 0,
) -> CrossFit:
    """Boost the click model in every fold at once and stop where the held-out likelihood of all folds is best.

    data : the features of the table's items (its distinct rows of the data), binned.
    fold : (queries,) the fold that does not see the query.
    given : (folds, n) scores that are added in each fold's model: its position effect, its control terms.
    """
    count = int(fold.max()) + 1
    folds = [
        _Fold.of(data, table, fold == k, given[k], settings.parameters(seed=seed + k, threads=threads))
        for k in range(count)
    ]
    path = [sum(one.likelihood() for one in folds)]
    best, kept, trees = 0, [one.scores for one in folds], [0] * count
    for number in range(1, settings.rounds + 1):
        for one in folds:
            one.grow()
        path.append(sum(one.likelihood() for one in folds))
        if path[-1] > path[best]:
            best, kept, trees = number, [one.scores for one in folds], [one.booster.num_trees() for one in folds]
        elif number - best >= settings.patience:
            break
    held_out = np.zeros(len(table))
    for one, scores in zip(folds, kept):
        held_out[one.unseen] = one.held_out.spread(scores)
    return CrossFit([one.booster for one in folds], trees, best, held_out, np.array(path))


@dataclass(eq=False)
class _Fold:
    """A fold's booster over the queries it sees, and its scores of the others.

    seen, held_out : the objective on either part; unseen : rows of the table that are held out.
    scores : of the held-out items.
    """

    booster: lgb.Booster
    seen: ClickObjective
    held_out: ClickObjective
    unseen: IntArray
    scores: Floats

    @classmethod
    def of(
        cls,
        data: lgb.Dataset,
        table: Exposures,
        hidden: npt.NDArray[np.bool_],
        given: Floats,
        parameters: dict[str, Any],
    ) -> _Fold:
        (seen, _, items), (held_out, unseen, others) = (
            _objective(table, np.flatnonzero(queries), given) for queries in (~hidden, hidden)
        )
        booster = lgb.Booster(parameters, data.subset(items).construct())  # type: ignore[arg-type]
        booster.add_valid(data.subset(others).construct(), "held out")  # type: ignore[arg-type]
        return cls(booster, seen, held_out, unseen, np.zeros(len(others)))

    def grow(self) -> None:
        """One more tree."""
        self.booster.update(fobj=self.seen)
        self.scores = _running_scores(self.booster)

    def likelihood(self) -> float:
        return self.held_out.log_likelihood(self.scores)


def _objective(table: Exposures, queries: IntArray, given: Floats) -> tuple[ClickObjective, IntArray, IntArray]:
    """The objective on some queries, their rows in the table, and their items in the binned data."""
    rows, _ = gather_segments(table.offsets, queries)
    part = table.take(queries)
    item = np.searchsorted(table.starts, rows[part.starts])
    return ClickObjective(QueryClicks.of(part), given[rows], part.starts), rows, item


def _running_scores(booster: lgb.Booster) -> Floats:
    """Scores of the held-out items: LightGBM hands them to metrics; keeping them saves a pass over all trees."""
    kept: list[Floats] = []

    def keep(scores: Floats, _: object) -> tuple[str, float, bool]:
        kept.append(np.array(scores, dtype=np.float64))
        return "kept", 0.0, True

    booster.eval_valid(feval=keep)
    return kept[0]
