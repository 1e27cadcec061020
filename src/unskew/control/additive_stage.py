"""The additive stage: position effect, expected place and a ridge over all features, in one conditional click model.

It gives the trees their position effect, the stack its first component, and the log its first reading of η. Its
strength of shrinkage is the one with the best held-out likelihood, so it follows the size of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, gather_segments
from unskew.control.additive import NormalScores, expected_place
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
_BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class AdditiveStage:
    """What the additive stage learnt; s rows in the queries it used, d features, J position columns, one model a fold.

    queries : (used,) the segments of the table it was fitted on: all of them, or a random part of a large log.
    rows : (s,) their rows.
    scores : bins and normal scores of the features.
    weights : (folds, d) weights of the normal scores.
    effect : (folds, J) coefficients of the position basis.
    place : (d,) weights of m(x).
    held_out : (s,) additive scores, by the model that did not see the query.
    expected : (s,) m(x).
    likelihood : (used,) held-out log-likelihood of every query, position effect included.
    penalty, bend : what was chosen; tried : penalty → held-out log-likelihood.
    """

    queries: IntArray
    rows: IntArray
    scores: NormalScores
    weights: Floats
    effect: Floats
    place: Floats
    held_out: Floats
    expected: Floats
    likelihood: Floats
    penalty: float
    bend: float
    tried: dict[float, float]

    def predict(self, features: npt.NDArray[np.float32], row: IntArray) -> Floats:
        """(folds, n) scores of some rows of the features by every fold's model, a block at a time."""
        out = np.empty((len(self.weights), len(row)))
        weights = self.weights.T.astype(np.float32)
        block = np.empty((min(_BLOCK, len(row)), features.shape[1]), dtype=np.float32)
        for start in range(0, len(row), _BLOCK):
            rows = row[start : start + _BLOCK]
            self.scores.fill(block[: len(rows)], features[rows])
            out[:, start : start + len(rows)] = (block[: len(rows)] @ weights).T
        return out


def fit_additive_stage(
    features: npt.NDArray[np.float32], table: Exposures, fold: IntArray, basis: PositionBasis, *, seed: int = 0
) -> AdditiveStage:
    """Fit the stage on the table's queries with clicks (a random part of them if there are very many).

    features : the log's features, by row; fold : (queries,) the fold that does not see the query.
    """
    queries = _within_budget(table, features.shape[1], seed)
    rows, _ = gather_segments(table.offsets, queries)
    part = table if len(queries) == table.n_queries else table.take(queries)
    scores = NormalScores.of(features[np.unique(part.row)], seed=seed)
    size = basis.size
    columns = np.empty((len(part), size + 1 + features.shape[1]), dtype=np.float32)
    columns[:, :size] = basis.columns(part.position)
    scores.fill(columns[:, size + 1 :], features[part.row])
    place = expected_place(columns[:, size + 1 :], part)
    columns[:, size] = columns[:, size + 1 :] @ place.astype(np.float32)
    clicks = QueryClicks.of(part)
    bend, _ = choose_bend(basis, clicks, columns[:, : size + 1], penalty=np.zeros(1))
    chosen = _choose_penalty(columns, clicks, fold[queries], basis, bend)
    penalty = max(chosen, key=lambda one: chosen[one].likelihood.sum())
    best = chosen[penalty]
    weights = best.coefficients[:, size + 1 :] + best.coefficients[:, size, None] * place
    return AdditiveStage(
        queries=queries,
        rows=rows,
        scores=scores,
        weights=weights,
        effect=best.coefficients[:, :size],
        place=place,
        held_out=best.held_out,
        expected=columns[:, size].astype(np.float64),
        likelihood=best.likelihood,
        penalty=penalty,
        bend=bend,
        tried={one: float(chosen[one].likelihood.sum()) for one in sorted(chosen)},
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
