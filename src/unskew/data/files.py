"""Logs and judged data as Parquet and CSV files, written whole or not at all and in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from unskew._files import atomic_path
from unskew._segments import IntArray, positions_in
from unskew.data.clicks import ClickLog
from unskew.data.keys import repeated
from unskew.data.ranking import RankingData
from unskew.data.written import metadata_of
from unskew.errors import FeatureError, LogError, OutputError

AnyPath = str | os.PathLike[str]
Rows = slice | IntArray
ROW_GROUP = 1 << 17
BLOCK_BYTES = 32 << 20


def read_log(path: AnyPath, *, feature_table: Any = None, **columns: Any) -> ClickLog:
    """A click log from a Parquet or CSV file or a folder of Parquet files; options as in `log_from_frame`."""
    from unskew.data.frames import log_from_frame

    return log_from_frame(Path(path), feature_table=feature_table, **columns)


def read_judged_table(path: AnyPath, *, feature_table: Any = None, **columns: Any) -> RankingData:
    """Judged data from a Parquet or CSV file or a folder; options as in `ranking_from_frame`."""
    from unskew.data.frames import ranking_from_frame

    return ranking_from_frame(Path(path), feature_table=feature_table, **columns)


def write_log(log: ClickLog, path: AnyPath, *, features: AnyPath | None = None) -> None:
    """Write a log as Parquet (by default) or CSV (a name ending in .csv), one row per impression.

    Inline features are written once per impression, and rows that were never shown are not written; `features` names
    a second file that takes all rows once instead, keyed by query and item.

    >>> import tempfile, pathlib
    >>> data = RankingData.from_arrays([[0.1], [0.7]], sizes=[2], max_grade=4, grades=[0, 3])
    >>> log = ClickLog.from_arrays(data, row=[1, 0], session=[0, 0], position=[1, 2], click=[0, 1])
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> write_log(log, file)
    >>> back = read_log(file)
    >>> back.row, back.data.max_grade, pl.read_parquet_schema(file).names()
    (array([1, 0]), 4, ['query_id', 'session_id', 'item_id', 'position', 'click', 'relevance', 'f1'])
    """
    write_sheets(log_sheets(log, path, features=features))


def write_judged(data: RankingData, path: AnyPath) -> None:
    """Write judged data as Parquet or CSV, one row per query-item pair: query_id, item_id, relevance, features."""
    write_sheets([judged_sheet(data, path)])


@dataclass(frozen=True, eq=False)
class Sheet:
    """A file to be written.

    block : the rows of a slice; total : how many rows there are; width : features beside the keys.
    metadata : what a Parquet file says about itself.
    """

    path: Path
    block: Callable[[slice], pl.DataFrame]
    total: int
    width: int
    metadata: dict[str, str]

    def __post_init__(self) -> None:
        check_target(self.path)


def check_target(path: Path) -> None:
    """Refuse a place where no table can be written; to be asked before long work as well as after it."""
    if path.suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise OutputError(f"Cannot write {path}: name a file that ends in .parquet or .csv.")
    if path.is_dir():
        raise OutputError(f"Cannot write {path}: a folder of that name is there. Name another file.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        reason = "you may not write there" if folder.is_dir() else "it is a file, not a folder"
        raise OutputError(f"Cannot write {path}, because of {folder}: {reason}. Name another place.")


def log_sheets(log: ClickLog, path: AnyPath, *, features: AnyPath | None = None) -> list[Sheet]:
    """The files of a log: the log itself, and its features where they go to a file of their own."""
    data = log.data
    if log.session_ids.n_unique() != log.n_sessions:
        raise LogError("A log can be written only if every session has an id of its own, but some share one.")
    _refuse_clash(data.feature_names)
    if features is not None:
        _refuse_changing(data)

    def block(part: slice) -> pl.DataFrame:
        keys = log_columns(log, part, grades=features is None)
        return keys if features is not None else keys.hstack(feature_block(data, log.row[part]))

    sheet = Sheet(Path(path), block, log.n_impressions, data.n_features, metadata_of("log", data))
    return [sheet] if features is None else [sheet, judged_sheet(data, features)]


def judged_sheet(data: RankingData, path: AnyPath) -> Sheet:
    """The file of judged data."""
    _refuse_clash(data.feature_names)
    keys = pair_columns(data)

    def block(part: slice) -> pl.DataFrame:
        return keys[part].hstack(feature_block(data, part))

    return Sheet(Path(path), block, data.n_rows, data.n_features, metadata_of("judged", data))


def write_frame(frame: pl.DataFrame, path: AnyPath) -> None:
    """Write a table as Parquet or CSV, by the ending of the path; whole or not at all."""
    target = Path(path)
    check_target(target)
    with atomic_path(target) as temporary, _telling(target):
        if target.suffix.lower() == ".csv":
            frame.write_csv(temporary)
        else:
            frame.write_parquet(temporary)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Errors of writing as one that names the file; a full disk may come as one of polars' own."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise OutputError(f"Cannot write {path}: {error}") from error
    except OSError as error:
        raise OutputError(f"Cannot write {path}: {error.strerror or error}.") from error


def write_sheets(sheets: Sequence[Sheet]) -> None:
    """Write files that belong together: all under temporary names first, so that a failure leaves none of them.

    The first one is renamed last: where it is, the others are too.
    """
    with ExitStack() as stack:
        places = [stack.enter_context(atomic_path(sheet.path)) for sheet in sheets]
        for sheet, temporary in zip(sheets, places, strict=True):
            _stream(sheet, temporary)


def log_columns(log: ClickLog, part: Rows, *, grades: bool = True) -> pl.DataFrame:
    """The key columns of some impressions, in the order of every log that unskew writes."""
    data, row = log.data, log.row[part]
    columns = [
        data.query_ids.gather(data.query_of_row[row]).alias("query_id"),
        log.session_ids.gather(log.session_of[part]).alias("session_id"),
        _items(data, row),
        pl.Series("position", log.position[part]),
        pl.Series("click", log.click[part]),
    ]
    optional = {
        "weight": log.weight,
        "logging_score": log.logging_score,
    }
    columns += [pl.Series(name, values[part]) for name, values in optional.items() if values is not None]
    if grades and data.grades is not None:
        columns.append(pl.Series("relevance", data.grades[row]))
    return pl.DataFrame(columns)


def pair_columns(data: RankingData) -> pl.DataFrame:
    """query_id, item_id and, where people judged, relevance."""
    columns = [data.query_ids.gather(data.query_of_row).alias("query_id"), _items(data, slice(None))]
    if data.grades is not None:
        columns.append(pl.Series("relevance", data.grades))
    return pl.DataFrame(columns)


def _items(data: RankingData, rows: Rows) -> pl.Series:
    if data.item_ids is None:
        return pl.Series("item_id", positions_in(data.offsets)[rows])
    return (data.item_ids[rows] if isinstance(rows, slice) else data.item_ids.gather(rows)).alias("item_id")


def feature_block(data: RankingData, rows: Rows) -> pl.DataFrame:
    """The features of some rows as columns."""
    # Columns are what a frame stores, so the block is turned once, as a whole.
    block = np.asfortranarray(data.features[rows])
    return pl.DataFrame([pl.Series(name, block[:, place]) for place, name in enumerate(data.feature_names)])


def _stream(sheet: Sheet, temporary: Path) -> None:
    step = int(np.clip(BLOCK_BYTES // (4 * sheet.width), 1024, ROW_GROUP))

    def blocks(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        for start in range(0, sheet.total, step):
            frame = sheet.block(slice(start, min(start + step, sheet.total)))
            yield frame if with_columns is None else frame.select(with_columns)

    stream = register_io_source(blocks, schema=sheet.block(slice(0, 0)).schema)
    with _telling(sheet.path):
        if sheet.path.suffix.lower() == ".csv":
            stream.sink_csv(temporary, maintain_order=True)
        else:
            # Level 1 of zstd packs floats as tightly as the default does, in half the time.
            stream.sink_parquet(
                temporary, compression_level=1, row_group_size=ROW_GROUP, maintain_order=True, metadata=sheet.metadata
            )


def _refuse_clash(names: Sequence[str]) -> None:
    from unskew.data.columns import ROLES

    clash = sorted(set(names) & set(ROLES.values()))
    if clash:
        raise FeatureError(
            f"A feature cannot be written under the name '{clash[0]}', a column of its own. Rename the feature."
        )


def _refuse_changing(data: RankingData) -> None:
    from unskew.data.columns import encode

    if data.item_ids is None:
        return
    item = encode(data.item_ids)
    again = repeated(data.query_of_row * len(item) + item.codes)
    if again.any():
        row = int(np.argmax(again))
        raise FeatureError(
            f"Features cannot go into a file of their own because they change between impressions of an item (first: "
            f"query '{data.query_ids[int(data.query_of_row[row])]}', item '{data.item_ids[row]}'). Write them inline."
        )
