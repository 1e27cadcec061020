"""Counts of clicks are read as sessions of 0s and 1s that add up to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau

from unskew.data.clicks import ClickLog
from unskew.data.counts import MOST_LEVELS, single_clicks
from unskew.data.lists import training_lists
from unskew.data.ranking import RankingData
from unskew.errors import LogError, UnskewWarning
from unskew.evaluation.judge import judge_on_clicks
from unskew.registry import make_method

COUNTING = ("naive", "position", "cfc", "paird", "pijd", "pijd-linear", "xgb-unbiased", "full-cfc", "default")


def _counted(scale: float, *, queries: int = 60, items: int = 8, weight: float | None = None) -> ClickLog:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(queries * items, 2))
    data = RankingData.from_arrays(x, sizes=np.full(queries, items))
    thought = (0.5 * x[:, 0] + rng.normal(size=len(x))).reshape(queries, items)
    position = (np.argsort(np.argsort(-thought, axis=1), axis=1) + 1).ravel()
    return ClickLog.from_arrays(
        data,
        row=np.arange(len(x)),
        session=np.repeat(np.arange(queries), items),
        position=position,
        click=rng.poisson(scale * np.exp(x[:, 0]) / position),
        weight=None if weight is None else np.full(len(x), weight),
    )


@pytest.mark.parametrize("weight", [None, 2.5])
def test_clicks_of_an_item_add_up(weight: float | None) -> None:
    log = _counted(3.0, weight=weight)
    single = single_clicks(log)
    assert set(np.unique(single.click)) == {0, 1}
    assert single.weight is not None
    total = np.bincount(single.row, weights=single.click * single.weight, minlength=log.data.n_rows)
    np.testing.assert_allclose(total, np.bincount(log.row, weights=log.click) * (weight or 1.0))
    assert np.diff(single.session_offsets).max() == 8  # every session shows all that was shown


def test_a_log_of_single_clicks_stays_as_it_is() -> None:
    log = _counted(0.01)
    assert log.click.max() == 1
    assert single_clicks(log) is log


def test_counts_and_the_sessions_they_stand_for_train_alike() -> None:
    log = _counted(2.0)
    rows, sessions, clicks = [], [], []
    for q in range(log.data.n_queries):
        inside = slice(*log.session_offsets[q : q + 2])
        for level in range(1, max(1, int(log.click[inside].max())) + 1):  # by hand: one session a single click
            rows.append(log.row[inside])
            clicks.append(log.click[inside] >= level)
            sessions.append(np.full(len(rows[-1]), len(sessions)))
    position = np.empty(log.data.n_rows, np.int64)
    position[log.row] = log.position
    row = np.concatenate(rows)
    by_hand = ClickLog.from_arrays(
        log.data, row=row, session=np.concatenate(sessions), position=position[row], click=np.concatenate(clicks)
    )
    one, two = training_lists(log), training_lists(by_hand)
    for name in ("row", "sizes", "label", "position", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("method", COUNTING)
def test_hundreds_of_clicks_an_item_can_be_learnt_from(method: str) -> None:
    if method == "xgb-unbiased":
        pytest.importorskip("xgboost")
    log = _counted(100.0, items=6)
    assert log.click.max() > 300
    model = make_method(method, preset="smoke", n_jobs=1).fit(log)
    assert kendalltau(model.predict(log.data), log.data.features[:, 0])[0] > 0.6


def test_long_lists_of_counts_do_not_explode() -> None:
    log = _counted(50.0, queries=5, items=60)
    single = single_clicks(log)
    assert single.n_impressions <= MOST_LEVELS * log.n_impressions
    assert single.weight is not None
    total = np.bincount(single.row, weights=single.click * single.weight, minlength=log.data.n_rows)
    counts = np.bincount(log.row, weights=log.click)
    assert kendalltau(total, counts)[0] > 0.9
    assert np.abs(total.sum() / counts.sum() - 1) < 0.25


@pytest.mark.parametrize("method", ["dla", "rem", "pal"])
def test_nets_read_counts_as_the_sessions_they_stand_for(method: str) -> None:
    pytest.importorskip("torch")
    log = _counted(2.0)
    one, two = (make_method(method, preset="smoke", n_jobs=1).fit(each) for each in (log, single_clicks(log)))
    np.testing.assert_array_equal(one.predict(log.data), two.predict(log.data))


def test_validation_reads_counts_as_training_does() -> None:
    log = _counted(2.0)
    scores = np.random.default_rng(0).normal(size=log.data.n_rows)[log.rows_shown]
    assert judge_on_clicks(log)(scores) == pytest.approx(judge_on_clicks(single_clicks(log))(scores), rel=1e-9)


def test_counts_times_weights_are_warned_about() -> None:
    log = _counted(3.0)
    weighed = replace(log, weight=np.linspace(1, 50, log.n_impressions).astype(np.float32))
    with pytest.warns(UnskewWarning, match="If the weights are numbers of impressions"):
        make_method("naive", preset="smoke", n_jobs=1).fit(weighed)
    assert "counted" in repr(log)


@pytest.mark.parametrize("value", [1.7, 3e9, np.nan])
def test_clicks_that_are_no_whole_number_are_refused(value: float) -> None:
    data = RankingData.from_arrays([[0.1], [0.7]], sizes=[2])
    with pytest.raises(LogError, match="whole count"):
        ClickLog.from_arrays(data, row=[0, 1], session=[0, 0], position=[1, 2], click=[0, value])
