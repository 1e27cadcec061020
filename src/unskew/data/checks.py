"""Checks at the door: what a table must be before it may become a click log or judged data.

Every check has a name and says PASS, WARN or FAIL with a count and the first offending rows. Reading a table and
`unskew validate` run the same functions: the reader raises the first FAIL as its typed error, the command lists all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew.data.columns import IDS, LogColumns, as_ids, closest, is_number, numbers
from unskew.data.ranking import MAX_GRADE_LIMIT
from unskew.data.tables import Table
from unskew.errors import ColumnError, DataError, GradeError, LogError

Status = Literal["PASS", "WARN", "FAIL"]
BoolArray = npt.NDArray[np.bool_]
SHOWN_ROWS = 5
# Longer than any list a person was ever shown; a wrong column must not allocate the machine.
MAX_POSITION = 1_000_000


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
        return flag if value == "True" else f"{flag} {value.strip(chr(39)).replace('None', 'none')}"

    return re.sub(r"\{(\w+)=([^}]*)\}", option, hint)


def column_checks(table: Table, columns: LogColumns, *roles: str) -> Iterator[Check]:
    """The table has rows, the columns are there, ids can name things, the rest is numbers."""
    if table.height == 0:
        yield Check("rows", "FAIL", f"A table needs rows, but {table.source} has none.", error=DataError)
        return
    yield Check("rows", "PASS", f"{table.height:,} rows", table.height)
    lacking = columns.lacking(table, *roles)
    if lacking:
        yield _lacking(table, lacking)
        return
    yield Check("columns", "PASS", ", ".join(columns.present(table, *roles).values()))
    for role, name in columns.present(table, *roles).items():
        if role not in IDS and not is_number(table.schema[name]):
            yield _not_a_number(table, name)


def _lacking(table: Table, lacking: dict[str, str]) -> Check:
    role, name = next(iter(lacking.items()))
    others = "".join(f", nor {other}" for other in (f"'{name}'" for name in list(lacking.values())[1:]))
    found = ", ".join(f"'{column}'" for column in list(table.schema)[:12]) + (" …" if len(table.schema) > 12 else "")
    candidate = closest(name, table)
    hint = f"Name the column that plays this part, for example {{{role}='{candidate or 'its name'}'}}."
    return Check(
        "columns",
        "FAIL",
        f"There is no column '{name}'{others} in {table.source}. Its columns are {found}.",
        len(lacking),
        hint=hint,
        error=ColumnError,
    )


def _not_a_number(table: Table, name: str) -> Check:
    column = table.take([name])[name]
    example = ""
    if column.dtype == pl.String:
        text = (column.cast(pl.Float64, strict=False).is_null() & column.is_not_null()).arg_true()
        row = int(text[0]) if len(text) else 0
        example = f" (first: {column[row]!r} in row {row + 1})"
    return Check(
        f"{name}: numbers",
        "FAIL",
        f"Column '{name}' must hold numbers, but it is of type {column.dtype}{example}.",
        error=ColumnError,
    )


class Rows:
    """Names rows in messages: "query 'q17', item 'd4'". The ids are fetched only if a message needs them."""

    def __init__(self, ids: Callable[[], pl.DataFrame]) -> None:
        self._ids = ids

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

    def first(self, wrong: BoolArray) -> tuple[dict[str, Any], ...]:
        """The first offending rows, with their 1-based numbers."""
        few = np.flatnonzero(wrong)[:SHOWN_ROWS]
        return tuple({"row": int(row) + 1, **self.frame.row(int(row), named=True)} for row in few)

    def check(
        self,
        name: str,
        wrong: BoolArray,
        found: str,
        *,
        hint: str = "",
        error: type[DataError] = LogError,
        status: Status = "FAIL",
    ) -> Check:
        """A check over rows; `found` has places for {rows} and {have} and is completed by the first offending row."""
        count = int(np.count_nonzero(wrong))
        if count == 0:
            return Check(name, "PASS")
        message = found.format(rows=plural(count, "row"), have="has" if count == 1 else "have")
        where = self.where(int(np.argmax(wrong)))
        return Check(name, status, f"{message} (first: {where}).", count, self.first(wrong), hint, error)


_NAMED = {"query_id": "query", "session_id": "session", "item_id": "item"}


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


def id_checks(raw: pl.DataFrame) -> Iterator[Check]:
    """Ids are integers or text, and none is missing."""
    rows = Rows(lambda: raw)
    for name in (name for name in ("query_id", "session_id", "item_id") if name in raw.columns):
        column = as_ids(raw[name])
        if column is None:
            kind = raw[name].dtype
            found = "fractions" if kind.is_float() else str(kind)
            yield Check(name, "FAIL", f"{name} must be integers or text, but it holds {found}.", error=ColumnError)
            continue
        missing = column.is_null().to_numpy()
        yield rows.check(
            name, missing, f"{name} must not be missing, but {{rows}} {{have}} none", error=DataError
        )  # fmt: skip


def position_checks(raw: pl.DataFrame, columns: LogColumns) -> Iterator[Check]:
    """Positions are whole numbers from the base up."""
    values, rows, base = numbers(raw["position"]), Rows(lambda: raw), columns.position_base
    if values.dtype.kind == "f":
        missing = np.isnan(values)
        yield rows.check("position: present", missing, "position must not be missing, but {rows} {have} none")
        fractional = ~missing & (values != np.floor(values)) | np.isinf(values)
        shown = _value(values, fractional)
        yield rows.check(
            "position: whole", fractional, f"position must be a whole number, but {{rows}} {{have}} a fraction{shown}"
        )
    low = values < base
    if low.any():
        found = _range(values[low])
        hint = "If your positions start at 0, pass {position_base=0}." if base == 1 and values.min() == 0 else ""
        yield rows.check(
            f"position: {base} or greater", low, f"position must be {base} or greater, but {{rows}} {{have}} {found}",
            hint=hint,
        )  # fmt: skip
    else:
        yield Check(f"position: {base} or greater", "PASS")
    high = values > MAX_POSITION
    yield rows.check(
        "position: plausible", high, f"position must be at most {MAX_POSITION:,}, but {{rows}} {{have}} more",
        hint="Is this the position column? Name it with {position='its name'}.",
    )  # fmt: skip


def _value(values: npt.NDArray, wrong: BoolArray) -> str:
    return f" such as {values[np.argmax(wrong)]:g}" if wrong.any() else ""


def _range(values: npt.NDArray) -> str:
    low, high = values.min(), values.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def click_checks(raw: pl.DataFrame, columns: LogColumns) -> Iterator[Check]:
    """Clicks are 0 or 1, or whole counts where that was said."""
    values, rows = numbers(raw["click"]), Rows(lambda: raw)
    if values.dtype.kind == "f":
        missing = np.isnan(values)
        yield rows.check("click: present", missing, "click must not be missing, but {rows} {have} none")
        values = np.where(missing, 0, values)
    if columns.counts:
        wrong = (values < 0) | (values != np.floor(values)) | (values > np.iinfo(np.int32).max)
        expected, hint = "a whole number from 0 up", ""
    else:
        wrong = (values != 0) & (values != 1)
        expected = "0 or 1"
        hint = "If the column counts clicks, pass {counts=True}." if _are_counts(values[wrong]) else ""
    shown = _value(values, wrong).replace(" such as", "")
    name = "click: whole counts" if columns.counts else "click: 0 or 1"
    yield rows.check(name, wrong, f"click must be {expected}, but {{rows}} {{have}} other values,{shown}", hint=hint)
    if columns.need_clicks and not (values > 0).any():
        yield Check(
            "click: some", "FAIL", "This log has no click at all, so there is nothing to learn from.", len(values),
            hint="Is the click column the right one ({click='its name'}), and does 1 mean clicked?",
        )  # fmt: skip
    else:
        clicks = int(values.sum()) if not wrong.any() else 0
        yield Check("click: some", "PASS", f"{plural(clicks, 'click')}, {clicks / len(values):.2%} of impressions")


def _are_counts(values: npt.NDArray) -> bool:
    return values.size > 0 and bool(((values > 0) & (values == np.floor(values))).all())


def number_checks(raw: pl.DataFrame) -> Iterator[Check]:
    """Weights are finite and not negative; logging scores are finite."""
    rows = Rows(lambda: raw)
    for name, lowest in (("weight", 0.0), ("logging_score", -np.inf)):
        if name not in raw.columns:
            continue
        values = numbers(raw[name])
        wrong = ~np.isfinite(values) | (values < lowest)
        expected = "finite and not negative" if lowest == 0 else "finite"
        hint = f"Leave the column out with {{{name}=None}}, or repair it."
        yield rows.check(name, wrong, f"{name} must be {expected}, but {{rows}} {{have}} other values", hint=hint)


def grade_checks(raw: pl.DataFrame, max_grade: int | None) -> Iterator[Check]:
    """Grades are whole numbers from 0 to the maximum."""
    if "relevance" not in raw.columns:
        return
    values, rows = numbers(raw["relevance"]), Rows(lambda: raw)
    if values.dtype.kind == "f":
        missing = np.isnan(values)
        hint = "Grade every item, or leave the column out with {relevance=None}."
        yield rows.check("relevance: present", missing, "relevance must not be missing, but {rows} {have} none",
                           hint=hint, error=GradeError)  # fmt: skip
        fractional = ~missing & (values != np.floor(values))
        shown = _value(values, fractional)
        yield rows.check(
            "relevance: whole", fractional,
            f"relevance must be a whole number, but {{rows}} {{have}} a fraction{shown}", error=GradeError,
        )  # fmt: skip
    limit = MAX_GRADE_LIMIT if max_grade is None else max_grade
    beyond = (values < 0) | (values > limit)
    hint = "Is this column a grade?" if max_grade is None else "Pass the collection's largest grade as {max_grade=N}."
    yield rows.check(
        "relevance: range", beyond, f"relevance must lie between 0 and {limit}, but {{rows}} {{have}} other grades,"
        f"{_value(values, beyond).replace(' such as', '')}", hint=hint, error=GradeError,
    )  # fmt: skip
