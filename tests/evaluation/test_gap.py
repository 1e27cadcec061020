"""Gap closed: the ratio, its interval, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.errors import DataError
from unskew.evaluation.gap import gap_closed


@pytest.fixture
def values():
    rng = np.random.default_rng(0)
    naive = rng.uniform(0.2, 0.6, 400)
    oracle = naive + rng.normal(0.10, 0.1, 400)
    return naive, oracle


def test_the_ends_of_the_scale(values):
    naive, oracle = values
    for method, expected in [(naive, 0.0), (oracle, 1.0), ((naive + oracle) / 2, 0.5)]:
        found = gap_closed(method, naive, oracle)
        assert (found.value, found.low, found.high) == pytest.approx((expected, expected, expected), abs=1e-9)
    assert gap_closed(naive - (oracle - naive), naive, oracle).value == pytest.approx(-1)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """95 % of 200 intervals: 190 ± 12 (four standard deviations)."""
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        naive = rng.uniform(0.2, 0.6, 150)
        method, oracle = naive + rng.normal(0.04, 0.08, 150), naive + rng.normal(0.08, 0.08, 150)
        found = gap_closed(method, naive, oracle, resamples=400, seed=seed)
        hits += found.low <= 0.5 <= found.high
    assert 174 <= hits <= 200


def test_without_a_gap_there_is_no_ratio():
    rng = np.random.default_rng(1)
    naive = rng.uniform(0.2, 0.6, 300)
    for shift in (0.0, -0.2):
        found = gap_closed(naive + 0.1, naive, naive + rng.normal(shift, 0.1, 300))
        assert found.value is found.low is found.high is None
        assert "not clearly better" in found.note
    assert gap_closed(naive, naive, naive).value is None


def test_queries_without_a_value_are_left_out(values):
    naive, oracle = (part.copy() for part in values)
    method = (naive + oracle) / 2
    expected = gap_closed(method[5:], naive[5:], oracle[5:])
    naive[:3], oracle[3:5] = np.nan, np.nan
    assert gap_closed(method, naive, oracle) == expected


def test_several_seeds_are_averaged(values):
    naive, oracle = values
    assert gap_closed(np.stack([naive, oracle]), naive, oracle).value == pytest.approx(0.5)


def test_other_queries_are_refused():
    with pytest.raises(DataError, match="same queries"):
        gap_closed([0.1], [0.1, 0.2], [0.1, 0.2])
