"""Tables wherever they are: a polars, pandas or Arrow frame, a CSV file, one Parquet file or a folder of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import polars as pl

from unskew.data._pieces import refuse_pipe
from unskew.errors import ColumnError, FileFormatError, UnskewError

_PARQUET, _ARROW = b"PAR1", b"ARROW1"


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
    refuse_repeated(names)
    frame = pl.from_arrow(source) if names else pl.DataFrame(source)
    return frame.to_frame() if isinstance(frame, pl.Series) else frame


def _from_pandas(frame: Any) -> Table:
    names = [str(column) for column in frame.columns]
    refuse_repeated(names)
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


def refuse_repeated(names: Sequence[str], source: str = "") -> None:
    """Refuse columns of one name: which of them is meant cannot be known."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            todo = "Is the header line missing?" if reads_as_number(name) else "Rename one of them."
            where = f"{source}: " if source else ""
            raise ColumnError(f"{where}Column names must be distinct, but '{name}' occurs more than once. {todo}")
        seen.add(name)


def reads_as_number(text: str) -> bool:
    """Whether a text reads as a number.

    >>> reads_as_number("1e-3"), reads_as_number("bm25")
    (True, False)
    """
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
    from unskew.data.csv_files import open_csv

    return open_csv(path, head)


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
        with reading_parts(parts, Path(source)):
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


@contextmanager
def reading_parts(files: Sequence[Path], source: Path) -> Iterator[None]:
    """As `reading`, for Parquet files read as one: names the one that is damaged, which costs a look at each."""
    try:
        with reading(source, "a Parquet file"):
            yield
    except FileFormatError as error:
        if len(files) > 1 and error.__cause__ is not None:
            for file in files:
                with reading(file, "a Parquet file"):
                    for _ in pl.scan_parquet(file, glob=False).collect_batches(chunk_size=1 << 16):
                        pass
        raise


@contextmanager
def reading(path: Path, kind: str, why: Callable[[], str | None] = lambda: None) -> Iterator[None]:
    """Turn what polars says about an unreadable file into an error that names it.

    why : looks for the reason, where more can be said than polars does.
    """
    try:
        yield
    except UnskewError:
        raise
    except pl.exceptions.DuplicateError as error:
        raise ColumnError(f"{path}: Column names must be distinct, but {error}. Rename one of them.") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError) as error:
        found = why()
        if found is not None:
            raise FileFormatError(f"{path} cannot be read as {kind}: {found}") from error
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise FileFormatError(
            f"{path} cannot be read as {kind}: it is cut short, damaged or something else ({reason}). "
            "Get the whole file again, or name another one."
        ) from error
