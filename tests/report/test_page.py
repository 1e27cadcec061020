"""The page: escaped, self-contained, able to run nothing but its own two scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import altair as alt
import pytest

from unskew.errors import OutputError
from unskew.report.page import (
    Cell,
    Commands,
    Facts,
    Figures,
    Findings,
    Page,
    Section,
    Table,
    Text,
    json_in_html,
    render_page,
    write_page,
)
from unskew.report.panels import Panel, values


@pytest.fixture(scope="module")
def hostile_page(hostile_text: str) -> Page:
    """Hostile text in every place a page has."""
    bad = hostile_text
    chart = alt.Chart(values([{"x": 1, "name": bad}])).mark_point().encode(x="x:Q", y="name:N", tooltip=["name:N"])
    blocks = (
        Text(bad),
        Table(bad, (bad, "n"), (False, True), ((Cell(bad, note=bad), Cell("1", 1.0, strong=True)),), bad),
        Table(bad, (bad,), (False,), ((Cell(bad, second=True),),), open=False),
        Figures((Panel(bad, bad, chart, (bad, "cfc")),)),
        Findings((("weak", bad, bad),)),
        Facts(((bad, bad),)),
        Commands((f"unskew {bad}",)),
    )
    return Page(bad, bad, bad, (bad, bad), ((bad, bad),), (Section("a", bad, bad, blocks, link=bad),), (bad,))


@pytest.fixture(scope="module")
def page(hostile_page: Page) -> str:
    return render_page(hostile_page)


def test_nothing_hostile_becomes_an_element(page: str, parse_page) -> None:
    found = parse_page(page)
    assert "img" not in found.tags
    assert not found.handlers
    assert found.tags.count("script") == 3
    # It is there as text in every place, and what looks like a template was not run.
    assert found.text.count("onerror=alert(1)>") == found.text.count("{{7*7}}") >= 18


def test_loads_nothing(page: str, parse_page) -> None:
    found = parse_page(page)
    assert [address for address in found.loads if not address.startswith(("#", "data:"))] == []
    assert "default-src 'none'" in found.policy
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_only_its_own_scripts_may_run(page: str, parse_page) -> None:
    found = parse_page(page)
    run = [text for named, text in found.scripts if named.get("type") != "application/json"]
    allowed = re.findall(r"'sha256-([^']+)'", found.policy)
    assert [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run] == allowed
    assert "unsafe-eval" not in found.policy
    assert "script-src 'unsafe-inline'" not in found.policy


def test_the_charts_are_json_with_the_text_unchanged(page: str, parse_page, hostile_text: str) -> None:
    charts = parse_page(page).charts
    assert len(charts) == 1
    drawn = next(iter(charts[0]["datasets"].values())) if "datasets" in charts[0] else charts[0]["data"]["values"]
    assert drawn[0]["name"] == hostile_text
    assert charts[0]["width"] == "container"


def test_json_inside_html_round_trips(hostile_text: str) -> None:
    value = {"a": [hostile_text, 1.5, None], "b": "<!--"}
    text = json_in_html(value)
    assert json.loads(text) == value
    assert not set("<>&") & set(text)


def test_equal_pages_have_equal_bytes(page: str, hostile_page: Page) -> None:
    assert render_page(hostile_page) == page


def test_an_old_page_survives_a_failure(hostile_page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.html"
    target.write_text("old")
    monkeypatch.setattr("unskew.report.page._asset", lambda name: (_ for _ in ()).throw(RuntimeError("no")))
    with pytest.raises(RuntimeError):
        write_page(hostile_page, target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_a_folder_in_the_way_is_named(hostile_page: Page, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="a folder of that name"):
        write_page(hostile_page, tmp_path)
