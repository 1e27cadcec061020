"""Stage one straight from Parquet: sound batches are summed as they are read, all others go the careful way.

A sound batch has one list a query, all columns plain, and breaks no rule of a log. Finding that out costs a few looks
at neighbouring rows; numbering ids, sorting and gathering items, which a log in memory needs, would change no sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.linalg.blas import dsyrk

from unskew._options import RankTarget
from unskew._segments import IntArray
from unskew.control.learners import Ridge, RidgeFit
from unskew.control.placements import Target
from unskew.control.stage_one import StageOne
from unskew.control.statistics import GramStatistics, ResidualStatistics, chunks, residual_statistics
from unskew.data.column_checks import MAX_POSITION
from unskew.data.columns import LogColumns
from unskew.data.feature_columns import as_float32
from unskew.errors import LogError
from unskew.rankers.trees import MAX_LABEL
from unskew.scale.parts import Parts, as_log, changing, check_whole, frames, open_parts
from unskew.scale.streaming import Counts, conclude, counts_of, gram_of, merged, residual_scale, residuals_of, target_of

# Rows read at a time: a file of usual size is one piece, which polars reads fastest.
PIECE = 1 << 20
# Rows of a block of products: with some twenty columns in float64 it stays in the second-level cache.
BLOCK = 4096
# Rows that say about where a column lies; within so many standard deviations of 0, products about 0 lose no digits.
LOOK, NEAR = 4096, 8.0
_RAW = Target(kind="raw", longest=1)
_MIX = tuple(np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F))
Matrix = npt.NDArray[np.float64]
Columns = list[npt.NDArray[np.floating]]


@dataclass(frozen=True, eq=False)
class Sound:
    """A batch with one list a query.

    pieces : its features in float32 columns, a row group after another.
    start : (queries,) first row of every query; position : (rows,) from 1; queries : ids; clicks : how many.
    """

    pieces: list[Columns]
    start: IntArray
    position: IntArray
    queries: pl.Series
    clicks: int

    def target(self, kind: RankTarget) -> Matrix:
        """(rows,) the rank, over the length of the list where lists have a scale of their own."""
        rank = self.position.astype(np.float64)
        if kind != "per_list":
            return rank
        lengths = np.diff(np.append(self.start, len(rank)))
        return rank / np.repeat(np.maximum.reduceat(rank, self.start), lengths)

    @property
    def counts(self) -> Counts:
        rows, lists = len(self.position), len(self.start)
        return Counts(lists, rows, lists, rows, self.clicks, int(self.position.min()), int(self.position.max()))


@dataclass(frozen=True, eq=False)
class Scanned:
    """What a pass knows of a batch: its counts, Gram, query ids, and whether features change between impressions."""

    counts: Counts
    gram: GramStatistics
    queries: pl.Series
    changing: bool = False


def scan_stage_one(
    path: str | Path, *, columns: LogColumns | None = None, rank_target: RankTarget = "global"
) -> StageOne:
    """Ridge stage one of a log in Parquet files, without a copy of it: two passes, a batch in memory at a time.

    What `fit_stage_one` finds on the whole log, up to rounding; `expected` is left empty.
    """
    parts = open_parts(Path(path), columns or LogColumns())
    counts, gram = scan_gram(parts, rank_target)
    target = target_of(counts, rank_target)
    model = Ridge().solve(gram)
    scale = residual_scale(gram, model)
    residuals: ResidualStatistics = merged(
        _residuals(parts, frame, file, target, model, scale) for file, frame in _ahead(parts)
    )
    return conclude(gram, residuals, model, target, np.empty(0))


def scan_gram(parts: Parts, rank_target: RankTarget = "global") -> tuple[Counts, GramStatistics]:
    """First pass: counts, and what ridge needs to know; every row checked, every query in one file."""
    found, ids, files = [], [], []
    for file, frame in _ahead(parts):
        found.append(_scanned(parts, frame, file, rank_target))
        ids.append(found[-1].queries)
        files.append(file)
    check_whole(ids, files)
    counts: Counts = merged(one.counts for one in found)
    if counts.clicks == 0:
        raise LogError(f"{parts.source} has no click at all, so there is nothing to learn from.")
    gram: GramStatistics = merged(one.gram for one in found)
    if any(one.changing for one in found):  # in memory every impression would be a row then
        gram = replace(gram, entries=counts.impressions)
    return counts, _scaled(gram, 1 / counts.last) if rank_target == "global" else gram


def _scaled(gram: GramStatistics, by: float) -> GramStatistics:
    """The statistics of a target that is `by` times as large."""
    factor = np.ones(len(gram.mean))
    factor[-1] = by
    return replace(gram, mean=gram.mean * factor, scatter=gram.scatter * np.outer(factor, factor))


def _ahead(parts: Parts) -> Iterator[tuple[Path, pl.DataFrame]]:
    """The batches of all files; the next one is read while somebody works on this one."""
    batches = ((file, frame) for number, file in enumerate(parts.files) for frame in frames(parts, number, batch=PIECE))
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def _scanned(parts: Parts, frame: pl.DataFrame, file: Path, rank_target: RankTarget) -> Scanned:
    batch = sound(parts, frame)
    if batch is not None:
        with np.errstate(all="ignore"):
            gram = _gram(batch.pieces, batch.target(rank_target))
        if np.isfinite(gram.scatter).all():  # one value that is not finite would show here
            return Scanned(batch.counts, gram, batch.queries)
    log = as_log(parts, frame, file)
    target = Target(kind="per_list", longest=1) if rank_target == "per_list" else _RAW
    return Scanned(counts_of(log), gram_of(log, target), log.data.query_ids, changing(log))


def _residuals(
    parts: Parts, frame: pl.DataFrame, file: Path, target: Target, model: RidgeFit, scale: float
) -> ResidualStatistics:
    batch = sound(parts, frame)
    if batch is None:
        return residuals_of(as_log(parts, frame, file), target, model, scale)
    residual = batch.target(target.kind)
    if target.kind == "global":
        residual /= target.longest
    at = 0
    for piece in batch.pieces:
        for part in chunks(len(piece[0])):
            expected = model.predict(np.column_stack([column[part] for column in piece]))
            residual[at : at + len(expected)] -= expected
            at += len(expected)
    return residual_statistics(residual, np.ones(len(residual)), scale=scale)


def _gram(pieces: list[Columns], target: Matrix) -> GramStatistics:
    """Moments of the columns and the target, every row with weight 1.

    Products are taken about a point not far from the means, so that nothing cancels; a column of ones brings the sums.
    """
    rows, width = len(target), len(pieces[0]) + 1
    origin = np.array([_origin(column[:LOOK].astype(np.float64)) for column in [*pieces[0], target]])
    products, at = np.zeros((width + 1, width + 1), order="F"), 0
    block = np.ones((BLOCK, width + 1), order="F")
    for piece in pieces:
        beside = target[at : at + len(piece[0])]
        at += len(beside)
        for part in chunks(len(beside), BLOCK):
            size = part.stop - part.start
            # BLAS wants whole columns, so a last block is one of its own.
            filled = block if size == BLOCK else np.ones((size, width + 1), order="F")
            for place, column in enumerate([*piece, beside]):
                filled[:, place] = column[part]
                if origin[place]:
                    filled[:, place] -= origin[place]
            products = dsyrk(1.0, filled, beta=1.0, c=products, trans=1, lower=1, overwrite_c=1)
    gap = products[width, :width] / rows
    lower = np.tril(products[:width, :width])
    scatter = lower + np.tril(lower, -1).T - rows * np.outer(gap, gap)
    return GramStatistics(float(rows), float(rows), origin + gap, scatter)


def _origin(values: Matrix) -> float:
    mean = float(values.mean())
    return mean if abs(mean) > NEAR * values.std() else 0.0


def sound(parts: Parts, frame: pl.DataFrame) -> Sound | None:
    """The batch, if it can be seen at a glance that it breaks no rule; None says nothing but "look closer"."""
    names = {role: name for role, name in parts.columns.parts().items() if name in frame.columns}
    plain = [frame[name] for name in (*names.values(), *parts.features)]
    if "weight" in names or not frame.height or any(column.null_count() for column in plain):
        return None
    counted = [role for role in ("position", "click", "relevance") if role in names]
    numbers = {role: _whole(frame[names[role]], role, parts.columns) for role in counted}
    if any(values is None for values in numbers.values()) or not _finite(frame, names):
        return None
    query, item = _as_numbers(frame[names["query"]]), _as_numbers(frame[names["item"]])
    session = _as_numbers(frame[names["session"]]) if "session" in names else query
    position, click = numbers["position"], numbers["click"]
    if query is None or item is None or session is None or position is None or click is None:
        return None
    new = query[1:] != query[:-1]
    start = np.flatnonzero(np.append(True, new))
    one_list = np.array_equal(session[1:] != session[:-1], new)
    if not one_list or not _all_differ(query[start]) or not _all_differ(session[start]):
        return None
    if not _once(item, query, new) or not _positions_once(position, query, new, start):
        return None
    return Sound(
        _pieces(frame, parts.features),
        start,
        position,
        frame[names["query"]].gather(start),
        int(np.count_nonzero(click)),
    )


def _whole(column: pl.Series, role: str, columns: LogColumns) -> IntArray | None:
    """A column of whole numbers in the range that its role allows, positions from 1 up; None where it is not so."""
    if not column.dtype.is_integer() or column.dtype == pl.UInt64:
        return None
    values = column.to_numpy()
    low, high = {
        "position": (columns.position_base, MAX_POSITION),
        "click": (0, np.iinfo(np.int32).max if columns.counts else 1),
        "relevance": (0, columns.max_grade or MAX_LABEL),
    }[role]
    if values.min() < low or values.max() > high:
        return None
    return values if role != "position" or columns.position_base == 1 else values + 1


def _pieces(frame: pl.DataFrame, names: Sequence[str]) -> list[Columns]:
    """Feature columns as they lie in memory, a row group after another: putting them together would cost a copy."""
    columns = [frame[name].get_chunks() for name in names]
    sizes = [[len(piece) for piece in column] for column in columns]
    if all(size == sizes[0] for size in sizes):
        return [[_plain(piece) for piece in group] for group in zip(*columns)]
    return [[_plain(frame[name]) for name in names]]


def _plain(column: pl.Series) -> npt.NDArray[np.floating]:
    # A cast of nothing into itself would still wake up all of polars' threads.
    return column.to_numpy() if column.dtype == pl.Float32 else as_float32(column)


def _finite(frame: pl.DataFrame, names: dict[str, str]) -> bool:
    if "logging_score" not in names:
        return True
    return bool(np.isfinite(as_float32(frame[names["logging_score"]])).all())


def _as_numbers(ids: pl.Series) -> npt.NDArray[np.uint64] | None:
    """Ids as numbers that differ where the ids do; text by a hash of 64 bits."""
    if ids.dtype.is_integer():
        return ids.to_numpy().astype(np.int64, copy=False).view(np.uint64)
    return ids.hash().to_numpy() if ids.dtype == pl.String else None


def _all_differ(values: npt.NDArray) -> bool:
    if len(values) < 2 or (values[1:] > values[:-1]).all():
        return True
    ordered = np.sort(values)
    return not (ordered[1:] == ordered[:-1]).any()


def _once(values: npt.NDArray, query: npt.NDArray[np.uint64], new: npt.NDArray[np.bool_]) -> bool:
    """Whether values occur once in a query. Two pairs may get the same number by chance; then a closer look decides."""
    if ((values[1:] > values[:-1]) | new).all():
        return True
    return _all_differ(values.astype(np.uint64) * _MIX[0] + query * _MIX[1])


def _positions_once(
    position: IntArray, query: npt.NDArray[np.uint64], new: npt.NDArray[np.bool_], start: IntArray
) -> bool:
    if int(position.max()) > 31 or ((position[1:] > position[:-1]) | new).all():
        return _once(position, query, new)
    # A bit a position: a sum of powers of two has as many bits as summands only if these differ.
    bits = np.add.reduceat(np.left_shift(np.uint32(1), position.astype(np.uint32)), start, dtype=np.uint32)
    return bool((np.bitwise_count(bits) == np.diff(np.append(start, len(position)))).all())
