"""`unskew report` as a person runs it."""

from __future__ import annotations

import json
import shlex

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from unskew.cli import app, commands  # noqa: F401  (importing registers)
from unskew.deploy.model import Model, load
from unskew.rankers.base import RankerState
from unskew.report.again import fit_command


def run(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.fixture
def model(tmp_path):
    content = json.dumps({"coefficients": [1.0, 0.5], "intercept": 0}).encode()
    Model.from_state(RankerState("linear", {"model.json": content}, ("bm25", "age"), 2)).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_model_with_its_log(model, tidy_frame, tmp_path):
    tidy_frame(queries=60).rename({"click": "clicked"}).write_parquet(tmp_path / "log.parquet")
    out = tmp_path / "page.html"
    result = run(model, "-o", out, "--log", tmp_path / "log.parquet", "--click", "clicked", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["out"] == str(out)
    levels = [finding["level"] for finding in told["findings"]]
    assert told["level"] == min(levels, key=["bad", "weak", "fine"].index)
    assert "reordering" in " ".join(finding["about"] for finding in told["findings"])
    assert all(finding["text"] for finding in told["findings"])
    text = out.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "Which items moved most" in text


def test_neither_run_nor_model(tmp_path):
    (tmp_path / "other").mkdir()
    result = run(tmp_path / "other", "-o", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "neither a run" in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_a_run_takes_no_log(tmp_path, tidy_frame):
    (tmp_path / "run" / "plans").mkdir(parents=True)
    tidy_frame().write_parquet(tmp_path / "log.parquet")
    result = run(tmp_path / "run", "-o", tmp_path / "page.html", "--log", tmp_path / "log.parquet")
    assert result.exit_code == 2
    assert "--log belongs to a saved model" in result.stderr
    result = run(tmp_path / "run", "-o", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "not the folder of a run" in result.stderr


def test_a_log_without_the_models_features(model, tidy_frame, tmp_path):
    tidy_frame().drop("age").write_parquet(tmp_path / "log.parquet")
    result = run(model, "-o", tmp_path / "page.html", "--log", tmp_path / "log.parquet")
    assert result.exit_code == 2
    assert "age" in result.stderr
    assert np.all([path.suffix != ".html" for path in tmp_path.iterdir()])


def test_a_page_never_takes_the_place_of_what_it_is_made_from(model, tidy_frame, tmp_path):
    log = tmp_path / "log.parquet"
    tidy_frame(queries=60).write_parquet(log)
    for target in (log, model / "manifest.json"):
        before = target.read_bytes()
        result = run(model, "-o", target, "--log", log)
        assert result.exit_code == 2
        assert target.name in result.stderr
        assert target.read_bytes() == before
    page = model / "page.html"
    assert [run(model, "-o", page).exit_code for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("validated", [False, True])
def test_the_command_on_the_page_makes_the_same_model(tidy_frame, tmp_path, monkeypatch, validated):
    """A log whose columns have other names, positions from 0, counted clicks and missing features."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("log.parquet", 0), ("VALID.parquet", 1)):
        frame = tidy_frame(queries=40, seed=seed).rename({"query_id": "the query"})
        frame = frame.with_columns(
            pl.col("position") - 1,
            pl.col("click") * 2,
            pl.when(pl.col("item_id") != "d1").then(pl.col("age")).alias("age"),
        )
        frame.write_parquet(name)
    words = ["--query", "the query", "--position-base", "0", "--counts", "--missing", "keep", "--preset", "smoke"]
    words += ["--method", "naive", "--seed", "3", *(["--valid", "VALID.parquet"] if validated else [])]
    first = CliRunner().invoke(app, ["fit", "log.parquet", "--out", "m", *words])
    assert first.exit_code == 0, first.output
    command = fit_command(load("m").manifest, "again", "log.parquet")
    again = CliRunner().invoke(app, shlex.split(command)[1:])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "m" / "model.txt").read_bytes() == (tmp_path / "again" / "model.txt").read_bytes()
    assert json.loads((tmp_path / "m" / "manifest.json").read_text())["asked"] == load("again").manifest["asked"]
