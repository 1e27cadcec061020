"""A log in parts: one Parquet file or a folder of them, read in batches of whole queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from unskew._segments import offsets_of
from unskew.data.checks import enforce, plural
from unskew.data.clicks import ClickLog
from unskew.data.columns import LogColumns, as_ids
from unskew.data.feature_columns import feature_names, name_checks
from unskew.data.frames import log_from_frame
from unskew.data.holdout import HOLDOUT_SHARE, SMALLEST_SPLIT
from unskew.data.ranking import RankingData
from unskew.data.tables import open_table, parquet_files, reading
from unskew.data.written import complete
from unskew.errors import ColumnError, DataError, FileFormatError, PartitionError
from unskew.scale.sound import sound_log

# Rows read at a time: a batch of a few dozen features is some 10 MB, which every step after it handles in cache.
BATCH = 1 << 17
_CHANGING = "Features change between impressions"
_HOW = "Make parts of whole queries with: unskew partition LOG --out DIR"


@dataclass(frozen=True)
class Parts:
    """Parquet files with the same columns.

    files : one file, or the files of a folder in the order of their names; rows : how many each holds.
    columns : what the columns are called; features : the feature columns.
    """

    source: Path
    files: tuple[Path, ...]
    rows: tuple[int, ...]
    columns: LogColumns
    features: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    def frame(self, file: Path) -> pl.LazyFrame:
        """The columns that a log needs, of one file."""
        keys = [name for name in self.columns.parts().values() if name is not None]
        wanted = {*keys, *self.features}
        with reading(file, "a Parquet file"):
            scan = pl.scan_parquet(file, glob=False)
            return scan.select([name for name in scan.collect_schema() if name in wanted])


def open_parts(path: Path, columns: LogColumns) -> Parts:
    """Look at the footers of all files: they can be read, and have the same columns."""
    files = parquet_files(path)
    if files is None:
        raise FileFormatError(f"{path} is not Parquet. Only Parquet can be read in parts; {_HOW.lower()}")
    table = open_table(path)  # compares the schemas and names the file that differs
    settled = replace(complete(columns, table), need_clicks=False)
    names = feature_names(table, settled)
    rows = {}
    for file in files:
        with reading(file, "a Parquet file"):
            rows[file] = int(pl.scan_parquet(file, glob=False).select(pl.len()).collect().item())
    lacking = settled.lacking(table)
    if lacking:
        role, name = next(iter(lacking.items()))
        raise ColumnError(f"There is no column '{name}' in {path}. Name the column of the {role} with --{role}.")
    enforce(name_checks(table, settled, names))
    filled = {file: count for file, count in rows.items() if count} or rows  # a worker may have had nothing to write
    return Parts(path, tuple(filled), tuple(filled.values()), settled, tuple(names))


def queries_of(parts: Parts, number: int, *, batch: int = BATCH) -> pl.Series:
    """The distinct query ids of a file; in a file of several batches the rows of a query must follow each other."""
    file = parts.files[number]
    with reading(file, "a Parquet file"):
        column = parts.frame(file).select(parts.columns.query).collect()[parts.columns.query]
    ids = as_ids(column)
    if ids is None or ids.null_count():
        found = f"is of type {column.dtype}" if ids is None else f"is missing in {plural(ids.null_count(), 'row')}"
        raise ColumnError(f"{file}: the query must be a whole number or text, but '{column.name}' {found}.")
    distinct = ids.unique(maintain_order=True)
    if parts.rows[number] > batch:
        runs = ids.rle().struct.field("value")
        if len(runs) > len(distinct):
            again = runs.filter(runs.is_duplicated())[0]
            raise _unsorted(file, again)
    return distinct


def _unsorted(file: Path, query: object) -> PartitionError:
    return PartitionError(
        f"{file} is not sorted by query: the rows of query '{query}' do not follow each other, and the file is "
        f"too large to be sorted in memory.\n{_HOW}"
    )


def check_whole(queries: Sequence[pl.Series], files: Sequence[Path]) -> None:
    """No query is in two files.

    >>> check_whole([pl.Series([1, 2]), pl.Series([2, 3])], [Path("a.parquet"), Path("b.parquet")])
    Traceback (most recent call last):
    ...
    unskew.errors.PartitionError: a.parquet ends in the middle of query '2', which goes on in b.parquet.
    Make parts of whole queries with: unskew partition LOG --out DIR
    """
    ids = pl.concat(queries)
    if ids.n_unique() == len(ids):
        return
    again = ids.filter(ids.is_duplicated())[0]
    first, second = [number for number, part in enumerate(queries) if again in part][:2]
    if files[first] == files[second]:
        raise _unsorted(files[first], again)
    one, two = files[first].name, files[second].name
    if queries[first][-1] == again and queries[second][0] == again:
        raise PartitionError(f"{one} ends in the middle of query '{again}', which goes on in {two}.\n{_HOW}")
    raise PartitionError(
        f"The parts of a log must hold whole queries, but query '{again}' is in both {one} and {two}.\n{_HOW}"
    )


def held_queries(queries: Sequence[pl.Series], *, seed: int, share: float = HOLDOUT_SHARE) -> pl.Series | None:
    """The ids that `hold_out` would split off the same log in memory; None for a log too small to split."""
    ids = pl.concat(queries).sort()
    order = np.random.default_rng(seed).permutation(len(ids))
    held = ids.gather(order[: int(len(ids) * share)])
    return held if len(held) >= SMALLEST_SPLIT else None


def frames(parts: Parts, number: int, *, batch: int = BATCH) -> Iterator[pl.DataFrame]:
    """A file in batches of whole queries, about `batch` rows each; a small file is one batch, in any order."""
    file = parts.files[number]
    with reading(file, "a Parquet file"):
        if parts.rows[number] <= batch:
            yield parts.frame(file).collect()
            return
        query = parts.columns.query
        held: list[pl.DataFrame] = []
        for block in parts.frame(file).collect_batches(chunk_size=batch, maintain_order=True):
            held.append(block)
            if sum(frame.height for frame in held) < batch:
                continue
            frame = pl.concat(held)
            # The last query may go on in the next block, so it waits for it.
            last = int(frame[query].rle_id().search_sorted(frame[query].rle_id()[-1]))
            held = [frame[last:]]
            if last:
                yield frame[:last]
        if held:
            yield pl.concat(held)


def as_log(parts: Parts, frame: pl.DataFrame, file: Path, *, spread: bool = False) -> ClickLog:
    """A batch as a log, checked like any other; what is wrong with it is said with the file's name.

    A glance suffices for batches that are plainly sound.

    spread : one row per impression even where features do not change, to match batches where they do.
    """
    settings = {**vars(parts.columns), "features": list(parts.features)}
    try:
        log = sound_log(frame, parts.columns, parts.features)
        log = log_from_frame(frame, **settings) if log is None else log
    except DataError as error:
        named = type(error)(f"{file.name}: {error}")
        if hasattr(error, "for_cli"):
            named.for_cli = f"{file.name}: {error.for_cli}"  # type: ignore[attr-defined]
        raise named from error
    return _spread(log) if spread and not changing(log) else log


def changing(log: ClickLog) -> bool:
    """Whether features change between impressions of an item, so that the log has one row per impression."""
    return any(note.startswith(_CHANGING) for note in log.notes)


def _spread(log: ClickLog) -> ClickLog:
    data = log.data
    wide = RankingData(
        features=data.features[log.row],
        offsets=offsets_of(np.bincount(log.query_of, minlength=data.n_queries)),
        query_ids=data.query_ids,
        feature_names=data.feature_names,
        grades=None if data.grades is None else data.grades[log.row],
        max_grade=data.max_grade,
    )
    return replace(log, data=wide, row=np.arange(log.n_impressions))


def subset(log: ClickLog, keep: np.ndarray) -> ClickLog | None:
    """The queries of a mask with only their rows; None where nothing is kept."""
    if keep.all():
        return log
    if not keep.any():
        return None
    chosen = log.take_queries(keep)
    data = log.data.take_queries(keep)
    kept_rows = np.cumsum(np.repeat(keep, log.data.sizes)) - 1
    return replace(chosen, data=data, row=kept_rows[chosen.row])
