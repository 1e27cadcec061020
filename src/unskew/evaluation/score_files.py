"""Scores from files: a table with keys, or one number a line in the order of the data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew.data._pieces import refuse_pipe
from unskew.data.column_checks import first_text
from unskew.data.columns import as_ids, numbers
from unskew.data.files import pair_columns
from unskew.data.ranking import RankingData
from unskew.data.tables import Table, did_you_mean, open_table, reads_as_number
from unskew.errors import ColumnError, DataError, FileFormatError, KeyMismatchError

KEYS = ("query_id", "item_id")
Values = npt.NDArray[np.float64]
# Integers that do not fit into 64 bits with a sign.
_WIDE = (pl.UInt64, pl.UInt128, pl.Int128)


def read_scores(path: str | os.PathLike[str], data: RankingData) -> Values:
    """(rows,) scores for the rows of `data`, larger is better.

    The file is a table (Parquet, Arrow, CSV) with query_id, item_id and either score or rank (1 = best), as
    `unskew rank` writes it, or plain text with one score a line in the order of the data.
    """
    path = Path(path)
    line = _first_line(path)
    if line is not None and reads_as_number(line):
        return _in_row_order(_read_lines(path), data, str(path))
    table = open_table(path)
    value = next((name for name in ("score", "rank") if name in table.schema), None)
    if value is None or (value == "rank" and "query_id" not in table.schema):
        raise ColumnError(
            f"{path} needs a column 'score' or 'rank' beside query_id and item_id, but its columns are "
            f"{', '.join(repr(name) for name in list(table.schema)[:8])}."
        )
    if not any(key in table.schema for key in KEYS):
        return _in_row_order(_values(table, value), data, str(path))
    return _by_key(table, value, data)


def system_names(paths: Sequence[Path]) -> list[str]:
    """What to call the system behind every file: the file's name, or its whole path where names repeat.

    >>> system_names([Path("runs/naive.parquet"), Path("a/cfc.csv"), Path("b/cfc.csv")])
    ['naive', 'a/cfc.csv', 'b/cfc.csv']
    """
    if len(set(paths)) < len(paths):
        raise DataError("A file of scores was named twice.")
    stems = [path.stem for path in paths]
    return [stem if stems.count(stem) == 1 else str(path) for stem, path in zip(stems, paths)]


def _by_key(table: Table, value: str, data: RankingData) -> Values:
    """Scores joined to the rows of the data on query and item id, each exactly once."""
    lacking = [key for key in KEYS if key not in table.schema]
    if lacking:
        raise ColumnError(f"{table.source} needs the columns query_id and item_id, but '{lacking[0]}' is missing.")
    theirs, ours = _keys(table), pair_columns(data).select(KEYS)
    matched = {key: _alike(ours[key], theirs[key]) for key in KEYS}
    wanted = pl.DataFrame({key: pair[0] for key, pair in matched.items()})
    there = pl.DataFrame({key: pair[1] for key, pair in matched.items()}).with_columns(
        pl.Series("value", _values(table, value))
    )
    _refuse(there.filter(there.select(KEYS).is_duplicated()), "are scored more than once", table.source)
    _refuse(wanted.join(there, on=KEYS, how="anti", maintain_order="left"), "have no score", table.source)
    _refuse(there.join(wanted, on=KEYS, how="anti", maintain_order="left"), "are not in the judged data", table.source)
    return wanted.join(there, on=KEYS, how="left", maintain_order="left")["value"].to_numpy()


def _keys(table: Table) -> pl.DataFrame:
    columns = []
    for key in KEYS:
        ids = as_ids(table.ids(key))
        if ids is None:
            raise ColumnError(f"{table.source}: {key} must be integers or text, but is {table.schema[key]}.")
        missing = ids.is_null()
        if missing.any():
            row = int(missing.arg_true()[0]) + 1
            raise ColumnError(f"{table.source}: {key} must not be missing, but it is (first: row {row:,}).")
        columns.append(ids.alias(key))
    return pl.DataFrame(columns)


def _alike(left: pl.Series, right: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Two id columns made comparable: integers of one width, or both as text."""
    narrow = all(ids.dtype.is_integer() and ids.dtype not in _WIDE for ids in (left, right))
    common = pl.Int64 if narrow else pl.String
    return left.cast(common), right.cast(common)


def _values(table: Table, column: str) -> Values:
    kind = table.schema[column]
    if not kind.is_numeric():
        found = first_text(table, column)
        raise ColumnError(f"{table.source}: {column} must be numbers, but is {kind}{found}. Repair the column.")
    values = numbers(table.take([column])[column]).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise DataError(
            f"{table.source}: {column} must be finite, but {bad.size:,} {'are' if bad.size > 1 else 'is'} not (first: "
            f"{values[bad[0]]} in row {bad[0] + 1:,}). An item without an opinion needs a low score."
        )
    return -values if column == "rank" else values


def _refuse(keys: pl.DataFrame, what: str, source: str) -> None:
    if keys.height:
        query, item = keys["query_id"][0], keys["item_id"][0]
        raise KeyMismatchError(
            f"{source}: {keys.height:,} query-item pairs {what} (first: query '{query}', item '{item}'). "
            "Are both files of the same data, and are the ids written the same way?"
        )


def _in_row_order(values: Values, data: RankingData, source: str) -> Values:
    if len(values) != data.n_rows:
        raise KeyMismatchError(
            f"{source} has {len(values):,} scores, but the data has {data.n_rows:,} rows. "
            "Without query_id and item_id there must be one score a row, in the order of the data."
        )
    if data.regrouped:
        raise KeyMismatchError(
            f"{source} has one score a row, but the rows of some queries of the data do not follow each other, so "
            "that the order of its rows is lost. Write query_id and item_id beside the scores, or sort both by query."
        )
    return values


def _read_lines(path: Path) -> Values:
    # Whatever is not UTF-8 is no number either, and is shown as such.
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    try:
        return np.array(lines, dtype=np.float64)
    except ValueError:
        bad = next(number for number, line in enumerate(lines, start=1) if not reads_as_number(line))
        raise FileFormatError(f"{path}, line {bad}: expected one score, but found {lines[bad - 1][:60]!r}.") from None


def _first_line(path: Path) -> str | None:
    """The first line of a text file; None for a folder or a binary file."""
    if path.is_dir():
        return None
    refuse_pipe(path)
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.{did_you_mean(path)}") from error
    if not head.strip():
        raise FileFormatError(f"{path} is empty.")
    try:
        return head.split(b"\n", 1)[0].decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
