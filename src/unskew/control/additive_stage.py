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
from unskew.control.term_columns import TermColumns

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
    terms : what h is linear in, t columns, or None.
    columns : (s, J + 1 + d + t) float32: position basis, m(x) once it is known, normal scores, control terms.
    """

    queries: IntArray
    rows: IntArray
    table: Exposures
    basis: PositionBasis
    scores: NormalScores
    terms: TermColumns | None
    columns: npt.NDArray[np.float32]

    @classmethod
    def of(
        cls,
        features: npt.NDArray[np.float32],
        table: Exposures,
        basis: PositionBasis,
        *,
        seed: int = 0,
    ) -> Sample:
        """Choose the queries and make their columns."""
        queries = _within_budget(table, features.shape[1], seed)
        rows, _ = gather_segments(table.offsets, queries)
        part = table if len(queries) == table.n_queries else table.take(queries)
        scores = NormalScores.of(features[np.unique(part.row)], seed=seed)
        columns = np.zeros((len(part), basis.size + 1 + features.shape[1]), dtype=np.float32)
        columns[:, : basis.size] = basis.columns(part.position)
        scores.fill(columns[:, basis.size + 1 :], features[part.row])
        return cls(queries, rows, part, basis, scores, None, columns)

    def with_terms(self, terms: TermColumns) -> Sample:
        """The same queries with control terms; `terms` are those of all rows of the table."""
        columns = np.empty((len(self.rows), self.of_terms + terms.size), dtype=np.float32)
        columns[:, : self.of_terms] = self.columns[:, : self.of_terms]
        terms.fill(columns[:, self.of_terms :], self.rows)
        return replace(self, terms=terms, columns=columns)

    @property
    def of_terms(self) -> int:
        """Where the columns of the control terms begin."""
        return self.columns.shape[1] - (0 if self.terms is None else self.terms.size)

    @property
    def normal(self) -> npt.NDArray[np.float32]:
        """(s, d) normal scores of the features."""
        return self.columns[:, self.basis.size + 1 : self.of_terms]

    def penalty(self, bend: float, ridge: float) -> Floats:
        """(columns,) penalties: bends of the position effect, m free, features by `ridge`, terms by their own rule."""
        terms = np.zeros(0) if self.terms is None else self.terms.penalty(ridge)
        return np.r_[self.basis.penalty(bend), 0.0, np.full(self.normal.shape[1], ridge), terms]


@dataclass(frozen=True, eq=False)
class AdditiveStage:
    """What the additive stage learnt; s rows in the sample, d features, J position columns, one model a fold.

    weights : (folds, d) weights of the normal scores; place : (folds,) weights of m(x).
    effect : (folds, J) coefficients of the position basis; terms : (folds, t) weights of the control terms.
    held_out : (s,) additive scores, by the model that did not see the query; held_out_terms : (s,) the same of h.
    likelihood : (used,) held-out log-likelihood of every query, position effect included.
    penalty : what was chosen.
    """

    weights: Floats
    place: Floats
    effect: Floats
    terms: Floats
    held_out: Floats
    held_out_terms: Floats
    likelihood: Floats
    penalty: float


def fit_additive_stage(sample: Sample, fold: IntArray, expected: Floats) -> AdditiveStage:
    """Fit the stage on the sample; `fold` (queries,) and `expected` = m(x) (n,) are those of the whole table."""
    basis, size, columns = sample.basis, sample.basis.size, sample.columns
    columns[:, size] = expected[sample.rows]
    clicks = QueryClicks.of(sample.table)
    bend, _ = choose_bend(basis, clicks, columns[:, : size + 1], penalty=np.zeros(1))
    trials = _choose_penalty(sample, clicks, fold[sample.queries], int(fold.max()) + 1, bend)
    penalty = max(trials, key=lambda one: trials[one].likelihood.sum())
    best = trials[penalty]
    return AdditiveStage(
        weights=best.coefficients[:, size + 1 : sample.of_terms],
        place=best.coefficients[:, size],
        effect=best.coefficients[:, :size],
        terms=best.coefficients[:, sample.of_terms :],
        held_out=best.held_out,
        held_out_terms=best.held_out_terms,
        likelihood=best.likelihood,
        penalty=penalty,
    )


@dataclass(frozen=True, eq=False)
class _Trial:
    coefficients: Floats
    held_out: Floats
    held_out_terms: Floats
    likelihood: Floats


def _choose_penalty(
    sample: Sample, clicks: QueryClicks, fold: IntArray, folds: int, bend: float
) -> dict[float, _Trial]:
    """Climb along the penalties for as long as the held-out likelihood rises; what was tried on the way."""
    start = np.zeros((folds, sample.columns.shape[1]))
    trials: dict[float, _Trial] = {}

    def value(at: int) -> float:
        if not 0 <= at < len(PENALTIES):
            return -np.inf
        ridge = PENALTIES[at]
        if ridge not in trials:
            trials[ridge] = _cross_fit(sample, clicks, fold, sample.penalty(bend, ridge), start)
            start[:] = trials[ridge].coefficients
        return float(trials[ridge].likelihood.sum())

    at = _FIRST
    step = 1 if value(at + 1) > value(at) else -1
    while value(at + step) > value(at):
        at += step
    return trials


def _cross_fit(sample: Sample, clicks: QueryClicks, fold: IntArray, penalty: Floats, start: Floats) -> _Trial:
    columns, size, of_terms = sample.columns, sample.basis.size, sample.of_terms
    coefficients = np.empty_like(start)
    held_out, terms, likelihood = np.zeros(len(columns)), np.zeros(len(columns)), np.zeros(len(fold))
    for k in range(len(start)):
        # A query without clicks counts for nothing: that leaves the fold out without copying the columns.
        training, unseen = clicks.without(fold == k), fold == k
        beta = fit_linear(columns, training, penalty=penalty, start=start[k], tolerance=0.05).coefficients
        slope = beta.astype(np.float32)
        relevance, h = columns[:, size:of_terms] @ slope[size:of_terms], columns[:, of_terms:] @ slope[of_terms:]
        score = relevance + h + columns[:, :size] @ slope[:size]
        likelihood[unseen] = clicks.log_likelihood(score.astype(np.float64))[unseen]
        mine = unseen[clicks.segment]
        held_out[mine], terms[mine] = relevance[mine], h[mine]
        coefficients[k] = beta
    return _Trial(coefficients, held_out, terms, likelihood)


def _within_budget(table: Exposures, n_features: int, seed: int) -> IntArray:
    most = min(MAX_CELLS / n_features, MAX_WORK / n_features**2)
    if len(table) <= most:
        return np.arange(table.n_queries)
    order = np.random.default_rng(seed).permutation(table.n_queries)
    sizes = np.diff(table.offsets)[order]
    kept = max(int(np.searchsorted(np.cumsum(sizes), most)), min(50, table.n_queries))
    return np.sort(order[:kept])
