"""The key columns of a log in canonical order, and whether they contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._segments import IntArray, segment_of
from unskew.data.checks import (
    Check,
    Judge,
    Rows,
    click_checks,
    column_checks,
    grade_checks,
    id_checks,
    number_checks,
    plural,
    position_checks,
)
from unskew.data.columns import ROLES, Coded, LogColumns, as_ids, encode, numbers
from unskew.data.tables import Table
from unskew.errors import ColumnError, DataError, GradeError

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

    @property
    def in_order(self) -> bool:
        """Whether the table's rows were in canonical order already."""
        return bool((self.source_row == np.arange(len(self))).all())

    def pair(self) -> IntArray:
        """(impressions,) a number for every query-item pair that sorts like (query, item)."""
        return self.query.codes * len(self.item) + self.item.codes

    def frame(self) -> pl.DataFrame:
        """The ids as columns, for messages."""
        columns = {"query_id": self.query, "session_id": self.session, "item_id": self.item}
        return pl.DataFrame({name: coded.values.gather(coded.codes) for name, coded in columns.items()})


def read_keys(table: Table, columns: LogColumns, judge: Judge) -> LogKeys | None:
    """The key columns, checked; None where the judge says that it makes no sense to go on."""
    if not judge(column_checks(table, columns)):
        return None
    raw = raw_columns(table, columns)
    if not judge(_value_checks(raw, columns)):
        return None
    keys, repeated = _in_order(raw, columns)
    if repeated is not None:
        judge([repeated])
        return None
    return keys if judge(structure_checks(keys)) else None


def raw_columns(table: Table, columns: LogColumns, *roles: str) -> pl.DataFrame:
    """The key columns under the names that unskew gives them."""
    present = columns.present(table, *roles)
    taken = table.take(list(present.values()))
    return pl.DataFrame([taken[name].alias(ROLES[role]) for role, name in present.items()])


def _value_checks(raw: pl.DataFrame, columns: LogColumns) -> Iterator[Check]:
    yield from id_checks(raw)
    yield from position_checks(raw, columns)
    yield from click_checks(raw, columns)
    yield from number_checks(raw)
    yield from grade_checks(raw, columns.max_grade)


def id_column(raw: pl.DataFrame, name: str) -> pl.Series:
    """An id column that has passed its check."""
    ids = as_ids(raw[name])
    assert ids is not None
    return ids


def _in_order(raw: pl.DataFrame, columns: LogColumns) -> tuple[LogKeys, Check | None]:
    query, item = encode(id_column(raw, "query_id")), encode(id_column(raw, "item_id"))
    notes: tuple[str, ...] = ()
    session, repeated = query, None
    if "session_id" in raw.columns:
        session = encode(id_column(raw, "session_id"))
    else:
        repeated = _repeated_pair(raw, query, item)
        notes = (NO_SESSION,)
    position = numbers(raw["position"]).astype(np.int32) + np.int32(1 - columns.position_base)
    keys = LogKeys(
        source_row=np.arange(raw.height),
        query=query,
        session=session,
        item=item,
        position=position,
        click=numbers(raw["click"]).astype(np.int32),
        weight=_floats(raw, "weight"),
        logging_score=_floats(raw, "logging_score"),
        grade=numbers(raw["relevance"]).astype(np.int16) if "relevance" in raw.columns else None,
        notes=notes,
    )
    return _sorted(keys), repeated


def _floats(raw: pl.DataFrame, name: str) -> FloatArray | None:
    return numbers(raw[name]).astype(np.float32) if name in raw.columns else None


def _sorted(keys: LogKeys) -> LogKeys:
    """Canonical order: the same log gives the same ClickLog whatever order its rows came in."""
    query, session, position = keys.query.codes, keys.session.codes, keys.position
    ahead = np.diff(query) > 0
    level = np.diff(query) == 0
    ahead |= level & (np.diff(session) > 0)
    ahead |= level & (np.diff(session) == 0) & (np.diff(position) >= 0)
    if ahead.all():
        return keys
    # The item settles ties, which only a log with a position taken twice has; its error must not depend on the order.
    order = np.lexsort((keys.item.codes, position, session, query))
    return replace(
        keys,
        source_row=order,
        query=keys.query.take(order),
        session=keys.session.take(order),
        item=keys.item.take(order),
        position=position[order],
        click=keys.click[order],
        weight=None if keys.weight is None else keys.weight[order],
        logging_score=None if keys.logging_score is None else keys.logging_score[order],
        grade=None if keys.grade is None else keys.grade[order],
    )


def _repeated_pair(raw: pl.DataFrame, query: Coded, item: Coded) -> Check | None:
    seen_before = repeated(query.codes * len(item) + item.codes)
    if not seen_before.any():
        return None
    check = Rows(lambda: raw).check(
        "session", seen_before, "There is no session column, and {rows} show an item that its query has shown before",
        hint="Name the column that tells sessions apart with {session='its name'}.", error=ColumnError,
    )  # fmt: skip
    return check


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


def structure_checks(keys: LogKeys) -> Iterator[Check]:
    """Sessions belong to one query, positions and items occur once in a session, an item has one grade."""
    rows = Rows(keys.frame)
    yield _one_query(keys)
    same_session = np.r_[False, (np.diff(keys.session.codes) == 0) & (np.diff(keys.query.codes) == 0)]
    twice = same_session & np.r_[False, np.diff(keys.position) == 0]
    yield rows.check(
        "position: once a session", twice,
        "A position must be taken once in a session, but {rows} {have} a position that is taken already",
        hint="If sessions are told apart by another column, name it with {session='its name'}.",
    )  # fmt: skip
    shown_twice = repeated(keys.session.codes * len(keys.item) + keys.item.codes)
    yield rows.check(
        "item: once a session", shown_twice,
        "An item must be shown once in a session, but {rows} {have} an item that the session has shown already",
        hint="If sessions are told apart by another column, name it with {session='its name'}.",
    )  # fmt: skip
    if keys.grade is not None:
        yield rows.check(
            "relevance: one per item", _other_grade(keys),
            "An item must have one grade in a query, but {rows} {have} another one than before", error=GradeError,
        )  # fmt: skip


def _one_query(keys: LogKeys) -> Check:
    """Sessions that belong to more than one query."""
    name, total = "session: one query", len(keys.session)
    low, high = np.full(total, len(keys.query)), np.full(total, -1)
    np.minimum.at(low, keys.session.codes, keys.query.codes)
    np.maximum.at(high, keys.session.codes, keys.query.codes)
    split = np.flatnonzero(high > low)
    if split.size == 0:
        return Check(name, "PASS", plural(total, "session"))
    ids, values = keys.session.values, keys.query.values
    shown = [(ids[int(s)], values[int(low[s])], values[int(high[s])]) for s in split[:5]]
    rows = tuple({"session_id": session, "query_ids": [one, other]} for session, one, other in shown)
    session, one, other = shown[0]
    verb = "spans" if split.size == 1 else "span"
    return Check(
        name, "FAIL",
        f"A session must belong to one query, but {plural(split.size, 'session')} {verb} several "
        f"(first: session '{session}', queries '{one}' and '{other}').",
        int(split.size), rows,
        hint="If session ids start again for every query, join query and session id into one column.",
    )  # fmt: skip


def _other_grade(keys: LogKeys) -> npt.NDArray[np.bool_]:
    assert keys.grade is not None
    _, first, pair = np.unique(keys.pair(), return_index=True, return_inverse=True)
    return keys.grade != keys.grade[first][pair]


def pair_rows(keys: LogKeys) -> tuple[IntArray, IntArray]:
    """The distinct query-item pairs: the first impression of each (pairs,), and the pair of every impression."""
    _, first, pair = np.unique(keys.pair(), return_index=True, return_inverse=True)
    return first, pair


def offsets_by(codes: IntArray, total: int) -> IntArray:
    """Offsets of segments from ascending segment numbers."""
    return np.searchsorted(codes, np.arange(total + 1)).astype(np.int64)


__all__ = ["DataError", "LogKeys", "offsets_by", "pair_rows", "raw_columns", "read_keys", "segment_of"]
