"""The demo's page and picture, from a small demo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import unskew.demo as demo
from unskew.control.diagnostics import diagnose
from unskew.data.validation import Validation
from unskew.evaluation.gap import GapClosed
from unskew.evaluation.report import evaluate
from unskew.fitting import fit_method
from unskew.registry import DEFAULT
from unskew.report.demo_page import demo_figure, demo_page
from unskew.report.figures import save_figure
from unskew.report.page import Table, render_page


@pytest.fixture(scope="module")
def small_demo() -> demo.DemoResult:
    """Everything `run_demo` makes, with few queries and quick settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "SPLIT", (60, 20, 20))
        patch.setitem(demo.SETTINGS, "production", 0.2)
        data = demo.demo_data()
    names = dict.fromkeys(("naive", "cfc", DEFAULT, "oracle"))
    fitted = {
        name: fit_method(data.log, method=name, preset="smoke", validation=data.validation, n_jobs=1) for name in names
    }
    evaluation = evaluate(data.test, {name: fit.method.predict(data.test) for name, fit in fitted.items()}, draws=100)
    gap = dict.fromkeys(["cfc", DEFAULT], GapClosed(0.5, 0.25, 0.75, 0.1))
    return demo.DemoResult(
        data=data,
        checks=Validation(()),
        diagnostics=diagnose(data.log),
        fitted=fitted,
        evaluation=evaluation,
        gap=gap,
        log_path=Path("out/log.parquet"),
        model_path=Path("out/model"),
        seconds=12.0,
    )


def test_tells_the_story(small_demo: demo.DemoResult, parse_page) -> None:
    page = demo_page(small_demo, out=Path("out"), seed=3)
    assert len(page.answer) == 2
    assert "closes 50 % of that gap (95 % interval 25 % to 75 %)" in page.answer[1]
    table = next(block for block in page.sections[0].blocks if isinstance(block, Table))
    assert [row[0].text for row in table.rows] == list(small_demo.evaluation.systems)
    # The oracle is above the contest: bold is for what learns from clicks.
    assert not any(cell.strong for cell in table.rows[-1])
    found = parse_page(render_page(page))
    assert [address for address in found.loads if not address.startswith(("#", "data:"))] == []
    assert len(found.charts) == 7
    assert "unskew demo --out out --seed 3" in " ".join(found.text.split())


def test_a_gap_that_is_none_is_not_divided_by(small_demo: demo.DemoResult, parse_page) -> None:
    none = GapClosed(None, None, None, 0.0, "too small")
    page = demo_page(replace(small_demo, gap=dict.fromkeys(small_demo.gap, none)), out=Path("out"))
    assert "too small here" in page.answer[1]
    assert page.numbers[0][0] == "–"
    assert len(parse_page(render_page(page)).charts) == 6


def test_the_picture(small_demo: demo.DemoResult, tmp_path: Path) -> None:
    save_figure(demo_figure(small_demo), tmp_path / "demo.svg")
    text = (tmp_path / "demo.svg").read_text()
    for name in ("cfc", DEFAULT, "planted truth", "naive", "oracle", "50 %"):
        assert f">{name}</text>" in text or f">{name}</tspan>" in text, name
