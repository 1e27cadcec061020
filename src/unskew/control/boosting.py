"""Cross-fitted boosting of the click model: trees for f over the features, trees of their own for h over the terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, gather_segments
from unskew.control.aggregate import Exposures
from unskew.control.click_model import QueryClicks

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TreeSettings:
    """How trees grow: strongly regularised, because clicks are few and their noise is large.

    rounds : the most; patience : rounds without a better held-out likelihood before stopping.
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
            "force_row_wise": True,
            "feature_pre_filter": False,
            "boost_from_average": False,
            "verbosity": -1,
        }


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Fold models of f (and of h, where there are terms) and what each says about the queries it did not see.

    boosters : one a fold, cut to `rounds` trees when used.
    rounds : the number of trees with the best held-out likelihood.
    held_out : (n,) scores of f for every row, by the model that did not see its query.
    held_out_terms : (n,) the same of h; zero without terms.
    likelihood : (rounds tried + 1, folds) held-out log-likelihood after every round, without trees first.
    by_query : (rounds tried + 1, queries) the same by query, where it was asked for.
    """

    boosters: list[lgb.Booster]
    rounds: int
    held_out: Floats
    held_out_terms: Floats
    likelihood: Floats
    by_query: Floats | None = None


def fold_of_queries(n_queries: int, folds: int, *, seed: int) -> IntArray:
    """(queries,) folds of equal size, at random.

    >>> fold_of_queries(6, 3, seed=0).tolist()
    [0, 2, 2, 1, 0, 1]
    """
    return np.random.default_rng(seed).permutation(n_queries) % folds


@dataclass(eq=False)
class _Learner:
    """A booster over a fold's training part that also scores the held-out part."""

    booster: lgb.Booster
    train: Floats
    test: Floats

    @classmethod
    def over(cls, data: lgb.Dataset, seen: IntArray, unseen: IntArray, parameters: dict[str, Any]) -> _Learner:
        train = data.subset(seen)  # type: ignore[arg-type]
        test = data.subset(unseen)  # type: ignore[arg-type]
        booster = lgb.Booster(parameters, train.construct())
        booster.add_valid(test.construct(), "held out")
        return cls(booster, np.zeros(len(seen)), np.zeros(len(unseen)))

    def grow(self, gradient: Callable[[Floats], tuple[Floats, Floats]], *, shared: bool) -> None:
        """One more tree against the gradient at the current scores, which are read if others need them."""
        self.booster.update(fobj=lambda scores, _: gradient(scores))
        if shared:
            self.train = _kept(self.booster.eval_train)
        self.test = _kept(self.booster.eval_valid)


def _kept(evaluate: Callable[..., Any]) -> Floats:
    """LightGBM's running scores: it hands them to metrics, and one that keeps them saves a pass over all trees."""
    kept: list[Floats] = []

    def keep(scores: Floats, _: object) -> tuple[str, float, bool]:
        kept.append(np.array(scores, dtype=np.float64))
        return "kept", 0.0, True

    evaluate(feval=keep)
    return kept[0]


@dataclass(eq=False)
class _Fold:
    clicks: QueryClicks
    unseen_clicks: QueryClicks
    seen: IntArray
    unseen: IntArray
    given: Floats
    given_unseen: Floats
    learners: list[_Learner] = field(default_factory=list)

    def round(self) -> Floats:
        """A tree of every learner in turn; the held-out log-likelihood of every query after it."""
        for learner in self.learners:
            others = self.given + sum(other.train for other in self.learners if other is not learner)
            learner.grow(partial(self._gradient, others), shared=len(self.learners) > 1)
        return self.likelihood()

    def _gradient(self, others: Floats, scores: Floats) -> tuple[Floats, Floats]:
        return self.clicks.gradient(scores + others)

    def likelihood(self) -> Floats:
        """(unseen queries,) held-out log-likelihood."""
        return self.unseen_clicks.log_likelihood(self.given_unseen + sum(learner.test for learner in self.learners))


def cross_fit(
    data: lgb.Dataset | None,
    table: Exposures,
    fold: IntArray,
    given: Floats,
    *,
    settings: TreeSettings,
    terms: lgb.Dataset | None = None,
    term_settings: TreeSettings | None = None,
    seed: int = 0,
    threads: int = 0,
    by_query: bool = False,
) -> CrossFit:
    """Boost the click model in every fold at once and stop where the held-out likelihood of all folds is best.

    data, terms : binned columns of f and of h, one row an exposure; None leaves the part out.
    fold : (queries,) the fold that does not see the query.
    given : (folds, n) scores that are added in each fold's model: its position effect.
    """
    parts = [part for part in ((data, settings), (terms, term_settings or settings)) if part[0] is not None]
    folds = [_make_fold(table, fold, k, given[k]) for k in range(int(fold.max()) + 1)]
    for number, one in enumerate(folds):
        for columns, how in parts:
            assert columns is not None
            parameters = how.parameters(seed=seed + number, threads=threads)
            one.learners.append(_Learner.over(columns, one.seen, one.unseen, parameters))
    queries = [np.flatnonzero(fold == k) for k in range(len(folds))]
    path, details = [], []

    def record(likelihoods: list[Floats]) -> None:
        path.append([float(values.sum()) for values in likelihoods])
        if by_query:
            details.append(np.empty(len(fold)))
            for where, values in zip(queries, likelihoods):
                details[-1][where] = values

    record([one.likelihood() for one in folds])
    best, kept = 0, [[learner.test for learner in one.learners] for one in folds]
    for number in range(1, settings.rounds + 1):
        record([one.round() for one in folds])
        if sum(path[-1]) > sum(path[best]):
            best, kept = number, [[learner.test for learner in one.learners] for one in folds]
        elif number - best >= settings.patience:
            break
    scores = np.zeros((2, len(table)))
    first = 0 if data is not None else 1
    for one, held in zip(folds, kept):
        for part, values in enumerate(held):
            scores[first + part, one.unseen] = values
    boosters = [one.learners[0].booster for one in folds] if data is not None else []
    return CrossFit(boosters, best, scores[0], scores[1], np.array(path), np.array(details) if by_query else None)


def _make_fold(table: Exposures, fold: IntArray, number: int, given: Floats) -> _Fold:
    seen, _ = gather_segments(table.offsets, np.flatnonzero(fold != number))
    unseen, _ = gather_segments(table.offsets, np.flatnonzero(fold == number))
    clicks = QueryClicks.of(table.take(np.flatnonzero(fold != number)))
    unseen_clicks = QueryClicks.of(table.take(np.flatnonzero(fold == number)))
    return _Fold(clicks, unseen_clicks, seen, unseen, given[seen], given[unseen])
