"""Stage one (equation 4): explain the logged rank by the features, keep what is left over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unskew._options import RankTarget
from unskew._segments import FloatArray, IntArray
from unskew.control.learners import Learner, RidgeFit, make_learner
from unskew.control.placements import Placements, Target, placements
from unskew.control.statistics import ResidualStatistics, chunks, residual_statistics
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import SettingError


class Explains(Protocol):
    """A fitted m(x): expected target from features."""

    def predict(self, features: npt.NDArray[np.float32]) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class StageOne:
    """What stage one learnt.

    model : m fitted on the whole log; expects plain features.
    target : how ranks were scaled.
    expected : (rows,) m̂(x) of every row of the training data: in-sample, or out of fold where cross-fitted.
    statistics : residual moments and histogram, what the transformations are fitted on.
    r2 : share of the target's variance explained (out of fold where cross-fitted).
    folds : number of folds of the cross-fit, 0 for in-sample.
    """

    model: Explains
    target: Target
    expected: npt.NDArray[np.float64]
    statistics: ResidualStatistics
    r2: float
    folds: int
    learner: str
    facts: dict[str, Any] = field(default_factory=dict)

    def residual(self, log: ClickLog, row: IntArray, position: IntArray) -> npt.NDArray[np.float64]:
        """(n,) residuals ε̂ = r − m̂(x) of items of the training log; positive: shown lower than the features say."""
        return self.target.values(log, row, position) - self.expected[row]

    def explain(self, data: RankingData) -> npt.NDArray[np.float64]:
        """(rows,) m(x) of other data, in blocks."""
        return predict_blocks(self.model, data.features)


def fit_stage_one(
    log: ClickLog,
    *,
    learner: Any = "ridge",
    rank_target: RankTarget = "global",
    cross_fit: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> StageOne:
    """Fit m on the log's placements; `cross_fit` folds by query (None: what suits the learner, 0: in-sample).

    Flexible learners memorise: their in-sample residuals shrink to nothing, so they are cross-fitted by default.
    """
    # A fraction must stay inside (0, 1), so the logit's rank is moved half a place up.
    target = Target.of(log, rank_target, offset=0.5 if learner == "logistic" else 0.0)
    model = make_learner(learner, rank_target=rank_target, random_state=random_state, n_jobs=n_jobs)
    folds = (5 if model.flexible else 0) if cross_fit is None else cross_fit
    if folds < 0 or folds == 1:
        raise SettingError(f"cross_fit must be 0 (in-sample) or at least 2 folds, but {folds} was given.")
    shown = placements(log)
    values = target.values(log, shown.row, shown.position)
    rows = row_targets(log, shown, values)
    fold_of_row = (
        _query_folds(log, min(folds, len(log.queries)), random_state)[log.data.query_of_row] if folds else None
    )
    fitted, expected = _fit(model, log.data, rows, fold_of_row)
    residual = values - expected[shown.row]
    weight = shown.count / shown.count.mean()
    spread = float(np.sqrt(np.average((residual - np.average(residual, weights=weight)) ** 2, weights=weight)))
    statistics = residual_statistics(residual, weight, scale=spread)
    total = float(np.average((values - np.average(values, weights=weight)) ** 2, weights=weight))
    return StageOne(
        model=fitted,
        target=target,
        expected=expected,
        statistics=statistics,
        r2=1 - statistics.scatter / statistics.weight / total if total > 0 else 0.0,
        folds=folds,
        learner=model.name,
        facts=fitted.facts() if isinstance(fitted, RidgeFit) else {},
    )


@dataclass(frozen=True, eq=False)
class RowTargets:
    """Placements gathered by row: the mean target of a row, its weight, and what the means leave out.

    rows : (n,) rows shown, ascending; mean, weight : (n,); within : weighted squares inside rows;
    entries : distinct placements. Squared-error learners need no more than this, so features are read once.
    """

    rows: IntArray
    mean: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    within: float
    entries: int


def row_targets(log: ClickLog, shown: Placements, values: FloatArray) -> RowTargets:
    """The placements of a log, and their targets, gathered by row."""
    n = log.data.n_rows
    weight = np.bincount(shown.row, weights=shown.count, minlength=n).astype(np.float64)
    total = np.bincount(shown.row, weights=shown.count * values, minlength=n)
    rows = np.flatnonzero(weight > 0)
    mean = total[rows] / weight[rows]
    whole = np.zeros(n)
    whole[rows] = mean
    within = float(shown.count @ (values - whole[shown.row]) ** 2)
    return RowTargets(rows=rows, mean=mean, weight=weight[rows], within=within, entries=len(shown.row))


def _fit(
    model: Learner, data: RankingData, rows: RowTargets, fold_of_row: IntArray | None
) -> tuple[Any, npt.NDArray[np.float64]]:
    """The model fitted on everything, and the expected target of every row (out of fold where folds are given)."""
    if fold_of_row is None:
        fitted = model.fit(data.features, rows)
        return fitted, predict_blocks(fitted, data.features)
    fitted, per_fold = model.cross_fit(data.features, rows, fold_of_row[rows.rows])
    expected = np.empty(data.n_rows)
    for fold, fold_model in enumerate(per_fold):
        mine = np.flatnonzero(fold_of_row == fold)
        expected[mine] = predict_blocks(fold_model, data.features, mine)
    return fitted, expected


def _query_folds(log: ClickLog, folds: int, seed: int) -> IntArray:
    order = np.random.default_rng(seed).permutation(log.data.n_queries)
    fold = np.empty(log.data.n_queries, dtype=np.int64)
    fold[order] = np.arange(log.data.n_queries) % max(folds, 2)
    return fold


def predict_blocks(
    model: Explains, features: npt.NDArray[np.float32], rows: IntArray | None = None
) -> npt.NDArray[np.float64]:
    """Predictions for the chosen rows, a block at a time."""
    total = len(features) if rows is None else len(rows)
    out = np.empty(total)
    for part in chunks(total, 1 << 16):
        out[part] = model.predict(features[part] if rows is None else features[rows[part]])
    return out
