"""A click log as counts: how often an item of a query was shown at a position, and how often it was clicked there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._segments import IntArray, gather_segments, offsets_of, segment_of, segment_sum
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Exposures:
    """Rows r = (query, item, position) with their counts; rows of a query are contiguous. Ten passes cost one.

    row : (n,) rows of the log's data; position : (n,) 1 = top.
    offsets : (queries + 1,); query : (queries,) which query of the data each segment is.
    shown : (n,) impressions n_r, weighted; clicks : (n,) clicks c_r, weighted.
    item : (n,) the first row of the data with the same item of the query, where features that differ by impression give
        an item several rows; None where an item has one.
    """

    row: IntArray
    position: IntArray
    offsets: IntArray
    query: IntArray
    shown: Floats
    clicks: Floats
    item: IntArray | None = None

    def __len__(self) -> int:
        return len(self.row)

    @property
    def n_queries(self) -> int:
        return len(self.query)

    @property
    def longest(self) -> int:
        return int(self.position.max())

    @cached_property
    def segment(self) -> IntArray:
        """(n,) the segment of every row."""
        return segment_of(self.offsets)

    @cached_property
    def totals(self) -> Floats:
        """(queries,) clicks N_q."""
        return segment_sum(self.clicks, self.offsets)

    @cached_property
    def log_shown(self) -> Floats:
        return np.log(self.shown)

    @cached_property
    def starts(self) -> IntArray:
        """(m,) where the rows of each distinct row of the data begin: those of one item follow each other."""
        return np.flatnonzero(np.r_[True, np.diff(self.row) != 0])

    def take(self, wanted: IntArray) -> Exposures:
        """The wanted segments, in the order given."""
        rows, offsets = gather_segments(self.offsets, wanted)
        return replace(
            self,
            row=self.row[rows],
            position=self.position[rows],
            offsets=offsets,
            query=self.query[wanted],
            shown=self.shown[rows],
            clicks=self.clicks[rows],
            item=None if self.item is None else self.item[rows],
        )

    def by_position(self) -> Exposures:
        """The same rows, ordered by position inside each query."""
        order = np.lexsort((self.position, self.segment))
        fields = {name: getattr(self, name)[order] for name in ("row", "position", "shown", "clicks")}
        return replace(self, **fields, item=None if self.item is None else self.item[order])

    def looked_at(self, examination: Floats | None) -> Exposures:
        """The same with looks in place of impressions, n_r e_k, where the chance e_k of a look is known."""
        return self if examination is None else replace(self, shown=self.shown * examination[self.position - 1])

    def informative(self) -> Exposures:
        """The queries with clicks and a choice; the others say nothing about which of their items is preferred."""
        wanted = np.flatnonzero((self.totals > 0) & (np.diff(self.offsets) > 1))
        return self if len(wanted) == self.n_queries else self.take(wanted)


def aggregate(log: ClickLog) -> Exposures:
    """Impressions and clicks of every (query, item, position) that the log holds.

    Weights are numbers of impressions. Where they are below 1 on average they cannot be, and are taken as proportions:
    of mean 1, lest a log look smaller than it is.

    >>> from unskew.data.ranking import RankingData
    >>> data = RankingData.from_arrays([[0.1], [0.7]], sizes=[2])
    >>> log = ClickLog.from_arrays(data, row=[0, 1] * 3, session=[0, 0, 1, 1, 2, 2], position=[1, 2] * 3,
    ...                            click=[1, 0, 1, 0, 0, 1])
    >>> table = aggregate(log)
    >>> table.row, table.shown, table.clicks
    (array([0, 1]), array([3., 3.]), array([2., 1.]))
    """
    weight = None if log.weight is None else _at_least_one(log.weight.astype(np.float64))
    clicked = log.click if weight is None else log.click * weight
    if log.fixed_positions:
        row = log.rows_shown
        place = np.zeros(log.data.n_rows, dtype=np.int64)
        place[log.row] = log.position
        position = place[row]
        shown = np.bincount(log.row, weights=weight, minlength=log.data.n_rows)[row]
        clicks = np.bincount(log.row, weights=clicked, minlength=log.data.n_rows)[row]
    else:
        span = log.longest_list + 1
        keys, cell = np.unique(log.row * span + log.position, return_inverse=True)
        row, position = keys // span, keys % span
        shown = np.bincount(cell, weights=weight)
        clicks = np.bincount(cell, weights=clicked)
    kept = shown > 0  # weights may be zero, and what was never shown has no rate
    row, position, shown, clicks = row[kept], position[kept], shown[kept].astype(np.float64), clicks[kept]
    of_row = log.data.query_of_row[row]
    query, sizes = np.unique(of_row, return_counts=True)
    first = _first_rows(log.data)
    return Exposures(
        row,
        position,
        offsets_of(sizes),
        query,
        np.asarray(shown, float),
        np.asarray(clicks, float),
        None if first is None else first[row],
    )


def _first_rows(data: RankingData) -> IntArray | None:
    """(rows,) the first row with the same query and item; None where no item has several rows."""
    if data.item_ids is None:
        return None
    pairs = pl.DataFrame({"query": data.query_of_row, "item": data.item_ids})
    if pairs.n_unique() == len(pairs):
        return None
    return pairs.with_row_index("row").select(pl.col("row").min().over("query", "item")).to_series().to_numpy()


def _at_least_one(weight: Floats) -> Floats:
    """The weights, raised to a mean of 1 if it is below that; those of 0 leave an impression out and do not count."""
    mean = weight.sum() / max(np.count_nonzero(weight), 1)
    return weight / mean if 0 < mean < 1 else weight
