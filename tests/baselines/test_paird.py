"""PairD: the ratios' update, recovery of a planted curve, and what is left when all ratios are 1."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.baselines.lgb_position import LightGBMPosition
from unskew.baselines.naive import Naive
from unskew.baselines.paird import FLOOR, DebiasedObjective, PairD, Ratios, update_ratios
from unskew.baselines.xgb_unbiased import XGBUnbiased
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import LogError, SettingError
from unskew.rankers.lambda_pairs import LambdaObjective

ITEMS = 8
PLANTED = 1 / np.arange(1, ITEMS + 1)


def randomised_log(queries: int = 6000, seed: int = 0) -> ClickLog:
    """A position-based model with η = 1 and rare clicks, every session in an order drawn at random."""
    rng = np.random.default_rng(seed)
    n = queries * ITEMS
    x = rng.normal(size=(n, 4)).astype(np.float32)
    relevance = 0.3 / (1 + np.exp(-(1.5 * x[:, 0] - x[:, 1])))
    position = np.argsort(rng.random((queries, ITEMS)), axis=1).ravel() + 1
    click = rng.random(n) < relevance * PLANTED[position - 1]
    data = RankingData.from_arrays(x, sizes=np.full(queries, ITEMS))
    session = np.repeat(np.arange(queries), ITEMS)
    return ClickLog.from_arrays(data, row=np.arange(n), session=session, position=position, click=click)


@pytest.fixture(scope="module")
def log() -> ClickLog:
    return randomised_log()


def test_update_is_the_formula() -> None:
    before = Ratios(np.ones(3), np.ones(3))
    found = update_ratios(
        np.array([8.0, 2.0, 0.0]), np.array([1.0, 4.0, 0.0]), np.array([2.0, 2.0, 0.0]), exponent=0.5, before=before
    )
    # Position 3 was never shown, so it is left at 1.
    np.testing.assert_allclose(found.plus, [1, 0.5, 1])
    np.testing.assert_allclose(found.minus, [1, 2, 1])


def test_ratios_have_a_floor_and_wait_for_evidence() -> None:
    before = Ratios(np.array([1.0, 0.7]), np.array([1.0, 0.9]))
    found = update_ratios(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.ones(2), exponent=0.5, before=before)
    np.testing.assert_allclose(found.plus, [1, FLOOR])
    np.testing.assert_allclose(found.minus, before.minus)


def test_ratios_change_once_a_round() -> None:
    lambdas = LambdaObjective.of([1, 0, 0, 0, 1, 0], [3, 3])
    objective = DebiasedObjective(lambdas, np.array([0, 1, 2, 0, 1, 2]), bins=3, exponent=0.5)
    first, _ = objective(np.zeros(6))
    np.testing.assert_allclose(first, lambdas(np.zeros(6)).gradient)  # the first round is plain LambdaMART
    assert len(objective.history) == 2
    second, _ = objective(np.zeros(6))
    t = objective.history[1]
    assert t.plus[2] == FLOOR  # nobody clicked there
    expected = lambdas(np.zeros(6), 1 / t.plus[[0, 1, 2] * 2], 1 / t.minus[[0, 1, 2] * 2])
    np.testing.assert_allclose(second, expected.gradient)


def test_exponent_zero_is_plain_lambdamart(log: ClickLog) -> None:
    small = log.take_sessions(np.arange(400))
    plain = Naive(preset="smoke", n_jobs=1).fit(small).predict(small.data)
    same = PairD(preset="smoke", n_jobs=1, exponent=0.0).fit(small).predict(small.data)
    # Equal but for LightGBM's table of sigmoids.
    assert np.corrcoef(plain, same)[0, 1] > 0.999
    assert np.corrcoef(plain, PairD(preset="smoke", n_jobs=1).fit(small).predict(small.data))[0, 1] < 0.999


@pytest.mark.parametrize("method", [PairD, LightGBMPosition])
def test_randomised_positions_reveal_the_planted_curve(method: type, log: ClickLog) -> None:
    curve = method(preset="smoke", n_jobs=1).fit(log).bias_
    np.testing.assert_array_equal(curve.position, np.arange(1, ITEMS + 1))
    # 900 clicks at the top and 110 at the bottom: a standard error of 5 % to 10 % a position. Four of them, rounded up
    # since clicks are not so rare that odds and examination agree.
    np.testing.assert_allclose(curve.value, PLANTED, rtol=0.4)


def test_xgboost_finds_a_falling_curve(log: ClickLog) -> None:
    """Its cost grows where pairs are ordered rightly, so only the shape is asked for."""
    curve = XGBUnbiased(preset="smoke", n_jobs=1).fit(log).bias_
    assert np.corrcoef(curve.value, PLANTED)[0, 1] > 0.95
    assert len(curve.value) == ITEMS
    assert curve.value[-1] < 0.4


def test_positions_beyond_the_last_bin_share_it(log: ClickLog) -> None:
    fitted = PairD(preset="smoke", n_jobs=1, bins=3).fit(log)
    assert len(fitted.bias_.value) == 3
    # The shared bin is the mean of what it holds, not the sum.
    assert fitted.bias_.value[2] == pytest.approx(PLANTED[2:].mean(), abs=0.08)


def test_wrong_settings_are_refused(log: ClickLog) -> None:
    with pytest.raises(SettingError, match="bins"):
        PairD(bins=0).fit(log)
    with pytest.raises(SettingError, match="exponent"):
        PairD(exponent=1.5).fit(log)
    for method in (PairD, LightGBMPosition):
        with pytest.raises(SettingError, match="LambdaMART"):
            method(ranker="xgboost").fit(log)
    with pytest.raises(SettingError, match="xgboost"):
        XGBUnbiased(ranker="lambdamart").fit(log)


def test_xgboost_is_not_fed_lists_with_gaps(log: ClickLog) -> None:
    shifted = ClickLog.from_arrays(
        log.data, row=log.row, session=log.session_of, position=log.position + 1, click=log.click
    )
    with pytest.raises(LogError, match="without gaps from position 1"):
        XGBUnbiased(preset="smoke").fit(shifted)
    assert LightGBMPosition(preset="smoke", n_jobs=1).fit(shifted).bias_.position[0] == 2
