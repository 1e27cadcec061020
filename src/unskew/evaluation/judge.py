"""Judges: how good scores are on the validation items, for choosing among settings and stages."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from unskew._options import TuneOn
from unskew._segments import IntArray, gather_segments, offsets_of, segment_mean
from unskew.data.clicks import ClickLog
from unskew.data.counts import single_clicks
from unskew.data.design import DesignMatrix, Terms
from unskew.data.ranking import RankingData
from unskew.errors import DataError, GradeError, LogError, SettingError, check_choice
from unskew.evaluation.metrics import Values, dcg_of, ideal_linear
from unskew.evaluation.shared import shared_lists
from unskew.evaluation.top import top_rows
from unskew.rankers.base import Judge

LabelMetric = Literal["ndcg", "dcg"]


class LabelJudge:
    """Mean NDCG@p or DCG@p of lists whose labels are known; cheap to call again and again.

    features : the validation items as a model sees them at inference.
    labels : (entries,) gains: 2^g - 1 for a grade g, 0 or 1 for a click, real numbers for debiased clicks.
    offsets : (lists + 1,) the entries of every list.
    metric : "ndcg", lists without a positive label left out; "dcg", not normalised, for labels that may be negative.
    entry : (entries,) the item behind every entry, when lists share items; None when entries are the items.
    weight : (lists,) weights of the mean, or None.

    For a given ranking both metrics are linear in the labels, so that every label is divided by its list's ideal
    DCG and by the number of lists once; a call ranks, gathers and adds.

    >>> judge = LabelJudge(DesignMatrix(np.eye(3, dtype=np.float32)), [0.0, 3.0, 1.0], [0, 3])
    >>> round(judge(np.array([0.1, 0.5, 0.9])), 3), judge.n_lists
    (0.797, 1)
    """

    def __init__(
        self,
        features: DesignMatrix,
        labels: npt.ArrayLike,
        offsets: npt.ArrayLike,
        *,
        metric: LabelMetric = "ndcg",
        entry: IntArray | None = None,
        weight: npt.ArrayLike | None = None,
        at: int = 10,
        seed: int = 0,
    ) -> None:
        check_choice("metric", metric, get_args(LabelMetric))
        gains, bounds = np.asarray(labels, dtype=np.float64), np.asarray(offsets, dtype=np.int64)
        _check_labels(gains, bounds, len(features) if entry is None else len(entry), metric)
        share = _shares(gains, bounds, metric, weight, at)
        counted = np.flatnonzero(share)
        rows, self._offsets = gather_segments(bounds, counted)
        self._entry = rows if entry is None else entry[rows]
        self._worth = gains[rows] * np.repeat(share[counted], np.diff(self._offsets))
        self.features, self.metric, self.at, self.seed = features, metric, at, seed
        self.n_lists = len(counted)

    def __call__(self, scores: npt.NDArray[np.floating]) -> float:
        """The mean of the metric over the lists, for one score an item of `features`."""
        values = np.asarray(scores)
        if values.shape != (len(self.features),):
            raise DataError(f"{len(self.features):,} validation items need one score each, but found {values.shape}.")
        top = top_rows(values[self._entry], self._offsets, self.at, seed=self.seed)
        return float(dcg_of(self._worth, top).sum())


def make_judge(
    validation: ClickLog | RankingData | None,
    *,
    tune_on: TuneOn = "auto",
    terms: Terms | None = None,
    at: int = 10,
    seed: int = 0,
) -> Judge | None:
    """A judge over the validation data: mean NDCG@10 on human grades where there are any, else on clicks.

    Queries without a relevant item and sessions without a click are left out. `terms` are the extra columns the
    model expects, as they are at inference (all zero for a control function). Without validation data, no judge.

    >>> data = RankingData.from_arrays(np.eye(3), sizes=[3], grades=[0, 2, 1])
    >>> round(make_judge(data)(np.array([0.1, 0.5, 0.9])), 3)
    0.797
    """
    check_choice("tune_on", tune_on, get_args(TuneOn))
    if validation is None:
        return None
    if tune_on == "debiased":
        raise SettingError("tune_on='debiased' is known only to the control function methods, which debias clicks.")
    data = validation.data if isinstance(validation, ClickLog) else validation
    if tune_on == "grades" or (tune_on == "auto" and data.grades is not None):
        return judge_on_grades(validation, terms=terms, at=at, seed=seed)
    if isinstance(validation, ClickLog):
        return judge_on_clicks(validation, terms=terms, at=at, seed=seed)
    if tune_on == "clicks":
        raise LogError("tune_on='clicks' needs a ClickLog for validation, but RankingData has no clicks.")
    raise GradeError("The validation data has neither grades nor clicks, so it cannot choose between settings.")


def judge_on_grades(
    validation: ClickLog | RankingData, *, terms: Terms | None = None, at: int = 10, seed: int = 0
) -> LabelJudge:
    """Mean NDCG@p with gain 2^g - 1 over the validation queries; of a log, over the items it showed."""
    data = validation.data if isinstance(validation, ClickLog) else validation
    grades = data.require_grades("Tuning on grades")
    row = validation.rows_shown if isinstance(validation, ClickLog) else np.arange(data.n_rows)
    gain = 2.0 ** grades[row].astype(np.float64) - 1
    if not gain.any():
        raise GradeError(
            "No item of the validation data has a grade above 0, so its grades cannot choose between settings. "
            "Choose on clicks instead (tune_on='clicks', --tune-on clicks)."
        )
    offsets = offsets_of(np.bincount(data.query_of_row[row], minlength=data.n_queries))
    return LabelJudge(item_features(data, row, terms), gain, offsets, at=at, seed=seed)


def judge_on_clicks(log: ClickLog, *, terms: Terms | None = None, at: int = 10, seed: int = 0) -> LabelJudge:
    """Mean over the sessions with a click of NDCG@p on their clicks.

    Sessions that showed the same items are ranked as one list: its labels are the mean of theirs, each divided by
    its session's ideal DCG, which gives the same value at the cost of one session.
    """
    if log.n_counted_clicks == 0:
        which = "at all" if log.n_clicks == 0 else "whose weight is above 0"
        raise LogError(f"The validation log has no click {which}, so it cannot choose between settings.")
    log = single_clicks(log)
    lists = shared_lists(log, np.flatnonzero(log.session_clicks > 0))
    click = log.click[lists.impression].astype(np.float64)
    ideal = ideal_linear(click, lists.session_offsets, at)
    weight = np.ones(len(ideal))
    if log.weight is not None:
        weight = segment_mean(log.weight[lists.impression], lists.session_offsets)
    labels, list_weight = lists.average(click / np.repeat(ideal, np.diff(lists.session_offsets)), weight)
    shown = log.rows_shown
    return LabelJudge(
        item_features(log.data, shown, terms),
        labels,
        lists.offsets,
        metric="dcg",
        entry=np.searchsorted(shown, lists.row),
        weight=list_weight,
        at=at,
        seed=seed,
    )


def item_features(data: RankingData, row: IntArray, terms: Terms | None = None) -> DesignMatrix:
    """Some rows of the data, ascending, with the terms they have at inference; all rows need no gathering."""
    return DesignMatrix(data.features, row=None if len(row) == data.n_rows else row, terms=terms)


def _shares(gains: Values, bounds: IntArray, metric: LabelMetric, weight: npt.ArrayLike | None, at: int) -> Values:
    """(lists,) what a list's DCG is multiplied with to be its part of the mean; 0 for lists that do not count."""
    part = np.ones(len(bounds) - 1) if weight is None else np.array(weight, dtype=np.float64)
    part[np.diff(bounds) == 0] = 0.0
    ideal = np.ones_like(part)
    if metric == "ndcg":
        ideal = ideal_linear(gains, bounds, at)
        part[ideal <= 0] = 0.0
    if part.sum() <= 0:
        raise DataError("No validation list has a label above 0, so they cannot tell good scores from bad ones.")
    return part / part.sum() / np.where(ideal > 0, ideal, 1.0)


def _check_labels(gains: Values, bounds: IntArray, entries: int, metric: LabelMetric) -> None:
    if gains.shape != (entries,) or bounds[-1] != entries or not np.isfinite(gains).all():
        raise DataError(
            f"{entries:,} validation entries need one finite label each, but found {gains.shape} labels "
            f"in lists of {int(bounds[-1]):,} entries."
        )
    if metric == "ndcg" and gains.min(initial=0.0) < 0:
        raise DataError("NDCG needs labels of 0 or greater, but some are negative. Use metric='dcg'.")
