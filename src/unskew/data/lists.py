"""Lists to train on: sessions of a click log, without the empty ones, identical ones merged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, gather_segments, segment_sum
from unskew.data.clicks import ClickLog
from unskew.data.counts import single_clicks
from unskew.errors import LogError


@dataclass(frozen=True, eq=False)
class TrainingLists:
    """What a list-wise ranker trains on; n entries in lists of the given sizes.

    row : (n,) rows of the log's data.
    sizes : (lists,) entries per list.
    label : (n,) int32, 0 or 1.
    position : (n,) int32.
    weight : (n,) float32: how many sessions the list stands for, times their weight.
    """

    row: IntArray
    sizes: IntArray
    label: IntArray
    position: IntArray
    weight: npt.NDArray[np.float32]

    @property
    def merged(self) -> bool:
        """Whether any entry stands for more or less than one impression."""
        return bool((self.weight != 1).any())


def training_lists(log: ClickLog, *, keep_empty: bool = False, merge: bool = True) -> TrainingLists:
    """Sessions as lists: those without a click dropped, identical ones merged into one with their weights added.

    Both are exact for list- and pair-wise losses: a list without a click has no gradient, and LightGBM multiplies
    a row's gradient and hessian by its weight. A session of counts is read as sessions of single clicks.

    >>> from unskew.data.ranking import RankingData
    >>> data = RankingData.from_arrays([[0.1], [0.7]], sizes=[2])
    >>> log = ClickLog.from_arrays(data, row=[0, 1] * 3, session=[0, 0, 1, 1, 2, 2], position=[1, 2] * 3,
    ...                            click=[1, 0, 1, 0, 0, 0])
    >>> lists = training_lists(log)
    >>> lists.row, lists.label, lists.weight
    (array([0, 1]), array([1, 0], dtype=int32), array([2., 2.], dtype=float32))
    """
    log = single_clicks(log)
    chosen = np.arange(log.n_sessions) if keep_empty else np.flatnonzero(log.session_clicks > 0)
    if chosen.size == 0:
        raise LogError(
            "This log has no click at all, so there is nothing to learn from. "
            "Is the click column the right one, and does 1 mean clicked?"
        )
    where, offsets = gather_segments(log.session_offsets, chosen)
    weight = np.ones(len(where), np.float32) if log.weight is None else log.weight[where]
    if merge:
        first, group = _identical(log, where, offsets, log.session_query[chosen])
        kept, kept_offsets = gather_segments(offsets, first)
        weight = _merged_weight(weight, offsets, group, first, kept_offsets)
        where, offsets = where[kept], kept_offsets
    return TrainingLists(
        row=log.row[where],
        sizes=np.diff(offsets),
        label=log.click[where],
        position=log.position[where],
        weight=weight,
    )


def by_content(log: ClickLog) -> ClickLog:
    """The same log with the sessions of every query ordered by what they hold, not by when they came.

    A method that draws sessions at random then learns the same from the same sessions in any order.
    """
    signature = _signature(log, np.arange(log.n_impressions), log.session_offsets)
    order = np.lexsort((*signature.T[::-1], log.session_query))
    where, offsets = gather_segments(log.session_offsets, order)
    return replace(
        log,
        row=log.row[where],
        session_offsets=offsets,
        position=log.position[where],
        click=log.click[where],
        session_ids=log.session_ids[order],
        weight=None if log.weight is None else log.weight[where],
        logging_score=None if log.logging_score is None else log.logging_score[where],
    )


def _identical(log: ClickLog, where: IntArray, offsets: IntArray, query: IntArray) -> tuple[IntArray, IntArray]:
    """For every list the group of lists identical to it (rows, positions, clicks), and each group's first list.

    Groups are ordered by query and then by content, so that the order of the sessions does not reach the ranker.
    """
    key = np.column_stack([query.astype(np.uint64), _signature(log, where, offsets)])
    _, first, group = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return first, group.ravel()


def _signature(log: ClickLog, where: IntArray, offsets: IntArray) -> npt.NDArray[np.uint64]:
    """(lists, 3) what tells the lists of a query apart by their rows, positions and clicks.

    Rows count from the query's first, so that a query reads the same in any company (a part of a log, a split).
    """
    row = log.row[where]
    fields = (
        row - log.data.offsets[log.data.query_of_row[row]],
        log.position[where].astype(np.int64),
        log.click[where].astype(np.int64),
    )
    # Two independent 64-bit sums of mixed entries: 128 bits make a false merger rarer than a memory error.
    sums = [segment_sum(_mix(fields, seed), offsets) for seed in (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)]
    return np.stack([*sums, np.diff(offsets).astype(np.uint64)], axis=1)


def _mix(fields: tuple[npt.NDArray, ...], seed: int) -> npt.NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        state = np.full(len(fields[0]), seed, dtype=np.uint64)
        for values in fields:
            state ^= values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15) + (state << np.uint64(6))
            state ^= state >> np.uint64(30)
            state *= np.uint64(0xBF58476D1CE4E5B9)
            state ^= state >> np.uint64(27)
            state *= np.uint64(0x94D049BB133111EB)
            state ^= state >> np.uint64(31)
        return state


def _merged_weight(
    weight: npt.NDArray[np.float32], offsets: IntArray, group: IntArray, first: IntArray, kept_offsets: IntArray
) -> npt.NDArray[np.float32]:
    sizes = np.diff(offsets)
    inside = np.arange(len(weight)) - np.repeat(offsets[:-1], sizes)
    target = np.repeat(kept_offsets[group], sizes) + inside
    return np.bincount(target, weights=weight, minlength=int(kept_offsets[-1])).astype(np.float32)
