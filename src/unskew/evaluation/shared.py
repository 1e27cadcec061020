"""Sessions that showed the same items, as one list: ranked once instead of once a session."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, gather_segments, segment_sum
from unskew.data.clicks import ClickLog
from unskew.evaluation.top import scramble


@dataclass(frozen=True, eq=False)
class SharedLists:
    """Sessions grouped by the set of items they showed.

    row : (entries,) rows of the log's data, ascending inside a list.
    offsets : (lists + 1,) the entries of every list.
    impression : (impressions,) impressions of the chosen sessions, by session, then by row.
    session_offsets : (sessions + 1,) over `impression`.
    list_of : (sessions,) the list of every session.
    target : (impressions,) the entry of every impression.
    """

    row: IntArray
    offsets: IntArray
    impression: IntArray
    session_offsets: IntArray
    list_of: IntArray
    target: IntArray

    def average(
        self, values: npt.NDArray[np.floating], weight: npt.NDArray[np.floating]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """(entries,) weighted means over sessions of (impressions,) values, and (lists,) the sums of the weights.

        weight : (sessions,)
        """
        per_list: npt.NDArray[np.float64] = np.zeros(len(self.offsets) - 1)
        np.add.at(per_list, self.list_of, weight)
        spread = np.repeat(weight, np.diff(self.session_offsets))
        sums = np.bincount(self.target, weights=values * spread, minlength=len(self.row))
        divisor = np.repeat(np.where(per_list > 0, per_list, 1.0), np.diff(self.offsets))
        return sums / divisor, per_list


def shared_lists(log: ClickLog, sessions: IntArray) -> SharedLists:
    """The chosen sessions of a log, grouped by the set of items they showed.

    >>> from unskew.data.ranking import RankingData
    >>> data = RankingData.from_arrays([[0.1], [0.7], [0.3]], sizes=[3])
    >>> log = ClickLog.from_arrays(data, row=[0, 1, 1, 0, 2, 1], session=[0, 0, 1, 1, 2, 2], position=[1, 2] * 3,
    ...                            click=[1, 0, 1, 0, 0, 1])
    >>> lists = shared_lists(log, np.arange(3))
    >>> lists.row.tolist(), lists.list_of.tolist(), lists.average(log.click[lists.impression], np.ones(3))[0].tolist()
    ([0, 1, 1, 2], [0, 0, 1], [0.5, 0.5, 1.0, 0.0])
    """
    impression, offsets = gather_segments(log.session_offsets, sessions)
    sizes = np.diff(offsets)
    key = np.repeat(np.arange(len(sessions)), sizes) * log.data.n_rows + log.row[impression]
    impression = impression[np.argsort(key)]
    row = log.row[impression]
    # A sum does not mind the order of the items: equal sums of 128 scrambled bits mean equal sets.
    sums = [segment_sum(scramble(row, seed), offsets) for seed in (1, 2)]
    signature = np.stack([*sums, sizes.astype(np.uint64)], axis=1)
    _, first, list_of = np.unique(signature, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # lists in the order of the log
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    list_of = number[list_of.ravel()]
    kept, list_offsets = gather_segments(offsets, first[order])
    inside = np.arange(len(row)) - np.repeat(offsets[:-1], sizes)
    target = np.repeat(list_offsets[list_of], sizes) + inside
    return SharedLists(row[kept], list_offsets, impression, offsets, list_of, target)
