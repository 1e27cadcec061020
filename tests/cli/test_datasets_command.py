"""`unskew datasets`: the table, the JSON document, the exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew.cli import datasets as _registers  # noqa: F401
from unskew.data.published import DATASETS, Archive


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["datasets", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mq2008.txt").write_text("0 qid:1 1:1\n")
    (tmp_path / "set1.train.txt").write_text("0 qid:1 1:1\n")
    return tmp_path


def test_json(folder: Path) -> None:
    code, out, _ = run("--data-dir", str(folder), "--json")
    document = json.loads(out)
    states = {entry["name"]: entry["state"] for entry in document["datasets"]}
    assert code == 0
    assert set(states) == set(DATASETS)
    assert (states["mq2008"], states["yahoo-set1"], states["mslr-web10k"]) == ("found", "partly", "missing")
    yahoo = next(entry for entry in document["datasets"] if entry["name"] == "yahoo-set1")
    assert yahoo["found"] == {"yahoo-set1/train": [str(folder / "set1.train.txt")]}
    assert yahoo["missing"] == ["yahoo-set1/valid", "yahoo-set1/test"]


def test_text_says_how_to_get_what_is_missing(folder: Path) -> None:
    code, out, _ = run("--data-dir", str(folder))
    assert code == 0
    assert "MSLR-WEB10K.zip" in out
    assert "valid, test" in out


def test_without_a_folder() -> None:
    code, out, _ = run()
    assert code == 0
    assert "UNSKEW_DATA" in out


def test_quiet(folder: Path) -> None:
    assert run("--data-dir", str(folder), "--quiet") == (0, "", "")


def test_a_wrong_archive_exits_1(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Archive("istella-s-letor.tar.gz", 3, "0" * 64)
    monkeypatch.setitem(DATASETS, "istella-s", replace(DATASETS["istella-s"], archive=small))
    (folder / "istella-s-letor.tar.gz").write_text("abc")
    code, _, err = run("--data-dir", str(folder))
    assert code == 1
    assert "wrong checksum. Download it again." in " ".join(err.split())  # wherever the lines break
    assert run("--data-dir", str(folder), "--no-checksums")[0] == 0


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    code, _, err = run("--data-dir", str(tmp_path / "none"))
    assert code == 2
    assert "There is no data folder" in err
