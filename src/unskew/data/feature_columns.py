"""Feature columns to one float32 matrix, a block of columns at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._segments import IntArray
from unskew.data.checks import Check, Rows
from unskew.data.columns import LogColumns, is_number
from unskew.data.tables import Table
from unskew.errors import ColumnError, FeatureError

FloatMatrix = npt.NDArray[np.float32]
COLUMNS_AT_ONCE = 16  # one cache line of a float32 row
ROWS_AT_ONCE = 8192


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
    """The feature columns: those named, or all that play no other part in a log."""
    if columns.features is not None:
        return list(columns.features)
    taken = set(columns.present(table).values())
    return [name for name in table.schema if name not in taken]


def name_checks(table: Table, names: Sequence[str]) -> Iterator[Check]:
    """The feature columns are there, distinct, and numbers."""
    lacking = [name for name in names if name not in table.schema]
    if lacking:
        listed = ", ".join(f"'{name}'" for name in lacking[:5]) + (" …" if len(lacking) > 5 else "")
        yield Check(
            "features: present", "FAIL", f"Feature columns must be in {table.source}, but {listed} "
            f"{'is' if len(lacking) == 1 else 'are'} not.", len(lacking), error=ColumnError,
        )  # fmt: skip
        return
    if not names:
        yield Check(
            "features: present", "FAIL", f"There must be feature columns, but {table.source} has none.",
            hint="Add them to the table, or name a second one with {feature_table='FILE'}.", error=FeatureError,
        )  # fmt: skip
        return
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        yield Check("features: present", "FAIL", f"Feature '{repeated[0]}' is named twice.", error=FeatureError)
        return
    yield Check("features: present", "PASS", f"{len(names)} features", len(names))
    text = [name for name in names if not is_number(table.schema[name])]
    if text:
        others = f", and so are {len(text) - 1} more" if len(text) > 1 else ""
        hint = "Turn it into numbers, or choose the columns with {features=a,b,c}."
        yield Check(
            "features: numbers", "FAIL", f"Features must be numbers, but column '{text[0]}' is of type "
            f"{table.schema[text[0]]}{_example(table, text[0])}{others}.", len(text),
            tuple({"column": name, "type": str(table.schema[name])} for name in text[:5]),
            hint=hint, error=FeatureError,
        )  # fmt: skip
    else:
        yield Check("features: numbers", "PASS")


def _example(table: Table, name: str) -> str:
    if table.schema[name] != pl.String:
        return ""
    column = table.take([name])[name]
    text = (column.cast(pl.Float64, strict=False).is_null() & column.is_not_null()).arg_true()
    return f" (first: {column[int(text[0])]!r} in row {int(text[0]) + 1})" if len(text) else ""


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
    wanted = source_row[first]
    of_source = np.empty_like(pair)
    of_source[source_row] = pair
    out = np.empty((len(first), len(names)), dtype=np.float32)
    facts: list[ColumnFacts] = []
    for start, block in column_blocks(table, names):
        picked = [column[wanted] for column in block]
        for place, (column, once) in enumerate(zip(block, picked, strict=True)):
            if len(first) < len(pair) and _differs(column, once[of_source]):
                del out
                matrix, facts = load_matrix(table, names, source_row)
                return matrix, facts, names[start + place]
            facts.append(facts_of(names[start + place], column))
        fill(out, start, picked)
    return out, facts, None


def _differs(column: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> bool:
    different = column != expected
    if not different.any():
        return False
    return bool((different & ~(np.isnan(column) & np.isnan(expected))).any())


def value_checks(facts: Sequence[ColumnFacts], rows: Rows, missing: str) -> Iterator[Check]:
    """Features are finite; missing ones only where that was said."""
    infinite = [fact for fact in facts if fact.infinite]
    if infinite:
        yield _value_check("infinite", infinite, rows, "FAIL")
    else:
        yield Check("features: finite", "PASS")
    gaps = [fact for fact in facts if fact.missing]
    if gaps:
        yield _value_check("missing", gaps, rows, "FAIL" if missing == "refuse" else "WARN")
    else:
        yield Check("features: complete", "PASS")


def _value_check(kind: str, facts: Sequence[ColumnFacts], rows: Rows, status: str) -> Check:
    fact = facts[0]
    count, row = (fact.infinite, fact.first_infinite) if kind == "infinite" else (fact.missing, fact.first_missing)
    others = f", and so {'is 1' if len(facts) == 2 else f'are {len(facts) - 1}'} more" if len(facts) > 1 else ""
    where = f"{count:,} rows" if count > 1 else "1 row"
    hints = {
        "infinite": "Clip such values, or treat them as missing (NaN).",
        "missing": "Fill them in, or pass {missing='keep'} if the ranker can take missing values (trees can).",
    }
    message = f"feature '{fact.name}' is {kind} in {where} (first: {rows.where(row)}){others}"
    if status == "FAIL":
        expected = "finite" if kind == "infinite" else "there in every row"
        message = f"Features must be {expected}, but {message}."
    listed = tuple(
        {"column": f.name, "rows": f.infinite if kind == "infinite" else f.missing} for f in facts[:5]
    )  # fmt: skip
    name = "features: finite" if kind == "infinite" else "features: complete"
    total = sum(f.infinite if kind == "infinite" else f.missing for f in facts)
    hint = hints[kind] if status == "FAIL" else ""
    return Check(name, "FAIL" if status == "FAIL" else "WARN", message, total, listed, hint, FeatureError)
