"""Which column plays which part, and ids as numbers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._options import MissingValues
from unskew._segments import IntArray
from unskew.data.ranking import check_max_grade
from unskew.data.tables import Table
from unskew.errors import SettingError, check_choice

# The part a column plays, and what the column is called in a file that unskew wrote.
ROLES = {
    "query": "query_id",
    "session": "session_id",
    "item": "item_id",
    "position": "position",
    "click": "click",
    "weight": "weight",
    "logging_score": "logging_score",
    "relevance": "relevance",
}
IDS = ("query", "session", "item")
OPTIONAL = ("session", "weight", "logging_score", "relevance")


@dataclass(frozen=True, kw_only=True)
class LogColumns:
    """What the columns of a log are called, and how to read them. None leaves an optional column out.

    features : names of the feature columns; None takes all that are left.
    position_base : the number of the top position, 1 or 0.
    counts : whether `click` may count clicks beyond 1.
    missing : "refuse" missing features, or "keep" them as NaN for rankers that can take them.
    max_grade : the collection's largest possible grade; None takes what the file says, else the largest found.
    need_clicks : whether a log without any click, or any weight, is refused.
    """

    query: str = "query_id"
    session: str | None = "session_id"
    item: str = "item_id"
    position: str = "position"
    click: str = "click"
    relevance: str | None = "relevance"
    weight: str | None = "weight"
    logging_score: str | None = "logging_score"
    features: Sequence[str] | None = None
    position_base: int = 1
    counts: bool = False
    missing: MissingValues = "refuse"
    max_grade: int | None = None
    need_clicks: bool = True

    def __post_init__(self) -> None:
        check_choice("missing", self.missing, ("refuse", "keep"))
        check_choice("position_base", self.position_base, (0, 1))
        check_max_grade(self.max_grade)
        named = [name for name in self.parts().values() if name is not None]
        repeated = next((name for name in named if named.count(name) > 1), None)
        if repeated is not None:
            raise SettingError(f"A column can play one part only, but '{repeated}' was named for two.")
        if isinstance(self.features, str):
            object.__setattr__(self, "features", (self.features,))

    def parts(self, *roles: str) -> dict[str, str | None]:
        """The column behind every part (or behind the parts named)."""
        return {role: getattr(self, role) for role in roles or ROLES}

    def present(self, table: Table, *roles: str) -> dict[str, str]:
        """The parts that the table has a column for."""
        return {role: name for role, name in self.parts(*roles).items() if name is not None and name in table.schema}

    def lacking(self, table: Table, *roles: str) -> dict[str, str]:
        """The parts whose column is missing though it is required, or though it was named explicitly."""
        defaults = {item.name: item.default for item in fields(self)}
        return {
            role: str(name)
            for role, name in self.parts(*roles).items()
            if name not in table.schema and (role not in OPTIONAL or (name is not None and name != defaults[role]))
        }


def closest(name: str, table: Table) -> str | None:
    """The column whose name resembles `name` most, if any does."""
    lowered = {column.lower(): column for column in table.schema}
    match = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return lowered[match[0]] if match else None


@dataclass(frozen=True, eq=False)
class Coded:
    """Ids as numbers that sort like the ids.

    codes : (rows,) int64, 0 … values - 1.
    values : the distinct ids, ascending.
    """

    codes: IntArray
    values: pl.Series

    def __getitem__(self, row: int) -> Any:
        return self.values[int(self.codes[row])]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: IntArray) -> Coded:
        """The same ids for some rows."""
        return Coded(self.codes[rows], self.values)


def encode(ids: pl.Series) -> Coded:
    """Number the distinct ids in ascending order.

    >>> coded = encode(pl.Series(["b", "b", "a"]))
    >>> coded.codes, coded.values.to_list()
    (array([1, 1, 0]), ['a', 'b'])
    """
    # Ids come in runs in almost every log, and a run needs coding only once.
    runs = ids.rle().struct.unnest()
    values = runs["value"].unique().sort()
    numbers = values.alias("value").to_frame().with_row_index("code")
    codes = runs.select("value").join(numbers, on="value", how="left", maintain_order="left")["code"]
    return Coded(np.repeat(codes.to_numpy().astype(np.int64), runs["len"].to_numpy()), values)


def as_ids(column: pl.Series) -> pl.Series | None:
    """Ids as integers or text, or None for a type that cannot name things."""
    kind = column.dtype
    if kind.is_integer() or kind == pl.String:
        return column
    if kind in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if kind.is_float():  # a frame turns integers into floats when one is missing
        known = column.fill_nan(None).drop_nulls()
        if bool((known.is_finite() & (known == known.floor()) & (known.abs() < 2**53)).all()):
            return column.fill_nan(None).cast(pl.Int64)
    return None


def is_number(kind: pl.DataType) -> bool:
    """Whether a column of this type can be read as numbers."""
    return kind.is_numeric() or kind == pl.Boolean


def numbers(column: pl.Series) -> npt.NDArray:
    """A number column as an array: integers stay integers, missing values become NaN."""
    if column.dtype.is_integer() and not column.null_count():
        return column.to_numpy()
    if column.dtype == pl.Boolean and not column.null_count():
        return column.cast(pl.Int8).to_numpy()
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
