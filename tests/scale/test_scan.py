"""Statistics straight from Parquet are those of the log in memory, and what memory refuses is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew._options import RankTarget
from unskew.control.stage_one import fit_stage_one
from unskew.data.clicks import ClickLog
from unskew.data.columns import LogColumns
from unskew.data.frames import log_from_frame
from unskew.errors import DataError, PartitionError
from unskew.scale.partition import partition_log
from unskew.scale.parts import Parts, open_parts
from unskew.scale.scan import _gram, scan_gram, scan_stage_one
from unskew.scale.sound import Sound, sound, sound_log
from unskew.scale.streaming import counts_of, gram_of, target_of


def one_list_a_query(queries: int = 300, items: int = 7, seed: int = 0) -> pl.DataFrame:
    """Lists of different lengths, shown once, their rows in no order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, items + 1, size=queries)
    query, total = np.repeat(np.arange(queries), sizes), int(sizes.sum())
    x = rng.normal(size=(total, 4)) * [1, 1, 10, 0.1] + [0, 0, 5, 1e3]
    position = np.concatenate([rng.permutation(size) + 1 for size in sizes])
    columns: dict[str, Any] = {
        "query_id": query,
        "session_id": query + 1000,
        "item_id": np.concatenate([rng.permutation(50)[:size] for size in sizes]),
        "position": position.astype(np.int32),
        "click": (rng.random(total) < 0.4 / position).astype(np.int8),
    }
    return pl.DataFrame(columns | {f"f{i}": x[:, i].astype(np.float32) for i in range(4)})


def _sound(parts: Parts, frame: pl.DataFrame) -> Sound | None:
    return sound(frame, parts.columns, parts.features)


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.format("query {}", "query_id").alias("query_id"), pl.col("item_id").cast(pl.String))


def with_long_lists(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("position") * 20)


def without_sessions(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.drop("session_id")


def as_doubles(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("f0", "f2").cast(pl.Float64) * 1.1)


CHANGES: list[Callable[[pl.DataFrame], pl.DataFrame]] = [
    as_text,
    with_long_lists,
    without_sessions,
    as_doubles,
    lambda frame: frame,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("rank_target", ["global", "per_list", "raw"])
def test_a_scan_is_stage_one_in_memory(
    tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], rank_target: RankTarget
) -> None:
    frame = change(one_list_a_query())
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=100)
    assert _sound(open_parts(tmp_path / "log.parquet", LogColumns()), frame) is not None
    _check(scan_stage_one(tmp_path / "log.parquet", rank_target=rank_target), frame, rank_target)


@pytest.mark.parametrize("parts", [1, 3])
def test_several_lists_a_query_go_the_careful_way(tmp_path: Path, scale_log: pl.DataFrame, parts: int) -> None:
    frame = scale_log.head(200 * 48)
    frame.write_parquet(tmp_path / "log.parquet")
    partition_log(tmp_path / "log.parquet", tmp_path / "parts", parts=parts)
    assert _sound(open_parts(tmp_path / "parts", LogColumns()), frame) is None
    _check(scan_stage_one(tmp_path / "parts"), frame, "global")


def _check(scanned: Any, frame: pl.DataFrame, rank_target: RankTarget) -> None:
    whole = fit_stage_one(log_from_frame(frame), rank_target=rank_target)
    np.testing.assert_allclose(scanned.model.coefficients, whole.model.coefficients, rtol=1e-8)
    assert scanned.model.intercept == pytest.approx(whole.model.intercept, rel=1e-8)
    assert scanned.r2 == pytest.approx(whole.r2, rel=1e-8)
    assert scanned.statistics.sd == pytest.approx(whole.statistics.sd, rel=1e-9)
    np.testing.assert_allclose(scanned.statistics.histogram, whole.statistics.histogram, atol=1e-5)


def test_positions_from_zero(tmp_path: Path) -> None:
    frame = one_list_a_query()
    frame.with_columns(pl.col("position") - 1).write_parquet(tmp_path / "log.parquet")
    parts = open_parts(tmp_path / "log.parquet", LogColumns(position_base=0))
    assert _sound(parts, frame.with_columns(pl.col("position") - 1)) is not None
    _check(scan_stage_one(tmp_path / "log.parquet", columns=LogColumns(position_base=0)), frame, "global")


def _set(column: str, value: Any) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def change(frame: pl.DataFrame) -> pl.DataFrame:
        here = pl.int_range(pl.len()) == 40
        return frame.with_columns(pl.when(here).then(pl.lit(value)).otherwise(pl.col(column)).alias(column))

    return change


def _as_before(column: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Give the second row of the first list what the first row has."""

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        here = pl.int_range(pl.len()) == 1
        return frame.with_columns(pl.when(here).then(pl.col(column).first()).otherwise(pl.col(column)).alias(column))

    return change


WRONG = {
    "position taken twice": _as_before("position"),
    "item shown twice": _as_before("item_id"),
    "session of two queries": _set("session_id", 1000),
    "position 0": _set("position", 0),
    "no position": _set("position", None),
    "two clicks": _set("click", 2),
    "no query": _set("query_id", None),
    "missing feature": _set("f1", None),
    "not a number": _set("f1", float("nan")),
    "infinite feature": _set("f1", float("inf")),
    "half a position": _set("position", 1.5),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_memory_refuses_a_scan_refuses(tmp_path: Path, what: str) -> None:
    frame = WRONG[what](one_list_a_query(60))
    frame.write_parquet(tmp_path / "log.parquet")
    with pytest.raises(DataError) as expected:
        log_from_frame(frame)
    with pytest.raises(type(expected.value)) as found:
        scan_gram(open_parts(tmp_path / "log.parquet", LogColumns()))
    assert str(found.value) == f"log.parquet: {expected.value}"


def test_a_query_in_two_files(tmp_path: Path) -> None:
    frame = one_list_a_query(60)
    frame[:41].write_parquet(tmp_path / "a.parquet")
    frame[41:].write_parquet(tmp_path / "b.parquet")
    with pytest.raises(PartitionError, match=r"a\.parquet ends in the middle of query"):
        scan_gram(open_parts(tmp_path, LogColumns()))


def test_a_log_without_clicks(tmp_path: Path) -> None:
    one_list_a_query(60).with_columns(click=pl.lit(0)).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(DataError, match="no click at all"):
        scan_gram(open_parts(tmp_path / "log.parquet", LogColumns()))


@given(
    row=st.integers(0, 60),
    column=st.sampled_from(["query_id", "session_id", "item_id", "position", "click"]),
    value=st.integers(-1, 40),
)
@settings(max_examples=150, deadline=None)
def test_what_looks_sound_is_sound(tmp_path_factory: pytest.TempPathFactory, row: int, column: str, value: int) -> None:
    """Whatever cell is changed: a batch that passes at a glance passes the careful reader, with the same sums."""
    frame = one_list_a_query(20)
    changed = frame[column].to_numpy().copy()
    changed[row] = value
    frame = frame.with_columns(pl.Series(column, changed))
    file = tmp_path_factory.getbasetemp() / "changed.parquet"
    frame.write_parquet(file)
    parts = open_parts(file, LogColumns())
    batch = _sound(parts, frame)
    if batch is None:
        return
    log = log_from_frame(frame)
    target = target_of(counts_of(log), "raw")
    careful, quick = gram_of(log, target), _gram(batch.pieces, batch.target("raw"))
    np.testing.assert_allclose(quick.scatter, careful.scatter, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(quick.mean, careful.mean, rtol=1e-12)
    assert (quick.weight, quick.entries) == (careful.weight, careful.entries)
    _check_same(sound_log(frame, parts.columns, parts.features), log)


def with_everything(frame: pl.DataFrame) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    score = pl.Series("logging_score", rng.normal(size=frame.height))
    grades = pl.Series("relevance", rng.integers(0, 4, frame.height).astype(np.uint8))
    return frame.with_columns(score, grades)


def shuffled_queries(frame: pl.DataFrame) -> pl.DataFrame:
    order = np.random.default_rng(2).permutation(300)
    return frame.sort(pl.lit(order).gather(pl.col("query_id")), maintain_order=True)


@pytest.mark.parametrize(
    "change", [*CHANGES, with_everything, shuffled_queries, lambda frame: frame.with_columns(pl.col("item_id") - 20)]
)
@pytest.mark.parametrize("in_order", [False, True])
def test_a_sound_batch_becomes_the_log_of_the_careful_reader(
    tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], in_order: bool
) -> None:
    frame = change(one_list_a_query())
    frame = frame.sort("query_id", "item_id") if in_order else frame
    frame.write_parquet(tmp_path / "log.parquet")
    parts = open_parts(tmp_path / "log.parquet", LogColumns())
    _check_same(sound_log(frame, parts.columns, parts.features), log_from_frame(frame))


def test_small_types_do_not_overflow(tmp_path: Path) -> None:
    frame = one_list_a_query(20).with_columns((pl.col("position") + 120).cast(pl.Int8))
    columns = LogColumns(position_base=0)
    _check_same(sound_log(frame, columns, ["f0", "f1"]), log_from_frame(frame, position_base=0, features=["f0", "f1"]))


def test_what_is_not_finite_is_left_to_the_careful_reader(tmp_path: Path) -> None:
    frame = one_list_a_query(20).with_columns(f0=pl.lit(float("inf")))
    assert sound_log(frame, LogColumns(), ["f0"]) is None


def _check_same(quick: ClickLog | None, careful: ClickLog) -> None:
    assert quick is not None
    for mine, theirs in ((quick, careful), (quick.data, careful.data)):
        for name in (field.name for field in fields(theirs)):
            found, expected = getattr(mine, name), getattr(theirs, name)
            if isinstance(expected, np.ndarray):
                assert found.dtype == expected.dtype, name
                np.testing.assert_array_equal(found, expected, err_msg=name)
            elif isinstance(expected, pl.Series):
                assert found.equals(expected, check_names=True), name
            elif name != "data":
                assert found == expected, name
