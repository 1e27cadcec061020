"""The pair loss without pairs equals the sum over pairs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from unskew._segments import offsets_of
from unskew.simulation.pairs import count_pairs, pair_curvature, pair_loss


def _brute_force(scores: np.ndarray, grades: np.ndarray, offsets: np.ndarray) -> tuple[float, np.ndarray, int]:
    loss, gradient, pairs = 0.0, np.zeros(len(scores)), 0
    for start, end in pairwise(offsets):
        for i in range(start, end):
            for j in range(start, end):
                if grades[i] > grades[j]:
                    pairs += 1
                    slack = max(0.0, 1.0 - scores[i] + scores[j])
                    loss += slack**2
                    gradient[i] -= 2 * slack
                    gradient[j] += 2 * slack
    return loss, gradient, pairs


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.0, 0.1, 1.0, 30.0]),
    whole=st.booleans(),
)
def test_equals_brute_force(sizes: list[int], seed: int, scale: float, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    offsets = offsets_of(sizes)
    scores = 5.0 + scale * rng.normal(size=offsets[-1])
    scores = np.round(scores) if whole else scores  # whole scores lie exactly on the margin, and tie
    grades = rng.integers(0, 5, size=offsets[-1])
    loss, gradient = pair_loss(scores, grades, offsets)
    expected, slope, pairs = _brute_force(scores, grades, offsets)
    assert loss == pytest.approx(expected, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(gradient, slope, atol=1e-8 * max(1.0, scale))
    assert count_pairs(grades, offsets) == pairs


def test_gradient_is_the_slope_of_the_loss() -> None:
    rng = np.random.default_rng(1)
    offsets = offsets_of([12, 1, 20])
    grades = rng.integers(0, 3, size=33)
    start = rng.normal(size=33)
    error = check_grad(lambda s: pair_loss(s, grades, offsets)[0], lambda s: pair_loss(s, grades, offsets)[1], start)
    assert error < 1e-4


def test_equal_grades_have_no_loss() -> None:
    loss, gradient = pair_loss(np.array([3.0, 1.0]), np.array([2, 2]), np.array([0, 2]))
    assert loss == 0
    assert not gradient.any()


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6), seed=st.integers(0, 10**6), whole=st.booleans())
def test_curvature_equals_brute_force(sizes: list[int], seed: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    offsets = offsets_of(sizes)
    features = rng.normal(size=(offsets[-1], 3))
    scores = rng.normal(size=offsets[-1])
    scores = np.round(scores) if whole else scores  # a pair exactly on the margin has no loss and no curvature
    grades = rng.integers(0, 4, size=offsets[-1])
    expected = np.zeros((3, 3))
    for start, end in pairwise(offsets):
        for i in range(start, end):
            for j in range(start, end):
                if grades[i] > grades[j] and scores[j] > scores[i] - 1.0:
                    expected += 2 * np.outer(features[i] - features[j], features[i] - features[j])
    np.testing.assert_allclose(pair_curvature(scores, grades, offsets, features), expected, atol=1e-9)
