"""PIJD: the probit, the ratio, the cut-offs, both variants."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from unskew.baselines.pijd import PIJD, PIJDLinear, clicks_at, fit_selection, usable_cutoffs
from unskew.baselines.selection import fit_probit, heckman_ratio
from unskew.control.placements import placements
from unskew.data.clicks import ClickLog
from unskew.errors import LogError, SettingError
from unskew.evaluation.judge import judge_on_grades
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection


@pytest.fixture(scope="module")
def log() -> ClickLog:
    data = synthetic_collection(80, seed=1, features=8, shortest=6, longest=30, typical=15)
    return simulate(data, eta=1.0, passes=5, seed=1)


def test_probit_recovers_planted_coefficients() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(30_000, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, -1.0]
    planted = np.array([0.8, -0.1, 2.0])
    chance = norm.cdf(z @ planted + 1.5)
    shown = rng.integers(1, 6, size=len(z))
    yes = rng.binomial(shown, chance)
    found = fit_probit(z, yes, shown - yes, penalty=1e-6)
    np.testing.assert_allclose(found.coefficients, planted, rtol=0.05)
    assert found.intercept == pytest.approx(1.5, abs=0.08)


def test_probit_is_the_minimum_of_its_loss() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(300, 2)).astype(np.float32)
    y = rng.random(300) < 0.4
    found = fit_probit(z, y, ~y, penalty=3.0)
    centre, scale = z.mean(axis=0), z.std(axis=0)

    def loss(slope: np.ndarray, intercept: float) -> float:
        index = z @ slope + intercept
        return -norm.logcdf(np.where(y, index, -index)).sum() + 1.5 * np.square(slope * scale).sum()

    best = loss(found.coefficients, found.intercept)
    assert centre.shape == (2,)
    for step in np.vstack([np.eye(3), -np.eye(3)]) * 1e-2:
        assert loss(found.coefficients + step[:2], found.intercept + step[2]) > best


def test_a_separable_outcome_stays_finite_and_ordered() -> None:
    z = np.arange(1, 41, dtype=np.float32)[:, None]
    inside = z[:, 0] <= 10
    found = fit_probit(z, inside, ~inside, penalty=1.0)
    assert np.isfinite(found.coefficients).all()
    ratio = heckman_ratio(found.index(z))
    assert (np.diff(ratio) > 0).all()
    assert ratio[0] < 0.1
    assert ratio[-1] > 2


def test_ratio_is_density_over_distribution() -> None:
    index = np.linspace(-6, 6, 50)
    np.testing.assert_allclose(heckman_ratio(index), norm.pdf(index) / norm.cdf(index), rtol=1e-9)
    extreme = heckman_ratio(np.array([-1e3, -1e8, 1e8]))
    assert extreme.tolist() == [20.0, 20.0, 0.0]


def test_selection_follows_the_position(log: ClickLog) -> None:
    shown = placements(log)
    stage_one = fit_selection(log, shown, cutoff=5, penalty=200.0, seed=0)
    ratio = stage_one.ratio(log.data, shown.row, shown.position)
    assert ratio[shown.position <= 5].mean() < ratio[shown.position > 5].mean()
    assert np.corrcoef(ratio, shown.position)[0, 1] > 0.7
    assert np.isfinite(ratio).all()


def test_clicks_are_counted_by_placement(log: ClickLog) -> None:
    shown = placements(log)
    clicks = clicks_at(log, shown)
    assert clicks.sum() == log.n_clicks
    one = 17
    same = (log.row == shown.row[one]) & (log.position == shown.position[one])
    assert clicks[one] == log.click[same].sum()
    assert shown.count[one] == same.sum()


def test_cutoffs_must_split_the_log(log: ClickLog) -> None:
    assert usable_cutoffs(log, (10, 5, 5, 1000)) == [10, 5]
    short = ClickLog.from_arrays(log.data, row=[0, 1, 2], session=[0, 0, 0], position=[1, 2, 3], click=[1, 0, 0])
    assert usable_cutoffs(short, (10, 5, 20)) == [2]
    single = ClickLog.from_arrays(log.data, row=[0], session=[0], position=[1], click=[1])
    with pytest.raises(LogError, match="no selection"):
        usable_cutoffs(single, (10,))
    with pytest.raises(SettingError, match="cutoffs"):
        usable_cutoffs(log, (0, 5))


@pytest.mark.parametrize("method", [PIJD, PIJDLinear])
def test_cutoff_is_tuned_and_reported(method: type, log: ClickLog) -> None:
    valid = synthetic_collection(30, seed=2, features=8, shortest=6, longest=30, typical=15)
    fitted = method(preset="smoke", n_jobs=1).fit(log, validation=valid)
    assert [c.setting["cutoff"] for c in fitted.candidates_] == [10, 5, 20]
    best = max(fitted.candidates_, key=lambda c: c.score)
    assert fitted.outcome_.extra["cutoff"] == best.setting["cutoff"]
    assert judge_on_grades(valid)(fitted.predict(valid)) == pytest.approx(best.score)


def test_linear_scores_are_linear(log: ClickLog) -> None:
    fitted = PIJDLinear(cutoffs=(5,)).fit(log)
    x = log.data.features[:50].astype(np.float64)
    np.testing.assert_allclose(
        fitted.predict((x[:25] + x[25:]) / 2), (fitted.predict(x[:25]) + fitted.predict(x[25:])) / 2, atol=1e-4
    )
