"""The page of a run, from made-up results whose answer is known."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from unskew.bench.outcomes import open_run
from unskew.bench.plan import Request, make_plan
from unskew.report.page import Findings, Table, render_page
from unskew.report.panels import arrange
from unskew.report.run_evidence import outcome_panels
from unskew.report.run_figures import gap_panel, is_sweep, setting_value, sweep_panels
from unskew.report.run_page import run_command, run_page
from unskew.report.run_words import answer
from unskew.report.themes import LIGHT


@pytest.fixture(scope="module")
def page(made_up_run: Path):
    return run_page(made_up_run)


def drawn_rows(spec) -> list[dict[str, object]]:
    """All data inside a specification."""
    if isinstance(spec, dict):
        own = spec["values"] if isinstance(spec.get("values"), list) and spec["values"] else []
        rows = own if own and isinstance(own[0], dict) else []
        return rows + [row for value in spec.values() for row in drawn_rows(value)]
    return [row for value in spec for row in drawn_rows(value)] if isinstance(spec, list) else []


def row(method: str, mean: float, gap: float | None = None, **more: object) -> dict[str, object]:
    bounds = {"gap_low": None if gap is None else gap - 0.1, "gap_high": None if gap is None else gap + 0.1}
    base = {"experiment": "rq1", "data": "d", "setting": "base", "ranker": "lambdamart", "metric": "ndcg@10", "p": 0.5}
    return {**base, "method": method, "mean": mean, "sd": 0.01, "n": 5, "gap_closed": gap, **bounds, **more}


def test_the_answer_is_the_best_method_and_the_papers(page) -> None:
    assert page.answer[0].startswith("Of 3 methods that learn from clicks, position with lambdamart ranks best")
    assert "The paper's method, cfc, closes" in page.answer[1]
    assert len(page.answer) == 2


def test_every_experiment_has_its_question_tables_and_figures(page, parse_page) -> None:
    titles = [section.title for section in page.sections]
    assert set(titles[:3]) == {
        "What does stage one leave over, by production ranker?",
        "How do all methods do, tuned on human grades?",
        "What if position bias is milder or harsher?",
    }
    found = parse_page(render_page(page))
    # Residuals; gap and time; one sweep; clicks and examination.
    assert len(found.charts) == 6
    assert [address for address in found.loads if not address.startswith(("#", "data:"))] == []
    cautions = next(block for block in page.sections[3].blocks if isinstance(block, Findings))
    assert {about for _, about, _ in cautions.items} == {"one draw of clicks", "stage one", "what cfc had to work with"}


def test_the_table_sorts_by_numbers(page) -> None:
    section = next(section for section in page.sections if section.title.startswith("How do all methods"))
    table = next(block for block in section.blocks if isinstance(block, Table))
    assert table.columns[:3] == ("ranker", "method", "@1")
    values = {line[1].text: line[5].value for line in table.rows}
    assert values["oracle"] > values["position"] > values["cfc"] > values["naive"]
    best = [line[1].text for line in table.rows if line[5].strong]
    assert best == ["position"]


def test_the_command_makes_the_same_plan(made_up_run: Path) -> None:
    from unskew.bench.collection import Source, read_collection

    for outcome in open_run(made_up_run):
        words = shlex.split(run_command(outcome.plan, made_up_run))
        assert words[:3] == ["unskew", "bench", "run"]
        given = dict(zip(words[4::2], words[5::2], strict=True))
        names = given.get("--methods")
        request = Request(
            words[3],
            preset=given["--preset"],
            methods=None if names is None else tuple(names.split(",")),
            folds=int(given["--folds"]),
            seeds=int(given["--seeds"]),
        )
        source = Source(given["--data"])
        again = make_plan(request, read_collection(source), source)
        assert [unit.key for unit in again.units] == [unit.key for unit in outcome.plan.units]


def test_missing_units_and_failures_are_said(made_up_run: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(made_up_run, folder)
    outcome = next(o for o in open_run(folder) if o.plan.experiment == "rq1")
    gone, failed = outcome.plan.units[:2]
    for unit in (gone, failed):
        (folder / "units" / f"{unit.key}.json").unlink()
    outcome.store.fail(failed, "<b>disk on fire</b>")
    page = run_page(folder)
    texts = {
        text: level
        for block in page.sections[3].blocks
        if isinstance(block, Findings)
        for level, _, text in block.items
    }
    assert texts["<b>disk on fire</b>"] == "bad"
    assert any(text.startswith("1 unit of") for text in texts)
    assert any("missing" in what for _, what in page.numbers)


def test_figures_of_every_kind_can_be_files(made_up_run: Path) -> None:
    from unskew.bench.tables import rows
    from unskew.report.figures import spec_of

    for outcome in open_run(made_up_run):
        panels = outcome_panels(outcome, rows(outcome), LIGHT)
        assert panels
        assert "var(--" not in json.dumps(spec_of(arrange(panels), LIGHT))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row("naive", 0.4), row("cfc", 0.3, -1.0), row("oracle", 0.5)], "no correction did better"),
        (
            [row("naive", 0.4), row("cfc", 0.45, 0.5, p=0.01, rival="naive/lambdamart"), row("oracle", 0.5)],
            "more than chance",
        ),
        (
            [row("naive", 0.4), row("cfc", 0.45, 0.5, p=0.3, rival="naive/lambdamart"), row("oracle", 0.5)],
            "no more than",
        ),
        ([row("oracle", 0.5)], "Nothing has been measured yet"),
        (
            [row("naive", 0.4, setting="a"), row("cfc", 0.5, 1.0, setting="a"), row("naive", 0.4, setting="b")],
            "depends on the setting: cfc with lambdamart (a) and naive with lambdamart (b)",
        ),
    ],
)
def test_answers(rows, words: str) -> None:
    assert words in " ".join(answer(rows))


def test_sweeps_are_recognised() -> None:
    numbers = [row("cfc", 0.4, setting=f"eta={eta}") for eta in (0.5, 1, 2)]
    assert is_sweep(numbers)
    assert not is_sweep([*numbers, row("cfc", 0.4, setting="base")])
    assert not is_sweep([*numbers, row("cfc", 0.4, setting="noise=1")])
    assert not is_sweep(numbers[:1])
    assert setting_value("noise=5%") == ("noise", 0.05)


def test_one_panel_a_data_set_and_ranker() -> None:
    rows = [
        row("cfc", 0.4, 0.2, setting=f"eta={eta}", data=data, ranker=ranker)
        for eta in (1, 2)
        for data in ("a", "b")
        for ranker in ("lambdamart", "dnn")
    ]
    assert [panel.title for panel in sweep_panels(rows)] == ["a, lambdamart", "b, lambdamart", "a, dnn", "b, dnn"]


def test_a_bar_that_is_cut_off_keeps_its_number() -> None:
    panel = gap_panel([row("pijd", 0.1, -4.02), row("cfc", 0.5, 0.5)])
    drawn = {line["method"]: line for line in drawn_rows(panel.chart.to_dict()) if "method" in line}
    assert drawn["pijd"]["label"] == "−402 %"
    assert drawn["pijd"]["shown"] == -1.0
    assert "cut off" in panel.text
