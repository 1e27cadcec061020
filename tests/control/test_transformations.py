"""The transformations against their literal formulas, the grid density against a direct one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unskew.control.density import bandwidth, grid_density, histogram_quantiles
from unskew.control.statistics import residual_statistics
from unskew.control.transformations import fit_transformation, transformation_list
from unskew.errors import SettingError

RESIDUALS = np.concatenate(
    [np.random.default_rng(0).normal(0, 0.05, 1500), np.random.default_rng(1).gamma(2, 0.05, 1500) - 0.1]
)
STATISTICS = residual_statistics(RESIDUALS, np.ones(len(RESIDUALS)), scale=float(RESIDUALS.std()))


def test_minmax_is_the_formula_and_is_not_clipped_elsewhere() -> None:
    t = fit_transformation("minmax", STATISTICS)
    low, high = RESIDUALS.min(), RESIDUALS.max()
    np.testing.assert_allclose(t(RESIDUALS), (RESIDUALS - low) / (high - low), atol=1e-6)
    assert t(np.array([high + (high - low)]))[0] == pytest.approx(2)


def test_normal_pdf_and_inverse_mills_are_the_formulas() -> None:
    z = (RESIDUALS - RESIDUALS.mean()) / RESIDUALS.std()
    np.testing.assert_allclose(fit_transformation("normal_pdf", STATISTICS)(RESIDUALS), stats.norm.pdf(z), rtol=1e-5)
    expected = stats.norm.pdf(z) / stats.norm.cdf(z)
    np.testing.assert_allclose(fit_transformation("inverse_mills", STATISTICS)(RESIDUALS), expected, rtol=1e-5)


def test_inverse_mills_does_not_explode_far_to_the_left() -> None:
    far = RESIDUALS.mean() - 40 * RESIDUALS.std()
    value = fit_transformation("inverse_mills", STATISTICS)(np.array([far]))[0]
    assert value == pytest.approx(40, rel=0.01)  # the ratio grows like |z|


def test_grid_density_agrees_with_a_direct_one() -> None:
    fitted = grid_density(STATISTICS)
    points = np.linspace(RESIDUALS.min(), RESIDUALS.max(), 300)
    direct = stats.norm.pdf((points[:, None] - RESIDUALS) / fitted.bandwidth).mean(axis=1) / fitted.bandwidth
    gap = np.abs(np.interp(points, fitted.grid, fitted.density) - direct).max()
    assert gap < 1e-4 * direct.max()
    share = stats.norm.cdf((points[:, None] - RESIDUALS) / fitted.bandwidth).mean(axis=1)
    np.testing.assert_allclose(np.interp(points, fitted.grid, fitted.cumulative), share, atol=1e-4)
    quartiles = np.percentile(RESIDUALS, [25, 75])
    np.testing.assert_allclose(histogram_quantiles(STATISTICS, np.array([0.25, 0.75])), quartiles, atol=2e-3)
    silverman = 0.9 * min(RESIDUALS.std(), np.ptp(quartiles) / 1.34) * len(RESIDUALS) ** -0.2
    assert bandwidth(STATISTICS) == pytest.approx(silverman, rel=0.01)


def test_hazard_is_density_over_distribution_clipped_at_its_999th_thousandth() -> None:
    t = fit_transformation("hazard", STATISTICS)
    h = t.parameters["bandwidth"]
    f = stats.norm.pdf((RESIDUALS[:, None] - RESIDUALS) / h).mean(axis=1) / h
    big_f = stats.norm.cdf((RESIDUALS[:, None] - RESIDUALS) / h).mean(axis=1)
    ratio = f / np.maximum(big_f, 1 / (len(RESIDUALS) + 1))
    limit = np.quantile(ratio, 0.999)
    assert t.parameters["limit"] == pytest.approx(limit, rel=0.05)
    below = ratio < 0.9 * limit
    np.testing.assert_allclose(t(RESIDUALS)[below], ratio[below], rtol=2e-3)
    assert t(np.array([-1e6]))[0] <= limit * 1.05


@pytest.mark.parametrize("kind", ["minmax", "normal_pdf", "inverse_mills", "hazard", "identity", np.tanh])
def test_centred_transformations_are_zero_at_zero(kind: object) -> None:
    t = fit_transformation(kind, STATISTICS)  # type: ignore[arg-type]
    assert t.centred().at_zero == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(t.centred()(RESIDUALS), t(RESIDUALS) - t.at_zero, atol=1e-6)


@given(st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=40))
def test_every_transformation_is_finite_on_any_residuals(values: list[float]) -> None:
    e = np.array(values)
    statistics = residual_statistics(e, np.ones(len(e)), scale=float(e.std()))
    for kind in ("minmax", "normal_pdf", "inverse_mills", "hazard", "identity"):
        assert np.isfinite(fit_transformation(kind, statistics)(e)).all()


def test_unknown_names_and_bad_callables_are_refused() -> None:
    with pytest.raises(SettingError, match="must be one of 'minmax', 'normal_pdf'"):
        fit_transformation("probit", STATISTICS)
    with pytest.raises(SettingError, match="must be finite"), np.errstate(all="ignore"):
        fit_transformation(np.log, STATISTICS)(RESIDUALS)
    with pytest.raises(SettingError, match="list is empty"):
        transformation_list([])
