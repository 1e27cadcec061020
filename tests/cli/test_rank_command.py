"""`unskew rank`, as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from unskew.cli import app, commands  # noqa: F401  (importing registers)
from unskew.deploy.model import Model
from unskew.rankers.base import RankerState


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["rank", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def model(tmp_path: Path) -> Path:
    content = b'{"coefficients": [2.0, 1.0], "intercept": 0}'
    Model.from_state(RankerState("linear", {"model.json": content}, ("bm25", "age"), 2)).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def log(tmp_path: Path, tidy_frame) -> Path:
    tidy_frame().write_parquet(tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def test_a_click_log_is_ranked_by_distinct_items_and_json_stays_json(model: Path, log: Path, tmp_path: Path) -> None:
    result = run(model, log, "--out", tmp_path / "ranked.parquet", "--json")
    assert json.loads(result.stdout)["rows"] == 20
    assert "40 of 60 rows" in result.stderr
    ranked = pl.read_parquet(tmp_path / "ranked.parquet")
    assert sorted(ranked["rank"].to_list()) == sorted(list(range(1, 6)) * 4)
    assert run(model, log, "--out", tmp_path / "ranked.parquet", "--quiet").output == ""


def test_what_is_read_is_not_replaced(model: Path, log: Path) -> None:
    before = log.read_bytes()
    assert "Name another output" in run(model, log, "--out", log, code=2).stderr
    assert log.read_bytes() == before


@pytest.mark.parametrize("place", ["ranked.txt", "log.parquet/ranked.csv", "folder.csv"])
def test_places_that_cannot_be_written(model: Path, log: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert f"Cannot write {tmp_path / place}" in run(model, log, "--out", tmp_path / place, code=2).stderr


def test_leading_zeros_go_all_the_way(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query_id,item_id,bm25,age\n1,007,0.5,1\n1,7,0.25,2\n")
    run(model, tmp_path / "a.csv", "--out", tmp_path / "ranked.csv")
    lines = (tmp_path / "ranked.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in lines] == ["item_id", "007", "7"]


@pytest.mark.parametrize("error", [pl.exceptions.ComputeError("disk is full"), OSError(28, "disk is full")])
def test_a_disk_that_is_full(
    model: Path, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(pl.DataFrame, "write_csv", fail)
    before = sorted(tmp_path.iterdir())
    said = run(model, log, "--out", tmp_path / "ranked.csv", code=2).stderr
    assert f"Cannot write {tmp_path / 'ranked.csv'}: disk is full" in said
    assert sorted(tmp_path.iterdir()) == before
