"""Scaling: scikit-learn's answers, sentinels, missing values, and statistics that can be merged."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from unskew.data import scaling
from unskew.data.ranking import RankingData
from unskew.data.scaling import FeatureScaling, feature_statistics, fit_scaling
from unskew.errors import FeatureError, SettingError

MATRIX = np.random.default_rng(0).lognormal(sigma=3, size=(300, 6)).astype(np.float32)


def test_minmax_agrees_with_sklearn() -> None:
    ours = fit_scaling(feature_statistics(MATRIX)).apply(MATRIX)
    np.testing.assert_allclose(ours, MinMaxScaler((-1, 1)).fit_transform(MATRIX.astype(float)), atol=1e-6)
    assert ours.dtype == np.float32


def test_standard_agrees_with_sklearn() -> None:
    ours = fit_scaling(feature_statistics(MATRIX), "standard").apply(MATRIX)
    np.testing.assert_allclose(ours, StandardScaler().fit_transform(MATRIX.astype(float)), rtol=1e-5, atol=1e-6)


def test_log_is_the_published_formula() -> None:
    ours = fit_scaling(feature_statistics(MATRIX), "log").apply(MATRIX)
    logs = np.log10(1 + MATRIX.astype(float) - MATRIX.min(axis=0))
    np.testing.assert_allclose(ours, 2 * logs / logs.max(axis=0) - 1, atol=1e-6)


@pytest.mark.parametrize("kind", ["minmax", "log", "standard"])
def test_sentinels_land_on_the_end_of_the_range(kind: str) -> None:
    marked = MATRIX.copy()
    marked[::7, 2] = 1e9
    marked[1::7, 3] = -1e9
    regular = (np.abs(marked) < 1e9)[:, 2] & (np.abs(marked) < 1e9)[:, 3]
    fitted = fit_scaling(feature_statistics(marked, sentinel=1e9), kind)
    assert fitted.high[2] == marked[regular | (np.abs(marked[:, 3]) >= 1e9)][:, 2].max()
    out = fitted.apply(marked)
    assert (out[::7, 2] == out[:, 2].max()).all()
    assert (out[1::7, 3] == out[:, 3].min()).all()
    assert len(np.unique(out[:, 2])) > 200  # the regular values keep their resolution


def test_constant_missing_and_unseen_features() -> None:
    train = np.float32([[3, np.nan, 1], [3, np.nan, np.nan], [3, np.nan, 5]])
    for kind in ("minmax", "log", "standard"):
        out = fit_scaling(feature_statistics(train), kind).apply(np.float32([[3, np.nan, np.nan], [7, 4, 99]]))
        assert out[:, 0].tolist() == [0, 0]
        assert np.isnan(out[0, 1:]).all()
        assert np.isfinite(out[1]).all()


def test_values_beyond_training_are_clipped() -> None:
    fitted = fit_scaling(feature_statistics(np.float32([[0], [10]])), "log")
    assert fitted.apply(np.float32([[-5], [1e30]])).ravel().tolist() == [-1, 1]


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 300), sentinel=st.sampled_from([None, 50.0]))
def test_parts_merge_to_the_whole(cut: int, sentinel: float | None) -> None:
    whole = feature_statistics(MATRIX, sentinel=sentinel)
    parts = feature_statistics(MATRIX[:cut], sentinel=sentinel).merge(
        feature_statistics(MATRIX[cut:], sentinel=sentinel)
    )
    np.testing.assert_array_equal(whole.count, parts.count)
    np.testing.assert_array_equal(whole.low, parts.low)
    np.testing.assert_array_equal(whole.high, parts.high)
    np.testing.assert_allclose(whole.mean, parts.mean, rtol=1e-12)
    np.testing.assert_allclose(whole.squares, parts.squares, rtol=1e-10)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit_scaling(feature_statistics(MATRIX), "standard").apply(MATRIX)
    monkeypatch.setattr(scaling, "_BLOCK_VALUES", 10)
    np.testing.assert_allclose(fit_scaling(feature_statistics(MATRIX), "standard").apply(MATRIX), whole, rtol=1e-6)


def test_state_round_trip_and_data() -> None:
    fitted = fit_scaling(feature_statistics(MATRIX), "log")
    again = FeatureScaling.from_state(json.loads(json.dumps(fitted.state())))
    data = RankingData.from_arrays(MATRIX, sizes=[100, 200])
    np.testing.assert_array_equal(again.apply_to(data).features, fitted.apply(MATRIX))
    assert again.apply_to(data).feature_names == data.feature_names


def test_bad_input() -> None:
    with pytest.raises(FeatureError, match="fitted on 6 features"):
        fit_scaling(feature_statistics(MATRIX)).apply(MATRIX[:, :2])
    with pytest.raises(SettingError, match="kind must be one of"):
        fit_scaling(feature_statistics(MATRIX), "robust")
