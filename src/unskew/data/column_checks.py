"""Checks of single columns: they are there, of the right type, and their values can be what they should be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._words import percent
from unskew.data.checks import BoolArray, Check, Rows, plural
from unskew.data.columns import IDS, LogColumns, as_ids, closest, is_number, numbers
from unskew.data.ranking import MAX_GRADE_LIMIT
from unskew.data.tables import Table
from unskew.errors import ColumnError, DataError, GradeError

# Longer than any list a person was ever shown; a wrong column must not allocate the machine.
MAX_POSITION = 1_000_000


def column_checks(table: Table, columns: LogColumns, *roles: str) -> Iterator[Check]:
    """The table has rows, the columns are there, and those that must be numbers are."""
    if table.height == 0:
        yield Check("rows", "FAIL", f"A table needs rows, but {table.source} has none.", error=DataError)
        return
    yield Check("rows", "PASS", plural(table.height, "row"), table.height)
    lacking = columns.lacking(table, *roles)
    if lacking:
        yield _lacking(table, lacking)
        return
    present = columns.present(table, *roles)
    yield Check("columns", "PASS", ", ".join(present.values()), len(present))
    for role, name in present.items():
        if role not in IDS and not is_number(table.schema[name]):
            yield _not_a_number(table, role, name)


def _lacking(table: Table, lacking: dict[str, str]) -> Check:
    role, name = next(iter(lacking.items()))
    others = "".join(f", nor '{other}'" for other in list(lacking.values())[1:])
    found = ", ".join(f"'{column}'" for column in list(table.schema)[:12]) + (" …" if len(table.schema) > 12 else "")
    candidate = closest(name, table)
    example = f", for example {{{role}='{candidate}'}}" if candidate else f" with {{{role}='NAME'}}"
    return Check(
        "columns",
        "FAIL",
        f"There is no column '{name}'{others} in {table.source}. Its columns are {found}.",
        len(lacking),
        hint=_header_hint(table) or f"Name the column that plays this part{example}.",
        error=ColumnError,
    )


def _header_hint(table: Table) -> str:
    """What to look at where no name can be right: the header, or what separates its fields."""
    names = list(table.schema)
    if len(names) == 1:
        return (
            "Fields of a CSV file must be separated by commas, tabs, semicolons or '|'; its header came as one field."
        )
    if any(name.replace(".", "", 1).removeprefix("-").isdigit() for name in names):
        return "Its first line looks like data: is the header missing?"
    return ""


def _not_a_number(table: Table, role: str, name: str) -> Check:
    kind = table.schema[name]
    message = f"Column '{name}' must hold numbers, but it is of type {kind}{first_text(table, name)}."
    hint = f"Repair it, or name another column with {{{role}='NAME'}}."
    return Check(f"{role}: numbers", "FAIL", message, 1, hint=hint, error=ColumnError)


def first_text(table: Table, name: str) -> str:
    """Where a column that should hold numbers has its first text, ready for a message."""
    if table.schema[name] != pl.String:
        return ""
    column = table.take([name])[name]
    text = (column.cast(pl.Float64, strict=False).is_null() & column.is_not_null()).arg_true()
    if len(text) == 0:
        return ", numbers written as text"
    row = int(text[0])
    return f" (first: {column[row]!r} in row {row + 1})"


def id_checks(raw: pl.DataFrame) -> Iterator[Check]:
    """Ids are integers or text, and none is missing."""
    rows = Rows(lambda: raw)
    for name in (name for name in ("query_id", "session_id", "item_id") if name in raw.columns):
        ids = as_ids(raw[name])
        if ids is None:
            message = f"{name} must be integers or text, but the column holds {not_ids(raw[name])}."
            hint = "Turn it into integers or text."
            yield Check(name, "FAIL", message, raw.height, hint=hint, error=ColumnError)
        else:
            missing = ids.is_null().to_numpy()
            yield rows.check(name, missing, f"{name} must not be missing, but {{rows}} {{have}} none", error=DataError)


def not_ids(column: pl.Series) -> str:
    """What a column that cannot name things holds, ready for a message."""
    if not column.dtype.is_float():
        return str(column.dtype)
    known = column.drop_nulls().drop_nans()
    whole = bool((known == known.floor()).all())
    return "floats too large to be exact" if whole and known.is_finite().all() else "fractions"


def position_checks(raw: pl.DataFrame, columns: LogColumns) -> Iterator[Check]:
    """Positions are whole numbers from the base up."""
    values, rows, base = numbers(raw["position"]), Rows(lambda: raw), columns.position_base
    missing = np.isnan(values)
    yield rows.check("position: present", missing, "position must not be missing, but {rows} {have} none")
    fractional = ~missing & ~is_whole(values)
    found = "position must be a whole number, but {rows} {have} another value"
    yield rows.check("position: whole", fractional, found, values=values)
    low = values < base
    found = f"position must be {base} or greater, but {{rows}} {{have}} {_range(values[low])}"
    hint = "If your positions start at 0, pass {position_base=0}." if base == 1 and (values[low] == 0).all() else ""
    yield rows.check(f"position: {base} or greater", low, found, hint=hint)
    found = f"position must be at most {MAX_POSITION:,}, but {{rows}} {{have}} more"
    hint = "Is this the position column? Name it with {position='NAME'}."
    yield rows.check("position: plausible", values > MAX_POSITION, found, values=values, hint=hint)


def is_whole(values: npt.NDArray) -> BoolArray:
    """Which values are whole numbers; infinite and missing ones are not."""
    if values.dtype.kind != "f":
        return np.ones(len(values), dtype=bool)
    return np.isfinite(values) & (values == np.floor(values))


def _range(values: npt.NDArray) -> str:
    if values.size == 0:
        return ""
    low, high = values.min(), values.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def click_checks(raw: pl.DataFrame, columns: LogColumns) -> Iterator[Check]:
    """Clicks are 0 or 1, or whole counts where that was said, and there are some."""
    values, rows = numbers(raw["click"]), Rows(lambda: raw)
    missing = np.isnan(values)
    yield rows.check("click: present", missing, "click must not be missing, but {rows} {have} none")
    if columns.counts:
        wrong = ~missing & ((values < 0) | ~is_whole(values) | (values > np.iinfo(np.int32).max))
        name, expected, hint = "click: whole counts", "a whole number from 0 up", ""
    else:
        wrong = ~missing & (values != 0) & (values != 1)
        name, expected = "click: 0 or 1", "0 or 1"
        are_counts = (values[wrong] > 0).all() and is_whole(values[wrong]).all()
        hint = "If the column counts clicks, pass {counts=True}." if are_counts else ""
    found = f"click must be {expected}, but {{rows}} {{have}} another value"
    yield rows.check(name, wrong, found, values=values, hint=hint)
    yield _some_clicks(values, columns)


def _some_clicks(values: npt.NDArray, columns: LogColumns) -> Check:
    clicked = int(np.count_nonzero(values > 0))
    if clicked == 0 and columns.need_clicks:
        message = "This log has no click at all, so there is nothing to learn from."
        hint = "Is the click column the right one ({click='NAME'}), and does 1 mean clicked?"
        return Check("click: some", "FAIL", message, len(values), hint=hint)
    if clicked == len(values) and values.min() == values.max():
        message = "Every impression was clicked, so nothing tells what people prefer."
        hint = "Does the log leave out what was shown and not clicked, or is the click column the wrong one?"
        return Check("click: some", "WARN", message, clicked, hint=hint)
    share = clicked / len(values)
    return Check("click: some", "PASS", f"{plural(clicked, 'impression')} clicked, {percent(share, 2)}", clicked)


COUNTS_TIMES_WEIGHTS = "Clicks are counts and rows have weights: seven clicks of weight 100 are taken for 700 clicks."


def number_checks(raw: pl.DataFrame, columns: LogColumns) -> Iterator[Check]:
    """Weights are finite and not negative; logging scores are finite."""
    rows = Rows(lambda: raw)
    for name, lowest, expected in (("weight", 0.0, "finite and not negative"), ("logging_score", -np.inf, "finite")):
        if name in raw.columns:
            values = numbers(raw[name])
            wrong = ~(np.abs(values) <= np.finfo(np.float32).max) | (values < lowest)
            found = f"{name} must be {expected}, but {{rows}} {{have}} another value"
            hint = f"Repair the column, or leave it out with {{{name}=None}}."
            yield rows.check(name, wrong, found, values=values, hint=hint)
            if name == "weight":
                yield from _weight_checks(values, numbers(raw["click"]), columns, rows)


def _weight_checks(weight: npt.NDArray, click: npt.NDArray, columns: LogColumns, rows: Rows) -> Iterator[Check]:
    """Something has a weight above 0, what has none is said, and the column is what it is taken for."""
    yield from _without_weight(weight, click, columns, rows)
    if np.ptp(weight) == 0:
        return
    if columns.counts and (click > 1).any():
        hint = "If the weights are numbers of impressions, leave the column out with {weight=None}."
        yield Check("weight: counts", "WARN", COUNTS_TIMES_WEIGHTS, len(weight), hint=hint)
    if columns.weight == "weight":
        message = f"The column 'weight' ({_range(weight)}) is taken for how much an impression counts."
        hint = "If it is a property of the item, leave it out with {weight=None}, or rename it to learn from it."
        yield Check("weight: meant", "WARN", message, len(weight), hint=hint)


def _without_weight(weight: npt.NDArray, click: npt.NDArray, columns: LogColumns, rows: Rows) -> Iterator[Check]:
    """Impressions that count for nothing; where no click counts there is nothing to learn from, as `fit` would say."""
    none = weight == 0
    count, clicked = int(np.count_nonzero(none)), int(np.count_nonzero(click[none] > 0))
    if columns.need_clicks and (count == len(weight) or 0 < clicked == np.count_nonzero(click > 0)):
        what = "impression" if count == len(weight) else "click"
        message = f"No {what} has a weight above 0, so there is nothing to learn from."
        hint = "Repair the column, or leave it out with {weight=None}."
        yield Check("weight: some", "FAIL", message, count, hint=hint)
    elif count:
        message = (
            f"{plural(count, 'impression')} of {len(weight):,} {'has' if count == 1 else 'have'} weight 0 and "
            f"{'counts' if count == 1 else 'count'} for nothing, {clicked:,} of them clicked (first: "
            f"{rows.where(int(np.argmax(none)))})."
        )
        hint = "Is that meant? If the column is something else, leave it out with {weight=None}."
        yield Check("weight: above 0", "WARN", message, count, rows.first(none, "weight"), hint)


def grade_checks(raw: pl.DataFrame, max_grade: int | None) -> Iterator[Check]:
    """Grades are whole numbers from 0 to the maximum."""
    if "relevance" not in raw.columns:
        return
    values, rows = numbers(raw["relevance"]), Rows(lambda: raw)
    missing = np.isnan(values)
    found = "relevance must not be missing, but {rows} {have} none"
    hint = "Grade every item, or leave the column out with {relevance=None}."
    yield rows.check("relevance: present", missing, found, hint=hint, error=GradeError)
    fractional = ~missing & ~is_whole(values)
    found = "relevance must be a whole number, but {rows} {have} another value"
    yield rows.check("relevance: whole", fractional, found, values=values, error=GradeError)
    limit = MAX_GRADE_LIMIT if max_grade is None else max_grade
    beyond = (values < 0) | (values > limit)
    found = f"relevance must lie between 0 and {limit}, but {{rows}} {{have}} another value"
    hint = "Is this column a grade?" if max_grade is None else "Pass the collection's largest grade as {max_grade=N}."
    yield rows.check("relevance: range", beyond, found, values=values, hint=hint, error=GradeError)
