"""Click logs and judged data from tables, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from unskew._options import MissingValues
from unskew._segments import IntArray
from unskew.data.checks import Judge, Rows, enforce
from unskew.data.clicks import ClickLog
from unskew.data.columns import LogColumns
from unskew.data.feature_columns import feature_names, load_matrix, load_pairs, name_checks, value_checks
from unskew.data.files import (
    feature_block,
    log_columns,
    pair_columns,
    read_judged_table,
    read_log,
    write_judged,
    write_log,
)
from unskew.data.keys import LogKeys, offsets_by, raw_columns, read_keys
from unskew.data.log_checks import structure_checks
from unskew.data.pairs import PairKeys, locate, read_pairs
from unskew.data.ranking import REGROUPED, RankingData
from unskew.data.tables import Table, open_table
from unskew.data.written import complete


def log_from_frame(
    frame: Any,
    *,
    query: str = "query_id",
    session: str | None = "session_id",
    item: str = "item_id",
    position: str = "position",
    click: str = "click",
    relevance: str | None = "relevance",
    weight: str | None = "weight",
    logging_score: str | None = "logging_score",
    features: Sequence[str] | None = None,
    feature_table: Any = None,
    position_base: int = 1,
    counts: bool = False,
    missing: MissingValues = "refuse",
    max_grade: int | None = None,
    need_clicks: bool = True,
) -> ClickLog:
    """A click log from a table with one row per impression: a polars, pandas or Arrow frame, or a path.

    The same log gives the same ClickLog whatever order its rows come in: queries, sessions and items are ordered by
    their ids. Features are stored once per query-item pair unless they change between impressions.

    query … logging_score : what the columns are called; the optional ones (session, relevance, weight,
        logging_score) are used if they are there, and None leaves them out.
    features : the feature columns; None takes all columns that are left.
    feature_table : a second table (frame or path) with the features, keyed by query and item; its items that were
        never shown are kept for the queries of the log.
    position_base : the number of the top position, 1 or 0.
    counts : whether `click` may count clicks beyond 1.
    missing : "refuse" missing features, or "keep" them as NaN for rankers that can take them.
    max_grade : the collection's largest possible grade; None takes what the file says, else the largest found.
    need_clicks : whether a log without any click, or any weight, is refused.

    >>> frame = pl.DataFrame({"query_id": ["q", "q"], "session_id": [7, 7], "item_id": ["b", "a"],
    ...                       "position": [1, 2], "clicked": [0, 1], "bm25": [0.5, 0.25]})
    >>> log = log_from_frame(frame, click="clicked")
    >>> log.row, log.click, log.data.item_ids.to_list()
    (array([1, 0]), array([0, 1], dtype=int32), ['a', 'b'])
    """
    columns = LogColumns(
        query=query,
        session=session,
        item=item,
        position=position,
        click=click,
        relevance=relevance,
        weight=weight,
        logging_score=logging_score,
        features=features,
        position_base=position_base,
        counts=counts,
        missing=missing,
        max_grade=max_grade,
        need_clicks=need_clicks,
    )
    table = open_table(frame)
    second = None if feature_table is None else open_table(feature_table)
    log = assemble_log(table, second, complete(columns, table, second), enforce)
    assert log is not None  # enforce raises instead of stopping
    return log


def assemble_log(table: Table, second: Table | None, columns: LogColumns, judge: Judge) -> ClickLog | None:
    """Keys, then features, then the log; None where the judge stops the work."""
    keys = read_keys(table, columns, judge)
    if keys is None or not judge(structure_checks(keys)):
        return None
    return _log_inline(table, keys, columns, judge) if second is None else _log_joined(keys, second, columns, judge)


def _log_inline(table: Table, keys: LogKeys, columns: LogColumns, judge: Judge) -> ClickLog | None:
    names = feature_names(table, columns)
    if not judge(name_checks(table, columns, names)):
        return None
    first, pair = keys.pairs
    features, facts, changing = load_pairs(table, names, keys.source_row, first, pair)
    if not judge(value_checks(facts, _rows(table, columns), columns.missing)):
        return None
    notes = keys.notes
    if changing is not None:
        # One row per impression, in the order of the impressions.
        first, pair = np.arange(len(keys)), np.arange(len(keys))
        notes += (f"Features change between impressions of an item ('{changing}' does): one row per impression.",)
    data = RankingData(
        features=features,
        offsets=offsets_by(keys.query.codes[first], len(keys.query)),
        query_ids=keys.query.values.alias("query_id"),
        feature_names=tuple(names),
        grades=None if keys.grade is None else keys.grade[first],
        item_ids=keys.item.values.gather(keys.item.codes[first]).alias("item_id"),
        max_grade=_max_grade(keys.grade, columns.max_grade),
        notes=notes,
    )
    return _log(data, pair, keys, notes)


def _log_joined(keys: LogKeys, second: Table, columns: LogColumns, judge: Judge) -> ClickLog | None:
    pairs = read_pairs(second, columns, judge, keyed=True)
    if pairs is None:
        return None
    first, pair = keys.pairs
    query, item = keys.pair_ids()
    pairs = pairs.typed_like(query, item)
    place = locate(query, item, pairs, second, judge)
    if place is None:
        return None
    chosen, row = _rows_of_queries(keys, first, pairs, place, graded=keys.grade is not None and pairs.grade is None)
    names = feature_names(second, columns)
    if not judge(name_checks(second, columns, names)):
        return None
    features, facts = load_matrix(second, names, chosen)
    if not judge(value_checks(facts, _rows(second, columns), columns.missing)):
        return None
    grades = None if pairs.grade is None else pairs.grade[chosen]
    if grades is None and keys.grade is not None:
        grades = np.empty(len(chosen), np.int16)
        grades[row] = keys.grade[first]
    number = keys.query.values.search_sorted(pairs.query.gather(chosen)).to_numpy().astype(np.int64)
    data = RankingData(
        features=features,
        offsets=offsets_by(number, len(keys.query)),
        query_ids=keys.query.values.alias("query_id"),
        feature_names=tuple(names),
        grades=grades,
        item_ids=None if pairs.item is None else pairs.item.gather(chosen).alias("item_id"),
        max_grade=_max_grade(grades, columns.max_grade),
        notes=keys.notes,
    )
    return _log(data, row[pair], keys, keys.notes)


def _rows_of_queries(
    keys: LogKeys, first: IntArray, pairs: PairKeys, place: IntArray, *, graded: bool
) -> tuple[IntArray, IntArray]:
    """Rows of the second table in the order of (query, item), and among them the row of every pair of the log.

    graded : only items that were shown have a grade, so only they are kept.
    """
    if graded:
        return place, np.arange(len(place))  # pairs of the log are in canonical order
    keep = pairs.query.is_in(keys.query.values.implode()).to_numpy()
    kept = np.flatnonzero(keep)
    assert pairs.item is not None
    order = pl.DataFrame([pairs.query.gather(kept).alias("q"), pairs.item.gather(kept).alias("i")])
    chosen = kept[order.select(pl.arg_sort_by("q", "i", maintain_order=True)).to_series().to_numpy()]
    rank = np.empty(len(pairs.query), dtype=np.int64)
    rank[chosen] = np.arange(len(chosen))
    return chosen, rank[place]


def _log(data: RankingData, row: IntArray, keys: LogKeys, notes: tuple[str, ...]) -> ClickLog:
    return ClickLog.from_arrays(
        data,
        row=row,
        session=keys.session.codes,
        position=keys.position,
        click=keys.click,
        session_ids=keys.session.values,
        weight=keys.weight,
        logging_score=keys.logging_score,
        notes=notes,
    )


def _rows(table: Table, columns: LogColumns) -> Rows:
    """Names the rows of a table that has ids under whatever names."""
    return Rows(lambda: raw_columns(table, columns, "query", "session", "item"))


def _max_grade(grades: IntArray | None, given: int | None) -> int | None:
    if grades is None or given is not None:
        return given
    return max(int(grades.max(initial=0)), 1)


def ranking_from_frame(
    frame: Any,
    *,
    query: str = "query_id",
    item: str = "item_id",
    relevance: str | None = "relevance",
    features: Sequence[str] | None = None,
    feature_table: Any = None,
    missing: MissingValues = "refuse",
    max_grade: int | None = None,
) -> RankingData:
    """Query-item pairs from a table with one row each: queries in the order they first appear, rows as they come.

    Options as in :func:`log_from_frame`; `item` and `relevance` may be missing. Columns that a click log has besides
    (session_id, position, click, weight, logging_score) are not taken for features.

    >>> frame = pl.DataFrame({"query_id": [2, 1, 2], "relevance": [0, 1, 2], "bm25": [0.5, 0.25, 1.0]})
    >>> data = ranking_from_frame(frame, max_grade=4)
    >>> data.query_ids.to_list(), data.features.ravel().tolist(), data.grades
    ([2, 1], [0.5, 1.0, 0.25], array([0, 2, 1], dtype=int16))
    """
    columns = LogColumns(
        query=query, item=item, relevance=relevance, features=features, missing=missing, max_grade=max_grade
    )
    table = open_table(frame)
    second = table if feature_table is None else open_table(feature_table)
    data = assemble_ranking(table, second, complete(columns, table, second), enforce)
    assert data is not None  # enforce raises instead of stopping
    return data


def grades_from_frame(
    frame: Any,
    *,
    query: str = "query_id",
    item: str = "item_id",
    relevance: str | None = "relevance",
    max_grade: int | None = None,
) -> RankingData:
    """Query, item and grade of judged pairs: no feature is needed, and none is read.

    Options as in :func:`ranking_from_frame`.

    >>> frame = pl.DataFrame({"query_id": [1, 1], "item_id": ["a", "b"], "relevance": [0, 2], "title": ["x", "y"]})
    >>> grades_from_frame(frame)
    RankingData(1 queries, 2 items, 0 features, grades 0–2)
    """
    table = open_table(frame)
    columns = complete(LogColumns(query=query, item=item, relevance=relevance, max_grade=max_grade), table)
    pairs = read_pairs(table, columns, enforce, keyed=False)
    assert pairs is not None  # enforce raises instead of stopping
    rows, offsets, query_ids = pairs.grouped()
    grades = None if pairs.grade is None else pairs.grade[rows]
    # What is built here has passed its checks; the one it would not pass asks for features.
    return RankingData._trusted(
        features=np.empty((len(rows), 0), dtype=np.float32),
        offsets=offsets,
        query_ids=query_ids,
        feature_names=(),
        grades=grades,
        item_ids=None if pairs.item is None else pairs.item.gather(rows).alias("item_id"),
        max_grade=_max_grade(grades, columns.max_grade),
        notes=_regrouped(rows, table),
    )


def _regrouped(rows: IntArray, table: Table) -> tuple[str, ...]:
    if (np.diff(rows) > 0).all():
        return ()
    return (f"{table.source}: {REGROUPED}.",)


def assemble_ranking(table: Table, second: Table, columns: LogColumns, judge: Judge) -> RankingData | None:
    """Keys, then features (of the same table or of a second one), then the data; None where the judge stops."""
    pairs = read_pairs(table, columns, judge, keyed=second is not table)
    if pairs is None:
        return None
    rows, offsets, query_ids = pairs.grouped()
    place: IntArray | None = rows
    if second is not table:
        place = _place(pairs, rows, second, columns, judge)
    names = feature_names(second, columns)
    if place is None or not judge(name_checks(second, columns, names)):
        return None
    in_order = len(place) == second.height and bool((place == np.arange(len(place))).all())
    features, facts = load_matrix(second, names, None if in_order else place)
    if not judge(value_checks(facts, _rows(second, columns), columns.missing)):
        return None
    grades = None if pairs.grade is None else pairs.grade[rows]
    return RankingData(
        features=features,
        offsets=offsets,
        query_ids=query_ids,
        feature_names=tuple(names),
        grades=grades,
        item_ids=None if pairs.item is None else pairs.item.gather(rows).alias("item_id"),
        max_grade=_max_grade(grades, columns.max_grade),
        notes=_regrouped(rows, table),
    )


def _place(pairs: PairKeys, rows: IntArray, second: Table, columns: LogColumns, judge: Judge) -> IntArray | None:
    """Where the second table has the features of the given rows."""
    found = read_pairs(second, columns, judge, keyed=True)
    if found is None or pairs.item is None:
        return None
    query, item = pairs.query.gather(rows), pairs.item.gather(rows)
    return locate(query, item, found.typed_like(query, item), second, judge)


def ranking_to_frame(data: RankingData) -> pl.DataFrame:
    """One row per query-item pair: query_id, item_id, relevance (if judged), features."""
    return pair_columns(data).hstack(feature_block(data, slice(None)))


def log_to_frame(log: ClickLog, *, features: bool = True) -> pl.DataFrame:
    """One row per impression in the order of the log, with the features inline unless they are left out."""
    keys = log_columns(log, slice(None))
    return keys.hstack(feature_block(log.data, log.row)) if features else keys


__all__ = [
    "grades_from_frame",
    "log_from_frame",
    "log_to_frame",
    "ranking_from_frame",
    "ranking_to_frame",
    "read_judged_table",
    "read_log",
    "write_judged",
    "write_log",
]
