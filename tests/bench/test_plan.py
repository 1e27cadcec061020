"""Experiments as units of work: what a preset makes of them, what units share, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unskew.bench.cells import Cell
from unskew.bench.collection import Collection, Source, read_collection
from unskew.bench.experiments import EXPERIMENTS
from unskew.bench.plan import Plan, Request, make_plan
from unskew.bench.scales import SCALES, budget
from unskew.data.ranking import RankingData
from unskew.errors import SettingError
from unskew.registry import methods, resolve
from unskew.simulation.synthetic import synthetic_collection


def _no_data(fold: int) -> None:
    raise AssertionError("a plan needs no data")


ANYTHING = Collection("any", None, "fingerprint", 5, _no_data, "by query, 3/1/1")


def plan_of(name: str, preset: str = "default", **given: object) -> Plan:
    return make_plan(Request(name, preset, **given), ANYTHING, Source("any"))


@pytest.mark.parametrize("preset", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_plan_comes_back_from_its_file(name: str, preset: str) -> None:
    plan = plan_of(name, preset)
    again = Plan.from_json(plan.to_json())
    assert again.to_json() == plan.to_json()
    assert [unit.key for unit in again.units] == [unit.key for unit in plan.units]
    assert again.units == plan.units


def test_settings_without_the_ranker_that_was_asked_for_are_left_out() -> None:
    """The truth study has nets in three of its cells."""
    plan = plan_of("truth", rankers=("dnn",))
    assert plan.settings == ["base", "eta=2, noise=0.1", "production=1, hidden=4"]
    assert {entry.ranker for entry in plan.entries} == {"dnn"}
    assert not any("trees" in note for note in plan.notes)
    assert any("Neural nets" in note for note in plan.notes)
    assert plan_of("truth", rankers=("xgboost",)).settings == [one.name for one in EXPERIMENTS["truth"].settings]


def test_the_listed_questions_are_all_there() -> None:
    asked = "rq1 rq2 rq3 rq4 rq5 rq6 rq7 production residual-only stage-one residuals validation placebo inference"
    assert set(asked.split()) | {"hidden", "referee", "truth"} == set(EXPERIMENTS)
    assert all(experiment.asks.strip() for experiment in EXPERIMENTS.values())


def test_published_settings() -> None:
    cells = {name: [setting.cell for setting in EXPERIMENTS[name].settings] for name in EXPERIMENTS}
    assert [cell.eta for cell in cells["rq2"]] == [0.5, 1.0, 1.5, 2.0]
    assert [cell.passes for cell in cells["rq5"]] == [1, 10, 20]
    assert [cell.noise for cell in cells["rq6"]] == [0.0, 0.05, 0.1, 0.15, 0.2]
    assert cells["rq7"][-1].landmarks == (1, 3, 5, 10)
    assert [cell.production for cell in cells["production"]] == [0.01, 0.1, 0.2, 0.3, 1.0]
    assert len(plan_of("rq1", "paper").entries) == 5 * len({(e.method, e.ranker) for e in plan_of("rq1").entries})


def test_rq1_has_every_method() -> None:
    there = {entry.method for entry in plan_of("rq1").entries}
    # `default` is full-cfc or naive, which are there.
    assert there == {info.name for info in methods()} - {"default"}
    assert {entry.ranker for entry in plan_of("rq1").entries if entry.method == "cfc"} == {"lambdamart", "dnn"}


def test_experiments_share_what_they_have_in_common() -> None:
    base = {unit.key for unit in plan_of("rq1").units if unit.fold == 0}
    for name in ("rq2", "rq5", "rq6", "rq7", "production", "stage-one", "inference", "placebo"):
        common = base & {unit.key for unit in plan_of(name).units}
        assert any(key.startswith("cfc-lambdamart") for key in common), name


def test_one_oracle_for_all_clicks() -> None:
    plan = plan_of("rq2")
    assert len({entry.unit.key for entry in plan.entries if entry.method == "oracle"}) == 2 * plan.folds
    hidden = {entry.setting: entry.unit.cell for entry in plan_of("hidden").entries if entry.method == "oracle"}
    assert hidden["hidden=2"] != hidden["nothing hidden"] == hidden["shock"]


def test_everybody_has_the_same_number_of_tries() -> None:
    for method in ("naive", "oracle", "position", "paird", "dla", "xgb-unbiased"):
        assert len(budget(method, resolve(method).rankers[0], {}, 4).rates) == 4
    assert len(budget("cfc", "lambdamart", {}, 4).rates) == 1  # times four transformations
    assert len(budget("cfc", "lambdamart", {"transformation": "minmax"}, 4).rates) == 4
    assert len(budget("cfc", "lambdamart", {"transformation": "minmax"}, 1).rates) == 1
    pijd = budget("pijd", "lambdamart", {}, 1)
    assert (len(pijd.rates), len(pijd.options["cutoffs"])) == (1, 1)
    assert budget("naive", "lambdamart", {}, None).rates == ()  # the published grid


def test_tuning_without_grades() -> None:
    tuned = {entry.method: entry.unit.tune_on for entry in plan_of("rq4", "paper").entries}
    assert (tuned["cfc"], tuned["naive"], tuned["dla"], tuned["oracle"]) == ("debiased", "clicks", "clicks", "grades")
    compared = {entry.method: entry.unit.tune_on for entry in plan_of("validation").entries}
    assert (compared["cfc"], compared["cfc-bc"]) == ("debiased", "clicks")
    rq1 = plan_of("rq1")
    assert {entry.method for entry in rq1.entries if entry.unit.tune_on != "grades"} == {"cfc-bc"}
    assert any("cfc-bc chose on clicks" in note for note in rq1.notes)


def test_the_study_averages_everybody_s_trees() -> None:
    plan = plan_of("truth")
    assert {entry.unit.average for entry in plan.entries if entry.ranker == "dnn"} == {1}
    trees = {(entry.method, entry.unit.average) for entry in plan.entries if entry.ranker != "dnn"}
    assert {average for method, average in trees if method != "default" and not method.startswith("full-cfc")} == {4}
    assert ("default", 1) in trees
    assert any("average by themselves" in note for note in plan.notes)
    assert {entry.unit.average for entry in plan_of("truth", average=2).entries} == {1, 2}
    assert {entry.unit.average for entry in plan_of("truth", "smoke").entries} == {1}


def test_what_is_left_out_is_said() -> None:
    notes = " ".join(plan_of("rq2").notes)
    assert "3 of 5 folds" in notes
    assert "multr" in notes
    assert "mean nothing" in " ".join(plan_of("rq2", "smoke").notes)


def test_methods_and_rankers_can_be_chosen() -> None:
    plan = plan_of("rq1", methods=("default", "position", "cfc/dnn"), folds=2, seeds=2, seed=7)
    assert {entry.method for entry in plan.entries} == {resolve("default").name, "position", "cfc"}
    assert plan.seeds == (7, 8)
    assert plan.folds == 2
    assert len([entry for entry in plan.entries if entry.method == "cfc"]) == 4
    assert {entry.ranker for entry in plan_of("rq1", rankers=("dnn",)).entries} == {"dnn"}
    assert {entry.ranker for entry in plan_of("rq2", methods=("xgb-unbiased",)).entries} == {"xgboost"}


def test_a_variant_is_told_its_settings() -> None:
    plan = plan_of("stage-one", methods=("cfc", "cfc:centred=true", "full-cfc:terms=T"))
    told = {(entry.setting, entry.method): dict(entry.unit.options) for entry in plan.entries}
    assert told["svm", "cfc:centred=true"] == {"stage_one": "svm", "centred": True}
    assert told["svm", "cfc"] == {"stage_one": "svm"}
    assert told["svm", "full-cfc:terms=T"] == {"terms": "T"}
    assert {entry.unit.method for entry in plan.entries} == {"cfc", "full-cfc"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"methods": ("nonsense",)}, "'nonsense'"),
        ({"methods": ("paird/dnn",)}, "'lambdamart'"),
        ({"rankers": ("nonsense",)}, "'nonsense'"),
        ({"methods": ("dla",), "rankers": ("lambdamart",)}, "Nothing is left"),
        ({"methods": ("cfc:centred",)}, "no value"),
        ({"methods": ("cfc:examination=planted",)}, "'cfc' has no setting 'examination'"),
        ({"methods": ("full-cfc:examination=plantd",)}, "must be the planted one"),
        ({"folds": 6}, "between 1 and 5"),
        ({"seeds": 0}, "1 or greater"),
    ],
)
def test_bad_requests(given: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        plan_of("rq1", **given)


def test_unknown_experiment() -> None:
    with pytest.raises(SettingError, match="'rq9'"):
        make_plan(Request("rq9"), ANYTHING, Source("any"))


def test_whatever_decides_a_result_changes_the_key() -> None:
    unit = plan_of("rq1").units[0]
    changes = {
        "data": "other",
        "cell": Cell(eta=2.0),
        "fold": 4,
        "seed": 9,
        "method": "position",
        "ranker": "xgboost",
        "tune_on": "clicks",
        "preset": "paper",
        "options": (("form", "residual"),),
        "rates": (0.5,),
        "net": (("steps", 1),),
        "average": 4,
    }
    keys = {replace(unit, **{name: value}).key for name, value in changes.items()}
    assert len(keys | {unit.key}) == len(changes) + 1


# Data


def test_folds_by_query_test_every_query_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    collection = read_collection(Source("synthetic:25"))
    tested = [collection.split(k)[2].query_ids.to_list() for k in range(collection.n_folds)]
    assert sorted(query for part in tested for query in part) == list(range(25))
    train, valid, test = collection.split(0)
    assert (train.n_queries, valid.n_queries, test.n_queries) == (15, 5, 5)


def test_official_parts_of_a_letor_file(monkeypatch: pytest.MonkeyPatch) -> None:
    from unskew.bench import collection

    data = RankingData.from_arrays(np.zeros((15, 2)), sizes=[3, 2, 4, 1, 3, 2], grades=[0, 1, 2] * 5)
    monkeypatch.setattr(collection, "_LETOR_PARTS", {15: (5, 4, 1, 3, 2)})
    folds = collection._official_folds(data)
    assert folds is not None
    assert folds[0].train.tolist() == [0, 1, 2, 3]  # S1, S2, S3
    assert folds[0].valid.tolist() == [4]  # S4
    assert folds[0].test.tolist() == [5]  # S5
    assert folds[1].test.tolist() == [0, 1]
    monkeypatch.setattr(collection, "_LETOR_PARTS", {15: (4, 5, 1, 3, 2)})  # cuts a query in two
    assert collection._official_folds(data) is None


def test_halves_do_not_overlap() -> None:
    parts = [read_collection(Source("synthetic:60", half=half)) for half in ("development", "untouched")]
    ids = [{q for k in range(5) for q in part.split(k)[2].query_ids.to_list()} for part in parts]
    assert not ids[0] & ids[1]
    assert len(ids[0] | ids[1]) == 60
    assert parts[0].fingerprint != parts[1].fingerprint


def test_a_real_log_keeps_its_grades_to_itself(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from unskew.simulation.log import simulate

    data = synthetic_collection(40)
    simulate(data.take_queries(np.arange(25)), passes=2).write(tmp_path / "log.parquet")
    from unskew.data.files import write_judged

    write_judged(data.take_queries(np.arange(25, 40)), tmp_path / "judged.parquet")
    source = Source(str(tmp_path / "judged.parquet"), log=str(tmp_path / "log.parquet"))
    log, valid, test = read_collection(source, real_log=True).split(0)
    assert log.data.grades is None
    assert (valid.n_queries, test.n_queries) == (5, 10)
    assert not set(valid.query_ids.to_list()) & set(test.query_ids.to_list())


def test_a_real_log_must_be_named() -> None:
    with pytest.raises(SettingError, match="--log"):
        read_collection(Source("synthetic:20"), real_log=True)
    with pytest.raises(SettingError, match="rq3"):
        read_collection(Source("synthetic:20", log="log.parquet"))
