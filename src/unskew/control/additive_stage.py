"""The additive stage: position effect, expected place and a ridge over all features, in one conditional click model.

It gives the trees their position effect, the stack its first component, and the log its first reading of η. Its
strength of shrinkage is the one with the best held-out likelihood, so it follows the size of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, gather_segments
from unskew.control.additive import NormalScores
from unskew.control.aggregate import Exposures
from unskew.control.click_model import QueryClicks
from unskew.control.conditional import fit_linear
from unskew.control.position_effect import PositionBasis, choose_bend

Floats = npt.NDArray[np.float64]

# Penalties of a squared weight; a weight's prior standard deviation is 1 / sqrt(penalty) in units of log clicks.
PENALTIES = (10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0)
_FIRST = 3
# The stage is a few hundred numbers; beyond these sizes more rows make it slower and no better.
MAX_CELLS = 16_000_000
MAX_WORK = 5_000_000_000


@dataclass(frozen=True, eq=False)
class Sample:
    """The queries that the linear models are fitted on: all of them, or a random part of a large log.

    queries : (used,) segments of the whole table; rows : (s,) their rows; table : their counts.
    basis : of the position effect, J columns; scores : bins and normal scores of the d features.
    columns : (s, J + 1 + d) float32: position basis, m(x) once it is known, normal scores.
    """

    queries: IntArray
    rows: IntArray
    table: Exposures
    basis: PositionBasis
    scores: NormalScores
    columns: npt.NDArray[np.float32]

    @classmethod
    def of(cls, features: npt.NDArray[np.float32], table: Exposures, basis: PositionBasis, *, seed: int = 0) -> Sample:
        queries = _within_budget(table, features.shape[1], seed)
        rows, _ = gather_segments(table.offsets, queries)
        part = table if len(queries) == table.n_queries else table.take(queries)
        scores = NormalScores.of(features[np.unique(part.row)], seed=seed)
        columns = np.zeros((len(part), basis.size + 1 + features.shape[1]), dtype=np.float32)
        columns[:, : basis.size] = basis.columns(part.position)
        scores.fill(columns[:, basis.size + 1 :], features[part.row])
        return cls(queries, rows, part, basis, scores, columns)

    @property
    def normal(self) -> npt.NDArray[np.float32]:
        """(s, d) normal scores of the features."""
        return self.columns[:, self.basis.size + 1 :]


@dataclass(frozen=True, eq=False)
class AdditiveStage:
    """What the additive stage learnt; s rows in the sample, d features, J position columns, one model a fold.

    weights : (folds, d) weights of the normal scores; place : (folds,) weights of m(x).
    effect : (folds, J) coefficients of the position basis.
    held_out : (s,) additive scores, by the model that did not see the query.
    likelihood : (used,) held-out log-likelihood of every query, position effect included.
    penalty, bend : what was chosen; tried : penalty → held-out log-likelihood.
    """

    weights: Floats
    place: Floats
    effect: Floats
    held_out: Floats
    likelihood: Floats
    penalty: float
    bend: float
    tried: dict[float, float]


def fit_additive_stage(sample: Sample, fold: IntArray, expected: Floats) -> AdditiveStage:
    """Fit the stage on the sample; `fold` (queries,) and `expected` = m(x) (n,) are those of the whole table."""
    basis, size, columns = sample.basis, sample.basis.size, sample.columns
    columns[:, size] = expected[sample.rows]
    clicks = QueryClicks.of(sample.table)
    bend, _ = choose_bend(basis, clicks, columns[:, : size + 1], penalty=np.zeros(1))
    trials = _choose_penalty(columns, clicks, fold[sample.queries], basis, bend)
    penalty = max(trials, key=lambda one: trials[one].likelihood.sum())
    best = trials[penalty]
    return AdditiveStage(
        weights=best.coefficients[:, size + 1 :],
        place=best.coefficients[:, size],
        effect=best.coefficients[:, :size],
        held_out=best.held_out,
        likelihood=best.likelihood,
        penalty=penalty,
        bend=bend,
        tried={one: float(trials[one].likelihood.sum()) for one in sorted(trials)},
    )


@dataclass(frozen=True, eq=False)
class _Trial:
    coefficients: Floats
    held_out: Floats
    likelihood: Floats


def _choose_penalty(
    columns: npt.NDArray[np.float32], clicks: QueryClicks, fold: IntArray, basis: PositionBasis, bend: float
) -> dict[float, _Trial]:
    """Climb along the penalties for as long as the held-out likelihood rises; what was tried on the way."""
    folds = int(fold.max()) + 1
    start = np.zeros((folds, columns.shape[1]))
    trials: dict[float, _Trial] = {}

    def value(at: int) -> float:
        if not 0 <= at < len(PENALTIES):
            return -np.inf
        penalty = PENALTIES[at]
        if penalty not in trials:
            ridge = np.full(columns.shape[1] - basis.size - 1, penalty)
            trials[penalty] = _cross_fit(columns, clicks, fold, np.r_[basis.penalty(bend), 0.0, ridge], basis, start)
            start[:] = trials[penalty].coefficients
        return float(trials[penalty].likelihood.sum())

    at = _FIRST
    step = 1 if value(at + 1) > value(at) else -1
    while value(at + step) > value(at):
        at += step
    return trials


def _cross_fit(
    columns: npt.NDArray[np.float32],
    clicks: QueryClicks,
    fold: IntArray,
    penalty: Floats,
    basis: PositionBasis,
    start: Floats,
) -> _Trial:
    coefficients = np.empty_like(start)
    held_out, likelihood = np.zeros(len(columns)), np.zeros(len(fold))
    for k in range(len(start)):
        # A query without clicks counts for nothing: that leaves the fold out without copying the columns.
        seen = fold != k
        training = replace(clicks, clicks=clicks.clicks * seen[clicks.segment], totals=clicks.totals * seen)
        beta = fit_linear(columns, training, penalty=penalty, start=start[k], tolerance=0.05).coefficients
        unseen = ~seen
        mine = unseen[clicks.segment]
        relevance = columns[:, basis.size :] @ beta[basis.size :].astype(np.float32)
        score = relevance + columns[:, : basis.size] @ beta[: basis.size].astype(np.float32)
        likelihood[unseen] = clicks.log_likelihood(score.astype(np.float64))[unseen]
        held_out[mine] = relevance[mine]
        coefficients[k] = beta
    return _Trial(coefficients, held_out, likelihood)


def _within_budget(table: Exposures, n_features: int, seed: int) -> IntArray:
    most = min(MAX_CELLS / n_features, MAX_WORK / n_features**2)
    if len(table) <= most:
        return np.arange(table.n_queries)
    order = np.random.default_rng(seed).permutation(table.n_queries)
    sizes = np.diff(table.offsets)[order]
    kept = max(int(np.searchsorted(np.cumsum(sizes), most)), min(50, table.n_queries))
    return np.sort(order[:kept])
