"""NDCG and ERR of every query: ranked once, no loop over queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from unskew._options import EmptyQueries
from unskew._segments import IntArray, order_within, positions_in, segment_sum
from unskew.data.ranking import check_grades
from unskew.errors import DataError, GradeError, SettingError, check_choice
from unskew.evaluation.top import top_rows

Values = npt.NDArray[np.float64]
PerQuery = dict[str, Values]
CUTOFFS = (1, 3, 5, 10)


@dataclass(frozen=True)
class Summary:
    """Means over queries.

    mean : metric name → mean.
    queries : how many queries the means are over.
    empty : how many queries have no relevant item; they were left out, or counted as zero or one.
    """

    mean: dict[str, float]
    queries: int
    empty: int


def per_query(
    grades: npt.ArrayLike,
    scores: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    max_grade: int,
    at: Sequence[int] = CUTOFFS,
    seed: int = 0,
) -> PerQuery:
    """ "ndcg@p" and "err@p" of every query, for every cut-off p; NaN where a query has no relevant item.

    grades, scores : (rows,); offsets : (queries + 1,); each value of the result : (queries,).

        DCG@p = Σ_{r≤p} (2^g_r - 1) / log2(r + 1),   NDCG@p = DCG@p / DCG@p of the ideal order
        ERR@p = Σ_{r≤p} 1/r · R_r · Π_{i<r} (1 - R_i),   R = (2^g - 1) / 2^max_grade

    Lists shorter than p sum what exists. Equal scores are ordered at random under the seed.

    >>> values = per_query([0, 1, 0, 0], [0.9, 0.3, 0.2, 0.1], [0, 3, 4], max_grade=1, at=[1, 2])
    >>> {name: value.round(3).tolist() for name, value in values.items()}
    {'ndcg@1': [0.0, nan], 'err@1': [0.0, nan], 'ndcg@2': [0.631, nan], 'err@2': [0.25, nan]}
    """
    judged, bounds, cuts = _check_judged(grades, offsets, max_grade), _check_offsets(offsets), check_cutoffs(at)
    # No list is longer than the longest: what lies beyond adds nothing, and needs no room.
    reach = [min(cut, max(int(np.diff(bounds).max()), 1)) for cut in cuts]
    gain = _gains_of_top(judged, top_rows(scores, bounds, max(reach), seed=seed))
    ideal = ideal_dcg(judged, bounds, reach)
    dcg, err = np.cumsum(gain * discounts(max(reach)), axis=1), _cascade(gain, max_grade)
    empty = ideal[:, 0] == 0
    ideal[empty] = np.nan
    values: PerQuery = {}
    for column, (cut, deep) in enumerate(zip(cuts, reach, strict=True)):
        # The ideal is summed in another order: a perfect list could come out above 1 by a rounding error.
        values[f"ndcg@{cut}"] = np.minimum(dcg[:, deep - 1] / ideal[:, column], 1.0)
        values[f"err@{cut}"] = np.where(empty, np.nan, err[:, deep - 1])
    return values


def ndcg(
    grades: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike, *, at: int = 10, seed: int = 0
) -> Values:
    """(queries,) NDCG at one cut-off; NaN where a query has no relevant item.

    >>> ndcg([0, 3, 1], [0.1, 0.9, 0.5], [0, 3])
    array([1.])
    """
    return _one("ndcg", grades, scores, offsets, max_grade=None, at=at, seed=seed)


def err(
    grades: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike, *, max_grade: int, at: int = 10, seed: int = 0
) -> Values:
    """(queries,) ERR at one cut-off; NaN where a query has no relevant item.

    >>> err([0, 1], [0.1, 0.9], [0, 2], max_grade=1)
    array([0.5])
    """
    return _one("err", grades, scores, offsets, max_grade=max_grade, at=at, seed=seed)


def dcg_linear(
    labels: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike, *, at: int = 10, seed: int = 0
) -> Values:
    """(queries,) Σ_{r≤p} y_r / log2(r + 1): linear gain, not normalised, for labels that may be negative.

    It is linear in the labels, so that noise in them (clicks) averages out without bias.

    >>> dcg_linear([-0.5, 1.0], [0.1, 0.9], [0, 2]).round(3)
    array([0.685])
    """
    bounds = _check_offsets(offsets)
    values = np.asarray(labels, dtype=np.float64)
    if values.shape != (int(bounds[-1]),) or not np.isfinite(values).all():
        raise DataError(f"{int(bounds[-1]):,} rows need one finite label each, but found shape {values.shape}.")
    (cut,) = check_cutoffs([at])
    return dcg_of(values, top_rows(scores, bounds, cut, seed=seed))


def summarise(values: Mapping[str, Values], *, empty: EmptyQueries = "exclude") -> Summary:
    """Means over queries; those without a relevant item are left out, or count as zero or one.

    "one" concerns NDCG alone (some libraries call an empty query perfect); its ERR is 0 wherever it is kept.

    >>> summarise({"ndcg@10": np.array([0.5, np.nan, 1.0])})
    Summary(mean={'ndcg@10': 0.75}, queries=2, empty=1)
    """
    check_choice("empty", empty, get_args(EmptyQueries))
    missing = np.isnan(next(iter(values.values())))
    filled = {name: fill_empty(name, value, empty) for name, value in values.items()}
    kept = int(len(missing) - missing.sum()) if empty == "exclude" else len(missing)
    if kept == 0:
        return Summary(mean=dict.fromkeys(values, float("nan")), queries=0, empty=int(missing.sum()))
    return Summary(
        mean={name: float(np.nanmean(value)) for name, value in filled.items()}, queries=kept, empty=int(missing.sum())
    )


def fill_empty(name: str, values: Values, empty: EmptyQueries) -> Values:
    """The values with what a query without a relevant item counts as; NaN where it is left out."""
    if empty == "exclude":
        return values
    return np.where(np.isnan(values), 1.0 if empty == "one" and name.startswith("ndcg") else 0.0, values)


def discounts(depth: int) -> Values:
    """(depth,) 1 / log2(r + 1) for r = 1, 2, …"""
    return 1.0 / np.log2(np.arange(2, depth + 2))


def dcg_of(worth: npt.NDArray[np.floating], top: IntArray) -> Values:
    """(queries,) discounted sum of what the top rows are worth; -1 marks no row."""
    return (np.where(top >= 0, worth[top], 0.0) * discounts(top.shape[1])).sum(axis=1)


def ideal_dcg(grades: IntArray, offsets: IntArray, at: Sequence[int]) -> Values:
    """(queries, cut-offs) DCG of the ideal order.

    Counted, not sorted: with c_g items of grade g or more, DCG@p = Σ_{g≥1} 2^(g-1) · Σ_{r ≤ min(c_g, p)} discount(r).
    """
    levels = int(grades.max(initial=0)) + 1
    at_least = np.empty((len(offsets) - 1, levels - 1), dtype=np.int32)
    for grade in range(1, levels):
        # A view as bytes and a sum as integers: no row-sized array but the comparison.
        at_least[:, grade - 1] = segment_sum((grades >= grade).view(np.uint8), offsets, dtype=np.int32)
    step = 2.0 ** np.arange(levels - 1)
    up_to = np.concatenate([[0.0], np.cumsum(discounts(max(at)))])
    return np.stack([(up_to[np.minimum(at_least, cut)] * step).sum(axis=1) for cut in at], axis=1)


def ideal_linear(labels: npt.NDArray[np.floating], offsets: IntArray, depth: int) -> Values:
    """(queries,) linear-gain DCG of the ideal order of real-valued labels."""
    order = order_within(labels, offsets)
    place = positions_in(offsets)
    discount = np.where(place <= depth, 1.0 / np.log2(place + 1), 0.0)
    return segment_sum(labels[order] * discount, offsets)


def check_cutoffs(at: Sequence[int]) -> tuple[int, ...]:
    """Cut-offs as distinct whole numbers of 1 or more, ascending."""
    cuts = tuple(sorted(set(at)))
    if not cuts or any(cut != int(cut) or cut < 1 for cut in cuts):
        raise SettingError(f"Cut-offs must be whole numbers of 1 or greater, but {list(at)} was given.")
    return tuple(int(cut) for cut in cuts)


def _one(
    metric: str,
    grades: npt.ArrayLike,
    scores: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    max_grade: int | None,
    at: int,
    seed: int,
) -> Values:
    largest = int(np.max(np.asarray(grades), initial=1)) if max_grade is None else max_grade
    return per_query(grades, scores, offsets, max_grade=largest, at=[at], seed=seed)[f"{metric}@{at}"]


def _gains_of_top(grades: IntArray, top: IntArray) -> Values:
    gain = np.append(2.0 ** np.arange(int(grades.max(initial=0)) + 1) - 1, 0.0)
    return gain[np.where(top >= 0, grades[top], -1)]


def _cascade(gain: Values, max_grade: int) -> Values:
    """(queries, depth) ERR at every cut-off: the reader stops at rank r with probability R_r, if not before."""
    stop = gain / 2.0**max_grade
    reached = np.cumprod(1.0 - stop, axis=1)
    reached[:, 1:] = reached[:, :-1].copy()
    reached[:, 0] = 1.0
    return np.cumsum(stop * reached / np.arange(1, gain.shape[1] + 1), axis=1)


def _check_judged(grades: npt.ArrayLike, offsets: npt.ArrayLike, max_grade: int) -> IntArray:
    judged, rows = np.asarray(grades), int(np.asarray(offsets)[-1])
    if judged.shape != (rows,):
        raise GradeError(f"{rows:,} rows need one grade each, but the grades have shape {judged.shape}.")
    return check_grades(judged, max_grade)


def _check_offsets(offsets: npt.ArrayLike) -> IntArray:
    bounds = np.asarray(offsets, dtype=np.int64)
    if bounds.ndim != 1 or len(bounds) < 2 or bounds[0] != 0 or (np.diff(bounds) < 0).any():
        raise DataError("Query offsets must rise from 0 to the number of rows, with one entry more than queries.")
    return bounds
