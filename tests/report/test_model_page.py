"""The page of a fitted model."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pytest

from unskew.deploy.model import load
from unskew.report.again import fit_command
from unskew.report.model_page import gather, model_page, page_of
from unskew.report.page import Findings, Table, Text, render_page
from unskew.report.trust import trust_findings, verdict


def findings_of(page) -> dict[str, tuple[str, str]]:
    block = next(b for b in page.sections[0].blocks if isinstance(b, Findings))
    return {about: (level, text) for level, about, text in block.items}


def test_hostile_names_stay_text(hostile_model, parse_page) -> None:
    folder, log = hostile_model
    found = parse_page(render_page(model_page(folder, log=log)))
    assert not {"img", "b onclick"} & set(found.tags)
    assert not found.handlers
    assert [address for address in found.loads if not address.startswith(("#", "data:"))] == []
    assert "onclick='x()'" in found.text
    assert len(found.charts) == 6


def test_says_what_the_log_was_what_moved_and_whether_to_trust_it(hostile_model) -> None:
    folder, log = hostile_model
    page = model_page(folder, log=log, log_name="my log.parquet")
    names = [section.name for section in page.sections]
    assert names == ["trust", "log", "correction", "moved", "again"]
    found = findings_of(page)
    assert "the log" not in found
    assert found["amount of data"][0] == "weak"
    assert found["position effect"] == ("fine", "It estimates that position 10 is looked at 10 % as often as the top.")
    # Residuals do not decide about a method that models position itself.
    assert "identification" not in found
    assert page.level == "weak"
    up = next(b for b in page.sections[3].blocks if isinstance(b, Table))
    assert up.columns[-1] == "grade"
    assert all(row[2].value > row[3].value for row in up.rows)


def test_without_a_log_it_says_so(hostile_model) -> None:
    page = model_page(hostile_model[0])
    assert "--log" in page.answer[1]
    assert [section.name for section in page.sections] == ["trust", "log", "correction", "again"]


def test_another_log_is_noticed(hostile_model) -> None:
    folder, log = hostile_model
    page = model_page(folder, log=log.take_sessions(np.arange(50)))
    assert findings_of(page)["the log"][0] == "weak"


def test_the_command_can_be_run_again(hostile_model) -> None:
    words = shlex.split(fit_command(load(hostile_model[0]).manifest, "out dir", "my log.parquet"))
    assert words[:7] == ["unskew", "fit", "my log.parquet", "--out", "out dir", "--method", "position"]
    assert words[7:] == ["--ranker", "lambdamart", "--preset", "smoke", "--seed", "4"]


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        # What the referee chose is asked of it again, and what a person gave is named.
        (
            {"settings": {"terms": "shift", "examination": [1, 0.5]}, "extra": {"referee": {"given": None}}},
            "--method default",
        ),
        (
            {"settings": {"examination": [1, 0.5]}, "extra": {"referee": {"given": [1, 0.5]}}},
            "--method default --examination EXAMINATION.csv",
        ),
        ({"settings": {"terms": "auto"}, "extra": {"referee": {"given": None}}}, "--method full-cfc --terms auto"),
        (
            {"settings": {"terms": "shift", "examination": [1, 0.5], "preset": "smoke"}, "extra": {}},
            "--method full-cfc --preset smoke --terms shift --examination EXAMINATION.csv",
        ),
        ({"settings": {"terms": None, "examination": None, "preset": "default"}}, "--method full-cfc"),
        # What the command was told of columns and validation, and what Dask put in default's place.
        (
            {
                "settings": {"terms": None},
                "asked": {
                    "method": "full-cfc",
                    "columns": {"click": "n clicks", "counts": True, "position_base": 0, "features": "a file"},
                    "validation": "judged",
                },
            },
            "--method full-cfc --click 'n clicks' --counts --position-base 0 --features FEATURES.parquet "
            "--judged JUDGED.parquet",
        ),
        (
            {"method": "cfc", "settings": {"stage_one": "ridge"}, "asked": {"method": "default", "engine": "dask"}},
            "--method default --engine dask",
        ),
    ],
)
def test_the_command_asks_for_what_was_asked_for(manifest, expected) -> None:
    assert (
        fit_command({"method": "full-cfc", **manifest}, "m", "log").removeprefix("unskew fit log --out m ") == expected
    )


def test_settings_that_were_tried_are_rounded(hostile_model) -> None:
    model = load(hostile_model[0])
    tried = [{"setting": {"held_out": value}, "score": None} for value in (-1.8006954584017272, -1.9)]
    page = page_of(
        gather(replace(model, manifest={**model.manifest, "candidates": tried}), None), folder="m", log_name="log"
    )
    table = next(block for block in page.sections[-1].blocks if isinstance(block, Table))
    assert [row[0].text for row in table.rows] == ["−1.8007", "−1.9"]


def test_what_the_command_leaves_open_is_said(hostile_model) -> None:
    def beside(manifest) -> str:
        model = load(hostile_model[0])
        page = page_of(gather(replace(model, manifest=manifest(model.manifest)), None), folder="m", log_name="log")
        return " ".join(block.text for block in page.sections[-1].blocks if isinstance(block, Text))

    assert "--counts" in beside(dict)
    assert beside(lambda known: known | {"asked": {"columns": {"counts": True}}}) == ""
    asked = {"columns": {"features": "a file"}, "validation": "valid"}
    assert "FEATURES.parquet and VALID.parquet" in beside(lambda known: known | {"asked": asked})


@pytest.mark.parametrize(
    ("change", "about", "level"),
    [
        ({"data": {"clicks": 40, "queries": 9}}, "amount of data", "bad"),
        ({"data": {"clicks": 90_000, "queries": 900}}, "amount of data", "fine"),
        ({"bias": {"position": [1, 10], "value": [1.0, 0.95]}}, "position effect", "weak"),
        ({"bias": {"position": [1, 10], "value": [1.0, 2.5]}}, "position effect", "bad"),
        # An examination that was given says nothing about how much bias was found.
        (
            {"bias": {"position": [1, 10], "value": [1.0, 0.95]}, "extra": {"severity": None}},
            "position effect",
            "fine",
        ),
        # A share of the effect was left to relevance: worth a warning if anybody could see it.
        *(
            (
                {
                    "bias": {"position": [1, 10], "value": [1.0, 0.1]},
                    "extra": {"severity": 1.0, "agreement": 0.95, "left_to_relevance": left},
                },
                "position effect",
                level,
            )
            for left, level in ((0.2, "weak"), (0.01, "fine"), (None, "fine"))
        ),
        ({"candidates": [{"score": 0.1}, {"score": 0.5}]}, "choice of settings", "weak"),
        ({"candidates": [{"score": None}, {"score": 0.5}]}, "choice of settings", None),
    ],
)
def test_what_speaks_against_a_model(change, about, level) -> None:
    found = {item.about: item.level for item in trust_findings(change, diagnostics=None, moved=None, same_log=None)}
    assert found.get(about) == level


def test_findings_about_residuals_count_for_methods_that_live_on_them(hostile_model) -> None:
    facts = gather(load(hostile_model[0]), hostile_model[1])
    for method, counted in (("cfc", True), ("position", False)):
        found = trust_findings({"method": method}, diagnostics=facts.diagnostics, moved=None, same_log=True)
        assert any(item.about == "identification" for item in found) is counted
        assert [item.level for item in found] == sorted((i.level for i in found), key=["bad", "weak", "fine"].index)
        assert verdict(found) == found[0].level


def test_a_model_that_changes_next_to_nothing_is_weak(hostile_model) -> None:
    moved = gather(load(hostile_model[0]), hostile_model[1]).moved
    still = replace(moved, after=moved.before)
    found = trust_findings({}, diagnostics=None, moved=still, same_log=None)
    assert [(item.about, item.level) for item in found] == [("reordering", "weak")]
