"""Baidu-ULTR as the University of Amsterdam published it: one row per query, the items in list columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import polars as pl

from unskew._options import MissingValues
from unskew.data.clicks import ClickLog
from unskew.data.frames import log_from_frame, ranking_from_frame
from unskew.data.ranking import RankingData
from unskew.errors import ColumnError, FileFormatError

MAX_GRADE = 4
# The published ranking features, in either order of naming (bm25_title, title_bm25).
FEATURES = ("*tf", "*tf_*", "*idf", "*idf_*", "*bm25*", "*ql_*", "*_length")
_KEYS = ("query_id", "url_md5", "position", "click", "label", "displayed_time", "serp_height", "media_type")

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def read_baidu_clicks(
    paths: Paths, *, features: Sequence[str] = FEATURES, missing: MissingValues = "refuse"
) -> ClickLog:
    """The click part: every row is a session. Parquet or Arrow (Feather) files.

    features : names or patterns (`bm25*`) of list columns of numbers.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "train.parquet"
    >>> pl.DataFrame({"query_id": ["q"], "url_md5": [["a", "b"]], "position": [[1, 2]], "click": [[0, 1]],
    ...               "bm25": [[0.5, 0.25]]}).write_parquet(path)
    >>> read_baidu_clicks(path)
    ClickLog(1 sessions of 1 queries, 2 impressions, 1 clicks = 50.00 %)
    """
    frame, names = _items(paths, features, needed=("query_id", "url_md5", "position", "click"))
    return log_from_frame(frame, features=names, missing=missing)


def read_baidu_annotations(
    paths: Paths, *, features: Sequence[str] = FEATURES, missing: MissingValues = "refuse"
) -> RankingData:
    """The part that experts judged, grades 0 to 4; options as in `read_baidu_clicks`."""
    frame, names = _items(paths, features, needed=("query_id", "url_md5", "label"))
    return ranking_from_frame(frame, relevance="label", features=names, missing=missing, max_grade=MAX_GRADE)


def feature_columns(
    schema: Mapping[str, pl.DataType], wanted: Sequence[str], *, source: str = "the table"
) -> list[str]:
    """The list columns of numbers that fit the names or patterns, in the order of the table.

    >>> feature_columns({"bm25": pl.List(pl.Float64), "position": pl.List(pl.Int32), "n": pl.Int32()}, ["b*"])
    ['bm25']
    """
    numeric = [name for name, kind in schema.items() if name not in _KEYS and _is_list_of_numbers(kind)]
    have = f"Its list columns of numbers: {', '.join(numeric) or 'none'}."
    unmatched = [pattern for pattern in wanted if not any(fnmatchcase(name, pattern) for name in numeric)]
    if unmatched and wanted is not FEATURES:
        raise ColumnError(f"{source} has no feature like '{unmatched[0]}'. {have}")
    names = [name for name in numeric if any(fnmatchcase(name, pattern) for pattern in wanted)]
    if not names:
        raise ColumnError(f"{source} has no ranking feature such as bm25 or tf_idf. {have} Choose with features=[…].")
    return names


def _is_list_of_numbers(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.List) and pl.Series(dtype=kind.inner).dtype.is_numeric()


def _items(paths: Paths, features: Sequence[str], *, needed: Sequence[str]) -> tuple[pl.DataFrame, list[str]]:
    """One row per item, `session_id` the row of the files it comes from, and the names of the features."""
    files = [Path(paths)] if isinstance(paths, (str, os.PathLike)) else [Path(path) for path in paths]
    if not files:
        raise FileFormatError("No file of Baidu-ULTR was named.")
    names = feature_columns(_scan(files[0]).collect_schema(), features, source=str(files[0]))
    parts, sessions = [], 0
    for path in files:
        table = _read(path, [*needed, *names])
        parts.append(_exploded(table.with_row_index("session_id", offset=sessions), path))
        sessions += table.height
    frame = pl.concat(parts).with_columns(pl.col("session_id").cast(pl.Int64))
    # A page sometimes shows the same address twice; the second is an item of its own.
    again = pl.int_range(pl.len()).over("session_id", "url_md5")
    item = pl.when(again > 0).then(pl.format("{}#{}", "url_md5", again + 1)).otherwise("url_md5")
    return frame.with_columns(item.alias("item_id")), names


def _exploded(table: pl.DataFrame, path: Path) -> pl.DataFrame:
    lists = [name for name, kind in table.schema.items() if isinstance(kind, pl.List)]
    lengths = table.select(pl.col(name).list.len().fill_null(0) for name in lists)
    uneven = lengths.select(pl.any_horizontal(pl.col(name) != pl.col(lists[0]) for name in lists)).to_series()
    if uneven.any():
        first = int(uneven.arg_max() or 0)
        shown = ", ".join(f"{name} {lengths[name][first]}" for name in lists[:4])
        raise FileFormatError(
            f"{path}, row {first + 1} (query {table['query_id'][first]!r}): its lists differ in length ({shown}, …)."
        )
    return table.filter(lengths[lists[0]] > 0).explode(lists)


def _read(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Only the columns that are needed: the files carry text and embeddings many times their size."""
    scan = _scan(path)
    have = scan.collect_schema()
    lacking = [name for name in columns if name not in have]
    if lacking:
        raise ColumnError(f"{path} has no column '{lacking[0]}'. It has: {', '.join(have)}.")
    plain = [name for name in columns if name != "query_id" and not isinstance(have[name], pl.List)]
    if plain:
        raise ColumnError(f"{path}: column '{plain[0]}' must hold a list per query, but is of type {have[plain[0]]}.")
    try:
        return scan.select(columns).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _unreadable(path, error) from error


def _scan(path: Path) -> pl.LazyFrame:
    try:
        with path.open("rb") as file:
            start = file.read(6)
        if start.startswith(b"PAR1"):
            scan = pl.scan_parquet(path, glob=False)
        else:  # Arrow files are what Feather writes, Arrow streams what the Hugging Face library does
            scan = pl.scan_ipc(path, glob=False) if start == b"ARROW1" else pl.read_ipc_stream(path).lazy()
        scan.collect_schema()
        return scan
    except FileNotFoundError:
        raise FileFormatError(f"There is no file {path}.") from None
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> FileFormatError:
    return FileFormatError(f"{path} cannot be read as Parquet or Arrow ({error}). Is it cut short?")
