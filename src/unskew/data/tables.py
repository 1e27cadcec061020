"""Tables wherever they are: a polars, pandas or Arrow frame, a CSV file, one Parquet file or a folder of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import polars as pl

from unskew.data._pieces import OTHER_KINDS, refuse_pipe
from unskew.errors import ColumnError, FileFormatError

_PARQUET, _ARROW = b"PAR1", b"ARROW1"
_LEADING_ZERO = re.compile(rb"(?:^|[,;|\t\n\"])0\d")
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstandard", b"\xfd7zXZ": "xz"}


@dataclass(frozen=True)
class Table:
    """A table to take columns from, a few at a time: a Parquet file is never held whole.

    schema : the columns and their types.
    height : rows.
    take : the named columns as a polars frame, rows always in the same order.
    source : what to call the table in a message.
    metadata : what the file says about itself (key-value pairs of a Parquet footer).
    written : columns of a CSV file as text, where reading them as numbers would make one id of '7' and '007'.
    """

    schema: dict[str, pl.DataType]
    height: int
    take: Callable[[Sequence[str]], pl.DataFrame]
    source: str = "the table"
    metadata: dict[str, str] = field(default_factory=dict)
    written: dict[str, pl.Series] = field(default_factory=dict)

    def ids(self, name: str) -> pl.Series:
        """A column that names things: leading zeros, which numbers do not have, are kept."""
        return self.written[name] if name in self.written else self.take([name])[name]


def open_table(source: Any) -> Table:
    """Open a path or a frame.

    >>> table = open_table(pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    >>> table.height, list(table.schema), table.take(["a"])["a"].to_list()
    (2, ['a', 'b'], [1, 2])
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _open_path(Path(source))
    if isinstance(source, pl.LazyFrame):
        # Collected once: a lazy query may give its rows in another order each time it runs.
        source = source.collect()
    if isinstance(source, pl.DataFrame):
        return Table(dict(source.schema), source.height, source.select)
    if type(source).__module__.split(".")[0] == "pandas":
        return _from_pandas(source)
    try:
        return open_table(pl.DataFrame(source) if isinstance(source, dict) else _from_arrow(source))
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise ColumnError(
            f"A table must be a polars, pandas or Arrow frame or the path of a file, but got "
            f"{type(source).__name__}: {error}"
        ) from error


def _from_arrow(source: Any) -> pl.DataFrame:
    names = list(getattr(source, "column_names", ()))
    _refuse_repeated(names)
    frame = pl.from_arrow(source) if names else pl.DataFrame(source)
    return frame.to_frame() if isinstance(frame, pl.Series) else frame


def _from_pandas(frame: Any) -> Table:
    names = [str(column) for column in frame.columns]
    _refuse_repeated(names)
    place = {name: number for number, name in enumerate(names)}

    def take(wanted: Sequence[str]) -> pl.DataFrame:
        return pl.DataFrame([_pandas_column(name, frame.iloc[:, place[name]]) for name in wanted])

    head = frame.iloc[:0]
    schema = {}
    for name in names:
        column = frame.iloc[:, place[name]]
        # An object column says nothing about its type until its values are looked at.
        probe = column if column.dtype == object else head.iloc[:, place[name]]
        schema[name] = _pandas_column(name, probe).dtype
    return Table(schema, len(frame), take)


def _pandas_column(name: str, column: Any) -> pl.Series:
    if getattr(column.dtype, "kind", "O") in "iufb" and type(column.dtype).__module__.startswith("numpy"):
        return pl.Series(name, column.to_numpy())
    try:
        converted: Any = pl.from_pandas(column)
        return converted.alias(name)
    except ImportError:
        values = column.astype(object).where(column.notna(), None).tolist()
        return pl.Series(name, values)
    except (ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise ColumnError(
            f"Column '{name}' mixes values of several types ({error}). Make it all numbers or all text."
        ) from error


def _refuse_repeated(names: Sequence[str], source: str = "") -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            todo = "Is the header line missing?" if _is_number(name) else "Rename one of them."
            where = f"{source}: " if source else ""
            raise ColumnError(f"{where}Column names must be distinct, but '{name}' occurs more than once. {todo}")
        seen.add(name)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parquet_files(path: Path) -> list[Path] | None:
    """The files of a folder of Parquet, or the one file; None for a file that is not Parquet."""
    if not path.is_dir():
        return [path] if head_of(path).startswith(_PARQUET) else None
    parts = sorted(part for part in path.glob("*.parquet") if not part.name.startswith((".", "_")))
    if not parts:
        raise FileFormatError(f"{path} is a folder without Parquet files. Name a file, or a folder of *.parquet.")
    return parts


def _open_path(path: Path) -> Table:
    if path.is_dir():
        return _open_parquet(parquet_files(path) or [], str(path))
    head = head_of(path)
    if not head.strip():
        raise FileFormatError(f"{path} is empty.")
    if head.startswith(_PARQUET):
        return _open_parquet([path], str(path))
    if head.startswith(_ARROW):
        with reading(path, "an Arrow file"):
            frame = pl.read_ipc(path)
        return Table(dict(frame.schema), frame.height, frame.select, str(path))
    return _open_csv(path, head)


def head_of(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes of a file."""
    refuse_pipe(path)
    try:
        with path.open("rb") as file:
            return file.read(size)
    except FileNotFoundError as error:
        raise FileFormatError(f"There is no file {path}.{did_you_mean(path)}") from error
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror or error}.") from error


def did_you_mean(path: Path) -> str:
    """A neighbour with almost this name, ready to follow a message; empty where there is none."""
    folder = path.parent
    try:
        nearby = [entry.name for entry in folder.iterdir()]
    except OSError:
        return ""
    close = get_close_matches(path.name, nearby, n=1)
    return f" Did you mean '{folder / close[0]}'?" if close else ""


def _open_parquet(parts: list[Path], source: str) -> Table:
    schemas = []
    for part in parts:
        with reading(part, "a Parquet file"):
            schemas.append(pl.scan_parquet(part, glob=False).collect_schema())
    for part, schema in zip(parts[1:], schemas[1:], strict=True):
        if schema != schemas[0]:
            raise FileFormatError(_difference(part, schema, parts[0], schemas[0]))
    with reading(parts[0], "a Parquet file"):
        scan = pl.scan_parquet(parts, glob=False, hive_partitioning=False)
        height = int(scan.select(pl.len()).collect().item())
        metadata = pl.read_parquet_metadata(parts[0])

    def take(names: Sequence[str]) -> pl.DataFrame:
        with reading(Path(source), "a Parquet file"):
            return scan.select(list(names)).collect()

    return Table(dict(schemas[0]), height, take, source, metadata)


def _difference(part: Path, schema: pl.Schema, first: Path, expected: pl.Schema) -> str:
    start = f"The files of a folder must have the same columns, but {part.name} "
    for name in expected:
        if name not in schema:
            return f"{start}lacks '{name}', which {first.name} has."
    for name in schema:
        if name not in expected:
            return f"{start}has '{name}', which {first.name} lacks."
    for name, kind in schema.items():
        if expected[name] != kind:
            return f"{start}has '{name}' as {kind}, {first.name} as {expected[name]}."
    return f"{start}has them in another order than {first.name}."


def _open_csv(path: Path, head: bytes) -> Table:
    if re.match(rb"\s*-?[\d.]+\s+qid:", head):
        raise FileFormatError(
            f"{path} is LETOR text, which is judged data and not a table. Make a log of it with: unskew simulate"
        )
    compressed = next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), None)
    if compressed is None:
        _refuse_other_kinds(path, head)
    if compressed == "xz":
        raise FileFormatError(f"{path} is compressed with xz; tables may be gzip or zstandard. Unpack it first.")
    separator = ("\t" if ".tsv" in path.suffixes else ",") if compressed else _separator(head)
    with reading(path, "a CSV file", why=lambda: None if compressed else odd_line(path, separator)):
        frame = _with_spelled_nan(_without_blank_end(_read_csv(path, separator)))
    repeated = [name for name in frame.columns if "_duplicated_" in name]
    if repeated:
        _refuse_repeated([name.split("_duplicated_")[0] for name in frame.columns], str(path))
    if compressed is None:
        _refuse_cut_line(path, head, separator)
    written = _with_leading_zeros(path, separator, frame) if compressed or _any_leading_zero(path) else {}
    return Table(dict(frame.schema), frame.height, frame.select, str(path), written=written)


def _with_leading_zeros(path: Path, separator: str, frame: pl.DataFrame) -> dict[str, pl.Series]:
    """Whole-number columns in which leading zeros were written, as text."""
    whole = [name for name, kind in frame.schema.items() if kind.is_integer()]
    if not whole:
        return {}
    with reading(path, "a CSV file"):
        text = pl.read_csv(path, separator=separator, columns=whole, infer_schema=False).head(frame.height)
    padded = text.select(pl.all().str.contains(r"^[+-]?0\d").any()).row(0, named=True)
    return {name: text[name] for name, found in padded.items() if found}


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
        return pl.read_csv(path, separator=separator, infer_schema_length=10_000)
    except pl.exceptions.ComputeError:
        # A type that the first rows suggested does not hold further down: look at every row.
        return pl.read_csv(path, separator=separator, infer_schema_length=None)


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


@contextmanager
def reading(path: Path, kind: str, why: Callable[[], str | None] = lambda: None) -> Iterator[None]:
    """Turn what polars says about an unreadable file into an error that names it.

    why : looks for the reason, where more can be said than polars does.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError) as error:
        found = why()
        if found is not None:
            raise FileFormatError(f"{path} cannot be read as {kind}: {found}") from error
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise FileFormatError(
            f"{path} cannot be read as {kind}: it is cut short, damaged or something else ({reason}). "
            "Get the whole file again, or name another one."
        ) from error
