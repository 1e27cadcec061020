"""Checks at the door: what a table must be before it may become a click log or judged data.

Every check has a name and says PASS, WARN or FAIL with a count and the first offending rows. Reading a table and
`unskew validate` run the same functions: the reader raises the first FAIL as its typed error, the command lists all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._segments import IntArray
from unskew.errors import DataError, LogError

Status = Literal["PASS", "WARN", "FAIL"]
BoolArray = npt.NDArray[np.bool_]
SHOWN_ROWS = 5


@dataclass(frozen=True)
class Check:
    """The outcome of one named check.

    message : what was found; hint : what to do, with options written as {name=value}.
    count : how many rows (queries, sessions, columns) are concerned; rows : the first of them.
    error : what a reader raises when the check fails.
    """

    name: str
    status: Status
    message: str = ""
    count: int = 0
    rows: tuple[dict[str, Any], ...] = ()
    hint: str = ""
    error: type[DataError] = field(default=LogError, repr=False)

    def to_dict(self, *, cli: bool = False) -> dict[str, Any]:
        """The outcome as JSON has it."""
        return {
            "name": self.name,
            "status": self.status,
            "count": self.count,
            "message": self.message,
            "hint": spell(self.hint, cli=cli),
            "rows": list(self.rows),
        }

    def text(self, *, cli: bool = False) -> str:
        """Message and hint, with options as Python or the command line spells them."""
        return "\n".join(part for part in (self.message, spell(self.hint, cli=cli)) if part)

    def exception(self) -> DataError:
        """The error that a reader raises; `for_cli` carries the text with the command's options."""
        error = self.error(self.text())
        error.for_cli = self.text(cli=True)  # type: ignore[attr-defined]
        return error


# The command line calls the second table --features, as its users think of it.
_CLI_NAMES = {"feature_table": "features", "features": "feature_columns"}
Judge = Callable[[Iterable[Check]], bool]


def enforce(checks: Iterable[Check]) -> bool:
    """The reader's judge: raise the first FAIL, go on otherwise."""
    for check in checks:
        if check.status == "FAIL":
            raise check.exception()
    return True


def spell(hint: str, *, cli: bool) -> str:
    """Options in a hint as Python or the command line writes them.

    >>> spell("Pass {position_base=0} or {counts=True}.", cli=True)
    'Pass --position-base 0 or --counts.'
    >>> spell("Pass {click='clicked'}.", cli=False)
    "Pass click='clicked'."
    """

    def option(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        if not cli:
            return f"{name}={value}"
        flag = "--" + _CLI_NAMES.get(name, name).replace("_", "-")
        if value == "True":
            return flag
        if value.startswith("["):
            value = re.sub(r"[\[\]' ]", "", value)
        elif " " not in value:
            value = value.strip("'").replace("None", "none")
        return f"{flag} {value}"

    return re.sub(r"\{(\w+)=([^}]*)\}", option, hint)


class Rows:
    """Names rows in messages: "query 'q17', item 'd4'". The ids are fetched only if a message needs them."""

    def __init__(self, ids: Callable[[], pl.DataFrame], source_row: IntArray | None = None) -> None:
        self._ids, self._source_row = ids, source_row

    @cached_property
    def frame(self) -> pl.DataFrame:
        return self._ids()

    def where(self, row: int) -> str:
        """The query and the item of a row (or the session, where there are no items)."""
        named = {"query_id": "query", "item_id": "item"} if "item_id" in self.frame.columns else _NAMED
        parts = [
            f"{word} {_quoted(self.frame[name][row])}" for name, word in named.items() if name in self.frame.columns
        ]
        return ", ".join(parts) or f"row {row + 1}"

    def first(self, wrong: BoolArray, column: str = "") -> tuple[dict[str, Any], ...]:
        """The first offending rows: their 1-based numbers in the table, their ids, their value in the column."""
        shown = self.frame.select(name for name in dict.fromkeys((*_NAMED, column)) if name in self.frame.columns)
        few = np.flatnonzero(wrong)[:SHOWN_ROWS]
        numbers = few if self._source_row is None else self._source_row[few]
        return tuple(
            {"row": int(number) + 1, **shown.row(int(row), named=True)}
            for row, number in zip(few, numbers, strict=True)
        )

    def check(
        self,
        name: str,
        wrong: BoolArray,
        found: str,
        *,
        values: npt.NDArray | None = None,
        hint: str = "",
        error: type[DataError] = LogError,
    ) -> Check:
        """FAIL where rows are wrong: `found` has places for {rows} and {have}; the first wrong row (value) follows."""
        count = int(np.count_nonzero(wrong))
        if count == 0:
            return Check(name, "PASS")
        row = int(np.argmax(wrong))
        message = found.format(rows=plural(count, "row"), have="has" if count == 1 else "have")
        value = "" if values is None else f"{_number(values[row])} for "
        rows = self.first(wrong, name.split(":")[0])
        return Check(name, "FAIL", f"{message} (first: {value}{self.where(row)}).", count, rows, hint, error)


_NAMED = {"query_id": "query", "session_id": "session", "item_id": "item"}


def _number(value: float) -> str:
    """Short, but exact where a rounded number would read as another."""
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e15 and value == int(value) else f"{value:g}"


def _quoted(value: Any) -> str:
    return "missing" if value is None else f"'{value}'"


def plural(count: int, noun: str) -> str:
    """'1 row', '3 rows', '2 queries'.

    >>> plural(1, "row"), plural(2000, "query")
    ('1 row', '2,000 queries')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1] + 'ies' if noun.endswith('y') else noun + 's'}"
