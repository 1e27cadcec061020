"""One list of engines: what the docs, the commands and the exporters say of each is the same, and safe to copy."""

from __future__ import annotations

import json
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from unskew.cli import app, commands  # noqa: F401  (importing registers)
from unskew.deploy.export import FORMATS, export
from unskew.deploy.model import Model
from unskew.deploy.targets import TARGETS, FormatName, shell_path

DOCS = (Path(__file__).parents[2] / "docs/deploy.md").read_text(encoding="utf-8")


def test_the_list_is_complete() -> None:
    assert tuple(TARGETS) == get_args(FormatName) == FORMATS
    for name, target in TARGETS.items():
        assert target.name == name
        for folder in ("formats", "verify"):
            assert find_spec(f"unskew.deploy.{folder}.{target.module}") is not None


@pytest.mark.parametrize("name", FORMATS)
def test_the_docs_say_how_each_engine_compares(name: str) -> None:
    target = TARGETS[name]
    row = f"| `{name}` | {target.goes_left} | {target.written} | {target.missing} | {target.total} |"
    assert row in DOCS.splitlines()


@pytest.mark.parametrize("name", FORMATS)
def test_the_help_knows_each_engine(name: str) -> None:
    shown = CliRunner().invoke(app, ["export", "--help"], env={"COLUMNS": "400"}).stdout
    assert f"{name}: {TARGETS[name].compares}" in " ".join(shown.split())


def test_the_documented_command_is_the_one_that_is_printed() -> None:
    documented = " ".join(DOCS.split("curl", 1)[1].split("\n\n")[0].replace("\\\n", " ").split())
    assert f"curl {documented}" == TARGETS["elasticsearch"].load_command("corrected.json", "products")


@pytest.mark.parametrize("path", ["a b.json", "it's $HOME.json", 'a"b`c;d&.json', "-rf.json", "{set}{file}.json", "-"])
def test_commands_to_copy_keep_a_file_name_whole(path: str) -> None:
    for target in TARGETS.values():
        words = shlex.split(target.load_command(path))
        named = [word.removeprefix("@").removeprefix("./") for word in words]
        assert path in named, words
        assert not any(word == path for word in words if path.startswith("-"))
    assert shlex.split(shell_path(path))[0].removeprefix("./") == path


def test_a_feature_set_cannot_leave_its_place_in_the_address(models: dict[str, Model], tmp_path: Path) -> None:
    features = [{"name": name} for name in models["plain"].feature_names]
    for name in ("my set", "a'; rm -rf ~; '", "../../_all", "$(id)", "x?y#z"):
        (tmp_path / "set.json").write_text(json.dumps({"featureset": {"name": name, "features": features}}))
        done = export(models["plain"], "elasticsearch", tmp_path / "m.json", feature_set=tmp_path / "set.json")
        url = shlex.split(done.upload[0])[3]
        assert url.startswith("http://localhost:9200/_ltr/_featureset/")
        assert url.endswith("/_createmodel")
        assert url.count("/") == 6
        assert not set(url) & set(" ';$?#")


def test_vespa_is_told_of_a_suffix_it_does_not_read(models: dict[str, Model], tmp_path: Path) -> None:
    assert any("end in .json" in note for note in export(models["plain"], "vespa", tmp_path / "m.lgb").notes)
    assert not any("end in .json" in note for note in export(models["plain"], "vespa", tmp_path / "m.json").notes)
