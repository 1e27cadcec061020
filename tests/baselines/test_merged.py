"""Merged sessions train the model of the log they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unskew.baselines.paird import PairDebiasedMART
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.lists import TrainingLists, by_content, training_lists
from unskew.data.ranking import RankingData
from unskew.rankers.lambdamart import LambdaMART


@pytest.fixture(scope="module")
def log() -> ClickLog:
    """A deterministic policy: ten passes over the same lists, of which many look alike or are empty.

    Queries without any click are left out: their rows would have a say in the bins. Features are drawn from a normal
    distribution: between redundant ones, rounding would choose the split.
    """
    rng = np.random.default_rng(0)
    queries, items, passes = 60, 8, 10
    x = rng.normal(size=(queries * items, 5))
    data = RankingData.from_arrays(x, sizes=np.full(queries, items))
    rows = np.tile(np.arange(queries * items), passes)
    position = np.tile(np.arange(1, items + 1), queries * passes)
    chance = 0.5 / (1 + np.exp(1.5 - 2 * x[rows, 0])) / position
    log = ClickLog.from_arrays(
        data,
        row=rows,
        session=np.repeat(np.arange(queries * passes), items),
        position=position,
        click=rng.random(len(rows)) < chance,
    )
    return log.take_queries(np.unique(log.session_query[log.session_clicks > 0]))


def _fit(ranker: Any, log: ClickLog, lists: TrainingLists, **more: Any) -> np.ndarray:
    design = DesignMatrix(log.data.features, lists.row)
    fitted = ranker.fit(design, lists.label, lists.sizes, weight=lists.weight, **more)
    return fitted.predict(DesignMatrix(log.data.features))


@pytest.mark.parametrize("method", ["naive", "position", "paird"])
def test_merged_sessions_train_the_same_model(method: str, log: ClickLog) -> None:
    """Exact with one row a leaf: a merged row counts once where a leaf's rows are counted (baselines note 1.5)."""
    merged = training_lists(log)
    every = training_lists(log, keep_empty=True, merge=False)
    assert len(every.row) == log.n_impressions
    assert len(merged.row) < 0.5 * len(every.row)
    build = PairDebiasedMART if method == "paird" else LambdaMART

    def scores(lists: TrainingLists) -> np.ndarray:
        position = None if method == "naive" else lists.position
        return _fit(build(preset="smoke", min_rows=1, n_jobs=1), log, lists, position=position)

    # Gradients are kept in float32 and summed in another order.
    np.testing.assert_allclose(scores(merged), scores(every), atol=2e-5)


def test_lists_do_not_depend_on_the_order_of_sessions(log: ClickLog) -> None:
    shuffled = np.random.default_rng(0).permutation(log.n_sessions)
    other = ClickLog.from_arrays(
        log.data, row=log.row, session=shuffled[log.session_of], position=log.position, click=log.click
    )
    one, two = training_lists(log), training_lists(other)
    for name in ("row", "sizes", "label", "position", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert not np.array_equal(log.click, other.click)
    np.testing.assert_array_equal(by_content(log).click, by_content(other).click)


def test_by_content_keeps_every_session_whole(log: ClickLog) -> None:
    again = by_content(log)
    np.testing.assert_array_equal(again.session_query, log.session_query)
    place = {name: i for i, name in enumerate(log.session_ids)}
    for session in (0, 7, log.n_sessions - 1):
        before = place[again.session_ids[session]]
        for name in ("row", "position", "click"):
            np.testing.assert_array_equal(
                getattr(again, name)[again.session_offsets[session] : again.session_offsets[session + 1]],
                getattr(log, name)[log.session_offsets[before] : log.session_offsets[before + 1]],
            )
