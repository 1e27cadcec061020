"""The conditional click model: how a query's clicks divide among what was shown.

E[c_r] = n_r · exp(a_q + f(x) + b_k + h), a position-based model with an effect of the query. Given the query's number
of clicks N_q the effect a_q cancels (a Poisson regression with fixed effects, PPML), and what is left is a softmax:

    s_r = softmax over the query's rows of (f + b_k + h + log n_r),   µ_r = N_q s_r,
    log L = Σ_r c_r log s_r,   ∂/∂f_r (−log L) = µ_r − c_r,   curvature µ_r (1 − s_r).

The gradient has mean zero whenever the mean of the clicks is right, whatever their distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.control.aggregate import Exposures

Floats = npt.NDArray[np.float64]

# LightGBM divides by sums of hessians; a row that takes all of its query's clicks has none of its own.
_FLOOR = 1e-9


def softmax_within(logits: Floats, offsets: IntArray, segment: IntArray) -> Floats:
    """(n,) softmax over the rows of every segment, none of them empty; in place.

    >>> softmax_within(np.log([1.0, 3.0, 5.0]), np.array([0, 2, 3]), np.array([0, 0, 1])).round(2)
    array([0.25, 0.75, 1.  ])
    """
    starts = offsets[:-1]
    logits -= np.maximum.reduceat(logits, starts)[segment]
    np.exp(logits, out=logits)
    logits /= np.add.reduceat(logits, starts)[segment]
    return logits


@dataclass(frozen=True, eq=False)
class QueryClicks:
    """Clicks of queries and what their likelihood needs; n rows in queries that have at least one row.

    offsets : (queries + 1,); segment : (n,) the query of every row.
    clicks : (n,) c_r; totals : (queries,) N_q; log_shown : (n,) log n_r.

    >>> clicks = QueryClicks.of_counts([0, 2], clicks=[3, 1], shown=[10, 10])
    >>> clicks.shares(np.log([3.0, 1.0])).round(9).tolist()
    [0.75, 0.25]
    >>> clicks.gradient(np.zeros(2))[0].tolist()
    [-1.0, 1.0]
    """

    offsets: IntArray
    segment: IntArray
    clicks: Floats
    totals: Floats
    log_shown: Floats

    @classmethod
    def of(cls, table: Exposures) -> QueryClicks:
        return cls(table.offsets, table.segment, table.clicks, table.totals, table.log_shown)

    @classmethod
    def of_counts(cls, offsets: npt.ArrayLike, clicks: npt.ArrayLike, shown: npt.ArrayLike) -> QueryClicks:
        """From counts, one entry a row."""
        bounds, counts = np.asarray(offsets, dtype=np.int64), np.asarray(clicks, dtype=np.float64)
        segment = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        totals = np.add.reduceat(counts, bounds[:-1])
        return cls(bounds, segment, counts, totals, np.log(np.asarray(shown, dtype=np.float64)))

    def without(self, queries: npt.NDArray[np.bool_]) -> QueryClicks:
        """The same rows with the clicks of some queries (a mask) taken away, so that these count for nothing."""
        kept = ~queries
        return replace(self, clicks=self.clicks * kept[self.segment], totals=self.totals * kept)

    def shares(self, scores: Floats) -> Floats:
        """(n,) s_r: how a query's clicks are expected to divide; scores are f + b + h."""
        return softmax_within(scores + self.log_shown, self.offsets, self.segment)

    def log_likelihood(self, scores: Floats) -> Floats:
        """(queries,) Σ_r c_r log s_r."""
        logits = scores + self.log_shown
        starts = self.offsets[:-1]
        top = np.maximum.reduceat(logits, starts)
        logits -= top[self.segment]
        norm = np.log(np.add.reduceat(np.exp(logits), starts))
        return np.add.reduceat(self.clicks * logits, starts) - self.totals * norm

    def gradient(self, scores: Floats) -> tuple[Floats, Floats]:
        """(n,) gradient µ − c and (n,) hessian µ (1 − s) of the negative log-likelihood."""
        share = self.shares(scores)
        expected = self.totals[self.segment] * share
        return expected - self.clicks, np.maximum(expected * (1 - share), _FLOOR)


class ClickObjective:
    """LightGBM's objective: the click model with `given` scores (position effect, control terms) added to the trees.

    Trees see an item once, wherever it stood: a score of theirs counts for all rows of the item, and the item's
    gradient and hessian are the sums over them.

    given : (n,) by row of the clicks; starts : (m,) where each item's rows begin.
    """

    def __init__(self, clicks: QueryClicks, given: Floats, starts: IntArray) -> None:
        self.clicks = clicks
        self.given = given
        self.starts = starts
        # How many rows each item has; None where it is one for all of them, which saves passes over the rows.
        self.count = None if len(starts) == len(given) else np.diff(np.r_[starts, len(given)])

    def spread(self, scores: npt.NDArray[Any]) -> Floats:
        """(n,) the items' scores (m,) by row."""
        return scores if self.count is None else np.repeat(scores, self.count)

    def __call__(self, scores: npt.NDArray[Any], data: object = None) -> tuple[Floats, Floats]:
        gradient, hessian = self.clicks.gradient(self.spread(scores) + self.given)
        if self.count is None:
            return gradient, hessian
        return np.add.reduceat(gradient, self.starts), np.add.reduceat(hessian, self.starts)

    def log_likelihood(self, scores: npt.NDArray[Any]) -> float:
        """Of all clicks, given the items' scores."""
        return float(self.clicks.log_likelihood(self.spread(scores) + self.given).sum())
