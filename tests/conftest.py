"""What every test shares: nothing is ever written into the user's own cache folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

from unskew import errors


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSKEW_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("UNSKEW_DATA", raising=False)


@dataclass(frozen=True)
class BadLog:
    """A log that must be refused, the error it is refused with, and words its message must have."""

    name: str
    frame: pl.DataFrame
    error: type[errors.DataError]
    words: tuple[str, ...]


def _tidy_frame(queries: int = 4, items: int = 5, sessions: int = 3, seed: int = 0) -> pl.DataFrame:
    """A sound log: every session shows all items of its query in an order of its own."""
    rng = np.random.default_rng(seed)
    rows = []
    for query in range(queries):
        features = rng.normal(size=(items, 2)).astype(np.float32)
        for session in range(sessions):
            for position, item in enumerate(rng.permutation(items), start=1):
                rows.append((f"q{query}", query * sessions + session, f"d{item}", position, *features[item].tolist()))
    names = ["query_id", "session_id", "item_id", "position", "bm25", "age"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    click = pl.Series("click", (rng.random(frame.height) < 0.3).astype(np.int8))
    frame.insert_column(4, click)
    return frame.with_columns(pl.col("bm25", "age").cast(pl.Float32))


def _first(column: str, value: object) -> pl.Expr:
    """The column with another value in the first row."""
    return pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(value)).otherwise(pl.col(column)).alias(column)


def _bad_logs() -> list[BadLog]:
    frame = _tidy_frame()
    log, column, feature, grade, data = (
        errors.LogError,
        errors.ColumnError,
        errors.FeatureError,
        errors.GradeError,
        errors.DataError,
    )
    graded = frame.with_columns(relevance=pl.lit(1))
    return [
        BadLog("no rows", frame.clear(), data, ("needs rows",)),
        BadLog("no position column", frame.drop("position"), column, ("'position'", "Name the column")),
        BadLog("click under another name", frame.rename({"click": "clicked"}), column, ("click='clicked'",)),
        BadLog("no session column", frame.drop("session_id"), column, ("session",)),
        BadLog("position is text", frame.with_columns(_first("position", "top")), column, ("'top' in row 1",)),
        BadLog("query missing", frame.with_columns(_first("query_id", None)), data, ("query_id", "1 row has none")),
        BadLog("item is a fraction", frame.with_columns(item_id=pl.col("position") + 0.5), column, ("item_id",)),
        BadLog(
            "position 0",
            frame.with_columns(pl.col("position") - 1),
            log,
            ("position must be 1 or greater, but 12 rows have 0", "query 'q0'", "pass position_base=0"),
        ),
        BadLog("position negative", frame.with_columns(_first("position", -2)), log, ("1 row has -2",)),
        BadLog("position fractional", frame.with_columns(_first("position", 1.5)), log, ("whole number", "1.5 for")),
        BadLog("position infinite", frame.with_columns(_first("position", float("inf"))), log, ("whole number",)),
        BadLog("position missing", frame.with_columns(_first("position", None)), log, ("must not be missing",)),
        BadLog("position huge", frame.with_columns(_first("position", 10**9)), log, ("at most 1,000,000",)),
        BadLog("position twice", frame.with_columns(_first("position", 2)), log, ("once in a session", "1 row")),
        BadLog("click 2", frame.with_columns(_first("click", 2)), log, ("click must be 0 or 1", "pass counts=True")),
        BadLog("click negative", frame.with_columns(_first("click", -1)), log, ("click must be 0 or 1",)),
        BadLog("click fractional", frame.with_columns(_first("click", 0.5)), log, ("0.5 for",)),
        BadLog("click missing", frame.with_columns(_first("click", None)), log, ("click must not be missing",)),
        BadLog("no click", frame.with_columns(click=pl.lit(0)), log, ("no click at all",)),
        BadLog("session of two queries", frame.with_columns(_first("query_id", "q9")), log, ("'q0' and 'q9'",)),
        BadLog(
            "item twice in a session",
            frame.with_columns(item_id=pl.when(pl.col("position") <= 2).then(pl.lit("d")).otherwise("item_id")),
            log,
            ("shown once in a session", "12 rows"),
        ),
        BadLog("weight negative", frame.with_columns(weight=pl.lit(-1.0)), log, ("weight", "not negative")),
        BadLog("grade fractional", graded.with_columns(_first("relevance", 0.5)), grade, ("whole number",)),
        BadLog("grade too large", graded.with_columns(_first("relevance", 99)), grade, ("between 0 and 30",)),
        BadLog("grade missing", graded.with_columns(_first("relevance", None)), grade, ("relevance=None",)),
        BadLog("two grades", graded.with_columns(_first("relevance", 2)), grade, ("one grade",)),
        BadLog("text feature", frame.with_columns(_first("bm25", "high")), feature, ("'bm25'", "'high' in row 1")),
        BadLog("text column left over", frame.with_columns(title=pl.lit("x")), feature, ("'title'", "features=")),
        BadLog("feature missing", frame.with_columns(_first("age", None)), feature, ("'age'", "missing='keep'")),
        BadLog("feature NaN", frame.with_columns(_first("age", float("nan"))), feature, ("'age'", "1 row")),
        BadLog("feature infinite", frame.with_columns(_first("age", float("inf"))), feature, ("finite", "'age'")),
        BadLog("feature too large", frame.with_columns(_first("age", 1e300)), feature, ("finite", "'age'")),
        BadLog("no features", frame.drop("bm25", "age"), feature, ("feature_table=",)),
    ]


BAD_LOGS = _bad_logs()


@pytest.fixture
def tidy_frame() -> Callable[..., pl.DataFrame]:
    """Makes a small sound log as a polars frame: tidy_frame(queries=4, items=5, sessions=3, seed=0)."""
    return _tidy_frame


@pytest.fixture(params=BAD_LOGS, ids=lambda bad: bad.name)
def bad_log(request: pytest.FixtureRequest) -> BadLog:
    """One log after the other that must be refused: .name, .frame, .error, .words."""
    return request.param


@pytest.fixture
def bad_logs() -> list[BadLog]:
    """All logs that must be refused."""
    return BAD_LOGS
