"""A count of clicks is read as so many single clicks, by every method."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from unskew.data.clicks import ClickLog
from unskew.data.counts import single_clicks
from unskew.data.lists import training_lists
from unskew.data.ranking import RankingData
from unskew.registry import make_method


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


@pytest.mark.parametrize("method", ["naive", "position", "cfc", "paird", "pijd", "xgb-unbiased", "full-cfc", "default"])
def test_hundreds_of_clicks_an_item_can_be_learnt_from(method: str) -> None:
    if method == "xgb-unbiased":
        pytest.importorskip("xgboost")
    log = _counted(100.0)
    assert log.click.max() > 300
    model = make_method(method, preset="smoke", n_jobs=1).fit(log)
    assert kendalltau(model.predict(log.data), log.data.features[:, 0])[0] > 0.6
