"""Stage one straight from Parquet: sound batches are summed as they are read, all others go the careful way.

Sorting and gathering items, which a log in memory needs, would change no sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.linalg.blas import dsyrk
from threadpoolctl import threadpool_limits

from unskew._options import RankTarget
from unskew.control.learners import Ridge, RidgeFit
from unskew.control.placements import Target
from unskew.control.stage_one import StageOne
from unskew.control.statistics import GramStatistics, ResidualStatistics, chunks, residual_statistics
from unskew.data.columns import LogColumns
from unskew.errors import LogError
from unskew.scale.parts import Parts, as_log, changing, check_whole, frames, open_parts
from unskew.scale.sound import Columns, Sound, sound
from unskew.scale.streaming import Counts, conclude, counts_of, gram_of, merged, residual_scale, residuals_of, target_of

# Rows read at a time: a file of usual size is one piece, which polars reads fastest.
PIECE = 1 << 20
# Rows of a block of products: with some twenty columns in float64 it stays in the second-level cache.
BLOCK = 4096
# Rows that say about where a column lies; within so many standard deviations of 0, products about 0 lose no digits.
LOOK, NEAR = 4096, 8.0
_RAW = Target(kind="raw", longest=1)
Matrix = npt.NDArray[np.float64]


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
    # Products this small gain nothing from BLAS's own threads, which would spin where the reader could work.
    with ThreadPoolExecutor(1) as reader, threadpool_limits(1, user_api="blas"):
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def _scanned(parts: Parts, frame: pl.DataFrame, file: Path, rank_target: RankTarget) -> Scanned:
    batch = sound(frame, parts.columns, parts.features)
    if batch is not None:
        with np.errstate(all="ignore"):
            gram = _gram(batch.pieces, batch.target(rank_target))
        if np.isfinite(gram.scatter).all():  # one value that is not finite would show here
            return Scanned(_counts(batch), gram, batch.queries)
    log = as_log(parts, frame, file)
    target = Target(kind="per_list", longest=1) if rank_target == "per_list" else _RAW
    return Scanned(counts_of(log), gram_of(log, target), log.data.query_ids, changing(log))


def _counts(batch: Sound) -> Counts:
    rows, lists = len(batch.position), len(batch.start)
    return Counts(lists, rows, lists, rows, batch.clicks, int(batch.position.min()), int(batch.position.max()))


def _residuals(
    parts: Parts, frame: pl.DataFrame, file: Path, target: Target, model: RidgeFit, scale: float
) -> ResidualStatistics:
    batch = sound(frame, parts.columns, parts.features)
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
