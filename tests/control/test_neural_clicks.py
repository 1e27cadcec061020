"""A net beside the click model: what teaches it, and what it then knows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.control.test_full import make_world

from unskew.control.click_fit import PRESETS, fit_clicks
from unskew.control.full import FullControlFunction
from unskew.data.clicks import ClickLog

pytest.importorskip("torch")
from unskew.control.neural_clicks import fit_net_clicks, shares

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
    assert (heard.taught_by, unheard.taught_by) == ("click model", "clicks")


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


def test_shares_of_extreme_scores_are_shares() -> None:
    found = shares(np.array([900.0, 0.0, -900.0, -901.0]), np.array([0, 2, 4]))
    np.testing.assert_allclose(found, [1, 0, 1 / (1 + np.exp(-1)), 1 / (1 + np.e)], atol=1e-12)
