"""The journeys of a person: list, run, show, results; and what goes wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unskew.bench.experiments import EXPERIMENTS
from unskew.cli import app, commands  # noqa: F401  (registers the commands)

RUN = ["bench", "run", "residual-only", "--preset", "smoke", "--data", "synthetic:30", "--jobs", "0", "--threads", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("bench") / "run"
    result = CliRunner().invoke(app, [*RUN, "--out", str(target)])
    assert result.exit_code == 0, result.output
    return target


def test_list() -> None:
    result = CliRunner().invoke(app, ["bench", "list", "--json"])
    listed = json.loads(result.stdout)["experiments"]
    assert [one["name"] for one in listed] == list(EXPERIMENTS)
    assert all(set(one["units"]) == {"smoke", "default", "paper"} for one in listed)
    assert "rq7" in CliRunner().invoke(app, ["bench", "list"]).stdout


def test_run_again_does_nothing(folder: Path) -> None:
    result = CliRunner().invoke(app, [*RUN, "--out", str(folder), "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert (document["made"], document["kept"], document["failed"]) == (0, 4, [])
    assert (folder / "tables.md").is_file()


def test_a_runs_folder_may_have_brackets(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, "r [/x]")
    said = CliRunner().invoke(app, [*RUN, "--out", "r [/x]"], env={"COLUMNS": "200"})
    assert said.exit_code == 0, said.output
    assert "Next: unskew bench show 'r [/x]', " in said.stdout
    shown = CliRunner().invoke(app, ["bench", "show", "r [/x]", "--out", "m[red]x.md"])
    assert shown.stdout == "Written: m[red]x.md\n"


def test_show(folder: Path, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["bench", "show", str(folder)])
    assert shown.exit_code == 0
    assert "residual-only on synthetic:30" in shown.stdout
    rows = json.loads(CliRunner().invoke(app, ["bench", "show", str(folder), "--json"]).stdout)["rows"]
    assert {row["method"] for row in rows} == {"naive", "oracle", "cfc", "cfc-s"}
    for form, start in (("markdown", "**residual-only"), ("csv", "experiment,data"), ("latex", r"\begin{table}")):
        text = CliRunner().invoke(app, ["bench", "show", str(folder), "--format", form]).stdout
        assert text.startswith(start)
    file = tmp_path / "tables.tex"
    assert CliRunner().invoke(app, ["bench", "show", str(folder), "--out", str(file)]).exit_code == 0
    assert file.read_text() == (folder / "tables.tex").read_text()
    times = json.loads(CliRunner().invoke(app, ["bench", "show", str(folder), "--json", "--times"]).stdout)["times"]
    assert all(row["seconds"] > 0 for row in times)


def test_show_times(folder: Path) -> None:
    shown = CliRunner().invoke(app, ["bench", "show", str(folder), "--times"]).stdout
    assert "residual-only on synthetic:30: seconds" in shown
    assert "factors rather than the seconds" in " ".join(shown.split())
    text = CliRunner().invoke(app, ["bench", "show", str(folder), "--times", "--format", "markdown"]).stdout
    assert text.startswith((folder / "tables.md").read_text())
    assert "| lambdamart | naive |" in text.rpartition("seconds**")[2]
    refused = CliRunner().invoke(app, ["bench", "show", str(folder), "--times", "--format", "csv"])
    assert refused.exit_code == 2
    assert "--json" in refused.stderr


def test_results(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "RESULTS.md"
    result = CliRunner().invoke(app, ["bench", "results", str(folder), "-o", str(target), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["claims"][0]["experiment"] == "residual-only"
    assert target.read_text().startswith("# Results")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench", "run", "rq9", "--out", "x"], "'rq9'"),
        (["bench", "run", "rq1", "--data", "nowhere.txt", "--out", "x"], "no file 'nowhere.txt'"),
        (["bench", "run", "rq1", "--methods", "", "--preset", "smoke", "--out", "x"], "--methods names nothing"),
        (["bench", "run", "rq1", "--methods", "nonsense", "--preset", "smoke", "--out", "x"], "'nonsense'"),
        (["bench", "run", "rq3", "--out", "x"], "--log"),
        (["bench", "show", "nowhere"], "not the folder of a run"),
        (["bench", "results", "nowhere", "-o", "x.md"], "not the folder of a run"),
    ],
)
def test_wrong_use(arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "x").exists()
