"""A log of any size and order as a folder of Parquet files that hold whole queries, in bounded memory."""

from __future__ import annotations

import errno
import heapq
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unskew._files import atomic_folder
from unskew._segments import IntArray
from unskew.data.columns import IDS, ROLES
from unskew.data.csv_files import reading_csv, scan_csv
from unskew.data.tables import parquet_files, reading, reading_parts
from unskew.data.written import KEY
from unskew.errors import ColumnError, DataError, OutputError, SettingError

# A part is read whole by whoever works on it (and by us, to sort it), so it is kept to this many bytes.
PART_BYTES = 256 << 20
# Queries are dealt to parts in this many handfuls: enough to balance a thousand parts, and a count each fits anywhere.
HANDFULS = 1 << 16
ROW_GROUP = 1 << 17
_BYTES: dict[pl.DataType, int] = {pl.Boolean(): 1, pl.Int8(): 1, pl.Int16(): 2, pl.Int32(): 4, pl.Float32(): 4}
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_HANDFUL = "unskew handful"
_PART = "unskew part"


@dataclass(frozen=True)
class Partitioned:
    """What was written: the folder, and rows and queries of every part."""

    folder: Path
    rows: tuple[int, ...]
    queries: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able summary for the command line."""
        return {
            "out": str(self.folder),
            "parts": len(self.rows),
            "rows": sum(self.rows),
            "queries": sum(self.queries),
            "smallest_part": min(self.rows),
            "largest_part": max(self.rows),
        }


def partition_log(
    log: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    query: str = "query_id",
    parts: int | None = None,
) -> Partitioned:
    """Write a log (Parquet, a folder of it, or CSV) as `parts` files of whole queries, about the same rows in each.

    Two streaming passes: count the rows of handfuls of queries, then deal the handfuls out; each part is sorted by
    query, session and position when it is complete. Without `parts`, as many as keep a part in memory easily.
    """
    source, metadata = _scan(Path(log), query)
    with _reading(Path(log)):
        schema = source.collect_schema()
    if query not in schema:
        listed = ", ".join(f"'{name}'" for name in list(schema)[:12])
        raise ColumnError(f"There is no column '{query}' in {log}. Its columns are {listed}. Name it with --query.")
    if parts is not None and parts < 1:
        raise SettingError(f"parts must be 1 or greater, but {parts} was given.")
    with _reading(Path(log)):
        counts = _handfuls(source, query, log)
    wanted = parts or max(1, -(-int(counts.sum()) * _row_bytes(schema) // PART_BYTES))
    part_of = deal(counts, min(wanted, int((counts > 0).sum())))
    with atomic_folder(out, overwrite=False) as folder:
        spill = folder / "_spill"
        with _reading(Path(log)), _writing(Path(out)):
            _spill(source, query, part_of, spill)
        with _writing(Path(out)):
            written = [
                _finish(spill / f"{_PART}={part}", folder / f"part-{part:05d}.parquet", query, metadata)
                for part in range(int(part_of.max()) + 1)
            ]
        shutil.rmtree(spill)
    return Partitioned(Path(out), tuple(rows for rows, _ in written), tuple(queries for _, queries in written))


def deal(counts: IntArray, parts: int) -> IntArray:
    """The part of every handful: the largest first, each to the part with the fewest rows so far.

    >>> deal(np.array([5, 3, 3, 1]), 2)
    array([0, 1, 1, 0])
    """
    part_of = np.zeros(len(counts), dtype=np.int64)
    heap = [(0, part) for part in range(parts)]
    for handful in np.argsort(-counts, kind="stable"):
        if counts[handful] == 0:
            break
        rows, part = heapq.heappop(heap)
        part_of[handful] = part
        heapq.heappush(heap, (rows + int(counts[handful]), part))
    return part_of


def _scan(path: Path, query: str) -> tuple[pl.LazyFrame, dict[str, str]]:
    """The table as a lazy frame, and what its file says about itself."""
    files = parquet_files(path)
    if files is not None:
        with reading(path, "a Parquet file"):
            metadata = pl.read_parquet_metadata(files[0])
            kept = {KEY: metadata[KEY]} if KEY in metadata else {}
            return pl.scan_parquet(files, glob=False, hive_partitioning=False), kept
    return scan_csv(path, ids=[query, *(ROLES[role] for role in IDS)]), {}


def _reading(path: Path) -> AbstractContextManager[None]:
    files = parquet_files(path)
    return reading_csv(path) if files is None else reading_parts(files, path)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    """What polars says about a full disk, as an error about the output and not about the input."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = next((os.strerror(code) for code in _NO_ROOM if f"(os error {code})" in str(error)), None)
        if reason is None:
            raise
        raise OutputError(f"Cannot write {out}: {reason}. Make room, or name another folder.") from error


def _row_bytes(schema: pl.Schema) -> int:
    return sum(_BYTES.get(kind, 8 if kind.is_numeric() else 24) for kind in schema.values())


def _handful(query: str) -> pl.Expr:
    return (pl.col(query).hash(0) % HANDFULS).cast(pl.UInt32)


def _handfuls(source: pl.LazyFrame, query: str, log: Any) -> IntArray:
    """(handfuls,) rows in every handful of queries."""
    counted = (
        source.group_by(_handful(query).alias(_HANDFUL))
        .agg(pl.len().alias("rows"), pl.col(query).null_count().alias("none"))
        .collect(engine="streaming")
    )
    if counted.height == 0:
        raise DataError(f"A log needs rows, but {log} has none.")
    if counted["none"].sum():
        raise DataError(f"Every row needs a query, but {counted['none'].sum():,} rows of {log} have no '{query}'.")
    rows = np.zeros(HANDFULS, dtype=np.int64)
    rows[counted[_HANDFUL].to_numpy()] = counted["rows"].to_numpy()
    return rows


def _spill(source: pl.LazyFrame, query: str, part_of: IntArray, folder: Path) -> None:
    """Append every row to its part's file, in the order the rows come."""
    parts = pl.Series(part_of.astype(np.uint32))
    part = _handful(query).replace_strict(pl.Series(np.arange(HANDFULS, dtype=np.uint32)), parts)
    target = pl.PartitionBy(folder, key=_PART, include_key=False, approximate_bytes_per_file=None)
    source.with_columns(part.alias(_PART)).sink_parquet(target, mkdir=True, compression="lz4")


def _finish(spilled: Path, target: Path, query: str, metadata: dict[str, str]) -> tuple[int, int]:
    frame = pl.read_parquet(sorted(spilled.glob("*.parquet")), glob=False, hive_partitioning=False)
    by = [query, *(ROLES[role] for role in ("session", "position") if ROLES[role] in frame.columns)]
    frame = frame.sort(list(dict.fromkeys(by)), maintain_order=True)
    frame.write_parquet(target, compression_level=1, row_group_size=ROW_GROUP, metadata=metadata)
    shutil.rmtree(spilled)
    return frame.height, frame[query].n_unique()
