"""Tables from units with known numbers: means, spread, gap closed, stars, published figures, formats."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from unskew.bench.claims import CLAIMS, findings, overall
from unskew.bench.collection import Collection, Source
from unskew.bench.experiments import EXPERIMENTS
from unskew.bench.formats import document, render
from unskew.bench.looks import Case
from unskew.bench.outcomes import Outcome, open_run
from unskew.bench.plan import Plan, Request, make_plan
from unskew.bench.published import document as paper
from unskew.bench.published import published
from unskew.bench.results import results
from unskew.bench.store import Store
from unskew.bench.tables import rows
from unskew.bench.tables_times import time_grid, times
from unskew.bench.work import Result

CONTRACT = ["experiment", "data", "setting", "ranker", "method", "metric", "mean", "sd", "n"]
CONTRACT += ["gap_closed", "gap_low", "gap_high", "p", "published"]
METRICS = [f"{family}@{cut}" for family in ("ndcg", "err") for cut in (1, 3, 5, 10)]
QUERIES = 40


def _plan(name: str, dataset: str | None = None, **given: object) -> Plan:
    collection = Collection("made up", dataset, "fingerprint", 5, lambda fold: None, "by query, 3/1/1")
    return make_plan(Request(name, **given), collection, Source("made up"))


def _result(values: np.ndarray, seconds: float = 1.0) -> Result:
    record = {"curve": None, "planted_curve": None, "log": {}}
    times = {"log": 0.0, "stage_one": 0.25, "fit": seconds, "test": 0.0}
    return Result(list(range(len(values))), dict.fromkeys(METRICS, values), {}, record, times)


def _filled(folder: Path, plan: Plan, level: dict[str, float], *, shift: float = 0.0) -> Outcome:
    """A run in which every query's value is its method's level plus the query's own part."""
    store = Store(folder)
    store.write_plan(plan)
    for entry in plan.entries:
        own = np.random.default_rng(entry.unit.fold).normal(0, 0.05, QUERIES)
        place = plan.settings.index(entry.setting)
        values = level[entry.method] + own + 0.01 * entry.unit.fold + shift * place * (entry.method != "oracle")
        values[0] = np.nan  # a query without a relevant item
        store.write(entry.unit, _result(values))
    return open_run(folder)[0]


LEVELS = {"naive": 0.4, "cfc": 0.45, "position": 0.5, "oracle": 0.6}


@pytest.fixture
def simple(tmp_path: Path) -> Outcome:
    return _filled(tmp_path / "run", _plan("rq1", methods=tuple(LEVELS), rankers=("lambdamart",), seeds=2), LEVELS)


def test_rows_keep_the_contract(simple: Outcome) -> None:
    table = rows(simple)
    assert len(table) == len(LEVELS) * len(METRICS)
    assert all(list(row)[: len(CONTRACT)] == CONTRACT for row in table)
    json.dumps(table, allow_nan=False)


def test_known_numbers(simple: Outcome) -> None:
    by_method = {row["method"]: row for row in rows(simple) if row["metric"] == "ndcg@10"}
    fold_means = [
        0.45 + 0.01 * fold + np.random.default_rng(fold).normal(0, 0.05, QUERIES)[1:].mean() for fold in range(5)
    ]
    cfc = by_method["cfc"]
    assert cfc["mean"] == pytest.approx(np.mean(fold_means))
    assert cfc["sd"] == pytest.approx(np.std(fold_means * 2, ddof=1))
    assert cfc["n"] == 10  # 5 folds × 2 seeds
    assert cfc["queries"] == 5 * (QUERIES - 1)
    # Every query moves by the same amount, so the ratio is the same in every resample.
    assert [cfc[name] for name in ("gap_closed", "gap_low", "gap_high")] == pytest.approx([0.25] * 3)
    assert by_method["position"]["gap_closed"] == pytest.approx(0.5)
    assert by_method["naive"]["gap_closed"] is None


def test_equals_share_a_place(tmp_path: Path) -> None:
    levels = {"naive": 0.5, "cfc": 0.5, "position": 0.4, "oracle": 0.6}
    plan = _plan("rq1", methods=tuple(levels), rankers=("lambdamart",), folds=1)
    by_method = {row["method"]: row for row in rows(_filled(tmp_path, plan, levels)) if row["metric"] == "ndcg@10"}
    assert [by_method[name]["place"] for name in ("naive", "cfc", "position")] == [1, 1, None]


def test_stars_and_places(simple: Outcome) -> None:
    by_method = {row["method"]: row for row in rows(simple) if row["metric"] == "err@5"}
    assert [by_method[name]["place"] for name in ("position", "cfc", "naive", "oracle")] == [1, 2, None, None]
    assert [by_method[name]["star"] for name in ("position", "cfc", "naive", "oracle")] == [True, False, False, False]
    assert by_method["position"]["rival"] == "cfc/lambdamart"
    assert by_method["naive"]["rival"] == "position/lambdamart"
    assert by_method["position"]["p"] < 0.001
    assert by_method["oracle"]["p"] is None


def test_no_star_without_significance(tmp_path: Path) -> None:
    plan = _plan("rq1", methods=("naive", "cfc"), rankers=("lambdamart",), folds=1)
    store = Store(tmp_path)
    store.write_plan(plan)
    rng = np.random.default_rng(0)
    for entry in plan.entries:
        store.write(entry.unit, _result(0.5 + rng.normal(0, 0.1, QUERIES)))
    assert not any(row["star"] for row in rows(open_run(tmp_path)[0]))


def test_the_rival_may_have_another_ranker(tmp_path: Path) -> None:
    plan = _plan("rq1", methods=("naive", "cfc"), folds=1)
    store = Store(tmp_path)
    store.write_plan(plan)
    level = {("lambdamart", "cfc"): 0.5, ("dnn", "cfc"): 0.48, ("lambdamart", "naive"): 0.4, ("dnn", "naive"): 0.45}
    for entry in plan.entries:
        store.write(entry.unit, _result(np.linspace(0, 0.1, QUERIES) + level[entry.ranker, entry.method]))
    found = {(row["ranker"], row["method"]): row for row in rows(open_run(tmp_path)[0]) if row["metric"] == "ndcg@1"}
    assert found["lambdamart", "cfc"]["rival"] == "naive/dnn"  # not its own method with the other ranker
    assert found["lambdamart", "cfc"]["star"]
    assert not found["dnn", "cfc"]["star"]
    assert found["dnn", "cfc"]["place"] == 1  # the best of its ranker


def test_published_figures_only_for_the_papers_data(tmp_path: Path) -> None:
    plan = _plan("rq1", "mslr-web10k", methods=tuple(LEVELS), rankers=("lambdamart",), folds=1)
    known = {row["method"]: row for row in rows(_filled(tmp_path / "a", plan, LEVELS)) if row["metric"] == "ndcg@10"}
    assert known["cfc"]["published"] == 0.489
    assert known["cfc"]["difference"] == pytest.approx(known["cfc"]["mean"] - 0.489)
    assert known["position"]["published"] is None
    plan = _plan("rq1", "mq2008", methods=tuple(LEVELS), rankers=("lambdamart",), folds=1)
    assert all(row["published"] is None for row in rows(_filled(tmp_path / "b", plan, LEVELS)))


def test_a_missing_unit_is_said(tmp_path: Path) -> None:
    plan = _plan("rq1", methods=("naive", "oracle"), rankers=("lambdamart",))
    store = Store(tmp_path)
    store.write_plan(plan)
    for entry in plan.entries[:-1]:
        store.write(entry.unit, _result(np.full(QUERIES, 0.5)))
    store.fail(plan.entries[-1].unit, "it broke")
    outcome = open_run(tmp_path)[0]
    assert outcome.missing == 1
    assert outcome.failures[0].error == "it broke"
    assert {row["n"] for row in rows(outcome) if row["method"] == "oracle"} == {4}
    assert "1 of 10 units are missing" in document([outcome], "markdown")


def test_formats_agree(simple: Outcome) -> None:
    table = list(csv.DictReader(io.StringIO(document([simple], "csv"))))
    assert len(table) == len(rows(simple))
    mean = next(row for row in rows(simple) if row["method"] == "position" and row["metric"] == "ndcg@10")["mean"]
    assert f"**{mean:.4f}**\\*" in document([simple], "markdown")
    tex = document([simple], "latex")
    assert rf"\textbf{{{mean:.4f}}}${{^*}}$" in tex
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 2
    assert "25 \\%" in tex
    assert render([simple]).renderables


def test_a_sweep_has_its_settings_across(tmp_path: Path) -> None:
    plan = _plan("rq2", methods=tuple(LEVELS), rankers=("lambdamart",), folds=2)
    outcome = _filled(tmp_path, plan, LEVELS, shift=-0.02)
    text = document([outcome], "markdown")
    assert "| ranker | method | eta=0.5 | eta=1 | eta=1.5 | eta=2 |" in text
    grows = [finding for finding in findings([outcome]) if finding.claim.startswith("The distance")]
    assert grows[0].verdict == "holds"


def test_times_stay_out_of_tables(simple: Outcome) -> None:
    assert {row["seconds"] for row in times(simple)} == {1.0}
    assert {row["stage_one_seconds"] for row in times(simple)} == {0.25}
    assert "seconds" not in rows(simple)[0]
    assert "seconds" not in document([simple], "markdown")


def _timed(folder: Path, plan: Plan, seconds: dict[str, float]) -> Outcome:
    """A run in which a fold takes its method's seconds, the last fold a hundred times as long."""
    store = Store(folder)
    store.write_plan(plan)
    for entry in plan.entries:
        slow = 100 if entry.unit.fold == plan.folds - 1 else 1
        store.write(entry.unit, _result(np.full(QUERIES, 0.5), seconds[entry.method] * slow))
    return open_run(folder)[0]


def test_times_are_medians_and_multiples_of_naive(tmp_path: Path) -> None:
    plan = _plan("rq1", methods=("naive", "cfc", "pijd-linear"), rankers=("lambdamart", "linear"), folds=3)
    outcome = _timed(tmp_path, plan, {"naive": 2.0, "cfc": 5.0, "pijd-linear": 1.0})
    found = {row["method"]: row for row in times(outcome)}
    assert {name: row["seconds"] for name, row in found.items()} == {"naive": 2.0, "cfc": 5.0, "pijd-linear": 1.0}
    assert [found[name]["times_naive"] for name in ("naive", "cfc", "pijd-linear")] == [1.0, 2.5, None]
    assert {row["n"] for row in found.values()} == {3}
    grid = time_grid(outcome, times(outcome))
    assert grid is not None
    assert grid.lines[0][0] == ("lambdamart", "naive")
    cells = {names[1]: [cell.text for cell in cells] for names, cells in grid.lines}
    assert cells["cfc"] == ["5.00", "×2.5", "0.25", "0.00"]
    assert cells["pijd-linear"][1] == "–"
    assert "factors rather than the seconds" in grid.caption


def test_times_of_a_sweep_have_its_settings_across(tmp_path: Path) -> None:
    plan = _plan("stage-one", folds=3)
    outcome = _timed(tmp_path, plan, {"naive": 2.0, "cfc": 5.0, "oracle": 1.0})
    grid = time_grid(outcome, times(outcome))
    assert grid is not None
    assert grid.header[2:] == tuple(plan.settings)
    lines = {names: [cell.text + cell.spread for cell in cells] for names, cells in grid.lines}
    assert lines["lambdamart", "cfc"] == ["5.00 (×2.5)"] * 4
    assert lines["", "its stage one"] == ["0.25"] * 4


def test_the_papers_tables_are_whole() -> None:
    figures = published()
    assert len(figures) == 963
    for (experiment, data, setting, ranker, _, metric), value in figures.items():
        what = EXPERIMENTS[experiment]
        assert setting in [one.name for one in what.settings]
        assert metric == "FK" or metric == "stage-one seconds" or 0 < value < 1
        assert data in ("yahoo-set1", "mslr-web10k", "istella-s", "baidu-ultr")
        assert ranker in ("lambdamart", "dnn", "none")
    # What the paper's own text says of its tables.
    for data in ("yahoo-set1", "mslr-web10k", "istella-s"):
        for metric in METRICS:
            mine = {
                m: v for (e, d, _, r, m, k), v in figures.items() if (e, d, r, k) == ("rq1", data, "lambdamart", metric)
            }
            assert max(mine, key=lambda name: mine[name] if name != "oracle" else 0) == "cfc"
            assert mine["oracle"] >= mine["cfc"]
    assert figures["residuals", "istella-s", "production=1", "none", "stage-one", "FK"] == 2082
    assert "RecSys 2026" in paper()["source"]


# Claims


def test_claims_name_experiments_that_exist() -> None:
    assert {claim.experiment for claim in CLAIMS} <= set(EXPERIMENTS)


def test_a_claim_is_judged_by_its_worst_case() -> None:
    sure, other_way, unclear = Case("", 0.001, 0.1), Case("", 0.001, -0.1), Case("", 0.5, 0.1)
    assert overall([sure, sure]) == "holds"
    assert overall([sure, unclear]) == "cannot be told"
    assert overall([sure, unclear, other_way]) == "does not hold"
    # One of many cases at p = 0.03 is chance.
    assert overall([Case("", 0.03, -0.1)] + [unclear] * 9) == "cannot be told"


def test_results_say_which_claims_hold(tmp_path: Path) -> None:
    plan = _plan("rq1", methods=tuple(LEVELS), rankers=("lambdamart",))
    good = results([_filled(tmp_path / "good", plan, LEVELS)])
    assert "| CFC is better than every rival of the paper, with both rankers. | rq1 | made up | **holds** |" in good
    assert "position closes most of the NDCG@10 gap, 50 % (50 % to 50 %); cfc closes 25 %" in good
    bad = results([_filled(tmp_path / "bad", plan, {**LEVELS, "cfc": 0.3})])
    assert "**does not hold**" in bad
    assert "Do not count on the correction" in bad
    assert good == results(open_run(tmp_path / "good"))
