"""Scores from files: tables with keys, plain lines, and everything that does not fit."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from unskew.data.ranking import RankingData
from unskew.errors import ColumnError, DataError, FileFormatError, KeyMismatchError
from unskew.evaluation.score_files import read_scores

SCORES = [0.5, -1.0, 2.0, 7.25]


@pytest.fixture
def data():
    return RankingData.from_arrays(
        np.eye(4), sizes=[3, 1], query_ids=["q1", "q2"], item_ids=["a", "b", "c", "a"], grades=[0, 1, 2, 1]
    )


@pytest.fixture
def table():
    return pl.DataFrame({"query_id": ["q1", "q1", "q1", "q2"], "item_id": ["a", "b", "c", "a"], "score": SCORES})


def written(frame, path):
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
    return path


@pytest.mark.parametrize("name", ["s.parquet", "s.csv"])
def test_a_table_is_joined_on_its_keys_in_any_order(data, table, tmp_path, name):
    shuffled = table.sample(fraction=1.0, shuffle=True, seed=3)
    assert read_scores(written(shuffled, tmp_path / name), data).tolist() == SCORES


def test_a_rank_is_a_score_upside_down(data, table, tmp_path):
    ranks = table.select("query_id", "item_id", rank=pl.Series([2, 3, 1, 1]))
    assert read_scores(written(ranks, tmp_path / "s.csv"), data).tolist() == [-2, -3, -1, -1]


def test_plain_lines_follow_the_rows(data, tmp_path):
    path = tmp_path / "scores.txt"
    path.write_text("0.5\n-1e0\r\n 2\n7.25\n\n")
    assert read_scores(path, data).tolist() == SCORES


def test_a_table_without_keys_follows_the_rows(data, table, tmp_path):
    assert read_scores(written(table.select("score"), tmp_path / "s.parquet"), data).tolist() == SCORES


def test_ids_may_be_numbers_on_one_side_and_text_on_the_other(tmp_path):
    data = RankingData.from_arrays(np.eye(2), sizes=[2], query_ids=["7"], item_ids=["1", "2"])
    path = written(pl.DataFrame({"query_id": [7, 7], "item_id": [2, 1], "score": [0.2, 0.1]}), tmp_path / "s.csv")
    assert read_scores(path, data).tolist() == [0.1, 0.2]


def test_data_without_item_ids_numbers_its_items(tmp_path):
    data = RankingData.from_arrays(np.eye(3), sizes=[2, 1])
    frame = pl.DataFrame({"query_id": [0, 0, 1], "item_id": [1, 2, 1], "score": [0.1, 0.2, 0.3]})
    assert read_scores(written(frame, tmp_path / "s.parquet"), data).tolist() == [0.1, 0.2, 0.3]


def test_keys_that_do_not_match_are_named(data, table, tmp_path):
    path = tmp_path / "s.csv"
    with pytest.raises(KeyMismatchError, match=r"1 query-item pairs have no score \(first: query 'q1', item 'c'\)"):
        read_scores(written(table.filter(pl.col("item_id") != "c"), path), data)
    extra = pl.concat([table, pl.DataFrame({"query_id": ["q3"], "item_id": ["z"], "score": [1.0]})])
    with pytest.raises(KeyMismatchError, match=r"not in the judged data \(first: query 'q3', item 'z'\)"):
        read_scores(written(extra, path), data)
    with pytest.raises(KeyMismatchError, match=r"more than once \(first: query 'q1', item 'a'\)"):
        read_scores(written(pl.concat([table, table.head(1)]), path), data)


def test_other_files_are_refused(data, table, tmp_path):
    path = tmp_path / "s.csv"
    with pytest.raises(ColumnError, match="'score' or 'rank'"):
        read_scores(written(table.rename({"score": "points"}), path), data)
    with pytest.raises(ColumnError, match="'item_id' is missing"):
        read_scores(written(table.drop("item_id"), path), data)
    with pytest.raises(ColumnError, match="must be numbers"):
        read_scores(written(table.with_columns(score=pl.lit("high")), path), data)
    path.write_text("1\n2\n3\n")
    with pytest.raises(KeyMismatchError, match="3 scores, but the data has 4 rows"):
        read_scores(path, data)
    path.write_text("1\n2\nthree\n4\n")
    with pytest.raises(FileFormatError, match=r"line 3: expected one score, but found 'three'"):
        read_scores(path, data)
    path.write_text("\n")
    with pytest.raises(FileFormatError, match="empty"):
        read_scores(path, data)
    with pytest.raises(DataError, match="Cannot read"):
        read_scores(tmp_path / "missing.csv", data)
    path.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(FileFormatError):
        read_scores(path, data)


@pytest.mark.parametrize("kind", [pl.UInt64, pl.Int128])
def test_ids_beyond_64_bits(tmp_path, kind):
    query = pl.Series([2**63 + 7, 2**63 + 8], dtype=kind)
    data = RankingData.from_arrays(np.eye(2), sizes=[1, 1], query_ids=query, item_ids=["a", "b"], grades=[0, 1])
    table = pl.DataFrame({"query_id": query, "item_id": ["a", "b"], "score": [0.5, 1.5]})
    for name in ("s.csv", "s.parquet"):
        assert read_scores(written(table, tmp_path / name), data).tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("values", "said"),
    [(["1", "x", "2", "3"], r"first: 'x' in row 2"), ([1.0, 2.0, float("inf"), 3.0], r"s\.csv: .* inf in row 3")],
)
def test_scores_that_are_none(data, table, tmp_path, values, said):
    path = written(table.with_columns(score=pl.Series(values)), tmp_path / "s.csv")
    with pytest.raises(DataError, match=said):
        read_scores(path, data)


def test_lines_of_another_encoding(data, tmp_path):
    (tmp_path / "s.txt").write_bytes(b"\xef\xbb\xbf0.5\n-1\n2\n7.25\n")
    assert read_scores(tmp_path / "s.txt", data).tolist() == SCORES
    (tmp_path / "s.txt").write_bytes(b"0.5\n\xff\n2\n7.25\n")
    with pytest.raises(FileFormatError, match="line 2"):
        read_scores(tmp_path / "s.txt", data)
