"""What a model does to the lists of a log: which items it moves, and where those at its top stood before."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import altair as alt
import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, offsets_of, ranks_within
from unskew._words import percent
from unskew.data.clicks import ClickLog
from unskew.report.panels import Panel, columns, tip
from unskew.report.themes import LIGHT, Theme

# The top of a list: so many places, or half of a shorter list, for all of it would be kept by any model.
TOP = 10
# Where an item stood before: the upper ends of the groups.
_PLACES = (1, 3, 5, 10, 20, 50)


@dataclass(frozen=True, eq=False)
class Movement:
    """Every item of a log that was shown, before and after.

    row : (n,) rows of the log's data, by query; query : (n,) their queries.
    before, after : (n,) place in the query by mean logged position, and by score; 1 is the top.
    shift : (n,) change of 1 / log2(1 + place): how far an item moved where it matters, up positive.
    impressions, clicks : (n,).
    """

    row: IntArray
    query: IntArray
    before: IntArray
    after: IntArray
    shift: npt.NDArray[np.float64]
    impressions: npt.NDArray[np.float64]
    clicks: npt.NDArray[np.float64]

    @cached_property
    def places(self) -> IntArray:
        """(n,) how many places are the top of the item's list: ten, or half of a list shorter than twenty."""
        return np.clip(np.bincount(self.query)[self.query] // 2, 1, TOP)

    @property
    def top(self) -> str:
        """The top of the lists in words: "top ten", "top 4" or what it is where lists differ in length."""
        least, most = int(self.places.min()), int(self.places.max())
        if least == most:
            return "top ten" if most == TOP else f"top {most}"
        return "top half" if most < TOP else "top places (ten, or half of a shorter list)"

    @property
    def kept(self) -> float:
        """Share of the items at the model's top that stood at the top before."""
        top = self.after <= self.places
        return float((self.before <= self.places)[top].mean())

    def strongest(self, count: int, *, up: bool) -> IntArray:
        """Places in these arrays of the items that moved most, at most one a query; the strongest first."""
        order = np.argsort(-self.shift if up else self.shift, kind="stable")
        _, first = np.unique(self.query[order], return_index=True)
        best = order[np.sort(first)][:count]
        return best[self.shift[best] > 0] if up else best[self.shift[best] < 0]


def movement(log: ClickLog, scores: npt.NDArray[np.float64]) -> Movement:
    """Compare the places a log gave its items with those by `scores` (one a row of the log's data).

    >>> from unskew.data.ranking import RankingData
    >>> data = RankingData.from_arrays([[0.1], [0.7]], sizes=[2])
    >>> log = ClickLog.from_arrays(data, row=[0, 1], session=[0, 0], position=[1, 2], click=[0, 1])
    >>> found = movement(log, np.array([0.0, 1.0]))
    >>> found.before, found.after, found.shift.round(2)
    (array([1, 2]), array([2, 1]), array([-0.37,  0.37]))
    """
    n = log.data.n_rows
    weight = np.ones(log.n_impressions) if log.weight is None else log.weight.astype(np.float64)
    shown = np.bincount(log.row, weights=weight, minlength=n).astype(np.float64)
    row = log.rows_shown[shown[log.rows_shown] > 0]
    query = log.data.query_of_row[row]
    offsets = offsets_of(np.bincount(query, minlength=log.data.n_queries))
    position = np.bincount(log.row, weights=weight * log.position, minlength=n)[row] / shown[row]
    before = ranks_within(-position, offsets)
    # Equal scores keep the order they had: a tie is no movement.
    after = ranks_within(scores[row], offsets, ties=before.astype(np.float64))
    return Movement(
        row=row,
        query=query,
        before=before,
        after=after,
        shift=1 / np.log2(1.0 + after) - 1 / np.log2(1.0 + before),
        impressions=shown[row],
        clicks=np.bincount(log.row, weights=weight * log.click, minlength=n)[row].astype(np.float64),
    )


def origins_panel(moved: Movement, theme: Theme = LIGHT) -> Panel:
    """Where the items at the model's top stood in the log."""
    stood = moved.before[moved.after <= moved.places]
    longest = int(moved.before.max())
    bounds = [0, *(place for place in _PLACES if place < longest), longest]
    counts = np.histogram(stood, bins=np.array(bounds) + 0.5)[0]
    names = [f"{low + 1}" if high == low + 1 else f"{low + 1}–{high}" for low, high in pairwise(bounds)]
    share = counts / max(counts.sum(), 1)
    data = columns(place=names, share=share, items=counts, label=[percent(value) for value in share])
    base = alt.Chart(data).encode(
        x=alt.X("place:N", sort=names, title="place in the log", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("share:Q", title="of the model's top items", axis=alt.Axis(format="%")),
        tooltip=[tip("place", "place in the log"), tip("share", "share", ".1%"), tip("items", "items", ",.0f")],
    )
    chart = alt.layer(
        base.mark_bar(color=theme["blue"], cornerRadius=2),
        base.mark_text(dy=-7, color=theme.ink).encode(text="label:N"),
    )
    return Panel(
        "Where the model's top items come from",
        f"Places that the items in the model's {moved.top} had in the log. A model that only repeats the log takes all "
        "of them from there.",
        chart,
    )
