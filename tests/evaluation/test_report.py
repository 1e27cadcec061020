"""`evaluate`: means, per-query values, comparisons with marks, and what it prints."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import unskew
from unskew.cli.common import plain
from unskew.data.ranking import RankingData
from unskew.errors import DataError, GradeError, SettingError
from unskew.evaluation.metrics import per_query
from unskew.evaluation.report import evaluate
from unskew.evaluation.significance import compare


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 5, (120, 12))
    grades[:7] = 0
    return RankingData.from_arrays(
        np.zeros((1440, 1)),
        sizes=[12] * 120,
        grades=grades.ravel(),
        max_grade=4,
        query_ids=[f"q{i}" for i in range(120)],
    )


@pytest.fixture(scope="module")
def systems(judged):
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(3, judged.n_rows))
    return {"good": judged.grades + noise[0], "fair": 0.5 * judged.grades + noise[1], "random": noise[2]}


@pytest.fixture(scope="module")
def outcome(judged, systems):
    return evaluate(judged, systems, draws=5_000)


def test_it_is_the_public_verb():
    assert unskew.evaluate is evaluate


def test_means_are_over_queries_with_a_relevant_item(judged, systems, outcome):
    assert (outcome.queries, outcome.empty_queries) == (113, 7)
    expected = per_query(judged.grades, systems["fair"], judged.offsets, max_grade=4)
    for metric in ("ndcg@1", "ndcg@10", "err@3"):
        assert outcome.summary["fair"].mean[metric] == pytest.approx(np.nanmean(expected[metric]))


def test_per_query_values_are_kept(judged, systems, outcome):
    frame = outcome.per_query
    assert frame.columns[:2] == ["system", "query_id"]
    assert frame.height == 3 * 120
    fair = frame.filter(pl.col("system") == "fair")
    assert fair["query_id"].to_list() == judged.query_ids.to_list()
    assert fair["ndcg@10"].null_count() == 7
    expected = per_query(judged.grades, systems["fair"], judged.offsets, max_grade=4)["ndcg@10"]
    np.testing.assert_array_equal(fair["ndcg@10"].drop_nulls().to_numpy(), expected[~np.isnan(expected)])


def test_every_pair_is_compared_on_every_metric(judged, systems, outcome):
    assert len(outcome.comparisons) == 3 * 8
    found = next(c for c in outcome.comparisons if (c.a, c.b, c.metric) == ("random", "good", "ndcg@10"))
    values = [per_query(judged.grades, systems[n], judged.offsets, max_grade=4)["ndcg@10"] for n in ("random", "good")]
    alone = compare(*values, draws=5_000)
    assert found.result.difference == pytest.approx(alone.difference)
    assert (found.result.p, found.result.low) == (alone.p, alone.low)
    assert found.better == "good"
    of_metric = [c.result for c in outcome.comparisons if c.metric == "ndcg@10"]
    assert all(result.p_holm >= result.p for result in of_metric)
    assert any(result.p_holm > result.p for result in of_metric)


def test_marks_name_the_systems_that_are_beaten(outcome):
    rows = {row["system"]: row for row in outcome.rows()}
    assert [row["letter"] for row in rows.values()] == ["a", "b", "c"]
    assert rows["good"]["beats"]["ndcg@10"] == "bc"
    assert rows["fair"]["beats"]["ndcg@10"] == "c"
    assert rows["random"]["beats"]["ndcg@10"] == ""


def test_the_same_scores_twice_are_never_marked(judged, systems):
    found = evaluate(judged, {"one": systems["good"], "two": systems["good"]}, draws=100)
    assert all(pair.result.p == 1 and pair.better is None for pair in found.comparisons)


@pytest.mark.parametrize(("empty", "ndcg"), [("zero", 0.0), ("one", 1.0)])
def test_empty_queries_may_count(judged, systems, outcome, empty, ndcg):
    found = evaluate(judged, systems["good"], empty=empty)
    assert found.queries == 120
    without = outcome.summary["good"].mean
    assert found.summary["scores"].mean["ndcg@5"] == pytest.approx((113 * without["ndcg@5"] + 7 * ndcg) / 120)
    assert found.summary["scores"].mean["err@5"] == pytest.approx(113 * without["err@5"] / 120)
    assert found.per_query["ndcg@5"].null_count() == 0


def test_one_system_has_no_comparison(judged, systems):
    found = evaluate(judged, systems["good"], names=["mine"], at=[3])
    assert found.systems == ("mine",)
    assert found.metrics == ("ndcg@3", "err@3")
    assert found.comparisons == ()


def test_a_list_of_scores_takes_names(judged, systems):
    found = evaluate(judged, [systems["good"], systems["fair"]], names=["x", "y"], draws=100)
    assert found.systems == ("x", "y")


def test_it_is_a_json_document(outcome):
    document = json.loads(json.dumps(plain(outcome.to_dict()), allow_nan=False))
    assert document["queries"] == 113
    assert {"a", "b", "metric", "difference", "p", "p_holm", "better"} <= set(document["comparisons"][0])


def test_the_table_shows_best_marks_and_counts(outcome):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(outcome.render())
    text = console.export_text()
    assert "NDCG@10" in text
    assert f"{outcome.summary['good'].mean['ndcg@10']:.4f} bc" in text
    assert "random - good" in text
    assert "113 queries; 7 without a relevant item, left out." in text


@pytest.mark.parametrize("name", ["values.parquet", "values.csv"])
def test_per_query_values_can_be_written(outcome, tmp_path, name):
    outcome.write_per_query(tmp_path / name)
    read = pl.read_csv(tmp_path / name) if name.endswith("csv") else pl.read_parquet(tmp_path / name)
    assert read.equals(outcome.per_query)


def test_data_without_any_relevant_item_has_no_mean():
    data = RankingData.from_arrays(np.eye(2), sizes=[2], grades=[0, 0], max_grade=1)
    found = evaluate(data, {"a": [1.0, 2.0], "b": [2.0, 1.0]})
    assert found.queries == 0
    assert math.isnan(found.summary["a"].mean["ndcg@10"])
    assert found.comparisons == ()


def test_wrong_input_is_refused(judged, systems):
    ungraded = RankingData.from_arrays(np.eye(2), sizes=[2])
    with pytest.raises(GradeError, match="evaluate needs human grades"):
        evaluate(ungraded, [1.0, 2.0])
    with pytest.raises(SettingError, match="distinct names"):
        evaluate(judged, [systems["good"], systems["fair"]])
    with pytest.raises(DataError, match="no scores"):
        evaluate(judged, {})
    with pytest.raises(SettingError, match="empty must be one of"):
        evaluate(judged, systems["good"], empty="skip")
    with pytest.raises(DataError, match="finite"):
        evaluate(judged, np.full(judged.n_rows, np.nan))
