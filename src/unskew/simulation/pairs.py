"""The pair loss of RankSVM, without building pairs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, segment_of

Floats = npt.NDArray[np.float64]


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
    segment = segment_of(offsets)
    low = scores.min()
    # Queries lie further apart than any margin reaches, so one sort and one search serve them all.
    stride = scores.max() - low + 3.0
    key = (scores - low) + segment * stride
    order = np.argsort(key)
    key = key[order]
    values, levels = scores[order] - low, grades[order]
    ends, starts = offsets[1:][segment], offsets[:-1][segment]  # sorting by query leaves a row's segment in place
    above = np.searchsorted(key, key - 1.0, side="right")  # first row with s_j > s_i − 1
    below = np.cumsum(np.bincount(above, minlength=len(key)))[: len(key)]  # j is in the block of every row before it
    slope = np.zeros(len(scores))
    loss = 0.0
    for level in np.unique(levels)[1:]:
        lower, here = np.flatnonzero(levels < level), np.flatnonzero(levels == level)
        gap = 1.0 - values[here]
        count, total, square = _block_sums(lower, values, above[here], ends[here], powers=3)
        loss += float(np.sum(count * gap * gap + 2.0 * gap * total + square))
        slope[here] -= 2.0 * (count * gap + total)
        count, total = _block_sums(here, values, starts[lower], below[lower], powers=2)
        slope[lower] += 2.0 * (count * (1.0 + values[lower]) - total)
    gradient[order] = slope
    return loss, gradient


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
    inside = np.zeros(len(values) + 1, dtype=np.int64)
    inside[members + 1] = 1
    np.cumsum(inside, out=inside)  # members before a row
    begin, end = inside[first], inside[last]
    sums = [(end - begin).astype(np.float64)]
    for power in range(1, powers):
        prefix = np.zeros(len(members) + 1)
        np.cumsum(values[members] ** power, out=prefix[1:])
        sums.append(prefix[end] - prefix[begin])
    return sums
