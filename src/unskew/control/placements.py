"""Placements: which item stood where, how often. What stage one explains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._options import RankTarget
from unskew._segments import IntArray
from unskew.data.clicks import ClickLog
from unskew.errors import LogError, check_choice


@dataclass(frozen=True, eq=False)
class Placements:
    """Distinct (item, position) pairs of a log and how often each was shown.

    row : (n,) rows of the log's data, ascending; position : (n,) int32.
    count : (n,) impressions, weighted, float64.
    """

    row: IntArray
    position: IntArray
    count: npt.NDArray[np.float64]


def placements(log: ClickLog) -> Placements:
    """Ten passes of a fixed ranking are one placement an item, shown ten times.

    >>> from unskew.data.ranking import RankingData
    >>> data = RankingData.from_arrays([[0.1], [0.7]], sizes=[2])
    >>> log = ClickLog.from_arrays(
    ...     data, row=[0, 1, 0, 1], session=[0, 0, 1, 1], position=[1, 2, 1, 2], click=[1, 0, 0, 0]
    ... )
    >>> placements(log).count
    array([2., 2.])
    """
    width = log.longest_list + 1
    key = log.row * width + log.position
    weight = None if log.weight is None else log.weight.astype(np.float64)
    if log.data.n_rows * width <= 8 * max(log.n_impressions, 1_000_000):
        counts = np.bincount(key, weights=weight, minlength=0)
        shown = np.flatnonzero(np.bincount(key)) if weight is not None else np.flatnonzero(counts)
        count = counts[shown].astype(np.float64)
    else:
        shown, inverse = np.unique(key, return_inverse=True)
        count = np.bincount(inverse, weights=weight).astype(np.float64)
    return Placements(row=shown // width, position=(shown % width).astype(np.int32), count=count)


@dataclass(frozen=True, eq=False)
class Target:
    """How a position becomes stage one's target (equation 4 leaves the scale of the rank open).

    `global`: rank over the longest list of the training log (the recommended reading: every other scale of the
    published residual table is ruled out by its moments). `per_list`: rank over the length of the query's own list.
    `raw`: the rank itself, as in the worked example.
    """

    kind: RankTarget
    longest: int
    offset: float = 0.0

    @classmethod
    def of(cls, log: ClickLog, kind: RankTarget, *, offset: float = 0.0) -> Target:
        check_choice("rank_target", kind, ("global", "per_list", "raw"))
        if int(log.position.min()) == log.longest_list:
            raise LogError(
                f"Every item was shown at position {log.longest_list}, so there is no position effect to correct. "
                "Is the position column the right one?"
            )
        return cls(kind=kind, longest=log.longest_list, offset=offset)

    def values(self, log: ClickLog, row: IntArray, position: IntArray) -> npt.NDArray[np.float64]:
        """(n,) targets of items shown at the given positions."""
        rank = position.astype(np.float64) - self.offset
        if self.kind == "raw":
            return rank
        if self.kind == "global":
            return rank / self.longest
        return rank / list_lengths(log)[log.data.query_of_row[row]]


def list_lengths(log: ClickLog) -> IntArray:
    """(queries,) the lowest position anything was shown at, for every query of the data (1 where none was)."""
    lengths = np.ones(log.data.n_queries, dtype=np.int64)
    last = log.position[log.session_offsets[1:] - 1]
    np.maximum.at(lengths, log.session_query, last)
    return lengths
