"""The key columns of a log, checked and in canonical order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._segments import IntArray
from unskew.data.checks import Check, Judge, Rows
from unskew.data.column_checks import (
    click_checks,
    column_checks,
    grade_checks,
    id_checks,
    number_checks,
    position_checks,
)
from unskew.data.columns import IDS, ROLES, Coded, LogColumns, as_ids, encode, numbers
from unskew.data.tables import Table
from unskew.errors import ColumnError

FloatArray = npt.NDArray[np.float32]
NO_SESSION = "There is no session column: every query is taken as one session, because no item occurs twice in a query."


@dataclass(frozen=True, eq=False)
class LogKeys:
    """What a log says apart from features; one entry per impression, ordered by query, session, position.

    source_row : (impressions,) the row of the table behind every entry.
    query, session, item : ids as numbers that sort like the ids.
    position : (impressions,) int32 from 1; click : (impressions,) int32.
    weight, logging_score : (impressions,) float32 or None; grade : (impressions,) int16 or None.
    """

    source_row: IntArray
    query: Coded
    session: Coded
    item: Coded
    position: IntArray
    click: IntArray
    weight: FloatArray | None
    logging_score: FloatArray | None
    grade: IntArray | None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.source_row)

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The distinct query-item pairs ordered by (query, item): the first impression of each (pairs,), and the pair
        of every impression (impressions,)."""
        number = self.query.codes * len(self.item) + self.item.codes
        _, first, pair = np.unique(number, return_index=True, return_inverse=True)
        return first, pair

    def pair_ids(self) -> tuple[pl.Series, pl.Series]:
        """Query and item ids of the distinct pairs."""
        first, _ = self.pairs
        return self.query.values.gather(self.query.codes[first]), self.item.values.gather(self.item.codes[first])

    @cached_property
    def counted(self) -> IntArray:
        """(impressions,) the clicks that count: 0 where the weight is 0."""
        return self.click if self.weight is None else np.where(self.weight > 0, self.click, 0)

    @cached_property
    def rows(self) -> Rows:
        """Names impressions in messages."""
        return Rows(self._ids, self.source_row)

    def sorted(self) -> LogKeys:
        """Canonical order: the same log gives the same ClickLog whatever order its rows came in."""
        query, session, position = self.query.codes, self.session.codes, self.position
        ahead = np.diff(query) > 0
        level = np.diff(query) == 0
        ahead |= level & (np.diff(session) > 0)
        ahead |= level & (np.diff(session) == 0) & (np.diff(position) > 0)
        if ahead.all():
            return self
        # The item settles ties (a position taken twice), so that even the error is the same in any order.
        order = np.lexsort((self.item.codes, position, session, query))
        return replace(
            self,
            source_row=order,
            query=self.query.take(order),
            session=self.session.take(order),
            item=self.item.take(order),
            position=position[order],
            click=self.click[order],
            weight=None if self.weight is None else self.weight[order],
            logging_score=None if self.logging_score is None else self.logging_score[order],
            grade=None if self.grade is None else self.grade[order],
        )

    def _ids(self) -> pl.DataFrame:
        columns = {"query_id": self.query, "session_id": self.session, "item_id": self.item}
        return pl.DataFrame({name: coded.values.gather(coded.codes) for name, coded in columns.items()})


def read_keys(table: Table, columns: LogColumns, judge: Judge) -> LogKeys | None:
    """The key columns, each checked by itself; None where the judge stops the work."""
    if not judge(column_checks(table, columns)):
        return None
    raw = raw_columns(table, columns)
    if not judge(_value_checks(raw, columns)):
        return None
    query, item = encode(id_column(raw, "query_id")), encode(id_column(raw, "item_id"))
    notes: tuple[str, ...] = ()
    if "session_id" in raw.columns:
        session = encode(id_column(raw, "session_id"))
    elif judge([_repeated_pair(raw, query, item)]):
        session, notes = query, (NO_SESSION,)
    else:
        return None
    keys = LogKeys(
        source_row=np.arange(raw.height),
        query=query,
        session=session,
        item=item,
        position=numbers(raw["position"]).astype(np.int32) + np.int32(1 - columns.position_base),
        click=numbers(raw["click"]).astype(np.int32),
        weight=_floats(raw, "weight"),
        logging_score=_floats(raw, "logging_score"),
        grade=numbers(raw["relevance"]).astype(np.int16) if "relevance" in raw.columns else None,
        notes=notes,
    )
    return keys.sorted()


def raw_columns(table: Table, columns: LogColumns, *roles: str) -> pl.DataFrame:
    """The key columns under the names that unskew gives them."""
    present = columns.present(table, *roles)
    taken = table.take(list(present.values()))
    # Ids as they were written, where numbers would lose their leading zeros.
    written = {name: table.written[name] for role, name in present.items() if role in IDS and name in table.written}
    return pl.DataFrame([written.get(name, taken[name]).alias(ROLES[role]) for role, name in present.items()])


def _value_checks(raw: pl.DataFrame, columns: LogColumns) -> Iterator[Check]:
    yield from id_checks(raw)
    yield from position_checks(raw, columns)
    yield from click_checks(raw, columns)
    yield from number_checks(raw, columns)
    yield from grade_checks(raw, columns.max_grade)


def id_column(raw: pl.DataFrame, name: str) -> pl.Series:
    """An id column that has passed its check."""
    ids = as_ids(raw[name])
    assert ids is not None
    return ids


def _floats(raw: pl.DataFrame, name: str) -> FloatArray | None:
    return numbers(raw[name]).astype(np.float32) if name in raw.columns else None


def _repeated_pair(raw: pl.DataFrame, query: Coded, item: Coded) -> Check:
    again = repeated(query.codes * len(item) + item.codes)
    found = "There is no session column, and {rows} {have} an item that its query has shown before"
    hint = "Name the column that tells sessions apart with {session='NAME'}."
    return Rows(lambda: raw).check("session: told apart", again, found, hint=hint, error=ColumnError)


def repeated(values: IntArray) -> npt.NDArray[np.bool_]:
    """Which entries repeat an earlier one.

    >>> repeated(np.array([5, 3, 5, 5]))
    array([False, False,  True,  True])
    """
    if (np.diff(values) > 0).all():
        return np.zeros(len(values), dtype=bool)
    order = np.argsort(values, kind="stable")
    out = np.zeros(len(values), dtype=bool)
    out[order[1:]] = values[order[1:]] == values[order[:-1]]
    return out


def offsets_by(codes: IntArray, total: int) -> IntArray:
    """Offsets of segments from ascending segment numbers."""
    return np.searchsorted(codes, np.arange(total + 1)).astype(np.int64)
