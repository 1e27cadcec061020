"""`unskew evaluate` as a person runs it."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from unskew.cli import app, commands  # noqa: F401  (importing registers)

pytest.importorskip("unskew.sources")


def run(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Judged data in two formats, and scores of a good and of a random system in three."""
    path = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 3, 400)
    keys = {"query_id": np.repeat(np.arange(40), 10), "item_id": np.tile(np.arange(1, 11), 40)}
    pl.DataFrame({**keys, "relevance": grades, "f1": rng.normal(size=400)}).write_parquet(path / "judged.parquet")
    lines = [f"{g} qid:{q} 1:{rng.random():.3f}" for g, q in zip(grades, keys["query_id"])]
    (path / "judged.txt").write_text("\n".join(lines) + "\n")
    good = grades + rng.normal(0, 0.3, 400)
    pl.DataFrame({**keys, "score": good}).sample(fraction=1.0, shuffle=True).write_parquet(path / "good.parquet")
    pl.DataFrame({**keys, "score": rng.normal(size=400)}).write_csv(path / "random.csv")
    (path / "good.txt").write_text("\n".join(map(str, good)) + "\n")
    return path


def test_two_systems_are_compared(folder):
    result = run(folder / "judged.parquet", folder / "good.parquet", folder / "random.csv", "--max-grade", 2, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    rows = {row["system"]: row for row in document["rows"]}
    assert rows["good"]["ndcg@10"] > rows["random"]["ndcg@10"]
    assert rows["good"]["beats"]["ndcg@10"] == "b"
    assert document["metrics"] == ["ndcg@1", "err@1", "ndcg@3", "err@3", "ndcg@5", "err@5", "ndcg@10", "err@10"]


def test_the_table_is_for_people(folder):
    result = run(folder / "judged.parquet", folder / "good.parquet", "--at", "1,10")
    assert result.exit_code == 0, result.output
    assert "NDCG@10" in result.stdout
    assert "without a relevant item, left out" in result.stdout


def test_letor_text_with_one_score_a_line(folder):
    by_key = run(folder / "judged.parquet", folder / "good.parquet", "--max-grade", 2, "--json")
    by_line = run(folder / "judged.txt", folder / "good.txt", "--max-grade", 2, "--json")
    assert by_line.exit_code == 0, by_line.output
    assert json.loads(by_line.stdout)["rows"][0]["ndcg@10"] == json.loads(by_key.stdout)["rows"][0]["ndcg@10"]


def test_per_query_values_go_to_a_file(folder, tmp_path):
    result = run(folder / "judged.parquet", folder / "good.parquet", "--per-query", tmp_path / "each.csv", "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert pl.read_csv(tmp_path / "each.csv").height == 40


def test_the_largest_grade_changes_err(folder):
    low, high = (
        json.loads(run(folder / "judged.parquet", folder / "good.parquet", "--max-grade", grade, "--json").stdout)
        for grade in (2, 4)
    )
    assert low["rows"][0]["err@10"] > high["rows"][0]["err@10"]
    assert low["rows"][0]["ndcg@10"] == high["rows"][0]["ndcg@10"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["judged.parquet", "missing.csv"], "Cannot read"),
        (["missing.parquet", "good.parquet"], "missing.parquet"),
        (["judged.parquet", "judged.parquet"], "'score' or 'rank'"),
        (["judged.parquet", "good.parquet", "good.parquet"], "twice"),
        (["judged.parquet", "good.parquet", "--at", "1,x"], "whole numbers"),
        (["judged.parquet", "good.parquet", "--at", "0"], "1 or greater"),
        (["judged.parquet", "good.parquet", "--empty", "skip"], "skip"),
        (["judged.parquet", "good.parquet", "--max-grade", "1"], "between 0 and 1"),
    ],
)
def test_wrong_use_exits_with_2_and_a_message(folder, arguments, message):
    paths = [folder / part if "." in part else part for part in arguments]
    result = run(*paths)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_judged_tables_need_no_features(folder, tmp_path):
    judged = pl.read_parquet(folder / "judged.parquet")
    bare, wordy = judged.drop("f1"), judged.drop("f1").with_columns(title=pl.lit("text"))
    whole = run(folder / "judged.parquet", folder / "good.parquet", "--json").stdout
    for name, frame in {"bare": bare, "wordy": wordy}.items():
        frame.write_csv(tmp_path / f"{name}.csv")
        frame.write_parquet(tmp_path / f"{name}.parquet")
        for path in (tmp_path / f"{name}.csv", tmp_path / f"{name}.parquet"):
            result = run(path, folder / "good.parquet", "--json")
            assert result.exit_code == 0, result.stderr
            assert result.stdout == whole


def test_a_table_without_grades_says_how_to_name_them(folder):
    result = run(folder / "random.csv", folder / "random.csv")
    assert result.exit_code == 2
    assert "--relevance" in result.stderr


def test_a_click_log_is_not_judged_data(folder, tmp_path):
    judged = pl.read_parquet(folder / "judged.parquet")
    pl.concat([judged, judged]).write_parquet(tmp_path / "log.parquet")
    result = run(tmp_path / "log.parquet", folder / "good.parquet")
    assert result.exit_code == 2
    assert "Is this a click log" in result.stderr


@pytest.mark.parametrize("kind", ["csv", "txt"])
def test_scores_by_line_need_rows_in_the_order_of_the_file(folder, tmp_path, kind):
    """Rows of a query that lie apart are put together, so a line of scores would meet another row."""
    path = tmp_path / f"judged.{kind}"
    if kind == "csv":
        pl.read_parquet(folder / "judged.parquet").sort("item_id").write_csv(path)
    else:
        lines = (folder / "judged.txt").read_text().splitlines()
        path.write_text("\n".join(lines[::2] + lines[1::2]) + "\n")
    result = run(path, folder / "good.txt")
    assert result.exit_code == 2
    assert "Write query_id and item_id beside the scores" in result.stderr
