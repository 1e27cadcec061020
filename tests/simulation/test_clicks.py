"""The position-based click model."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.simulation.clicks import draw_clicks, examination, perceived_relevance


def test_examination_of_the_paper() -> None:
    np.testing.assert_allclose(examination(5, eta=2.0), [1, 1 / 4, 1 / 9, 1 / 16, 1 / 25])
    np.testing.assert_array_equal(examination(3, eta=0.0), [1, 1, 1])


def test_perceived_relevance_of_the_paper() -> None:
    expected = [0, 1 / 15, 3 / 15, 7 / 15, 1]
    np.testing.assert_allclose(perceived_relevance(range(5), noise=0.0, max_grade=4), expected)
    np.testing.assert_allclose(
        perceived_relevance(range(5), noise=0.2, max_grade=4), [0.2 + 0.8 * value for value in expected]
    )


@pytest.mark.parametrize("probability", [0.003, 0.4])
def test_clicks_come_as_often_as_they_should(probability: float) -> None:
    n = 400_000
    clicks = draw_clicks(np.full(n, probability), np.random.default_rng(0))
    assert abs(clicks.mean() - probability) < 5 * np.sqrt(probability * (1 - probability) / n)


def test_certain_and_impossible() -> None:
    rng = np.random.default_rng(0)
    assert draw_clicks(np.ones(1000), rng).all()
    assert not draw_clicks(np.zeros(1000), rng).any()
