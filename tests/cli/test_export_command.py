"""The journey of a model into its engine through the commands: rank, export, verify-export."""

from __future__ import annotations

import json
import re
import subprocess
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
    out.unlink()
    assert unskew("verify-export", out, f"{out}.parity.json").exit_code == 2
    assert unskew("export", saved, "--to", "lucene", "--out", out).exit_code == 2


def test_commands_to_copy_survive_the_shell(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "it's $HOME [red]x[/red]"
    folder.mkdir(parents=True)
    result = unskew("export", saved, "--to", "vespa", "--out", folder / "my model.json")
    assert result.exit_code == 0, result.output
    line = next(line for line in result.stdout.splitlines() if "verify-export" in line)
    ran = subprocess.run(["sh", "-c", f"printf '%s\\n' {line.split(None, 2)[2]}"], capture_output=True, text=True)
    out, parity = ran.stdout.splitlines()
    assert out == str(folder / "my model.json")
    assert unskew("verify-export", out, parity).exit_code == 0
    assert f"vespa → {out}\n" in result.stdout  # no part of the path is taken for a style, or wrapped


def test_an_edited_file_is_named_as_such(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    assert unskew("export", saved, "--to", "solr", "--out", out).exit_code == 0
    out.write_text(json.dumps(json.loads(out.read_text()), indent=2))
    again = unskew("verify-export", out, f"{out}.parity.json")
    assert again.exit_code == 1
    told = " ".join(again.stdout.split())
    assert "Not the exported file. On these rows the scores agree" in told
    assert "edited since" in told
    document = json.loads(unskew("verify-export", out, f"{out}.parity.json", "--json").stdout)
    assert document["ok"]
    assert not document["same_file"]


@pytest.mark.parametrize("content", ["{", "tree\nversion=v4\n", "not a model"])
def test_a_file_that_cannot_be_scored_is_not_the_exported_one(saved: Path, tmp_path: Path, content: str) -> None:
    """What cannot be read though its parity file can is no wrong use: the answer is no."""
    out = tmp_path / "m.json"
    assert unskew("export", saved, "--to", "solr", "--out", out).exit_code == 0
    out.write_text(content)
    found = unskew("verify-export", out, f"{out}.parity.json")
    assert found.exit_code == 1
    assert "belongs to another export" in " ".join(found.stdout.split())
    document = json.loads(unskew("verify-export", out, f"{out}.parity.json", "--json").stdout)
    assert (document["ok"], document["same_file"], document["readings"]) == (False, False, [])


def test_an_edited_or_missing_parity_file_is_bad_input(saved: Path, tmp_path: Path) -> None:
    out, parity = tmp_path / "m.json", tmp_path / "m.json.parity.json"
    assert unskew("export", saved, "--to", "solr", "--out", out).exit_code == 0
    document = json.loads(parity.read_text())
    document["expected"][0] += 1
    parity.write_text(json.dumps(document))
    edited = unskew("verify-export", out, parity)
    assert edited.exit_code == 2
    assert "checksum" in edited.stderr
    parity.unlink()
    missing = unskew("verify-export", out, parity)
    assert missing.exit_code == 2
    assert "export the model again" in " ".join(missing.stderr.split())


def test_a_log_with_other_names_goes_into_the_parity_file(saved: Path, table: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    frame = pl.read_parquet(table).select(
        q="query_id",
        s="query_id",
        doc="item_id",
        rank="item_id",
        clicked=pl.col("item_id") == 0,
        bm25="bm25",
        age="age",
    )
    frame.write_parquet(log)
    names = ["--query", "q", "--session", "s", "--item", "doc", "--position", "rank", "--click", "clicked"]
    words = ["export", saved, "--to", "solr", "--out", tmp_path / "m.json", "--log", log]
    assert unskew(*words).exit_code == 2
    result = unskew(*words, *names, "--position-base", "0", "--json")
    assert result.exit_code == 0, result.output
    parity = json.loads((tmp_path / "m.json.parity.json").read_text())
    assert parity["facts"]["real_rows"] == 40


def test_a_log_is_not_written_over(saved: Path, table: Path) -> None:
    before = table.read_bytes()
    result = unskew("export", saved, "--to", "solr", "--out", table, "--log", table)
    assert result.exit_code == 2
    assert "would be lost" in " ".join(result.stderr.split())
    assert table.read_bytes() == before
