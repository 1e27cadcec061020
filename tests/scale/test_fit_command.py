"""`unskew fit` on a log larger than the memory it may use, and on a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import unskew
from unskew.cli import app, commands  # noqa: F401  (importing registers the commands)
from unskew.scale.partition import partition_log


@pytest.fixture
def parts(tmp_path: Path, scale_log: pl.DataFrame) -> Path:
    scale_log.head(200 * 48).write_parquet(tmp_path / "log.parquet")
    partition_log(tmp_path / "log.parquet", tmp_path / "parts", parts=3)
    return tmp_path / "parts"


def _run(*words: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["fit", *map(str, words)])
    return result.exit_code, result.stdout, result.stderr


def test_a_small_budget_sends_a_fit_out_of_core(parts: Path, tmp_path: Path) -> None:
    small = ("--preset", "smoke", "--method", "cfc", "--transformation", "minmax", "--jobs", "1", "--json")
    code, out, err = _run(parts, "--out", tmp_path / "a", "--memory", "100kB", *small)
    assert code == 0, err
    assert "fitting out of core" in err
    document = json.loads(out)
    assert document["engine"] == "stream"
    assert document["peak_memory"] > 10**7
    code, out, err = _run(parts, "--out", tmp_path / "b", "--memory", "1GB", *small)
    assert (code, json.loads(out)["engine"]) == (0, "memory")
    one, other = unskew.load(tmp_path / "a"), unskew.load(tmp_path / "b")
    features = pl.read_parquet(parts / "part-00000.parquet").select("f0", "f1", "f2")
    assert np.corrcoef(one.predict(features), other.predict(features))[0, 1] > 0.99


def test_the_referee_is_asked_out_of_core_as_well(parts: Path, tmp_path: Path) -> None:
    code, out, err = _run(parts, "--out", tmp_path / "m", "--engine", "stream", "--preset", "smoke", "--json")
    assert code == 0, err
    document = json.loads(out)
    assert document["method"] == document["referee"]["method"]


def test_errors_are_said_in_the_words_of_the_command(parts: Path, tmp_path: Path) -> None:
    code, _, err = _run(parts, "--out", tmp_path / "m", "--memory", "lots")
    assert (code, "6GB" in err) == (2, True)
    code, _, err = _run(parts, "--out", tmp_path / "m", "--engine", "stream", "--features", tmp_path / "x.parquet")
    assert (code, "features inline" in err) == (2, True)
    file = parts / "part-00001.parquet"
    pl.read_parquet(file).with_columns(pl.col("position") - 1).write_parquet(file)
    code, _, err = _run(parts, "--out", tmp_path / "m", "--engine", "stream", "--method", "naive")
    assert code == 2
    assert "part-00001.parquet: position must be 1 or greater" in err
    assert "--position-base" in err


def test_a_scheduler_that_is_not_there(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("unskew.scale.cluster.CONNECT_SECONDS", 1)
    code, _, err = _run(parts, "--out", tmp_path / "m", "--engine", "dask", "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    assert "tcp://127.0.0.1:9 cannot be reached" in err
    assert "the default is cfc with centred terms" in " ".join(err.split())
