"""Tables with one row per query-item pair: judged data, and features that live apart from the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from unskew._segments import IntArray, offsets_of
from unskew.data.checks import Check, Judge, Rows
from unskew.data.column_checks import column_checks, grade_checks, id_checks
from unskew.data.columns import LogColumns, encode, numbers
from unskew.data.keys import id_column, raw_columns, repeated
from unskew.data.tables import Table
from unskew.errors import DataError, KeyMismatchError

PAIR_ROLES = ("query", "item", "relevance")


@dataclass(frozen=True, eq=False)
class PairKeys:
    """query : (rows,) ids; item : (rows,) ids or None; grade : (rows,) int16 or None."""

    query: pl.Series
    item: pl.Series | None
    grade: IntArray | None

    def typed_like(self, query: pl.Series, item: pl.Series) -> PairKeys:
        """The same ids in the types of another table's; what cannot be converted is missing and matches nothing."""
        assert self.item is not None
        return replace(
            self, query=self.query.cast(query.dtype, strict=False), item=self.item.cast(item.dtype, strict=False)
        )

    def grouped(self) -> tuple[IntArray, IntArray, pl.Series]:
        """Rows with every query's together (queries as they first appear), the offsets of the queries, their ids."""
        runs = self.query.rle().struct.unnest()
        query_ids = runs["value"].unique(maintain_order=True).alias("query_id")
        if len(query_ids) == len(runs):
            return np.arange(len(self.query)), offsets_of(runs["len"].to_numpy()), query_ids
        codes = encode(self.query).codes
        first = np.unique(codes, return_index=True)[1]
        appearance = np.empty(len(first), dtype=np.int64)
        appearance[np.argsort(first)] = np.arange(len(first))
        number = appearance[codes]
        return np.argsort(number, kind="stable"), offsets_of(np.bincount(number)), query_ids


def read_pairs(table: Table, columns: LogColumns, judge: Judge, *, keyed: bool) -> PairKeys | None:
    """Ids and grades of the pairs, checked; keyed: the table is joined to another one by query and item."""
    if not keyed and columns.item not in table.schema and columns.item == LogColumns.item:
        roles: tuple[str, ...] = ("query", "relevance")
    else:
        roles = PAIR_ROLES
    if not judge(column_checks(table, columns, *roles)):
        return None
    raw = raw_columns(table, columns, *roles)
    if not judge(_value_checks(raw, columns)):
        return None
    return PairKeys(
        query=id_column(raw, "query_id"),
        item=id_column(raw, "item_id") if "item_id" in raw.columns else None,
        grade=numbers(raw["relevance"]).astype(np.int16) if "relevance" in raw.columns else None,
    )


def _value_checks(raw: pl.DataFrame, columns: LogColumns) -> Iterator[Check]:
    for check in id_checks(raw):
        yield check
        if check.status == "FAIL":
            return
    if "item_id" in raw.columns:
        yield _once(raw)
    yield from grade_checks(raw, columns.max_grade)


def _once(raw: pl.DataFrame) -> Check:
    query, item = encode(id_column(raw, "query_id")), encode(id_column(raw, "item_id"))
    again = repeated(query.codes * len(item) + item.codes)
    found = "An item must occur once in a query, but {rows} {have} an item that occurred before"
    hint = "Is this a click log, with a row for every impression? Keep one row of each query and item."
    return Rows(lambda: raw).check("item: once a query", again, found, hint=hint, error=DataError)


def locate(query: pl.Series, item: pl.Series, pairs: PairKeys, table: Table, judge: Judge) -> IntArray | None:
    """(wanted,) the row of every wanted pair in the table of pairs; None where the judge stops the work."""
    assert pairs.item is not None
    wanted = pl.DataFrame([query.alias("query_id"), item.alias("item_id")])
    there = pl.DataFrame([pairs.query.alias("query_id"), pairs.item.alias("item_id")]).with_row_index("place")
    joined = wanted.join(there, on=["query_id", "item_id"], how="left", maintain_order="left")["place"]
    lost = joined.is_null().to_numpy()
    check = Check("features: keys match", "PASS", f"{len(wanted):,} query-item pairs")
    if lost.any():
        row = int(np.argmax(lost))
        message = (
            f"Every query-item pair must have its features in {table.source}, but {int(lost.sum()):,} of "
            f"{len(wanted):,} have none (first: {Rows(lambda: wanted).where(row)})."
        )
        check = Check(
            "features: keys match", "FAIL", message, int(lost.sum()), Rows(lambda: wanted).first(lost),
            "Are both tables of the same log, and are their ids written the same way?", KeyMismatchError,
        )  # fmt: skip
    return joined.to_numpy().astype(np.int64) if judge([check]) else None
