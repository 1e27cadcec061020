"""Judges give what the metrics give, on grades and on clicks, with and without shared items."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix, ZeroTerms
from unskew.data.ranking import RankingData
from unskew.errors import DataError, GradeError, LogError, SettingError
from unskew.evaluation.judge import LabelJudge, make_judge
from unskew.evaluation.metrics import dcg_linear, ndcg


def judged_data(seed=0, grades=True):
    rng = np.random.default_rng(seed)
    sizes = [20, 25, 1, 15]
    n = sum(sizes)
    values = rng.integers(0, 5, n)
    values[45:46] = 0
    return RankingData.from_arrays(
        rng.normal(size=(n, 2)), sizes=sizes, grades=values if grades else None, max_grade=4 if grades else None
    )


def random_log(data, seed=0, sessions=40, weighted=False):
    """Sessions over whole lists and over parts of them, in random orders."""
    rng = np.random.default_rng(seed)
    rows, numbers, positions = [], [], []
    for session in range(sessions):
        query = rng.integers(data.n_queries)
        start, end = data.offsets[query], data.offsets[query + 1]
        pool = np.arange(start, end) if session % 2 else np.arange(start, min(start + 12, end))
        rows.append(rng.permutation(pool))
        numbers.append(np.full(len(pool), session))
        positions.append(np.arange(1, len(pool) + 1))
    row = np.concatenate(rows)
    weight = np.repeat(rng.integers(1, 9, sessions), [len(part) for part in rows]) if weighted else None
    return ClickLog.from_arrays(
        data,
        row=row,
        session=np.concatenate(numbers),
        position=np.concatenate(positions),
        click=(rng.random(len(row)) < 0.08).astype(int),
        weight=weight,
    )


def test_grades_give_mean_ndcg_over_queries_with_a_relevant_item():
    data = judged_data()
    scores = np.random.default_rng(1).normal(size=data.n_rows)
    judge = make_judge(data)
    assert judge(scores) == pytest.approx(np.nanmean(ndcg(data.grades, scores, data.offsets)), abs=1e-12)
    assert judge.n_lists == 3


@pytest.mark.parametrize("weighted", [False, True])
def test_clicks_give_mean_ndcg_over_sessions_with_a_click(weighted):
    data = judged_data(grades=False)
    log = random_log(data, weighted=weighted)
    scores = np.random.default_rng(2).normal(size=data.n_rows)
    each = ndcg(log.click, scores[log.row], log.session_offsets)
    weight = np.ones(log.n_sessions) if log.weight is None else log.weight[log.session_offsets[:-1]]
    clicked = ~np.isnan(each)
    assert not clicked.all()
    expected = np.average(each[clicked], weights=weight[clicked])
    judge = make_judge(log)
    assert judge(scores[log.rows_shown]) == pytest.approx(expected, abs=1e-12)
    assert judge.n_lists < clicked.sum()


def test_a_log_with_grades_is_judged_on_the_grades_of_what_it_showed():
    data = judged_data()
    log = random_log(data).take_queries([0, 3])
    scores = np.random.default_rng(3).normal(size=data.n_rows)
    judge = make_judge(log)
    shown = data.take_queries([0, 3])
    expected = ndcg(shown.grades, scores[log.rows_shown], shown.offsets).mean()
    assert judge(scores[log.rows_shown]) == pytest.approx(expected, abs=1e-12)
    on_clicks = make_judge(log, tune_on="clicks")
    assert on_clicks(scores[log.rows_shown]) != pytest.approx(expected, abs=1e-6)


def test_features_are_the_items_with_their_terms():
    data = judged_data()
    terms = ZeroTerms(("phi1", "phi2"))
    judge = make_judge(data, terms=terms)
    assert judge.features.shape == (data.n_rows, 4)
    np.testing.assert_array_equal(judge.features[:3][:, :2], data.features[:3])
    assert not judge.features[:3][:, 2:].any()
    assert judge.features.row is None  # all rows: nothing to gather
    part = make_judge(random_log(data).take_queries([1]), terms=terms).features
    np.testing.assert_array_equal(part[:5][:, :2], data.features[20:25])


def test_real_labels_give_mean_linear_dcg():
    rng = np.random.default_rng(4)
    labels, scores, offsets = rng.normal(size=30), rng.normal(size=30), np.array([0, 10, 10, 30])
    judge = LabelJudge(DesignMatrix(np.zeros((30, 1), np.float32)), labels, offsets, metric="dcg")
    expected = dcg_linear(labels, scores, offsets)[[0, 2]].mean()
    assert judge(scores) == pytest.approx(expected, abs=1e-12)


def test_clicks_that_are_counts_have_linear_gain():
    data = RankingData.from_arrays(np.eye(3), sizes=[3])
    log = ClickLog.from_arrays(data, row=[0, 1, 2], session=[0] * 3, position=[1, 2, 3], click=[5, 0, 1])
    assert make_judge(log)(np.array([3.0, 1.0, 2.0])) == pytest.approx(1.0)


def test_without_validation_data_there_is_no_judge():
    assert make_judge(None) is None


def test_what_cannot_judge_is_refused():
    plain, data = judged_data(grades=False), judged_data()
    silent = ClickLog.from_arrays(plain, row=[0, 1], session=[0, 0], position=[1, 2], click=[0, 0])
    with pytest.raises(LogError, match="no click at all"):
        make_judge(silent)
    with pytest.raises(GradeError, match="neither grades nor clicks"):
        make_judge(plain)
    with pytest.raises(GradeError, match="needs human grades"):
        make_judge(random_log(plain), tune_on="grades")
    with pytest.raises(LogError, match="needs a ClickLog"):
        make_judge(data, tune_on="clicks")
    with pytest.raises(SettingError, match="control function"):
        make_judge(data, tune_on="debiased")
    with pytest.raises(SettingError, match="tune_on must be one of"):
        make_judge(data, tune_on="luck")
    worthless = RankingData.from_arrays(np.eye(2), sizes=[2], grades=[0, 0], max_grade=4)
    with pytest.raises(GradeError, match="above 0"):
        make_judge(worthless)
    with pytest.raises(DataError, match="one score each"):
        make_judge(data)(np.zeros(3))
    design = DesignMatrix(np.zeros((2, 1), np.float32))
    with pytest.raises(DataError, match="negative"):
        LabelJudge(design, [-1.0, 1.0], [0, 2])
    with pytest.raises(DataError, match="one finite label each"):
        LabelJudge(design, [1.0], [0, 1])
