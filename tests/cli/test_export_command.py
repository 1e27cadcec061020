"""The journey of a model into its engine through the commands: rank, export, verify-export."""

from __future__ import annotations

import json
import re
from pathlib import Path

import lightgbm as lgb
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from unskew.cli import app, commands  # noqa: F401  (importing registers)
from unskew.deploy.model import Model
from unskew.rankers.base import RankerState

NAMES = ("bm25", "age")


def unskew(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    params = {"objective": "lambdarank", "num_leaves": 7, "verbose": -1, "num_threads": 1}
    booster = lgb.train(params, lgb.Dataset(x, label=(x[:, 0] > 0).astype(int), group=[30] * 10), 10)
    state = RankerState("lightgbm", {"model.txt": booster.model_to_string().encode()}, NAMES, 2)
    folder = tmp_path_factory.mktemp("saved") / "model"
    Model.from_state(state).save(folder)
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    path = tmp_path / "candidates.parquet"
    columns = {name: rng.normal(size=40) for name in NAMES}
    pl.DataFrame({"query_id": np.repeat(range(4), 10), "item_id": list(range(10)) * 4, **columns}).write_parquet(path)
    return path


def test_rank_writes_scores_and_ranks(saved: Path, table: Path, tmp_path: Path) -> None:
    result = unskew("rank", saved, table, "--out", tmp_path / "ranking.csv", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 40
    assert pl.read_csv(tmp_path / "ranking.csv").columns == ["query_id", "item_id", "score", "rank"]
    assert unskew("rank", tmp_path / "nothing", table, "--out", tmp_path / "r.csv").exit_code == 2


def test_export_tells_how_to_load_and_check(saved: Path, tmp_path: Path) -> None:
    features = tmp_path / "features.json"
    features.write_text(json.dumps({"featureset": {"name": "mine", "features": [{"name": name} for name in NAMES]}}))
    out = tmp_path / "model.json"
    result = unskew("export", saved, "--to", "elasticsearch", "--out", out, "--feature-set", features)
    assert result.exit_code == 0, result.output
    command = next(line for line in result.stdout.splitlines() if "curl" in line)
    assert f"/_ltr/_featureset/mine/_createmodel' -H 'Content-Type: application/json' --data-binary @{out}" in command
    check = next(line for line in result.stdout.splitlines() if "verify-export" in line).split()
    assert unskew(*check[1:]).exit_code == 0


@pytest.mark.parametrize("name", ["lightgbm", "solr", "ranklib", "vespa", "opensearch"])
def test_every_format_verifies(saved: Path, table: Path, tmp_path: Path, name: str) -> None:
    log = pl.read_parquet(table).with_columns(session_id="query_id", position=pl.col("item_id") + 1, click=0)
    log.with_columns(click=(pl.col("position") == 1).cast(int)).write_parquet(tmp_path / "log.parquet")
    result = unskew("export", saved, "--to", name, "-o", tmp_path / "m", "--log", tmp_path / "log.parquet", "--json")
    assert result.exit_code == 0, result.output
    written = json.loads(result.stdout)
    found = unskew("verify-export", written["out"], written["parity"], "--json")
    assert found.exit_code == 0
    document = json.loads(found.stdout)
    assert document["ok"]
    assert document["readings"][0]["rows"] == written["parity_rows"] > 40


def test_a_difference_exits_with_one_and_bad_input_with_two(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    assert unskew("export", saved, "--to", "solr", "--out", out).exit_code == 0
    out.write_text(re.sub(r'"value":"[^"]*"', '"value":"9"', out.read_text(), count=1))
    changed = unskew("verify-export", out, f"{out}.parity.json")
    assert changed.exit_code == 1
    assert "Do not load" in changed.stdout
    out.write_text("{")
    assert unskew("verify-export", out, f"{out}.parity.json").exit_code == 2
    assert unskew("export", saved, "--to", "lucene", "--out", out).exit_code == 2
