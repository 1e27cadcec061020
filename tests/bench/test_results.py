"""RESULTS.md from units with known numbers: verdicts with their evidence, what is missing, advice by ranker."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unskew._words import percent
from unskew.bench.claims import Finding, decided, findings
from unskew.bench.claims_list import CLAIMS
from unskew.bench.collection import Collection, Source
from unskew.bench.experiments import EXPERIMENTS
from unskew.bench.formats import document
from unskew.bench.looks import Case, does_no_harm, share_is
from unskew.bench.outcomes import Outcome, open_run
from unskew.bench.plan import Entry, Plan, Request, make_plan
from unskew.bench.results import results, results_page
from unskew.bench.results_chapter import chapter_of, keep
from unskew.bench.results_reasons import REASONS
from unskew.bench.store import Store
from unskew.bench.tables import rows
from unskew.bench.work import Result
from unskew.errors import FileFormatError, OutputError
from unskew.report.run_words import answer

METRICS = [f"{family}@{cut}" for family in ("ndcg", "err") for cut in (1, 3, 5, 10)]
QUERIES = 60
SECONDS = {"log": 0.0, "stage_one": 0.0, "fit": 1.0, "test": 0.0}
LEVELS = {"naive": 0.4, "cfc": 0.42, "dla": 0.45, "paird": 0.45, "position": 0.47, "full-cfc": 0.5, "oracle": 0.6}


def plan_of(name: str, *, data: str = "made up", **given: object) -> Plan:
    collection = Collection(data, None, data, 5, lambda fold: None, "by query, 3/1/1")
    return make_plan(Request(name, **given), collection, Source(data))


def fill(folder: Path, plan: Plan, level: Callable[[Entry], float], *, noise: float = 0.01) -> Outcome:
    """A run in which every query's value is the level of its entry and some noise of the method's own."""
    store = Store(folder)
    store.write_plan(plan)
    for entry in plan.entries:
        unit = entry.unit
        name = sum(map(ord, f"{entry.method}/{entry.ranker}/{entry.setting}"))
        own = np.random.default_rng([unit.fold, name]).normal(0, noise, QUERIES)
        values = dict.fromkeys(METRICS, level(entry) + own - own.mean())
        store.write(unit, Result(list(range(QUERIES)), values, {}, {"log": {}}, SECONDS))
    return next(outcome for outcome in open_run(folder) if outcome.plan.to_json() == plan.to_json())


def by_method(entry: Entry) -> float:
    return LEVELS[entry.method]


RQ1: dict[str, object] = {"methods": tuple(LEVELS), "folds": 2}


def rq1(folder: Path, level: Callable[[Entry], float] = by_method, **given: object) -> Outcome:
    return fill(folder, plan_of("rq1", **{**RQ1, **given}), level)


def about(found: list[Finding], words: str) -> Finding:
    return next(finding for finding in found if words in finding.claim)


def test_every_experiment_of_make_reproduce_has_its_claims() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    line = re.search(r"^REPRODUCE := (.*)$", makefile, re.MULTILINE)
    assert line is not None
    assert set(line[1].split()) <= {claim.experiment for claim in CLAIMS}
    assert {claim.of for claim in CLAIMS} == {"paper", "ours"}


def test_claims_about_cfc_and_full_cfc_have_opposite_verdicts(tmp_path: Path) -> None:
    found = findings([rq1(tmp_path)])
    assert about(found, "CFC is better than every rival").verdict == "does not hold"
    assert about(found, "CFC corrects").verdict == "holds"
    assert about(found, "full-cfc is better than every method of the paper").verdict == "holds"
    assert about(found, "full-cfc is better than LightGBM").verdict == "holds"
    rivals = about(found, "full-cfc is better than every method of the paper").evidence
    assert "lambdamart: full-cfc 0.5000, paird 0.4500 (+0.0500, 95 % interval" in rivals
    assert "dnn: full-cfc 0.5000, dla 0.4500" in rivals
    worse = rq1(tmp_path / "worse", lambda entry: 0.3 if entry.method == "full-cfc" else by_method(entry))
    found = findings([worse])
    assert {finding.verdict for finding in found if finding.about == "full-cfc"} == {"does not hold"}


def test_what_chance_may_explain_is_left_open(tmp_path: Path) -> None:
    outcome = fill(tmp_path, plan_of("rq1", methods=tuple(LEVELS), folds=1), lambda entry: 0.5, noise=0.1)
    found = about(findings([outcome]), "CFC corrects")
    assert found.verdict == "cannot be told"
    assert [verdict for _, verdict in found.cases] == ["cannot be told"] * 2
    assert found.tally == "2 cases: 2 open"
    assert re.search(r"95 % interval −0\.\d+ to \+0\.\d+", found.evidence)
    page = results([outcome])
    assert "- **Cannot be told:** CFC corrects: it is better than naive, with both rankers. (2 cases: 2 open)" in page
    assert "Not clearly different from naive: " in page


def test_cases_are_corrected_together() -> None:
    cases = [Case("", 0.03, 0.1), Case("", 0.001, -0.1), Case("", verdict="holds")]
    assert decided(cases) == ["holds", "does not hold", "holds"]
    assert decided([*cases, Case("", 0.5, 0.1)])[0] == "cannot be told"


def test_advice_goes_by_ranker(tmp_path: Path) -> None:
    def level(entry: Entry) -> float:
        return 0.3 if (entry.method, entry.ranker) == ("cfc", "dnn") else by_method(entry)

    found = about(findings([rq1(tmp_path, level)]), "CFC corrects")
    assert found.verdict == "does not hold"
    assert {ranker: verdict for ranker, (verdict, _) in found.by_ranker.items()} == {
        "lambdamart": "holds",
        "dnn": "does not hold",
    }
    page = results(open_run(tmp_path))
    advice = page.partition("## What this means for a user")[2]
    trees, nets = advice.partition("### With lambdamart")[2].split("### With dnn")
    assert "cfc is better than training on clicks as they are. (rq1 on made up)" in trees
    assert "Better than naive: full-cfc (50 %, ×1.0), position (35 %, ×1.0), paird (25 %, ×1.0), cfc (10 %" in trees
    assert "cfc can be worse than training on clicks as they are" in nets
    assert "worse than naive: cfc (−50 %" in nets


def test_several_runs_on_one_page(tmp_path: Path) -> None:
    outcomes = [
        rq1(tmp_path / "a", rankers=("lambdamart",)),
        fill(tmp_path / "b", plan_of("rq7", data="other", methods=("naive", "oracle", "cfc"), folds=1), by_method),
    ]
    page = results(outcomes)
    headings = re.findall(r"^##+ (.*)$", page, re.MULTILINE)
    assert [title for title in headings if title in ("made up", "other")] == ["made up", "other"]
    assert headings.index("What this means for a user") > headings.index("other")
    assert f"### rq7 on other: {EXPERIMENTS['rq7'].asks}" in page
    # What nobody ran is said, with the reason where there is one.
    missing = {
        line[2:].partition(": ")[0]: line for line in page.splitlines() if line.startswith(("- made", "- other"))
    }
    assert "rq7" in missing["made up"]
    assert "rq3 needs a real click log" in missing["other"]
    assert "run with lambdamart only" in page
    assert "Not looked at, as what they compare was not run: " in page
    assert "full-cfc is better with random swaps than without." in page.partition("Not looked at")[2]
    # Times belong to the comparison of all methods.
    assert page.count(": seconds**") == 1
    assert "read the factors rather than the seconds" in page
    assert page == results(outcomes)


def test_an_experiment_that_comes_twice_is_numbered(tmp_path: Path) -> None:
    page = results([rq1(tmp_path / "a"), rq1(tmp_path / "b", folds=1)])
    assert "### rq1 on made up: " in page
    assert "### rq1, run 2 on made up: " in page


def test_a_run_of_which_nothing_is_done_is_no_crash(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in EXPERIMENTS:
        store.write_plan(plan_of(name, preset="smoke"))
    page = results(open_run(tmp_path))
    assert page.count("Nothing was measured: none of its units is done.") == len(EXPERIMENTS)
    assert "None of the claims can be looked at with what was run." in page


def test_sweeps_have_a_case_for_every_setting(tmp_path: Path) -> None:
    def level(entry: Entry) -> float:
        return by_method(entry) - (0.2 if entry.setting == "noise=0.2" and entry.method == "full-cfc" else 0)

    plan = plan_of("rq6", methods=tuple(LEVELS), rankers=("lambdamart",), folds=1)
    found = about(findings([fill(tmp_path, plan, level)]), "full-cfc is better than naive")
    assert found.verdict == "does not hold"
    assert found.tally == "5 cases: 4 for it, 1 against it"
    assert "lambdamart, noise=0.2: full-cfc 0.3000, naive 0.4000 (−0.1000" in found.evidence


@pytest.mark.parametrize(
    ("cfc", "noise", "verdict"), [(0.42, 0.01, "holds"), (0.3, 0.01, "does not hold"), (0.4, 0.2, "cannot be told")]
)
def test_no_harm_without_bias(tmp_path: Path, cfc: float, noise: float, verdict: str) -> None:
    levels = {"naive": 0.4, "oracle": 0.6, "cfc": cfc}
    plan = plan_of("placebo", methods=tuple(levels), folds=1)
    outcome = fill(tmp_path, plan, lambda entry: levels[entry.method], noise=noise)
    cases = list(does_no_harm("cfc", "naive", "eta=0")(outcome))
    assert [case.verdict for case in cases] == [verdict]


@pytest.mark.parametrize(
    ("default", "worse_at", "verdicts"),
    [
        (0.59, None, ["holds", "holds", "holds", "holds"]),
        (0.50, None, ["does not hold", "holds", "holds", "holds"]),
        (0.44, None, ["does not hold", "does not hold", "does not hold", "holds"]),
        (0.59, "swaps", ["holds", "does not hold", "holds", "does not hold"]),
    ],
)
def test_the_standards_of_the_truth_study(
    tmp_path: Path, default: float, worse_at: str | None, verdicts: list[str]
) -> None:
    """naive 0.40, position 0.46, oracle 0.60: the gap is 0.20."""
    levels = {"naive": 0.4, "position": 0.46, "oracle": 0.6, "default": default}
    plan = plan_of("truth", methods=tuple(levels), rankers=("lambdamart",), folds=1, seeds=1)

    def level(entry: Entry) -> float:
        return 0.3 if entry.method == "default" and entry.setting == worse_at else levels[entry.method]

    found = findings([fill(tmp_path, plan, level)])
    assert [finding.verdict for finding in found] == verdicts
    part = replace(plan, entries=tuple(entry for entry in plan.entries if entry.setting != "eta=2"))
    lacking = {finding.claim: finding for finding in findings([fill(tmp_path / "part", part, level)])}
    never = lacking["default is in no cell below naive by more than a standard error."]
    assert never.verdict == ("cannot be told" if worse_at is None else "does not hold")
    assert "not run: eta=2" in never.evidence
    closed = f"default closes {percent((default - 0.4) / 0.2)} of the gap (95 % interval "
    assert closed in found[0].evidence
    won = "in 8 of 8" if default > 0.46 else "in 0 of 8"
    assert won in found[2].evidence


def test_a_claim_and_its_table_give_the_same_interval(tmp_path: Path) -> None:
    """The interval of a gap is drawn anew in both: as often, so that the page does not contradict itself."""
    levels = {"naive": 0.4, "position": 0.46, "oracle": 0.6, "default": 0.52}
    plan = plan_of("truth", methods=tuple(levels), rankers=("lambdamart",), folds=1, seeds=1)
    outcome = fill(tmp_path, plan, lambda entry: levels[entry.method], noise=0.3)
    row = next(
        row for row in rows(outcome) if (row["method"], row["setting"], row["metric"]) == ("default", "base", "ndcg@10")
    )
    interval = f"(95 % interval {percent(row['gap_low'])} to {percent(row['gap_high'])})"
    assert interval in findings([outcome])[0].evidence


def test_what_is_told_the_examination_takes_no_prize(tmp_path: Path) -> None:
    told = "full-cfc:examination=planted"
    levels = {"naive": 0.4, "position": 0.46, "oracle": 0.6, "default": 0.55, told: 0.58}
    plan = plan_of("truth", methods=tuple(levels), rankers=("lambdamart",), folds=1, seeds=1)
    outcome = fill(tmp_path, plan, lambda entry: levels[entry.method])
    places = {row["method"]: row["place"] for row in rows(outcome) if row["metric"] == "ndcg@10"}
    assert places == {"naive": None, "position": 2, "oracle": None, "default": 1, told: None}
    page = results([outcome])
    assert "- made up, averaged trees, base: default closes 75 % (" in page
    assert "of the NDCG@10 gap; position closes 30 % (" in page


RESIDUALS = ("mean |residual|", "FK", "FK p", "r2")


def values_run(
    folder: Path, plan: Plan, value: Callable[[Entry], float | None], names: tuple[str, ...] = RESIDUALS
) -> Outcome:
    store = Store(folder)
    store.write_plan(plan)
    for entry in plan.entries:
        numbers = dict.fromkeys(names, value(entry))
        store.write(entry.unit, Result([], {}, numbers, {"log": {}}, SECONDS))
    return open_run(folder)[0]


def test_residuals_under_stronger_rankers(tmp_path: Path) -> None:
    plan = plan_of("residuals", folds=1)
    falling = findings([values_run(tmp_path, plan, lambda entry: 0.04 / (1 + plan.settings.index(entry.setting)))])
    assert {finding.verdict for finding in falling} == {"holds"}
    assert "FK 0.04 at production=0.01, 0.008 at production=1" in about(falling, "FK falls").evidence
    page = results(open_run(tmp_path))
    assert "### Whatever the ranker" in page


def test_an_experiment_of_plain_numbers_has_a_table_and_an_answer(tmp_path: Path) -> None:
    """Experiments may measure numbers of their own, for several methods."""
    plan = plan_of("residuals", folds=2)
    entries = [replace(entry, method=name) for name in ("one", "two") for entry in plan.entries]
    plan = replace(plan, kind="values", entries=tuple(entries))
    outcome = values_run(tmp_path, plan, lambda entry: 0.25)
    text = document([outcome], "markdown")
    assert "| setting | method | mean \\|residual\\| | FK | FK p | r2 |" in text
    assert text.count("| production=0.1 | one |") == text.count("| production=0.1 | two |") == 1
    assert "the table has the numbers" in " ".join(answer(rows(outcome), kind="values"))
    assert "what was measured" in results([outcome])


def test_numbers_that_a_unit_has_not_are_left_out(tmp_path: Path) -> None:
    outcome = values_run(
        tmp_path, plan_of("residuals", folds=2), lambda entry: [None, 0.5][entry.unit.fold], ("r2", "FK p")
    )
    first = rows(outcome)[0]
    assert (first["mean"], first["sd"]) == (0.5, None)
    nothing = values_run(tmp_path / "none", plan_of("residuals", folds=1), lambda entry: None, ("r2",))
    assert "| production=1 |  | – |" in document([nothing], "markdown")


@pytest.mark.parametrize(
    ("found", "verdict"), [(0, "holds"), (5, "holds"), (6, "does not hold"), (100, "does not hold")]
)
def test_shares_are_held_against_their_bound(tmp_path: Path, found: int, verdict: str) -> None:
    plan = plan_of("residuals", preset="smoke", folds=1, seeds=100)
    outcome = values_run(tmp_path, plan, lambda entry: float(entry.unit.seed < found), ("terms found",))
    case = next(iter(share_is("terms found", "production=1", at_most=0.05)(outcome)))
    assert case.verdict == verdict
    assert case.text.startswith(f"production=1: terms found in {found} % of 100 logs (95 % interval ")
    assert list(share_is("terms found", "elsewhere")(outcome)) == []


def test_the_referee_is_held_against_what_was_planted(tmp_path: Path) -> None:
    plan = plan_of("referee", folds=1, seeds=3)

    def right(entry: Entry) -> float:
        return float(entry.setting not in ("eta=0", "eta=1, T permuted"))

    found = findings([values_run(tmp_path, plan, right, ("corrected", "terms found"))])
    assert len(found) == 3
    # Three logs are too few to be sure of one in twenty.
    assert {finding.verdict for finding in found} == {"cannot be told"}
    wrong = findings([values_run(tmp_path, plan, lambda entry: 1 - right(entry), ("corrected", "terms found"))])
    assert {finding.verdict for finding in wrong} == {"does not hold"}
    # Numbers of another version are no crash.
    assert findings([values_run(tmp_path, plan, right, ("renamed",))]) == []


def test_a_page_grows_by_what_is_kept(tmp_path: Path) -> None:
    """Two runs on two days make the page that both together would have made."""
    one, two = rq1(tmp_path / "a"), fill(tmp_path / "b", plan_of("rq1", data="other", **RQ1), by_method)
    first = keep([chapter_of(one)], tmp_path / "kept")
    both = keep([chapter_of(two)], tmp_path / "kept")
    assert [chapter.data for chapter in first] == ["made up"]
    assert results_page(both) == results([one, two])
    again = keep([chapter_of(rq1(tmp_path / "c", folds=1))], tmp_path / "kept")
    assert [chapter.run["folds"] for chapter in again] == [1, 2]  # run again: in place of the old one


def test_nets_have_a_chapter_beside_the_trees_until_both_are_run_together(tmp_path: Path) -> None:
    """Long studies are run ranker by ranker; neither run may take the other's place."""
    kept = tmp_path / "kept"
    trees = chapter_of(rq1(tmp_path / "a", rankers=("lambdamart",)))
    nets = chapter_of(rq1(tmp_path / "b", rankers=("dnn",)))
    for order in ((trees, nets), (nets, trees)):
        both = [chapter for one in order for chapter in keep([one], kept)][-2:]
        assert sorted(chapter.part for chapter in both) == ["", "dnn"]
    page = results_page(both)
    assert "### rq1 on made up" in page
    assert "### rq1 (dnn) on made up" in page
    whole = keep([chapter_of(rq1(tmp_path / "c", rankers=("lambdamart", "dnn")))], kept)
    assert [chapter.run["rankers"] for chapter in whole] == [["lambdamart", "dnn"]]
    assert [path.name for path in kept.iterdir()] == ["rq1-made_up.json"]


def test_chapters_of_earlier_editions_say_so_and_never_replace_newer_ones(tmp_path: Path) -> None:
    new = chapter_of(rq1(tmp_path / "a"))
    old = replace(new, run={name: value for name, value in new.run.items() if name != "edition"})
    assert "edition 1" not in results_page([new])
    page = results_page([old, replace(new, data="other")])
    assert "### rq1 (edition 1) on made up" in page
    assert "### rq1 on other" in page
    assert re.search(r"Editions: 1, .*; \d+, ", page)
    assert len(re.findall(r"closes most .* \(edition 1\)\.", page)) == len(old.headlines)
    keep([old], tmp_path / "kept")
    assert [chapter.edition for chapter in keep([new], tmp_path / "kept")] == [""]
    with pytest.raises(OutputError, match="cannot take its place"):
        keep([old], tmp_path / "kept")


@pytest.mark.parametrize(
    "given",
    [{"rankers": ("lambdamart",)}, {"rankers": ("dnn",)}, {"preset": "smoke", "rankers": ("lambdamart", "dnn")}],
)
def test_a_kept_chapter_is_not_lost_to_a_smaller_one(given: dict[str, object], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    keep([chapter_of(rq1(tmp_path / "a", rankers=("lambdamart", "dnn")))], kept)
    before = (kept / "rq1-made_up.json").read_bytes()
    with pytest.raises(OutputError, match="without losing some"):
        keep([chapter_of(rq1(tmp_path / "b", **given))], kept)
    assert [path.read_bytes() for path in kept.iterdir()] == [before]


def test_a_finished_chapter_is_not_lost_to_a_run_that_was_stopped(tmp_path: Path) -> None:
    whole = chapter_of(rq1(tmp_path / "a"))
    stopped = replace(whole, run={**whole.run, "missing": 3})
    keep([stopped], tmp_path / "kept")
    keep([whole], tmp_path / "kept")
    with pytest.raises(OutputError, match="3 units missing"):
        keep([stopped], tmp_path / "kept")


def test_data_of_two_names_that_make_one_file_name_are_told_apart(tmp_path: Path) -> None:
    first, second = (fill(tmp_path / name, plan_of("rq1", data=name, **RQ1), by_method) for name in ("a b", "a_b"))
    keep([chapter_of(first)], tmp_path / "kept")
    with pytest.raises(OutputError, match="keeps rq1 on a b"):
        keep([chapter_of(second)], tmp_path / "kept")


def test_every_reason_rests_on_a_claim_that_is_made() -> None:
    """A claim that is worded anew must not silently leave a reason without its evidence."""
    for reason in REASONS:
        for start in reason.rests_on:
            assert any(claim.text.startswith(start) for claim in CLAIMS), start


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', '{"format": 1, "findings": [1]}'])
def test_a_kept_file_that_is_none_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "rq1-x.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"rq1-x\.json is not a chapter"):
        keep([], tmp_path)


def test_a_chapter_of_an_edition_that_is_still_to_come_is_refused(tmp_path: Path) -> None:
    chapter = chapter_of(rq1(tmp_path / "a", folds=1))
    later = replace(chapter, run={**chapter.run, "edition": 99})
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / later.file_name).write_text(later.to_json())
    with pytest.raises(FileFormatError, match="edition must be one of"):
        keep([], tmp_path / "kept")
