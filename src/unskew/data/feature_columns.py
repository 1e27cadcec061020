"""Feature columns to one float32 matrix, a block of columns at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._options import MissingValues
from unskew._segments import IntArray
from unskew.data.checks import SHOWN_ROWS, Check, Rows, plural
from unskew.data.column_checks import first_text
from unskew.data.columns import ROLES, LogColumns, is_number
from unskew.data.tables import Table
from unskew.errors import FeatureError

FloatMatrix = npt.NDArray[np.float32]
COLUMNS_AT_ONCE = 16  # one cache line of a float32 row
ROWS_AT_ONCE = 8192
NEVER_FEATURES = ("query", "session", "item", "position", "click", "relevance")


@dataclass(frozen=True)
class ColumnFacts:
    """What one feature column holds: its smallest and largest value, and where it is missing or infinite."""

    name: str
    low: float
    high: float
    missing: int
    infinite: int
    first_missing: int
    first_infinite: int


def feature_names(table: Table, columns: LogColumns) -> list[str]:
    """The feature columns: those named, or all that play no other part in a log.

    A column that was left out (relevance=None) is no feature either, unless it is named as one.
    """
    if columns.features is not None:
        return list(columns.features)
    taken = {*columns.present(table).values(), *ROLES.values()}
    return [name for name in table.schema if name not in taken]


def name_checks(table: Table, columns: LogColumns, names: Sequence[str]) -> Iterator[Check]:
    """The feature columns are there, distinct, and numbers."""
    lacking = [name for name in names if name not in table.schema]
    repeated = sorted({name for name in names if names.count(name) > 1})
    taken = {name: role for role, name in columns.parts(*NEVER_FEATURES).items() if name in names}
    message, hint = "", "Choose the columns with {features=['a', 'b']}."
    if lacking:
        message = f"Feature columns must be in {table.source}, but {_some(lacking)} {_are(len(lacking))} not."
    elif repeated:
        message = f"A feature must be named once, but '{repeated[0]}' was named {names.count(repeated[0])} times."
    elif taken:
        name, role = next(iter(taken.items()))
        message = f"A feature must be known when a model ranks, but '{name}' is the {role} column."
    elif not names:
        message = f"There must be feature columns, but {table.source} has none."
        hint = "Add them to the table, or name a second one with {feature_table='FILE'}."
    if message:
        yield Check("features: present", "FAIL", message, len(lacking), hint=hint, error=FeatureError)
        return
    yield Check("features: present", "PASS", _listing(table, columns, names), len(names))
    yield _all_numbers(table, [name for name in names if not is_number(table.schema[name])])


def _listing(table: Table, columns: LogColumns, names: Sequence[str]) -> str:
    used = {*names, *columns.present(table).values()}
    unused = [name for name in table.schema if name not in used]
    rest = f"; not used: {_some(unused)}" if unused else ""
    return f"{plural(len(names), 'feature')}: {_some(names)}{rest}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:SHOWN_ROWS]) + (" …" if len(names) > SHOWN_ROWS else "")


def _all_numbers(table: Table, text: list[str]) -> Check:
    if not text:
        return Check("features: numbers", "PASS")
    others = f", and {len(text) - 1} more {_are(len(text) - 1)} no numbers either" if len(text) > 1 else ""
    message = (
        f"Features must be numbers, but column '{text[0]}' is of type {table.schema[text[0]]}"
        f"{first_text(table, text[0])}{others}."
    )
    rows = tuple({"column": name, "type": str(table.schema[name])} for name in text[:SHOWN_ROWS])
    hint = "Turn it into numbers, or choose the columns with {features=['a', 'b']}."
    return Check("features: numbers", "FAIL", message, len(text), rows, hint, FeatureError)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def column_blocks(table: Table, names: Sequence[str]) -> Iterator[tuple[int, list[npt.NDArray[np.float32]]]]:
    """The feature columns as float32, a few at a time, each block with the number of its first column."""
    for start in range(0, len(names), COLUMNS_AT_ONCE):
        taken = table.take(list(names[start : start + COLUMNS_AT_ONCE]))
        yield start, [as_float32(taken.drop_in_place(name)) for name in list(taken.columns)]


def as_float32(column: pl.Series) -> npt.NDArray[np.float32]:
    """A number column as float32, missing values as NaN."""
    return column.cast(pl.Float32).fill_null(float("nan")).to_numpy()


def facts_of(name: str, values: npt.NDArray[np.float32]) -> ColumnFacts:
    """Smallest and largest value of a column, and its missing and infinite ones."""
    with np.errstate(all="ignore"):
        low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
        total = float(values.sum(dtype=np.float64))
    missing = infinite = 0
    first_missing = first_infinite = -1
    if not np.isfinite(total):  # one value that is not finite makes the sum so
        nan, inf = np.isnan(values), np.isinf(values)
        missing, infinite = int(nan.sum()), int(inf.sum())
        first_missing, first_infinite = int(np.argmax(nan)), int(np.argmax(inf))
    return ColumnFacts(name, low, high, missing, infinite, first_missing, first_infinite)


def fill(out: FloatMatrix, start: int, block: Sequence[npt.NDArray[np.float32]]) -> None:
    """Write columns into a row-major matrix, a few thousand rows at a time so that its lines stay in the cache."""
    for top in range(0, len(out), ROWS_AT_ONCE):
        for place, column in enumerate(block):
            out[top : top + ROWS_AT_ONCE, start + place] = column[top : top + ROWS_AT_ONCE]


def load_matrix(table: Table, names: Sequence[str], rows: IntArray | None) -> tuple[FloatMatrix, list[ColumnFacts]]:
    """(rows, d) features of the wanted rows in the order given (None: all), and what every column holds."""
    out = np.empty((table.height if rows is None else len(rows), len(names)), dtype=np.float32)
    facts = []
    for start, block in column_blocks(table, names):
        facts += [facts_of(names[start + place], column) for place, column in enumerate(block)]
        fill(out, start, block if rows is None else [column[rows] for column in block])
    return out, facts


def load_pairs(
    table: Table, names: Sequence[str], source_row: IntArray, first: IntArray, pair: IntArray
) -> tuple[FloatMatrix, list[ColumnFacts], str | None]:
    """Features once per query-item pair where they never differ, else once per impression.

    source_row : (n,) table row of every impression; first : (pairs,) an impression of every pair; pair : (n,).
    Returns the matrix, the facts, and the name of a feature that differs between impressions of one pair (or None).
    """
    wanted, of_source = by_table_row(source_row, first, pair)
    out = np.empty((len(first), len(names)), dtype=np.float32)
    facts: list[ColumnFacts] = []
    for start, block in column_blocks(table, names):
        picked = [column[wanted] for column in block]
        for place, (column, once) in enumerate(zip(block, picked, strict=True)):
            if len(first) < len(pair) and differs(column, once[of_source]):
                del out
                matrix, facts = load_matrix(table, names, source_row)
                return matrix, facts, names[start + place]
            facts.append(facts_of(names[start + place], column))
        fill(out, start, picked)
    return out, facts, None


def by_table_row(source_row: IntArray, first: IntArray, pair: IntArray) -> tuple[IntArray, IntArray]:
    """(pairs,) a row of the table for every pair, and (n,) the pair of every row of the table."""
    of_source = np.empty_like(pair)
    of_source[source_row] = pair
    return source_row[first], of_source


def differs(column: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> bool:
    """Whether two columns differ anywhere; two missing values are the same."""
    different = column != expected
    if not different.any():
        return False
    return bool((different & ~(np.isnan(column) & np.isnan(expected))).any())


def is_copy(values: npt.NDArray[np.float32], column: npt.NDArray[np.float32]) -> bool:
    """Whether two columns are the same, or shifted by a constant as positions from 0 and from 1 are."""
    shift = values[0] - column[0]
    if not np.isfinite(shift) or values[-1] != column[-1] + shift:
        return False
    return bool((values == column + shift).all())


def copy_words(name: str, what: str) -> str:
    """What is said of such a feature."""
    return f"Feature '{name}' is the same as {what} in every row; it is not known when a model ranks."


def value_checks(facts: Sequence[ColumnFacts], rows: Rows, missing: MissingValues) -> Iterator[Check]:
    """Features are finite, and there in every row unless missing ones are to be kept."""
    hint = "Clip such values (float32 holds up to 3.4e38), or treat them as missing (NaN)."
    bad = [(fact.name, fact.infinite, fact.first_infinite) for fact in facts if fact.infinite]
    yield _values("features: finite", "infinite", bad, rows, "finite", hint)
    hint = "Fill them in, or pass {missing='keep'} if the ranker can take missing values (trees can)."
    bad = [(fact.name, fact.missing, fact.first_missing) for fact in facts if fact.missing]
    check = _values("features: complete", "missing", bad, rows, "there in every row", hint)
    yield check if missing == "refuse" or not bad else replace(check, status="WARN", hint="Trees can take them.")


def _values(name: str, kind: str, bad: list[tuple[str, int, int]], rows: Rows, expected: str, hint: str) -> Check:
    """bad : for every feature concerned its name, how many rows, and the first of them."""
    if not bad:
        return Check(name, "PASS")
    feature, count, row = bad[0]
    others = f"; {plural(len(bad) - 1, 'more feature')} {_are(len(bad) - 1)} so too" if len(bad) > 1 else ""
    message = (
        f"Features must be {expected}, but '{feature}' is {kind} in {plural(count, 'row')} "
        f"(first: {rows.where(row)}){others}."
    )
    listed = tuple({"column": name, "rows": count, "first_row": row + 1} for name, count, row in bad[:SHOWN_ROWS])
    return Check(name, "FAIL", message, sum(count for _, count, _ in bad), listed, hint, FeatureError)


def changing_check(feature: str | None) -> Check:
    """Features that belong to the impression (an hour, a person) rather than to the item are worth a second thought."""
    if feature is None:
        return Check("features: of the item", "PASS")
    message = f"Features change between impressions of an item ('{feature}' does): every impression is a row."
    hint = "If such a column is no feature (a time, an id), name those that are with {features=['NAME', …]}."
    return Check("features: of the item", "WARN", message, hint=hint)


def constant_check(facts: Sequence[ColumnFacts]) -> Check:
    """Features that are the same everywhere tell nothing."""
    constant = [fact for fact in facts if fact.low == fact.high or np.isnan(fact.low)]
    if not constant:
        return Check("features: varied", "PASS")
    found = f"{plural(len(constant), 'feature')} of {len(facts)} {_are(len(constant))} the same in every row"
    message = f"{found}: {_some([fact.name for fact in constant])}."
    rows = tuple({"column": fact.name, "value": fact.low} for fact in constant[:SHOWN_ROWS])
    hint = "A feature that never varies can be left out."
    return Check("features: varied", "WARN", message, len(constant), rows, hint)
