"""A net beside the click model: what teaches it, and what it then knows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.control.test_full import make_world

from unskew.control.caution import Caution
from unskew.control.click_fit import PRESETS, fit_clicks
from unskew.control.click_model import softmax_within
from unskew.control.full import FullControlFunction
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData

pytest.importorskip("torch")
from unskew.control.neural_clicks import LONGEST_LIST, _given, _some_of_each, fit_net_clicks

SMOKE = PRESETS["smoke"]


def test_a_net_learns_what_the_click_model_says() -> None:
    log, other = make_world(1), make_world(2).data
    model = FullControlFunction(ranker="dnn", preset="smoke", n_jobs=1).fit(log)
    trees = FullControlFunction(preset="smoke", n_jobs=1).fit(log)
    assert model.outcome_.state.kind == "net"
    assert model.outcome_.extra["taught_by"] == "click model"
    assert np.corrcoef(model.predict(other), trees.predict(other))[0, 1] > 0.9
    assert [one.setting["taught_by"] for one in model.candidates_] == ["click model", "clicks"]
    # Everything else that is learnt is the click model's.
    np.testing.assert_array_equal(model.bias_.value, trees.bias_.value)
    assert model.outcome_.extra["severity"] == trees.outcome_.extra["severity"]


def test_the_same_seed_gives_the_same_net() -> None:
    log, other = make_world(1, queries=60), make_world(2, queries=20).data
    one, two = (FullControlFunction(ranker="dnn", preset="smoke", n_jobs=1).fit(log).predict(other) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_a_teacher_that_knows_nothing_is_not_listened_to() -> None:
    log = make_world(1, queries=200)
    fit_to = partial(fit_clicks, settings=SMOKE, threads=1)
    mixed = ClickLog.from_arrays(
        log.data,
        row=log.row,
        session=log.session_of,
        position=log.position,
        click=np.random.default_rng(0).permutation(log.click),
    )
    good, bad = fit_to(log), fit_to(mixed)
    heard = fit_net_clicks(log, good, lambda table: fit_to(log, table=table), preset="smoke", n_jobs=1)
    unheard = fit_net_clicks(log, good, lambda table: bad, preset="smoke", n_jobs=1)
    assert [net.candidates[0].setting["taught_by"] for net in (heard, unheard)] == ["click model", "clicks"]


def test_what_is_left_to_relevance_is_left_to_that_of_a_net_too() -> None:
    fit = fit_clicks(make_world(1, queries=60), settings=SMOKE, threads=1)
    half = replace(fit, caution=Caution(0.9, 0.5, fit.stack.weights))
    np.testing.assert_allclose(_given(half), _given(replace(fit, caution=None)) / 2)


def test_a_known_examination_counts_once() -> None:
    """The teacher of the held-out part must see the same looks as the click model itself."""
    log, seen = make_world(1, queries=80), []
    known = np.arange(1, 30) ** -1.0

    def fit_to(table: object = None) -> object:
        fit = fit_clicks(log, table=table, examination=known, settings=SMOKE, threads=1)
        seen.append(fit.table)
        return fit

    fit_net_clicks(log, fit_to(), fit_to, preset="smoke", n_jobs=1)
    whole, part = seen
    looks = {(q, r): n for q, r, n in zip(whole.query[whole.segment], whole.row, whole.shown)}
    of_part = zip(part.query[part.segment], part.row, part.shown)
    assert all(looks[q, r] == pytest.approx(n) for q, r, n in of_part)


def test_a_handful_of_queries_is_enough_for_a_teacher() -> None:
    log = make_world(1, queries=12)
    model = FullControlFunction(ranker="dnn", preset="smoke", n_jobs=1).fit(log)
    assert model.outcome_.extra["taught_by"] == "click model"
    assert model.candidates_[0].score is None


def test_long_lists_teach_by_a_choice_of_all_their_items() -> None:
    """Items come in the order of their ids; the first hundred of them would be the oldest."""
    sizes = np.array([300, 1, 5])
    data = RankingData.from_arrays(np.zeros((306, 1), dtype=np.float32), sizes=sizes)
    rows, offsets = _some_of_each(data, None, seed=0)
    assert np.diff(offsets).tolist() == [LONGEST_LIST, 5]  # nothing is learnt from an item alone
    assert len(np.unique(rows)) == len(rows)
    assert 10 < (rows[:LONGEST_LIST] < 100).sum() < 60
    rows, offsets = _some_of_each(data, np.array([0]), seed=0)
    assert rows.tolist() == [301, 302, 303, 304, 305]


def test_validation_adds_a_figure_to_the_teacher_that_was_taken() -> None:
    log = make_world(1, queries=60)
    model = FullControlFunction(ranker="dnn", preset="smoke", n_jobs=1, tune_on="clicks").fit(log, validation=log)
    taken, other = model.candidates_
    assert 0 < taken.score <= 1
    assert other.score is None
    assert taken.setting["held_out"] < 0


def test_more_folds_than_queries_still_hold_some_out(recwarn: pytest.WarningsRecorder) -> None:
    model = FullControlFunction(ranker="dnn", preset="smoke", folds=1000, n_jobs=1).fit(make_world(1, queries=40))
    assert len(model.candidates_) == 2
    assert not [one for one in recwarn if issubclass(one.category, RuntimeWarning)]


def test_shares_of_extreme_scores_are_shares() -> None:
    scores, offsets = np.array([900.0, 0.0, -900.0, -901.0]), np.array([0, 2, 4])
    found = softmax_within(scores, offsets, np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(found, [1, 0, 1 / (1 + np.exp(-1)), 1 / (1 + np.e)], atol=1e-12)
