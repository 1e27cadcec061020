"""CSV files as people write them: separators, compression, leading zeros, and the line on which one goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

import polars as pl

from unskew.data._pieces import OTHER_KINDS
from unskew.data.tables import Table, head_of, reading, refuse_repeated
from unskew.errors import FileFormatError

# Rows that suggest the types of the columns; where they were wrong, all rows are looked at.
INFERRED_FROM = 10_000
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstandard", b"\xfd7zXZ": "xz"}
_LEADING_ZERO = re.compile(rb"(?:^|[,;|\t\n\"])0\d")


class Style(NamedTuple):
    """What separates the fields of a CSV file, and whether it is compressed."""

    separator: str
    compressed: bool


def open_csv(path: Path, head: bytes) -> Table:
    """A CSV file as a table; head : its first bytes."""
    style = _style(path, head)
    with _reading(path, style):
        frame = _with_spelled_nan(_without_blank_end(_read_csv(path, style.separator)))
    _refuse_damage(path, head, style, frame.columns)
    padded = _padded(path, style, frame.schema)
    written: dict[str, pl.Series] = {}
    if padded:
        text = pl.read_csv(path, glob=False, separator=style.separator, columns=padded, infer_schema=False).head(
            frame.height
        )
        written = {name: text[name] for name in padded}
    return Table(dict(frame.schema), frame.height, frame.select, str(path), written=written)


def scan_csv(path: Path, ids: Iterable[str] = ()) -> pl.LazyFrame:
    """A CSV file of any size as a lazy frame, after the same checks; ids : columns whose leading zeros are kept."""
    head = head_of(path)
    if not head.strip():
        raise FileFormatError(f"{path} is empty.")
    style = _style(path, head)
    with _reading(path, style):
        lazy = pl.scan_csv(path, glob=False, separator=style.separator, infer_schema_length=INFERRED_FROM)
        schema = lazy.collect_schema()
    _refuse_damage(path, head, style, list(schema))
    wanted = set(ids)
    named = {name: kind for name, kind in schema.items() if name in wanted}
    text = dict.fromkeys(_padded(path, style, named), pl.String)
    if not text:
        return lazy
    return pl.scan_csv(
        path, glob=False, separator=style.separator, infer_schema_length=INFERRED_FROM, schema_overrides=text
    )


def _style(path: Path, head: bytes) -> Style:
    """How the file is written; an error for one that is no CSV file."""
    if re.match(rb"\s*-?[\d.]+\s+qid:", head):
        raise FileFormatError(
            f"{path} is LETOR text, which is judged data and not a table. Make a log of it with: unskew simulate"
        )
    compressed = next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), None)
    if compressed == "xz":
        raise FileFormatError(f"{path} is compressed with xz; tables may be gzip or zstandard. Unpack it first.")
    if compressed is not None:
        return Style("\t" if ".tsv" in path.suffixes else ",", compressed=True)
    _refuse_other_kinds(path, head)
    return Style(_separator(head), compressed=False)


def reading_csv(path: Path) -> AbstractContextManager[None]:
    """Turn what polars says about an unreadable CSV file into an error that names the line."""
    return _reading(path, _style(path, head_of(path)))


def _reading(path: Path, style: Style) -> AbstractContextManager[None]:
    return reading(path, "a CSV file", why=lambda: None if style.compressed else odd_line(path, style.separator))


def _refuse_damage(path: Path, head: bytes, style: Style, names: Iterable[str]) -> None:
    """Refuse columns of one name, and a file that was cut."""
    if any("_duplicated_" in name for name in names):
        refuse_repeated([name.split("_duplicated_")[0] for name in names], str(path))
    if not style.compressed:
        _refuse_cut_line(path, head, style.separator)


def _padded(path: Path, style: Style, schema: Mapping[str, pl.DataType]) -> list[str]:
    """Whole-number columns in which leading zeros were written."""
    whole = [name for name, kind in schema.items() if kind.is_integer()]
    if not whole or not (style.compressed or _any_leading_zero(path)):
        return []
    text = pl.scan_csv(path, glob=False, separator=style.separator, infer_schema=False).select(whole)
    with reading(path, "a CSV file"):
        found = text.select(pl.all().str.contains(r"^[+-]?0\d").any()).collect(engine="streaming")
    return [name for name in whole if found[name][0]]


def _any_leading_zero(path: Path) -> bool:
    """Whether any field begins like 007: most files have none, and need no second look at their columns."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return _LEADING_ZERO.search(content) is not None


def _refuse_other_kinds(path: Path, head: bytes) -> None:
    kind = next((kind for magic, kind in OTHER_KINDS.items() if head.startswith(magic)), None)
    if kind is None and head.lstrip()[:1] in (b"{", b"["):
        kind = "JSON"
    if kind is None and b"\0" in head:
        kind = "a binary file that is neither Parquet nor Arrow nor CSV"
    if kind is not None:
        raise FileFormatError(f"{path} is {kind}. Name a table: Parquet, Arrow or CSV.")
    if b"\r" in head and b"\n" not in head:
        raise FileFormatError(f"{path} ends its lines with CR alone. Save it with line ends of Unix or Windows.")


def odd_line(path: Path, separator: str) -> str | None:
    """The first line of a CSV file that explains why it cannot be read, and what to do; None where none does."""
    sign, quoted = separator.encode(), None
    expected = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return f"line {number:,} is not UTF-8 text: {_shorten(line.rstrip())}. Save the file as UTF-8."
            if line.count(b'"') % 2 and quoted is None:
                quoted = (
                    f"line {number:,} has a quotation mark that is not closed: {_shorten(line.rstrip())}. Close it."
                )
            if b'"' in line:
                continue
            found = line.count(sign) + 1
            expected = expected or found
            if found > expected:
                return (
                    f"line {number:,} has {found} fields, but the header has {expected}: {_shorten(line.rstrip())}. "
                    "Repair the line (or quote its text), or give the header the names it lacks."
                )
    return quoted


def _read_csv(path: Path, separator: str) -> pl.DataFrame:
    try:
        return pl.read_csv(path, glob=False, separator=separator, infer_schema_length=INFERRED_FROM)
    except pl.exceptions.ComputeError:
        # A type that the first rows suggested does not hold further down: look at every row.
        return pl.read_csv(path, glob=False, separator=separator, infer_schema_length=None)


def _without_blank_end(frame: pl.DataFrame) -> pl.DataFrame:
    """Empty lines at the end of a file are no rows."""
    if frame.height == 0 or any(value is not None for value in frame.row(-1)):
        return frame
    filled = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return frame.head(int(filled[-1]) + 1 if len(filled) else 0)


def _with_spelled_nan(frame: pl.DataFrame) -> pl.DataFrame:
    """Numbers whose missing values were written as 'nan', which polars takes for text."""
    for name in [name for name, kind in frame.schema.items() if kind == pl.String]:
        if not frame[name].is_in(["nan", "NAN"]).any():
            continue
        numbers = frame[name].cast(pl.Float64, strict=False)
        if numbers.null_count() == frame[name].null_count():
            frame = frame.with_columns(numbers)
    return frame


def _separator(head: bytes) -> str:
    header = head.split(b"\n", 1)[0]
    return max((",", "\t", ";", "|"), key=lambda sign: header.count(sign.encode()))


def _refuse_cut_line(path: Path, head: bytes, separator: str) -> None:
    """A last line with fewer fields than the header: the file was cut."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - (1 << 20), 0))
        tail = file.read().rstrip(b"\r\n")
    header, last = head.split(b"\n", 1)[0], tail.rsplit(b"\n", 1)[-1]
    if b'"' in header + last or b"\n" not in tail:
        return
    found, expected = last.count(separator.encode()) + 1, header.count(separator.encode()) + 1
    if found < expected:
        raise FileFormatError(
            f"{path} was cut: its last line has {found} of {expected} fields ({_shorten(last)}). Get the whole file."
        )


def _shorten(line: bytes, length: int = 60) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= length else text[:length] + "…")
