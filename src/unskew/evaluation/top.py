"""The best few rows of every query: the one sort that all metrics share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.errors import DataError, SettingError

# Padded scores of a block: small enough for the processor's cache, large enough to hide numpy's overhead.
_BLOCK_CELLS = 1 << 17
# Queries whose sizes differ by less than this ratio share a block; the rest of a row is padding.
_SIZE_RATIO = 1.2
# Finding the largest again and again beats a sort as long as few are wanted.
_FEW = 24


def top_rows(scores: npt.ArrayLike, offsets: IntArray, depth: int, *, seed: int = 0) -> IntArray:
    """(queries, depth) rows of every query in descending order of score, -1 where a query has fewer items.

    Equal scores are ordered by a random permutation of the rows that depends on the seed alone, so that constant
    scores do not inherit the order of the file. Only the top is sorted.

    >>> top_rows([0.2, 0.9, 0.5, 0.1], np.array([0, 3, 4]), depth=2).tolist()
    [[1, 2], [3, -1]]
    """
    values = check_scores(scores, offsets)
    if depth < 1:
        raise SettingError(f"A cut-off must be 1 or greater, but {depth} was given.")
    sizes = np.diff(offsets)
    top = np.full((len(sizes), depth), -1, dtype=np.int64)
    for queries, width in _blocks(sizes):
        padded = _padded(values, offsets, queries, width)
        top[queries] = _top_of_block(padded, offsets[:-1][queries], depth, seed)
    return top


def check_scores(scores: npt.ArrayLike, offsets: IntArray) -> npt.NDArray[np.floating]:
    """The scores as one floating number a row, or an error that says what is wrong with them."""
    values = np.asarray(scores)
    if values.dtype.kind not in "iufb":
        raise DataError(f"Scores must be numbers, but they are of type {values.dtype}.")
    if values.shape != (int(offsets[-1]),):
        raise DataError(f"{int(offsets[-1]):,} rows need one score each, but the scores have shape {values.shape}.")
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        first = int(np.argmin(finite))
        raise DataError(
            f"Scores must be finite, but {int(len(values) - finite.sum()):,} are not "
            f"(first: row {first + 1}, score {values[first]}). An item without an opinion needs a low score, not NaN."
        )
    return values


def scramble(rows: IntArray, seed: int) -> npt.NDArray[np.uint64]:
    """A number for every row that looks random and depends on the row and the seed alone.

    Sorting by it is a random permutation of which any part can be had without the rest (the finaliser of
    splitmix64, Steele et al. 2014).
    """
    with np.errstate(over="ignore"):
        start = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
        mixed = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + start
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))


def _blocks(sizes: IntArray) -> Iterator[tuple[IntArray | slice, int]]:
    """Queries of about the same size, a cache-full at a time, with the size of the largest."""
    if len(sizes) == 0 or sizes.max() == 0:
        return
    if sizes.min() == sizes.max():
        step = max(_BLOCK_CELLS // int(sizes[0]), 1)
        yield from ((slice(i, min(i + step, len(sizes))), int(sizes[0])) for i in range(0, len(sizes), step))
        return
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    start = int(np.searchsorted(ordered, 1))
    while start < len(order):
        limit = max(int(ordered[start] * _SIZE_RATIO), 8)
        end = int(np.searchsorted(ordered, limit, side="right"))
        width = int(ordered[end - 1])
        end = min(end, start + max(_BLOCK_CELLS // width, 1))
        yield order[start:end], width
        start = end


def _padded(values: npt.NDArray, offsets: IntArray, queries: IntArray | slice, width: int) -> npt.NDArray:
    """(queries, width) scores, -∞ beyond the last item."""
    first = offsets[:-1][queries]
    if isinstance(queries, slice):
        return values[first[0] : first[-1] + width].reshape(-1, width)
    sizes = offsets[1:][queries] - first
    column = np.arange(width)
    padded = values.take(first[:, None] + column, mode="clip")
    padded[column >= sizes[:, None]] = -np.inf
    return padded


def _top_of_block(padded: npt.NDArray, first: IntArray, depth: int, seed: int) -> IntArray:
    """(queries, depth) rows of a block in descending order of its padded scores, -1 where there are none."""
    keep = min(depth, padded.shape[1])
    # One more than wanted: a tie across the cut-off decides who is in.
    column, score = _leaders(padded, min(depth + 1, padded.shape[1]))
    row = np.where(np.isfinite(score), column + first[:, None], -1)
    tied = np.flatnonzero(((score[:, 1:] == score[:, :-1]) & np.isfinite(score[:, 1:])).any(axis=1))
    if tied.size:
        row[tied, :keep] = _top_with_ties(padded[tied], first[tied], keep, seed)
    out = np.full((len(padded), depth), -1, dtype=np.int64)
    out[:, :keep] = row[:, :keep]
    return out


def _leaders(padded: npt.NDArray, count: int) -> tuple[IntArray, npt.NDArray]:
    """(queries, count) columns of the largest scores, largest first and leftmost of equals first, and the scores."""
    if count > _FEW:
        column = np.argsort(-padded, axis=1, kind="stable")[:, :count]
        return column, np.take_along_axis(padded, column, axis=1)
    rest = padded.copy()
    flat, start = rest.reshape(-1), np.arange(len(padded)) * padded.shape[1]
    column, score = np.empty((count, len(padded)), dtype=np.int64), np.empty((count, len(padded)), padded.dtype)
    for place in range(count):
        best = rest.argmax(axis=1, out=column[place])
        where = best + start
        score[place] = flat[where]
        flat[where] = -np.inf
    return column.T, score.T


def _top_with_ties(padded: npt.NDArray, first: IntArray, keep: int, seed: int) -> IntArray:
    """As above, for queries in which equal scores meet: shuffled first, so that the leftmost is a random one."""
    shuffle = np.argsort(scramble(first[:, None] + np.arange(padded.shape[1]), seed), axis=1)
    column, score = _leaders(np.take_along_axis(padded, shuffle, axis=1), keep)
    row = np.take_along_axis(shuffle, column, axis=1) + first[:, None]
    return np.where(np.isfinite(score), row, -1)
