"""The pair loss of RankSVM, without building pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, segment_of

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Sorted:
    """Rows in order of query and score, and the pairs whose margin is violated as blocks of neighbours.

    order : (n,) original rows; values : (n,) their scores from 0 on; levels : (n,) their grades.
    above, ends : (n,) block of the rows j of the query with s_j > s_i − 1.
    starts, below : (n,) block of the rows i in whose block row j lies.
    """

    order: IntArray
    values: Floats
    levels: IntArray
    above: IntArray
    ends: IntArray
    starts: IntArray
    below: IntArray

    @classmethod
    def of(cls, scores: Floats, grades: IntArray, offsets: IntArray) -> _Sorted:
        segment = segment_of(offsets)
        low = scores.min()
        # Queries lie further apart than any margin reaches, so one sort and one search serve them all.
        stride = scores.max() - low + 3.0
        key = (scores - low) + segment * stride
        order = np.argsort(key)
        key = key[order]
        above = np.searchsorted(key, key - 1.0, side="right")
        below = np.cumsum(np.bincount(above, minlength=len(key)))[: len(key)]
        # Sorting by query leaves a row's segment in place.
        starts, ends = offsets[:-1][segment], offsets[1:][segment]
        return cls(order, scores[order] - low, grades[order], above, ends, starts, below)

    def by_grade(self) -> Iterator[tuple[IntArray, IntArray]]:
        """For every grade but the lowest: the rows with a lower grade, and the rows with it."""
        for level in np.unique(self.levels)[1:]:
            yield np.flatnonzero(self.levels < level), np.flatnonzero(self.levels == level)


def pair_loss(scores: Floats, grades: IntArray, offsets: IntArray) -> tuple[float, Floats]:
    """Squared hinge over all pairs of a query with different grades, and its gradient by score.

    loss = Σ over (i, j) of one query with grade_i > grade_j of max(0, 1 − s_i + s_j)².

    One sort puts every query's rows in order of score. The rows that violate the margin of row i are then a
    contiguous block, and prefix sums of 1, s and s² per grade give the block's part of the loss and of the gradient:
    O(n log n) instead of the number of pairs.

    scores : (n,) float64; grades : (n,); offsets : (queries + 1,). Returns the loss and (n,) its gradient.

    >>> pair_loss(np.array([0.0, 0.5]), np.array([1, 0]), np.array([0, 2]))
    (2.25, array([-3.,  3.]))
    """
    gradient = np.zeros(len(scores))
    if len(scores) == 0:
        return 0.0, gradient
    rows = _Sorted.of(scores, grades, offsets)
    values = rows.values
    slope = np.zeros(len(scores))
    loss = 0.0
    for lower, here in rows.by_grade():
        gap = 1.0 - values[here]
        count, total, square = _block_sums(lower, values, rows.above[here], rows.ends[here], powers=3)
        loss += float(np.sum(count * gap * gap + 2.0 * gap * total + square))
        slope[here] -= 2.0 * (count * gap + total)
        count, total = _block_sums(here, values, rows.starts[lower], rows.below[lower], powers=2)
        slope[lower] += 2.0 * (count * (1.0 + values[lower]) - total)
    gradient[rows.order] = slope
    return loss, gradient


def pair_curvature(scores: Floats, grades: IntArray, offsets: IntArray, features: Floats) -> Floats:
    """(d, d) curvature of the pair loss by the weights of (n, d) features: 2 Σ (x_i − x_j)(x_i − x_j)' over violations.

    With the same blocks as the loss: Σ over pairs of x_i x_j' needs sums of x over a block, which prefix sums give.

    >>> pair_curvature(np.array([0.0, 0.5]), np.array([1, 0]), np.array([0, 2]), np.array([[1.0], [4.0]]))
    array([[18.]])
    """
    width = features.shape[1]
    if len(scores) == 0:
        return np.zeros((width, width))
    rows = _Sorted.of(scores, grades, offsets)
    x = features[rows.order]
    pairs_of, cross = np.zeros(len(x)), np.zeros((width, width))
    for lower, here in rows.by_grade():
        first, last = _members_before(lower, len(x), rows.above[here], rows.ends[here])
        prefix = np.zeros((len(lower) + 1, width))
        np.cumsum(x[lower], axis=0, out=prefix[1:])
        cross += x[here].T @ (prefix[last] - prefix[first])
        pairs_of[here] += last - first
        first, last = _members_before(here, len(x), rows.starts[lower], rows.below[lower])
        pairs_of[lower] += last - first
    return 2.0 * ((x * pairs_of[:, None]).T @ x - cross - cross.T)


def count_pairs(grades: IntArray, offsets: IntArray) -> int:
    """Pairs of one query with different grades.

    >>> count_pairs(np.array([2, 0, 0, 1, 1]), np.array([0, 3, 5]))
    2
    """
    segment = segment_of(offsets)
    sizes = np.diff(offsets).astype(np.int64)
    per_grade = np.bincount(segment * (int(grades.max(initial=0)) + 1) + grades.astype(np.int64))
    return int((np.sum(sizes**2) - np.sum(per_grade.astype(np.int64) ** 2)) // 2)


def _block_sums(members: IntArray, values: Floats, first: IntArray, last: IntArray, *, powers: int) -> list[Floats]:
    """Sums of 1, s, s² over the members among sorted rows first … last − 1, for every block."""
    begin, end = _members_before(members, len(values), first, last)
    sums = [(end - begin).astype(np.float64)]
    for power in range(1, powers):
        prefix = np.zeros(len(members) + 1)
        np.cumsum(values[members] ** power, out=prefix[1:])
        sums.append(prefix[end] - prefix[begin])
    return sums


def _members_before(members: IntArray, n: int, *bounds: IntArray) -> list[IntArray]:
    """How many of the members, sorted numbers below n, lie before each bound."""
    inside = np.zeros(n + 1, dtype=np.int64)
    inside[members + 1] = 1
    np.cumsum(inside, out=inside)
    return [inside[bound] for bound in bounds]
