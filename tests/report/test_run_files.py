"""A run's figures as files: which there are, that they are whole, and what is said when there are none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from unskew.bench.outcomes import open_run
from unskew.cli import app, commands  # noqa: F401  (registers the commands)
from unskew.errors import DataError, OutputError
from unskew.report.run_files import run_figures, write_figures

NAMES = ["rq1-synthetic-60-gap", "rq1-synthetic-60-time", "rq2", "residuals-synthetic-60", "log-synthetic-60"]


def test_the_command_writes_every_figure_of_the_page(made_up_run: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "figures", str(made_up_run), "--out", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0, result.stderr
    files = [Path(name) for name in json.loads(result.stdout)["files"]]
    assert sorted(path.name for path in files) == sorted(f"{name}{end}" for name in NAMES for end in (".svg", ".png"))
    # Nothing half-written and nothing else is left in the folder.
    assert sorted((tmp_path / "out").iterdir()) == sorted(files)
    for path in files:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_names_are_printed(made_up_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unskew.report.run_files.save_figure", lambda *args, **settings: None)
    result = CliRunner().invoke(app, ["bench", "figures", str(made_up_run), "--out", str(tmp_path)])
    assert str(tmp_path / "rq2.svg") in result.stdout.splitlines()


def test_a_file_says_what_it_shows(made_up_run: Path, tmp_path: Path) -> None:
    write_figures(made_up_run, tmp_path)
    text = " ".join(ElementTree.parse(tmp_path / "rq1-synthetic-60-gap.svg").getroot().itertext())
    for words in ("How do all methods do", "Gap closed with lambdamart", "naive", "oracle", "95 % intervals"):
        assert words in text
    legend = " ".join(ElementTree.parse(tmp_path / "rq2.svg").getroot().itertext())
    assert all(name in legend for name in ("naive", "cfc", "position", "oracle"))


def test_sweeps_of_several_data_sets_share_a_figure(made_up_run: Path) -> None:
    from dataclasses import replace

    outcomes = open_run(made_up_run)
    swept = next(outcome for outcome in outcomes if outcome.plan.experiment == "rq2")
    other = type(swept)(replace(swept.plan, data="elsewhere"), swept.store)
    figure = next(figure for figure in run_figures([*outcomes, other]) if figure.name == "rq2")
    assert [panel.title for panel in figure.panels] == ["synthetic:60, lambdamart", "elsewhere, lambdamart"]
    assert figure.columns == 2


def test_a_run_without_units_has_nothing_to_draw(made_up_run: Path, tmp_path: Path) -> None:
    shutil.copytree(made_up_run / "plans", tmp_path / "run" / "plans")
    with pytest.raises(DataError, match="nothing to draw yet"):
        write_figures(tmp_path / "run", tmp_path / "out")
    result = CliRunner().invoke(app, ["bench", "figures", str(tmp_path / "run"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "nothing to draw yet" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_place_that_is_a_file_is_refused(made_up_run: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("precious")
    with pytest.raises(OutputError, match="a file of that name"):
        write_figures(made_up_run, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "precious"
