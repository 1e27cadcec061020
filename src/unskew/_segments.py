"""Sums, means and ranks inside segments (queries, sessions) without a loop over segments.

A segmentation of n rows is an `offsets` array of length segments + 1: segment i holds
rows offsets[i] to offsets[i + 1] - 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.integer]
FloatArray = npt.NDArray[np.floating]


def offsets_of(sizes: npt.ArrayLike) -> IntArray:
    """Offsets of segments of the given sizes.

    >>> offsets_of([2, 0, 3])
    array([0, 2, 2, 5])
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def segment_of(offsets: IntArray) -> IntArray:
    """The segment of every row.

    >>> segment_of(np.array([0, 2, 2, 5]))
    array([0, 0, 2, 2, 2])
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def segment_sum(values: npt.NDArray, offsets: IntArray, *, dtype: npt.DTypeLike | None = None) -> npt.NDArray:
    """Sum of `values` (rows, or rows × columns) in every segment, in `dtype`; an empty segment sums to 0.

    >>> segment_sum(np.array([1., 2., 3., 4., 5.]), np.array([0, 2, 2, 5]))
    array([ 3.,  0., 12.])
    """
    shape = (len(offsets) - 1, *values.shape[1:])
    filled = np.diff(offsets) > 0
    if not filled.any():
        return np.zeros(shape, dtype=values.dtype if dtype is None else dtype)
    # reduceat repeats the next value for an empty segment, so only segments with rows are asked for.
    sums = np.add.reduceat(values, offsets[:-1][filled], axis=0, dtype=dtype)
    if filled.all():
        return sums
    out = np.zeros(shape, dtype=sums.dtype)
    out[filled] = sums
    return out


def segment_mean(values: npt.NDArray, offsets: IntArray) -> npt.NDArray:
    """Mean of `values` in every segment, summed in float64; an empty segment has mean 0.

    >>> segment_mean(np.array([1., 2., 3., 4., 5.]), np.array([0, 2, 5]))
    array([1.5, 4. ])
    """
    sums = segment_sum(values.astype(np.float64, copy=False), offsets)
    sizes = np.maximum(np.diff(offsets), 1)
    return sums / sizes.reshape(-1, *([1] * (values.ndim - 1)))


def order_within(keys: FloatArray, offsets: IntArray, *, ties: FloatArray | None = None) -> IntArray:
    """Row numbers ordered by segment, then by descending key, then by ascending `ties`.

    >>> order_within(np.array([1., 3., 2., 9.]), np.array([0, 3, 4]))
    array([1, 2, 0, 3])
    """
    segment = segment_of(offsets)
    sort_keys = (-keys, segment) if ties is None else (ties, -keys, segment)
    return np.lexsort(sort_keys)


def ranks_within(keys: FloatArray, offsets: IntArray, *, ties: FloatArray | None = None) -> IntArray:
    """1-based rank of every row inside its segment, the largest key first.

    >>> ranks_within(np.array([1., 3., 2., 9.]), np.array([0, 3, 4]))
    array([3, 1, 2, 1])
    """
    order = order_within(keys, offsets, ties=ties)
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[order] = positions_in(offsets)
    return ranks


def positions_in(offsets: IntArray) -> IntArray:
    """1, 2, 3, … inside every segment.

    >>> positions_in(np.array([0, 2, 5]))
    array([1, 2, 1, 2, 3])
    """
    total = int(offsets[-1])
    return np.arange(total, dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets)) + 1


def gather_segments(offsets: IntArray, wanted: IntArray) -> tuple[IntArray, IntArray]:
    """Row numbers of the wanted segments in the order given, and the offsets of what was gathered.

    >>> gather_segments(np.array([0, 2, 5]), np.array([1, 0]))
    (array([2, 3, 4, 0, 1]), array([0, 3, 5]))
    """
    sizes = np.diff(offsets)[wanted]
    new = offsets_of(sizes)
    rows = np.arange(int(new[-1]), dtype=np.int64) + np.repeat(offsets[:-1][wanted] - new[:-1], sizes)
    return rows, new


def segment_blocks(offsets: IntArray, rows: int) -> IntArray:
    """Segments at which blocks of about `rows` rows begin, and the end; a longer segment is a block of its own.

    >>> segment_blocks(np.array([0, 2, 4, 9, 10]), 4)
    array([0, 2, 3, 4])
    """
    bounds = np.searchsorted(offsets, np.arange(0, int(offsets[-1]), rows), side="left")
    return np.unique(np.append(bounds, len(offsets) - 1))
