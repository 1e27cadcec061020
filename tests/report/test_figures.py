"""Figures: what is drawn, and files of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from unskew.control.diagnostics import ClickCurve, Diagnostics, diagnose
from unskew.control.spread_curve import spread_curve
from unskew.data.clicks import ClickLog
from unskew.errors import OutputError
from unskew.method import PositionCurve
from unskew.report.figures import diagnostics_figure, save_figure, spec_of
from unskew.report.log_figures import examination_panel, pool_positions
from unskew.report.themes import DARK, LIGHT, PAGE, STYLES, styles_of
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection


@pytest.fixture(scope="module")
def small_log() -> ClickLog:
    return simulate(synthetic_collection(60, longest=20, typical=10), passes=5, production=0.1)


@pytest.fixture(scope="module")
def small_diagnostics(small_log: ClickLog) -> Diagnostics:
    return diagnose(small_log)


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<svg"), ("a.pdf", b"%PDF"), ("a.HTML", b"<!DOCTYPE")]
)
def test_every_kind_of_file(
    name: str, start: bytes, small_log: ClickLog, small_diagnostics: Diagnostics, tmp_path: Path
) -> None:
    save_figure(diagnostics_figure(small_log, small_diagnostics), tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.lstrip().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    if name.lower().endswith("html"):
        assert b"<script src" not in content
        assert b"cdn." not in content


def test_other_suffixes_are_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"'a\.gif'.*\.png, \.svg, \.pdf or \.html"):
        save_figure(None, tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def test_an_old_figure_survives_a_failure(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text("old")

    class Broken:
        def to_dict(self) -> dict[str, object]:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        save_figure(Broken(), tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == "old"


def test_the_theme_reaches_every_colour(small_log: ClickLog, small_diagnostics: Diagnostics) -> None:
    texts = {
        theme.name: json.dumps(spec_of(diagnostics_figure(small_log, small_diagnostics, theme=theme), theme))
        for theme in (LIGHT, DARK, PAGE)
    }
    assert DARK["blue"] in texts["dark"]
    assert LIGHT["blue"] not in texts["dark"]
    assert not any(hue in texts["page"] for hue in (*LIGHT.hues.values(), *DARK.hues.values()))
    assert "var(--hue-blue)" in texts["page"]


def test_every_method_has_a_style_of_its_own() -> None:
    from unskew.registry import methods

    assert {info.name for info in methods()} <= set(STYLES)
    drawn = [(style.hue, style.dash) for style in STYLES.values()]
    assert len(set(drawn)) == len(drawn)
    spare = styles_of([f"mine {i}" for i in range(10)])
    assert len({(style.hue, style.dash) for style in spare.values()}) == 10


def test_pooled_positions_keep_clicks_and_impressions() -> None:
    rng = np.random.default_rng(0)
    curve = ClickCurve(np.arange(1, 101), rng.integers(1, 50, 100).astype(float), rng.random(100))
    rows = pool_positions(curve)
    assert sum(row["impressions"] for row in rows) == pytest.approx(curve.impressions.sum())
    clicks = sum(row["impressions"] * row["rate"] for row in rows)
    assert clicks == pytest.approx(float(curve.impressions @ curve.rate))
    assert [row["position"] for row in rows] == sorted(row["position"] for row in rows)
    assert len(rows) < 40


def test_spread_curve_against_a_plain_loop() -> None:
    rng = np.random.default_rng(1)
    values, residual = rng.integers(0, 6, 500).astype(float), rng.normal(size=500)
    values[:20] = np.nan
    curve = spread_curve("x", values, residual)
    for low, high, items, sd in zip(curve.low, curve.high, curve.items, curve.sd):
        mine = residual[(values >= low) & (values <= high)]
        assert len(mine) == items
        assert mine.std() == pytest.approx(sd)
    assert curve.items.sum() == 480


def test_examination_has_the_truth_and_every_curve() -> None:
    positions = np.arange(1, 41)
    curve = PositionCurve(positions, 1 / positions, 0.9 / positions, 1.1 / positions, 0.95)
    panel = examination_panel({"position": curve}, planted=1 / positions)
    assert panel.methods == ("planted truth", "position")
    spec = panel.chart.to_dict()
    drawn = next(iter(spec["datasets"].values())) if "datasets" in spec else spec["data"]["values"]
    names = {row["name"] for row in drawn}
    assert names == {"planted truth", "position"}
    assert max(row["position"] for row in drawn) == 40
