"""The page of a fitted model."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pytest

from unskew.data.fingerprint import fingerprint
from unskew.deploy.model import load
from unskew.registry import make_method
from unskew.report.again import fit_command
from unskew.report.model_page import gather, model_page, page_of
from unskew.report.page import Findings, Table, Text, render_page
from unskew.report.trust import trust_findings, verdict
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection


def reorderings(moved):
    return trust_findings({}, diagnostics=None, moved=moved, same_log=None)


def gather_findings(manifest):
    """What the manifest alone says."""
    return trust_findings(manifest, diagnostics=None, moved=None, same_log=None)


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
        # … unless nobody would believe it, or the referee doubts it.
        (
            {"bias": {"position": [1, 8], "value": [1.0, 8.0]}, "extra": {"severity": None}},
            "position effect",
            "bad",
        ),
        *(
            (
                {
                    "bias": {"position": [1, 8], "value": [1.0, last]},
                    "extra": {"severity": None, "referee": {"given": [1, last], "position_found": found, "text": ""}},
                },
                "position effect",
                level,
            )
            for last, found, level in ((0.2, True, "fine"), (0.2, False, "weak"), (8.0, False, "bad"))
        ),
        # Moved items told the examination: that held-out clicks do not show a position effect is no doubt about it.
        (
            {
                "bias": {"position": [1, 8], "value": [1.0, 0.5]},
                "extra": {"severity": None, "referee": {"given": None, "position_found": False, "text": ""}},
            },
            "position effect",
            "fine",
        ),
        ({"data": {"clicked_positions": 1}, "method": "full-cfc"}, "clicks", "bad"),
        ({"data": {"clicked_positions": 1}, "method": "oracle"}, "clicks", None),
        ({"data": {"clicked_positions": 2}, "method": "full-cfc"}, "clicks", None),
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


def test_an_examination_of_another_log_is_doubted() -> None:
    """Clicks that fall as 1/k beside a curve that falls less steeply, not at all, the wrong way, and as it should."""
    log = simulate(synthetic_collection(150, longest=8, typical=8, features=8, seed=1), noise=0.5, passes=20, seed=1)
    still, no_help = "clicks still go with position beside it", "it does not help to predict held-out clicks"
    expected = {
        -0.5: ("weak", (f"says that {still}",)),
        0.0: ("weak", (f"says that {no_help} and {still}",)),
        1.0: ("bad", ("800 % as often", "not believable", no_help)),
        -1.0: ("fine", ("12 % as often",)),
    }
    for power, (level, words) in expected.items():
        given = np.arange(1.0, 9.0) ** power
        model = make_method("default", preset="smoke", n_jobs=1, examination=given).fit(log).method_.to_model()
        found = {item.about: item for item in gather_findings(model.manifest)}
        assert found["position effect"].level == level
        assert [one for one in words if one not in found["position effect"].text] == []


def test_clicks_at_one_position_are_said_without_the_log(hostile_model) -> None:
    log = hostile_model[1]
    assert fingerprint(log)["clicked_positions"] > 1
    one = replace(log, click=np.where(log.position == 3, 1, 0))
    found = gather_findings({"method": "cfc", "data": fingerprint(one)})
    assert ("clicks", "bad") in [(item.about, item.level) for item in found]


def test_findings_about_residuals_count_for_methods_that_live_on_them(hostile_model) -> None:
    facts = gather(load(hostile_model[0]), hostile_model[1])
    for method, counted in (("cfc", True), ("position", False)):
        found = trust_findings({"method": method}, diagnostics=facts.diagnostics, moved=None, same_log=True)
        assert any(item.about == "identification" for item in found) is counted
        assert [item.level for item in found] == sorted((i.level for i in found), key=["bad", "weak", "fine"].index)
        assert verdict(found) == found[0].level


def test_a_model_that_changes_next_to_nothing_is_weak(hostile_model) -> None:
    moved = gather(load(hostile_model[0]), hostile_model[1]).moved
    assert "model's top 6" in next(iter(reorderings(moved))).text  # its lists have twelve items
    still = replace(moved, after=moved.before)
    assert [(item.about, item.level) for item in reorderings(still)] == [("reordering", "weak")]


def test_the_page_names_the_top_it_speaks_of(hostile_model) -> None:
    folder, log = hostile_model
    assert "of the log's top 6 at the top" in " ".join(model_page(folder, log=log).answer)


def test_an_effect_that_turns_relevance_against_the_ranker_is_not_trusted() -> None:
    """Few items moved far for a reason that clicks share: the whole effect is bad, half of it is to be watched."""
    judged = synthetic_collection(100, longest=30, typical=15, seed=1).take_queries(np.arange(70))
    log = simulate(judged, passes=30, shock=4.0, shock_share=0.06, shock_moves_clicks=True, seed=1)
    expected = {"full-cfc": ("bad", "would take half of it"), "default": ("weak", "That is half of the effect")}
    for name, (level, words) in expected.items():
        fitted = make_method(name, n_jobs=1).fit(log)
        found = {item.about: item for item in gather_findings(getattr(fitted, "method_", fitted).to_model().manifest)}
        assert found["position effect"].level == level
        assert words in found["position effect"].text
