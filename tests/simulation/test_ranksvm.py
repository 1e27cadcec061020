"""RankSVM against an independent solver on explicit pairs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from unskew._segments import offsets_of
from unskew.simulation import ranksvm
from unskew.simulation.ranksvm import fit_ranksvm


def _judged(seed: int = 0, queries: int = 30, items: int = 12, width: int = 6) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(queries * items, width)).astype(np.float32)
    utility = features @ rng.normal(size=width) + rng.normal(size=len(features))
    grades = np.digitize(utility, [0, 1.5, 3])
    return features, grades, offsets_of([items] * queries)


def _explicit_pairs(features: np.ndarray, grades: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    z = (features - features.mean(0, dtype=float)) / features.std(0, dtype=float)
    pairs = [
        z[i] - z[j]
        for start, end in pairwise(offsets)
        for i in range(start, end)
        for j in range(start, end)
        if grades[i] > grades[j]
    ]
    return np.array(pairs)


@pytest.mark.parametrize("C", [0.001, 1.0])
def test_same_weights_as_a_linear_svm_on_pairs(C: float) -> None:
    features, grades, offsets = _judged()
    pairs = _explicit_pairs(features, grades, offsets)
    signs = np.where(np.arange(len(pairs)) % 2, 1, -1)  # the peer wants two classes
    peer = LinearSVC(loss="squared_hinge", dual=False, fit_intercept=False, C=C, tol=1e-8, max_iter=10_000)
    peer.fit(pairs * signs[:, None], signs)
    scorer = fit_ranksvm(features, grades, offsets, C=C)
    # Tolerance: the peer's; ours is exact up to rounding.
    np.testing.assert_allclose(scorer.coefficients * scorer.spread, peer.coef_[0], rtol=1e-5, atol=1e-6)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, grades, offsets = _judged()
    whole = fit_ranksvm(features, grades, offsets, C=0.1)
    monkeypatch.setattr(ranksvm, "_ROWS", 7)  # less than a query
    pieces = fit_ranksvm(features, grades, offsets, C=0.1)
    np.testing.assert_allclose(pieces.coefficients, whole.coefficients, rtol=1e-10, atol=1e-12)


def test_the_order_of_sums_changes_nothing() -> None:
    """What another processor rounds otherwise must not become another ranking: the minimum is reached exactly."""
    features, grades, offsets = _judged(queries=200)
    plain = fit_ranksvm(features, grades, offsets, C=5.0)
    turned = fit_ranksvm(features[::-1].copy(), grades[::-1], offsets, C=5.0)
    np.testing.assert_allclose(turned.coefficients, plain.coefficients, rtol=1e-10, atol=1e-12)


def test_does_not_depend_on_units_and_ignores_constants() -> None:
    features, grades, offsets = _judged()
    plain = fit_ranksvm(features, grades, offsets, C=0.1)
    odd = features * np.float32([1e4, 1, 1e-3, 1, 1, 1]) + np.float32([0, 1000, 0, 0, 0, 0])
    odd = np.column_stack([odd, np.full(len(odd), 7.3, np.float32)])
    scaled = fit_ranksvm(odd, grades, offsets, C=0.1)
    np.testing.assert_allclose(scaled.score(odd), plain.score(features), atol=2e-4)
    assert scaled.coefficients[-1] == 0


def test_a_missing_value_counts_as_the_mean() -> None:
    features, grades, offsets = _judged()
    gaps = features.copy()
    gaps[::5, 2] = np.nan
    scorer = fit_ranksvm(gaps, grades, offsets, C=0.1)
    filled = gaps.copy()
    filled[::5, 2] = scorer.center[2]
    assert np.isfinite(scorer.score(gaps)).all()
    np.testing.assert_allclose(scorer.score(gaps), scorer.score(filled), atol=1e-5)
    assert scorer.center[2] == pytest.approx(np.nanmean(gaps[:, 2]), abs=1e-6)
    assert scorer.spread[2] == pytest.approx(np.nanstd(gaps[:, 2]), abs=1e-5)
