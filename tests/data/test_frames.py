from __future__ import annotations

import gzip
import io
import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unskew import ClickLog, RankingData
from unskew.data.files import ROW_GROUP, feature_block
from unskew.data.frames import (
    log_from_frame,
    ranking_from_frame,
    read_judged_table,
    read_log,
    write_judged,
    write_log,
)
from unskew.errors import (
    ColumnError,
    DataError,
    FeatureError,
    FileFormatError,
    KeyMismatchError,
    LogError,
    OutputError,
    SettingError,
)


def assert_same_data(left: RankingData, right: RankingData) -> None:
    np.testing.assert_array_equal(left.features, right.features)
    np.testing.assert_array_equal(left.offsets, right.offsets)
    assert left.feature_names == right.feature_names
    assert left.query_ids.equals(right.query_ids, check_dtypes=True)
    assert left.item_ids is not None
    assert right.item_ids is not None
    assert left.item_ids.equals(right.item_ids, check_dtypes=True)
    assert (left.grades is None) == (right.grades is None)
    if left.grades is not None:
        np.testing.assert_array_equal(left.grades, right.grades)
    assert left.max_grade == right.max_grade


def assert_same_log(left: ClickLog, right: ClickLog) -> None:
    assert_same_data(left.data, right.data)
    for name in ("row", "session_offsets", "position", "click", "weight", "logging_score"):
        one, other = getattr(left, name), getattr(right, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other, err_msg=name)
    assert left.session_ids.equals(right.session_ids, check_dtypes=True)


def full_log(seed: int = 0, *, queries: int = 3, text: bool = False, weight: bool = True) -> ClickLog:
    """A log with everything a log can have; ids ascending, so that reading keeps the order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, queries)
    rows = int(sizes.sum())
    item_ids = pl.Series(np.concatenate([np.arange(size) for size in sizes]), dtype=pl.Int32)
    data = RankingData.from_arrays(
        rng.normal(size=(rows, 3)),
        sizes=sizes,
        grades=rng.integers(0, 3, rows),
        query_ids=[f"q{number:04d}" for number in range(queries)] if text else range(10, 10 + queries),
        item_ids=item_ids.cast(pl.String) if text else item_ids,
        feature_names=["bm25", "click rate", "länge"],
        max_grade=4,
    )
    sessions = 2
    row = np.concatenate([np.arange(rows)] * sessions)
    session = np.concatenate([data.query_of_row * sessions + number for number in range(sessions)])
    position = np.concatenate([np.arange(rows) - data.offsets[data.query_of_row] + 1] * sessions)
    click = rng.random(len(row)) < 0.5
    click[0] = True
    return ClickLog.from_arrays(
        data,
        row=row,
        session=session,
        position=position,
        click=click,
        session_ids=[f"s{number:04d}" for number in range(sessions * queries)] if text else None,
        weight=rng.random(len(row)) if weight else None,
        logging_score=rng.normal(size=len(row)) if weight else None,
    )


# --- frames ---------------------------------------------------------------------------------------------------------


def test_known_answer():
    frame = pl.DataFrame(
        {
            "query_id": ["b", "a", "b", "a", "b", "b"],
            "session_id": [2, 1, 2, 1, 3, 3],
            "item_id": ["y", "x", "x", "z", "x", "y"],
            "position": [2, 1, 1, 2, 2, 1],
            "click": [1, 0, 0, 0, 0, 1],
            "relevance": [3, 1, 0, 0, 0, 3],
            "price": [3.0, 1.0, 2.0, 4.0, 2.0, 3.0],
        }
    )
    log = log_from_frame(frame)
    assert log.data.query_ids.to_list() == ["a", "b"]
    assert log.data.item_ids.to_list() == ["x", "z", "x", "y"]
    assert log.data.features.ravel().tolist() == [1, 4, 2, 3]
    assert log.data.grades.tolist() == [1, 0, 0, 3]
    assert log.data.max_grade == 3
    assert log.session_ids.to_list() == [1, 2, 3]
    assert log.row.tolist() == [0, 1, 2, 3, 3, 2]
    assert log.position.tolist() == [1, 2, 1, 2, 1, 2]
    assert log.click.tolist() == [0, 0, 0, 1, 1, 0]


def test_every_kind_of_frame_gives_the_same_log(tidy_frame):
    frame = tidy_frame()
    expected = log_from_frame(frame)
    kinds = [
        frame.lazy(),
        frame.to_pandas(),
        frame.to_pandas(use_pyarrow_extension_array=True),
        frame.to_arrow(),
        frame.to_dict(as_series=False),
        frame.with_columns(pl.col("query_id", "item_id").cast(pl.Categorical)).to_pandas(),
        frame.with_columns(pl.col("click").cast(pl.Boolean), pl.col("position").cast(pl.Float64)),
    ]
    for kind in kinds:
        assert_same_log(expected, log_from_frame(kind))


def test_pandas_without_pyarrow_gives_the_same_log(tidy_frame, monkeypatch):
    frame = tidy_frame()
    pandas = frame.to_pandas()
    pandas["item_id"] = pandas["item_id"].astype(object)
    monkeypatch.setattr(pl, "from_pandas", lambda column: (_ for _ in ()).throw(ImportError("pyarrow")))
    assert_same_log(log_from_frame(frame), log_from_frame(pandas))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_row_order_does_not_matter(tidy_frame, seed):
    frame = tidy_frame(queries=3, items=4, sessions=2, seed=1)
    shuffled = frame.sample(fraction=1, shuffle=True, seed=seed)
    assert_same_log(log_from_frame(frame), log_from_frame(shuffled))


def test_impressions_survive_a_brute_force_comparison(tidy_frame):
    frame = tidy_frame(queries=5, items=6, sessions=4, seed=3).sample(fraction=1, shuffle=True, seed=1)
    log = log_from_frame(frame)
    for number, row in enumerate(frame.sort("query_id", "session_id", "position").iter_rows(named=True)):
        place = log.row[number]
        assert log.data.query_ids[int(log.query_of[number])] == row["query_id"]
        assert log.session_ids[int(log.session_of[number])] == row["session_id"]
        assert log.data.item_ids[int(place)] == row["item_id"]
        assert (log.position[number], log.click[number]) == (row["position"], row["click"])
        assert log.data.features[place].tolist() == [row["bm25"], row["age"]]


def test_features_are_stored_once(tidy_frame):
    log = log_from_frame(tidy_frame(queries=4, items=5, sessions=3))
    assert log.data.n_rows == 20
    assert log.n_impressions == 60
    assert log.notes == ()


def test_features_that_change_keep_one_row_per_impression(tidy_frame):
    frame = tidy_frame().with_columns(age=pl.int_range(pl.len()).cast(pl.Float32))
    log = log_from_frame(frame)
    assert log.data.n_rows == log.n_impressions == frame.height
    assert "'age'" in log.notes[0]
    expected = frame.sort("query_id", "session_id", "position")
    np.testing.assert_array_equal(log.data.features[log.row], expected.select("bm25", "age").to_numpy())
    assert_same_log(log, log_from_frame(frame.sample(fraction=1, shuffle=True, seed=5)))


def test_missing_features_are_equal_to_missing_ones(tidy_frame):
    frame = tidy_frame().with_columns(age=pl.when(pl.col("item_id") == "d1").then(None).otherwise("age"))
    log = log_from_frame(frame, missing="keep")
    assert log.data.n_rows == 20
    assert np.isnan(log.data.features[:, 1]).sum() == 4


def test_many_columns_and_rows_cross_the_blocks():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(20_000, 37)).astype(np.float32)
    frame = pl.DataFrame(matrix, schema=[f"x{number}" for number in range(37)]).with_columns(
        query_id=np.arange(20_000) // 10, session_id=np.arange(20_000) // 10, item_id=np.arange(20_000) % 10,
        position=np.arange(20_000) % 10 + 1, click=(np.arange(20_000) % 7 == 0),
    )  # fmt: skip
    shuffled = frame.sample(fraction=1, shuffle=True, seed=2)
    np.testing.assert_array_equal(log_from_frame(shuffled).data.features, matrix)
    np.testing.assert_array_equal(ranking_from_frame(frame.drop("session_id", "position", "click")).features, matrix)


def test_columns_go_by_any_name(tidy_frame):
    frame = tidy_frame()
    names = {"query_id": "q", "session_id": "s", "item_id": "doc", "position": "rank", "click": "clicked"}
    renamed = frame.rename(names).with_columns(pl.col("rank") - 1, w=pl.lit(2.0), ignored=pl.lit("text"))
    log = log_from_frame(
        renamed, query="q", session="s", item="doc", position="rank", click="clicked", weight="w",
        features=["bm25", "age"], position_base=0,
    )  # fmt: skip
    np.testing.assert_array_equal(log.weight, 2)
    assert_same_log(log_from_frame(frame.with_columns(weight=pl.lit(2.0))), log)


def test_optional_columns_can_be_left_out(tidy_frame):
    frame = tidy_frame().with_columns(weight=pl.lit(0.5), relevance=pl.lit(1))
    log = log_from_frame(frame, weight=None, relevance=None, features=["age"])
    assert log.weight is None
    assert log.data.grades is None
    assert log.data.feature_names == ("age",)
    assert log_from_frame(frame, weight=None, relevance=None).data.feature_names == ("bm25", "age")


def test_an_optional_column_that_was_named_must_be_there(tidy_frame):
    with pytest.raises(ColumnError, match="no column 'importance'"):
        log_from_frame(tidy_frame(), weight="importance")


def test_without_sessions_every_query_is_one(tidy_frame):
    frame = tidy_frame(sessions=1)
    log = log_from_frame(frame.drop("session_id"))
    assert log.n_sessions == 4
    assert log.session_ids.to_list() == ["q0", "q1", "q2", "q3"]
    assert "no session column" in log.notes[0]


def test_counts_are_taken_when_told(tidy_frame):
    frame = tidy_frame().with_columns(click=pl.lit(3))
    assert log_from_frame(frame, counts=True).click.max() == 3


def test_a_log_without_clicks_is_taken_when_told(tidy_frame):
    assert log_from_frame(tidy_frame().with_columns(click=pl.lit(0)), need_clicks=False).n_clicks == 0


def test_bad_logs_are_refused(bad_log):
    with pytest.raises(bad_log.error) as caught:
        log_from_frame(bad_log.frame)
    assert type(caught.value) is bad_log.error
    for words in bad_log.words:
        assert words in str(caught.value)


def test_a_grade_beyond_the_maximum_is_refused(tidy_frame):
    frame = tidy_frame().with_columns(relevance=pl.lit(4))
    assert log_from_frame(frame, max_grade=4).data.max_grade == 4
    with pytest.raises(DataError, match="between 0 and 3"):
        log_from_frame(frame, max_grade=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"position_base": 2}, "position_base must be one of 0, 1"),
        ({"missing": "drop"}, "missing must be one of"),
        ({"max_grade": 99}, "between 1 and 30"),
        ({"position": "click"}, "one part only"),
    ],
)
def test_wrong_settings(tidy_frame, options, words):
    with pytest.raises(SettingError, match=words):
        log_from_frame(tidy_frame(), **options)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (["bm25", "colour"], "'colour' is not"),
        (["bm25", "bm25"], "named 2 times"),
        (["bm25", "click"], "is the click column"),
        ([], "must be feature columns"),
    ],
)
def test_features_that_cannot_be_chosen(tidy_frame, features, words):
    with pytest.raises(FeatureError, match=words):
        log_from_frame(tidy_frame(), features=features)


def test_what_is_no_table():
    for source in (42, [1, 2], np.eye(2)):
        with pytest.raises(DataError):
            log_from_frame(source)


def test_repeated_columns_are_refused(tidy_frame):
    pandas = tidy_frame().to_pandas()
    doubled = pd.concat([pandas, pandas[["age"]]], axis=1)
    with pytest.raises(ColumnError, match="'age' occurs more than once"):
        log_from_frame(doubled)
    with pytest.raises(ColumnError, match="'a' occurs more than once"):
        log_from_frame(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]))


def test_a_pandas_column_of_several_types_is_refused(tidy_frame):
    pandas = tidy_frame().to_pandas()
    pandas["age"] = ["old", *pandas["age"].tolist()[1:]]
    with pytest.raises(DataError, match="age"):
        log_from_frame(pandas)


# --- judged data ----------------------------------------------------------------------------------------------------


def test_ranking_keeps_the_order_of_the_table():
    frame = pl.DataFrame(
        {"query_id": ["z", "a", "z", "m", "a"], "item_id": [5, 1, 2, 7, 0], "relevance": [1, 0, 2, 0, 1], "x": range(5)}
    )
    data = ranking_from_frame(frame)
    assert data.query_ids.to_list() == ["z", "a", "m"]
    assert data.item_ids.to_list() == [5, 2, 1, 0, 7]
    assert data.features.ravel().tolist() == [0, 2, 1, 4, 3]
    assert data.grades.tolist() == [1, 2, 0, 1, 0]


def test_ranking_without_items_or_grades():
    data = ranking_from_frame(pl.DataFrame({"query_id": [1, 1], "x": [0.5, 1.0]}))
    assert data.item_ids is None
    assert data.grades is None


def test_ranking_refuses_what_it_must():
    frame = pl.DataFrame({"query_id": [1, 1], "item_id": [3, 3], "x": [0.5, 1.0]})
    with pytest.raises(DataError, match=r"once in a query.*query '1', item '3'"):
        ranking_from_frame(frame)
    with pytest.raises(ColumnError, match="'doc'"):
        ranking_from_frame(frame, item="doc")
    with pytest.raises(DataError, match="relevance must be a whole number"):
        ranking_from_frame(frame.with_columns(item_id=pl.Series([1, 2]), relevance=pl.Series([0.5, 1])))


def test_a_log_as_candidates_takes_no_log_columns_for_features(tidy_frame):
    data = ranking_from_frame(tidy_frame(sessions=1))
    assert data.feature_names == ("bm25", "age")


# --- two tables -----------------------------------------------------------------------------------------------------


def two_tables(frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    features = frame.select("query_id", "item_id", "bm25", "age").unique(maintain_order=True)
    return frame.drop("bm25", "age"), features


def test_features_in_a_second_table(tidy_frame):
    frame = tidy_frame()
    log, features = two_tables(frame)
    shuffled = features.sample(fraction=1, shuffle=True, seed=3)
    assert_same_log(log_from_frame(frame), log_from_frame(log, feature_table=shuffled))
    assert_same_log(log_from_frame(frame), log_from_frame(log.to_pandas(), feature_table=shuffled.to_arrow()))


def test_items_that_were_never_shown_are_kept_for_queries_of_the_log(tidy_frame):
    log, features = two_tables(tidy_frame())
    hidden = features.head(2).with_columns(item_id=pl.Series(["d00", "zz"]))
    elsewhere = features.head(1).with_columns(query_id=pl.lit("q99"))
    joined = log_from_frame(log, feature_table=pl.concat([features, hidden, elsewhere]))
    assert joined.data.n_rows == 22
    assert joined.data.n_queries == 4
    assert joined.data.item_ids.to_list()[:7] == ["d0", "d00", "d1", "d2", "d3", "d4", "zz"]
    assert len(joined.rows_shown) == 20
    plain = log_from_frame(log, feature_table=features)
    np.testing.assert_array_equal(joined.data.features[joined.row], plain.data.features[plain.row])


def test_grades_may_be_in_either_table(tidy_frame):
    log, features = two_tables(tidy_frame())
    grade = pl.col("item_id").str.slice(1).cast(pl.Int64).alias("relevance")
    in_log = log_from_frame(log.with_columns(grade), feature_table=features)
    beside = log_from_frame(log, feature_table=features.with_columns(grade))
    assert in_log.data.grades.tolist() == beside.data.grades.tolist() == [0, 1, 2, 3, 4] * 4
    hidden = features.head(1).with_columns(item_id=pl.lit("zz"))
    partly = log_from_frame(log.with_columns(grade), feature_table=pl.concat([features, hidden]))
    assert partly.data.n_rows == 20  # an item without a grade cannot be in judged data


def test_ids_of_another_type_still_match(tidy_frame):
    frame = tidy_frame().with_columns(pl.col("item_id").str.slice(1).cast(pl.Int32))
    log, features = two_tables(frame)
    expected = log_from_frame(frame)
    for kind in (pl.Int64, pl.String):
        recast = features.with_columns(pl.col("item_id").cast(kind))
        assert_same_log(expected, log_from_frame(log, feature_table=recast))


def test_keys_that_do_not_match_are_refused(tidy_frame):
    log, features = two_tables(tidy_frame())
    with pytest.raises(KeyMismatchError, match=r"2 of 20 have none \(first: query 'q0', item 'd1'\)"):
        log_from_frame(log, feature_table=features.filter(~((pl.col("query_id") < "q2") & (pl.col("item_id") == "d1"))))
    with pytest.raises(DataError, match="once in a query"):
        log_from_frame(log, feature_table=pl.concat([features, features.head(1)]))
    with pytest.raises(ColumnError, match="'item_id'"):
        log_from_frame(log, feature_table=features.drop("item_id"))
    with pytest.raises(FeatureError, match="'age' is missing"):
        log_from_frame(log, feature_table=features.with_columns(age=pl.lit(None, dtype=pl.Float32)))


def test_judged_data_with_a_second_table(tidy_frame):
    frame = tidy_frame(sessions=1).with_columns(relevance=pl.lit(2))
    log, features = two_tables(frame)
    judged = ranking_from_frame(log, feature_table=features.reverse())
    assert_same_data(ranking_from_frame(frame), judged)
    with pytest.raises(KeyMismatchError, match="3 of 20"):
        ranking_from_frame(log, feature_table=features.tail(17))


# --- files ----------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), queries=st.integers(1, 8), text=st.booleans(), weight=st.booleans())
def test_round_trips_without_loss(tmp_path, seed, queries, text, weight):
    log = full_log(seed, queries=queries, text=text, weight=weight)
    write_log(log, tmp_path / "log.parquet")
    assert_same_log(log, read_log(tmp_path / "log.parquet"))
    write_log(log, tmp_path / "keys.parquet", features=tmp_path / "features.parquet")
    assert_same_log(log, read_log(tmp_path / "keys.parquet", feature_table=tmp_path / "features.parquet"))
    assert_same_log(log, log_from_frame(log.to_frame(), max_grade=4))
    write_judged(log.data, tmp_path / "judged.parquet")
    assert_same_data(log.data, read_judged_table(tmp_path / "judged.parquet"))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), text=st.booleans())
def test_csv_round_trips_up_to_the_width_of_integers(tmp_path, seed, text):
    log = full_log(seed, text=text)
    if text:  # a CSV file does not tell the text '0' from the number 0
        log = log.with_data(RankingData(**{**vars_of(log.data), "item_ids": "d" + log.data.item_ids}))
    else:
        log = log.with_data(RankingData(**{**vars_of(log.data), "item_ids": log.data.item_ids.cast(pl.Int64)}))
    write_log(log, tmp_path / "log.csv")
    assert_same_log(log, read_log(tmp_path / "log.csv", max_grade=4))


def vars_of(data: RankingData) -> dict:
    names = ("features", "offsets", "query_ids", "feature_names", "grades", "item_ids", "max_grade")
    return {name: getattr(data, name) for name in names}


def test_the_same_log_gives_the_same_bytes(tmp_path):
    write_log(full_log(1), tmp_path / "a.parquet")
    write_log(full_log(1), tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_columns_come_in_the_order_of_the_plan(tmp_path):
    write_log(full_log(), tmp_path / "log.parquet")
    schema = pl.read_parquet_schema(tmp_path / "log.parquet")
    keys = ["query_id", "session_id", "item_id", "position", "click", "weight", "logging_score", "relevance"]
    assert schema.names() == [*keys, "bm25", "click rate", "länge"]
    assert schema["bm25"] == pl.Float32


def test_missing_features_and_changing_ones_survive_a_file(tmp_path, tidy_frame):
    frame = tidy_frame().with_columns(age=pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise("age"))
    log = log_from_frame(frame, missing="keep")
    assert log.data.n_rows == frame.height
    write_log(log, tmp_path / "log.parquet")
    assert_same_log(log, read_log(tmp_path / "log.parquet", missing="keep"))
    with pytest.raises(FeatureError, match="Write them inline"):
        write_log(log, tmp_path / "keys.parquet", features=tmp_path / "features.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.parquet"]


def test_items_without_ids_are_numbered(tmp_path):
    data = RankingData.from_arrays(np.arange(4).reshape(-1, 1), sizes=[1, 3])
    write_judged(data, tmp_path / "judged.parquet")
    assert read_judged_table(tmp_path / "judged.parquet").item_ids.to_list() == [1, 1, 2, 3]


def test_a_long_log_is_written_in_row_groups(tmp_path):
    import pyarrow.parquet as pq

    n = ROW_GROUP + 1000
    data = RankingData.from_arrays(np.arange(n, dtype=np.float32).reshape(-1, 1) % 1000, sizes=np.full(n // 4, 4))
    log = ClickLog.from_arrays(
        data, row=np.arange(n), session=np.arange(n) // 4, position=np.arange(n) % 4 + 1, click=np.arange(n) % 2
    )
    write_log(log, tmp_path / "log.parquet")
    assert pq.ParquetFile(tmp_path / "log.parquet").num_row_groups > 1
    back = read_log(tmp_path / "log.parquet")
    np.testing.assert_array_equal(back.row, log.row)
    np.testing.assert_array_equal(back.data.features, data.features)


def test_a_folder_of_files_is_one_log(tmp_path, tidy_frame):
    frame = tidy_frame()
    folder = tmp_path / "parts"
    folder.mkdir()
    frame.tail(37).write_parquet(folder / "b.parquet")
    frame.head(23).write_parquet(folder / "a.parquet")
    (folder / "_SUCCESS").write_text("")
    assert_same_log(log_from_frame(frame), read_log(folder))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop("age"), "b.parquet lacks 'age'"),
        (lambda frame: frame.with_columns(new=1), "b.parquet has 'new'"),
        (lambda frame: frame.with_columns(pl.col("age").cast(pl.Float64)), "b.parquet has 'age' as Float64"),
    ],
)
def test_files_of_a_folder_must_agree(tmp_path, tidy_frame, change, words):
    tidy_frame().write_parquet(tmp_path / "a.parquet")
    change(tidy_frame()).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(FileFormatError, match=words):
        read_log(tmp_path)


def test_other_table_files(tmp_path, tidy_frame):
    frame = tidy_frame()
    expected = log_from_frame(frame)
    frame.write_csv(tmp_path / "log.tsv", separator="\t")
    frame.write_csv(tmp_path / "semicolon.csv", separator=";")
    frame.write_ipc(tmp_path / "log.arrow")
    (tmp_path / "crlf.csv").write_text(frame.write_csv().replace("\n", "\r\n"), newline="")
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(frame.write_csv().encode()))
    (tmp_path / "log.tsv.gz").write_bytes(gzip.compress((tmp_path / "log.tsv").read_bytes()))
    for name in ("log.tsv", "log.tsv.gz", "semicolon.csv", "log.arrow", "crlf.csv", "log.csv.gz"):
        assert_same_log(expected, read_log(tmp_path / name))


def test_csv_types_are_found_beyond_the_first_rows(tmp_path):
    n = 12_000
    frame = pl.DataFrame(
        {
            "query_id": np.arange(n) // 2,
            "session_id": np.arange(n) // 2,
            "item_id": [*map(str, range(n - 1)), "last"],
            "position": np.arange(n) % 2 + 1,
            "click": np.arange(n) % 2,
            "x": [*["1"] * (n - 1), "0.5"],
        }
    )
    frame.write_csv(tmp_path / "log.csv")
    log = read_log(tmp_path / "log.csv")
    assert log.data.features[-1, 0] == 0.5
    assert log.data.item_ids[-1] == "last"


def broken_files() -> dict[str, tuple[bytes, str]]:
    frame = pl.DataFrame({"query_id": [1] * 500, "item_id": range(500), "x": np.random.default_rng(0).random(500)})
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    parquet = buffer.getvalue()
    csv = frame.write_csv().encode()
    return {
        "empty.parquet": (b"", "is empty"),
        "empty.csv": (b"\n", "is empty"),
        "cut.parquet": (parquet[: len(parquet) // 2], "cut short"),
        "nofooter.parquet": (parquet[:-4], "cut short"),
        "damaged.parquet": (parquet[:4] + bytes(len(parquet) // 2) + parquet[4 + len(parquet) // 2 :], "damaged"),
        "binary.csv": (b"\x7fELF\x00\x01\x02" * 100, "binary file"),
        "latin.csv": ("query_id,item_id,naïve\n1,2,ä\n".encode("latin-1"), "cannot be read"),
        "ragged.csv": (b"query_id,item_id,x\n1,2,3\n1,3,4,5\n", "cannot be read"),
        "cut.csv": (csv[: csv.rindex(b",")], "its last line has 2 of 3 fields"),
        "cut.csv.gz": (gzip.compress(csv)[:-200], "cannot be read"),
        "packed.csv.xz": (b"\xfd7zXZ\x00" + bytes(50), "xz"),
        "letor.txt": (b"2 qid:1 1:0.5\n0 qid:1 1:0.1\n", "unskew simulate"),
        "double.csv": (b"query_id,x,x\n1,2,3\n", "'x' occurs more than once"),
    }


@pytest.mark.parametrize("name", list(broken_files()))
def test_broken_files_are_refused(tmp_path, name):
    content, words = broken_files()[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        read_log(tmp_path / name)
    assert isinstance(caught.value, (FileFormatError, ColumnError))
    with pytest.raises(DataError, match=words):
        read_judged_table(tmp_path / name)


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileFormatError, match="There is no file"):
        read_log(tmp_path / "log.parquet")
    with pytest.raises(FileFormatError, match="without Parquet files"):
        read_log(tmp_path)


def test_a_log_of_only_a_header(tmp_path):
    (tmp_path / "log.csv").write_text("query_id,session_id,item_id,position,click,x\n")
    with pytest.raises(DataError, match="needs rows"):
        read_log(tmp_path / "log.csv")


def test_a_newer_format_is_refused(tmp_path, tidy_frame):
    tidy_frame().write_parquet(tmp_path / "log.parquet", metadata={"unskew": '{"format": 99}'})
    with pytest.raises(FileFormatError, match="format 99"):
        read_log(tmp_path / "log.parquet")


def test_a_folder_that_cannot_be_written(tmp_path):
    log = full_log()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="Cannot write"):
        write_log(log, tmp_path / "file" / "log.parquet")
    (tmp_path / "taken.parquet").mkdir()
    with pytest.raises(OutputError, match="a folder of that name"):
        write_log(log, tmp_path / "taken.parquet")
    with pytest.raises(OutputError, match=r"ends in \.parquet or \.csv"):
        write_log(log, tmp_path / "log.xlsx")
    if os.geteuid() != 0:  # root may write anywhere
        closed = tmp_path / "closed"
        closed.mkdir()
        closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
        with pytest.raises(OutputError, match="you may write to"):
            write_log(log, closed / "log.parquet")


def test_a_failure_while_writing_leaves_nothing(tmp_path, monkeypatch):
    log = full_log()
    write_log(log, tmp_path / "log.parquet")
    before = (tmp_path / "log.parquet").read_bytes()
    made = feature_block

    def fail_late(data: RankingData, rows: np.ndarray) -> pl.DataFrame:
        if len(rows):
            raise OSError(28, "No space left on device")
        return made(data, rows)

    monkeypatch.setattr("unskew.data.files.feature_block", fail_late)
    with pytest.raises(OutputError, match="No space left"):
        write_log(full_log(3), tmp_path / "log.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]
    assert (tmp_path / "log.parquet").read_bytes() == before


def test_what_cannot_be_written_faithfully(tmp_path):
    data = RankingData.from_arrays([[0.1], [0.7]], sizes=[2], feature_names=["click"])
    options = {"row": [0, 1], "session": [0, 1], "position": [1, 1], "click": [0, 1]}
    with pytest.raises(FeatureError, match="'click'"):
        write_log(ClickLog.from_arrays(data, **options), tmp_path / "log.parquet")
    data = RankingData.from_arrays([[0.1], [0.7]], sizes=[2])
    with pytest.raises(LogError, match="id of its own"):
        write_log(ClickLog.from_arrays(data, session_ids=["a", "a"], **options), tmp_path / "log.parquet")
    assert list(Path(tmp_path).iterdir()) == []
