"""Stage one: known answers, independent libraries, merged statistics."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.preprocessing import StandardScaler

from unskew.control.learners import FractionalLogit, Ridge
from unskew.control.placements import list_lengths, placements
from unskew.control.stage_one import RowTargets, fit_stage_one
from unskew.control.statistics import gram_statistics, residual_statistics
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import LogError, SettingError


def ranked_log(*, queries: int = 60, size: int = 12, passes: int = 3, seed: int = 0, shuffle: bool = False) -> ClickLog:
    """Items ranked by a noisy linear score, the same every pass unless shuffled."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(queries * size, 4)).astype(np.float32) * [1, 10, 0.1, 1] + [0, 5, 0, 100]
    data = RankingData.from_arrays(x, sizes=np.full(queries, size))
    rows, sessions, positions = [], [], []
    for q in range(queries):
        mine = np.arange(q * size, (q + 1) * size)
        order = mine[np.argsort(-(x[mine, 0] + 0.05 * x[mine, 1] + rng.normal(size=size) * 0.5))]
        for k in range(passes):
            shown = rng.permutation(order) if shuffle else order
            rows.append(shown)
            sessions.append(np.full(size, q * passes + k))
            positions.append(np.arange(1, size + 1))
    row = np.concatenate(rows)
    click = rng.random(len(row)) < 0.2
    return ClickLog.from_arrays(
        data, row=row, session=np.concatenate(sessions), position=np.concatenate(positions), click=click
    )


def test_ridge_equals_scikit_learn_on_standardised_features() -> None:
    log = ranked_log()
    stage_one = fit_stage_one(log)
    shown = placements(log)
    z = StandardScaler().fit_transform(log.data.features[shown.row].astype(np.float64))
    target = shown.position / log.longest_list
    peer = SklearnRidge(alpha=1.0).fit(z, target)
    np.testing.assert_allclose(stage_one.expected[shown.row], peer.predict(z), atol=1e-6)
    assert stage_one.r2 == pytest.approx(peer.score(z, target), abs=1e-6)
    # Least squares with an intercept leaves residuals of mean 0.
    assert stage_one.statistics.mean == pytest.approx(0, abs=1e-12)


def test_showing_the_log_twice_changes_nothing() -> None:
    once, thrice = ranked_log(passes=1), ranked_log(passes=3)
    np.testing.assert_allclose(fit_stage_one(once).expected, fit_stage_one(thrice).expected, atol=1e-12)


def test_moving_items_count_every_impression() -> None:
    log = ranked_log(shuffle=True)
    z = StandardScaler().fit_transform(log.data.features[log.row].astype(np.float64))
    target = log.position / log.longest_list
    shown = placements(log)
    peer = SklearnRidge(alpha=len(log.row) / len(shown.row)).fit(z, target)
    np.testing.assert_allclose(fit_stage_one(log).expected[log.row], peer.predict(z), atol=1e-6)


@pytest.mark.parametrize("cuts", [[250], [1, 300], [100, 101, 400]])
def test_merged_statistics_equal_whole_statistics(cuts: list[int]) -> None:
    rng = np.random.default_rng(1)
    x = (rng.lognormal(2, 2, size=(500, 5)) + 1e4).astype(np.float32)
    t, w = rng.random(500), rng.integers(1, 5, 500).astype(float)
    whole = gram_statistics(x, None, t, w, 0.5, 500)
    parts = [
        gram_statistics(x, np.arange(a, b), t[a:b], w[a:b], 0.5 * (b - a) / 500, b - a)
        for a, b in zip([0, *cuts], [*cuts, 500])
    ]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(merged.scatter, whole.scatter, rtol=1e-9)
    np.testing.assert_allclose(Ridge().solve(merged).coefficients, Ridge().solve(whole).coefficients, rtol=1e-8)


def test_merged_residual_statistics_equal_whole() -> None:
    rng = np.random.default_rng(2)
    e, w = rng.normal(size=1000), rng.random(1000)
    whole = residual_statistics(e, w, scale=1.0)
    merged = residual_statistics(e[:300], w[:300], scale=1.0).merge(residual_statistics(e[300:], w[300:], scale=1.0))
    for name in ("weight", "mean", "scatter", "mean_absolute", "minimum", "maximum"):
        assert getattr(merged, name) == pytest.approx(getattr(whole, name), rel=1e-12)
    np.testing.assert_allclose(merged.histogram, whole.histogram, atol=1e-12)
    with pytest.raises(ValueError, match="cannot be merged"):
        whole.merge(residual_statistics(e, w, scale=2.0))


def test_cross_fitted_ridge_is_fitted_on_the_other_folds() -> None:
    log = ranked_log(passes=1)
    stage_one = fit_stage_one(log, cross_fit=4, random_state=3)
    order = np.random.default_rng(3).permutation(log.data.n_queries)
    fold = np.empty(log.data.n_queries, dtype=int)
    fold[order] = np.arange(log.data.n_queries) % 4
    mine = fold[log.data.query_of_row] == 2
    target = np.empty(log.data.n_rows)
    target[log.row] = log.position / log.longest_list
    scaler = StandardScaler().fit(log.data.features[~mine].astype(np.float64))
    peer = SklearnRidge(alpha=1.0).fit(scaler.transform(log.data.features[~mine].astype(np.float64)), target[~mine])
    expected = peer.predict(scaler.transform(log.data.features[mine].astype(np.float64)))
    np.testing.assert_allclose(stage_one.expected[mine], expected, atol=1e-6)


def test_fractional_logit_solves_its_score_equations() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    t = 1 / (1 + np.exp(-(x @ [1.0, -2.0, 0.0] + 0.3 + rng.normal(size=400) * 0.2)))
    rows = RowTargets(np.arange(400), t, np.ones(400), 0.0, 400)
    fit = FractionalLogit().fit(x, rows)
    left = t - fit.predict(x)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    assert left.sum() == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(z.T @ left, fit.linear.coefficients * x.std(axis=0), atol=1e-4)  # gradient = α β


@pytest.mark.parametrize("learner", ["logistic", "svm", "xgboost", LinearRegression()])
def test_every_learner_explains_a_linear_ranking(learner: object) -> None:
    if learner == "xgboost":
        pytest.importorskip("xgboost")
    stage_one = fit_stage_one(ranked_log(), learner=learner)
    assert 0.2 < stage_one.r2 < 1
    assert stage_one.folds == (0 if learner in ("logistic", "svm") else 5)


def test_targets() -> None:
    log = ranked_log(size=5, passes=1)
    assert fit_stage_one(log, rank_target="raw").statistics.sd == pytest.approx(
        5 * fit_stage_one(log, rank_target="global").statistics.sd, rel=1e-6
    )
    np.testing.assert_array_equal(list_lengths(log), 5)


def test_constant_and_missing_features_get_no_say() -> None:
    log = ranked_log()
    x = np.column_stack([log.data.features, np.full(log.data.n_rows, 7.0), log.data.features[:, 0]]).astype(np.float32)
    x[::7, 5] = np.nan
    data = RankingData.from_arrays(x, offsets=log.data.offsets)
    stage_one = fit_stage_one(log.with_data(data))
    assert np.isfinite(stage_one.expected).all()
    assert stage_one.model.coefficients[4] == 0  # type: ignore[attr-defined]


def test_bad_settings_are_refused() -> None:
    log = ranked_log()
    with pytest.raises(SettingError, match="'ridge', 'logistic', 'svm'"):
        fit_stage_one(log, learner="forest")
    with pytest.raises(SettingError, match="at least 2 folds"):
        fit_stage_one(log, cross_fit=1)
    with pytest.raises(SettingError, match="rank_target must be one of"):
        fit_stage_one(log, rank_target="log")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="target below 1"):
        fit_stage_one(log, learner="logistic", rank_target="raw")


def test_a_log_with_one_position_has_nothing_to_correct() -> None:
    data = RankingData.from_arrays(np.eye(3), sizes=[1, 1, 1])
    log = ClickLog.from_arrays(data, row=[0, 1, 2], session=[0, 1, 2], position=[1, 1, 1], click=[1, 0, 1])
    with pytest.raises(LogError, match="Every item was shown at position 1"):
        fit_stage_one(log)
