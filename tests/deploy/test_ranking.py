"""Ranking candidates: from data, frames and files, whole or block by block."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unskew.data.ranking import RankingData
from unskew.deploy.model import Model
from unskew.deploy.ranking import rank_candidates, write_ranking
from unskew.errors import ColumnError, DataError, FeatureError, OutputError, SettingError, UnskewWarning

Models = dict[str, Model]


@pytest.fixture
def frame(models: Models, candidates: np.ndarray) -> pl.DataFrame:
    """Candidates of 25 queries, not in order of the query, with a text column that is no feature."""
    columns = dict(zip(models["plain"].feature_names, candidates.T))
    query, item = np.arange(500) % 25, [f"d{i}" for i in range(500)]
    return pl.DataFrame({"query_id": query, "item_id": item, "title": ["x"] * 500, **columns})


def test_ranks_follow_the_scores_within_a_query(models: Models, frame: pl.DataFrame, candidates: np.ndarray) -> None:
    ranking = rank_candidates(models["plain"], frame)
    assert ranking.columns == ["query_id", "item_id", "score", "rank"]
    np.testing.assert_array_equal(ranking["score"], models["plain"].predict(candidates))
    for _, part in ranking.group_by("query_id"):
        ordered = part.sort("rank")
        assert ordered["rank"].to_list() == list(range(1, 21))
        assert ordered["score"].is_sorted(descending=True)
    assert ranking["item_id"].to_list() == frame["item_id"].to_list()


def test_ties_keep_the_order_of_the_source(models: Models, frame: pl.DataFrame) -> None:
    same = pl.concat([frame[:1]] * 4).with_columns(item_id=pl.Series(list("dcba")))
    assert rank_candidates(models["plain"], same)["rank"].to_list() == [1, 2, 3, 4]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_gives_what_a_frame_gives(models: Models, frame: pl.DataFrame, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"candidates.{suffix}"
    getattr(frame, f"write_{suffix}")(path)
    ranking = rank_candidates(models["plain"], path, block=64)
    assert ranking.equals(rank_candidates(models["plain"], frame))
    write_ranking(ranking, tmp_path / f"ranking.{suffix}")
    back = getattr(pl, f"read_{suffix}")(tmp_path / f"ranking.{suffix}")
    assert back["rank"].to_list() == ranking["rank"].to_list()
    with pytest.raises(OutputError, match=r"\.parquet or \.csv"):
        write_ranking(ranking, tmp_path / "ranking.txt")


def test_ranking_data_is_matched_by_name(models: Models, candidates: np.ndarray) -> None:
    order = [4, 2, 0, 1, 3]
    names = [models["plain"].feature_names[i] for i in order]
    data = RankingData.from_arrays(candidates[:, order], sizes=[20] * 25, feature_names=names)
    ranking = rank_candidates(models["plain"], data, block=100)
    np.testing.assert_array_equal(ranking["score"], models["plain"].predict(candidates))
    assert ranking["item_id"][:3].to_list() == [1, 2, 3]


def test_items_without_an_id_are_counted(models: Models, frame: pl.DataFrame) -> None:
    ranking = rank_candidates(models["plain"], frame.drop("item_id"))
    assert ranking.filter(query_id=3)["item_id"].to_list() == list(range(1, 21))


def test_a_folder_is_read_as_every_other_command_reads_it(models: Models, frame: pl.DataFrame, tmp_path: Path) -> None:
    frame.head(200).write_parquet(tmp_path / "a.parquet")
    frame.slice(200).write_parquet(tmp_path / "b.parquet")
    for unfinished in (".b.parquet", "_a.parquet"):
        frame.head(7).write_parquet(tmp_path / unfinished)
    assert rank_candidates(models["plain"], tmp_path, block=64).equals(rank_candidates(models["plain"], frame))


def test_a_table_by_another_name(models: Models, frame: pl.DataFrame, tmp_path: Path) -> None:
    frame.write_csv(tmp_path / "a.parquet")
    assert rank_candidates(models["plain"], tmp_path / "a.parquet").height == frame.height


def test_candidates_that_cannot_be_ranked(models: Models, frame: pl.DataFrame) -> None:
    with pytest.raises(DataError, match="has no row"):
        rank_candidates(models["plain"], frame.head(0))
    unknown = pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise(pl.col("query_id"))
    with pytest.raises(DataError, match=r"query_id must not be missing, but 1 row has none \(first: row 4\)"):
        rank_candidates(models["plain"], frame.with_columns(unknown.alias("query_id")))


def test_what_is_missing_is_named(models: Models, frame: pl.DataFrame) -> None:
    with pytest.raises(FeatureError, match="lacks 1 of the model's 5 features: 'age'"):
        rank_candidates(models["plain"], frame.drop("age"))
    with pytest.raises(ColumnError, match="query"):
        rank_candidates(models["plain"], frame.drop("query_id"))
    assert rank_candidates(models["plain"], frame.rename({"query_id": "q"}), query="q").height == 500


def test_a_click_log_is_ranked_by_its_distinct_items(models: Models, frame: pl.DataFrame) -> None:
    shown = pl.concat([frame, frame.reverse().head(120)])
    with pytest.warns(UnskewWarning, match="120 of 620 rows of the table repeat an item of their query"):
        ranking = rank_candidates(models["plain"], shown)
    assert ranking.equals(rank_candidates(models["plain"], frame))
    other = frame.head(1).with_columns(pl.col(models["plain"].feature_names[0]) + 5)
    with pytest.raises(DataError, match=r"1 rows .* another one than an earlier row \(first: query '0', item 'd0'\)"):
        rank_candidates(models["plain"], pl.concat([frame, other]))


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_what_is_infinite_is_named_by_its_row_of_the_file(
    models: Models, frame: pl.DataFrame, tmp_path: Path, suffix: str, value: float
) -> None:
    """As `validate` would: trees are no exception, and blocks do not start to count anew."""
    bad = pl.when(pl.int_range(pl.len()) == 321).then(value).otherwise(pl.col("age")).alias("age")
    path = tmp_path / f"candidates.{suffix}"
    getattr(frame.with_columns(bad), f"write_{suffix}")(path)
    with pytest.raises(FeatureError, match=r"'age' is infinite \(first: row 322\)\. Clip"):
        rank_candidates(models["plain"], path, block=64)
    with pytest.raises(FeatureError, match="'age' is infinite"):
        models["plain"].predict(frame.with_columns(bad))


def test_a_value_beyond_float32_is_infinite(models: Models, frame: pl.DataFrame) -> None:
    with pytest.raises(FeatureError, match=r"'age' is infinite \(first: row 1\).*float32 holds up to"):
        rank_candidates(models["plain"], frame.with_columns(age=pl.lit(1e300)))


def test_ids_of_candidates(models: Models, frame: pl.DataFrame) -> None:
    missing = pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise(pl.col("item_id"))
    with pytest.raises(DataError, match=r"item_id must not be missing, but 1 row has none \(first: row 4\)"):
        rank_candidates(models["plain"], frame.with_columns(item_id=missing))
    with pytest.raises(ColumnError, match="query_id must be integers or text, but the column holds fractions"):
        rank_candidates(models["plain"], frame.with_columns(pl.col("query_id") + 0.5))
    with pytest.raises(ColumnError, match="has no column 'doc'"):
        rank_candidates(models["plain"], frame, item="doc")
    whole = rank_candidates(models["plain"], frame.with_columns(pl.col("query_id").cast(pl.Float64)))
    assert whole["query_id"].to_list() == frame["query_id"].to_list()


def test_text_among_the_features(models: Models, frame: pl.DataFrame, tmp_path: Path) -> None:
    frame.with_columns(age=pl.when(pl.int_range(pl.len()) == 9).then(pl.lit("old")).otherwise(pl.col("age"))).write_csv(
        tmp_path / "a.csv"
    )
    with pytest.raises(FeatureError, match=r"'age' of .* \(first: 'old' in row 10\)"):
        rank_candidates(models["plain"], tmp_path / "a.csv")


def test_a_packed_table_keeps_its_columns(models: Models, frame: pl.DataFrame, tmp_path: Path) -> None:
    frame.rename({"query_id": "q"}).write_csv(tmp_path / "a.csv")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    assert rank_candidates(models["plain"], tmp_path / "a.csv.gz", query="q").height == 500
    (tmp_path / "a.txt").write_text("1 qid:7 1:0.5\n")
    with pytest.raises(SettingError, match="--query"):
        rank_candidates(models["plain"], tmp_path / "a.txt", query="q")
