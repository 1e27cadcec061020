"""Fisher's randomisation test against full enumeration; Holm, effect size and intervals against known answers."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest
from scipy import stats

from unskew.errors import DataError, SettingError
from unskew.evaluation.bootstrap import bootstrap_means, percentile_interval
from unskew.evaluation.significance import compare, holm, randomisation_test


def by_enumeration(d):
    observed = abs(sum(d))
    sums = [abs(sum(sign * x for sign, x in zip(signs, d))) for signs in product([1, -1], repeat=len(d))]
    return sum(s >= observed - 1e-12 for s in sums) / len(sums)


@pytest.fixture(scope="module")
def twelve():
    rng = np.random.default_rng(5)
    return rng.normal(0.04, 0.1, (12, 3)).round(3)


def test_twelve_queries_are_enumerated(twelve):
    expected = [by_enumeration(list(column)) for column in twelve.T]
    np.testing.assert_allclose(randomisation_test(twelve), expected)


def test_drawing_agrees_with_enumeration(twelve):
    """100,000 draws: the standard error is at most 0.0016, and five of them are allowed."""
    expected = [by_enumeration(list(column)) for column in twelve.T]
    np.testing.assert_allclose(randomisation_test(twelve, exact=False), expected, atol=0.008)


def test_more_queries_than_bytes_agree_with_scipy():
    d = np.random.default_rng(6).normal(0.02, 0.1, 37)
    ours = randomisation_test(d[:, None], draws=50_000)[0]
    theirs = stats.permutation_test(
        (d, np.zeros_like(d)),
        lambda a, b: abs((a - b).mean()),
        permutation_type="samples",
        alternative="greater",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).pvalue
    assert ours == pytest.approx(theirs, abs=0.02)


def test_the_smallest_p_counts_the_observed_pattern():
    d = np.full((200, 1), 0.1)
    assert randomisation_test(d, draws=999)[0] == pytest.approx(1 / 1000)


def test_systems_that_never_differ_have_p_one():
    assert randomisation_test(np.zeros((30, 2))).tolist() == [1.0, 1.0]
    found = compare([0.3, 0.4], [0.3, 0.4])
    assert (found.p, found.effect, found.wins, found.losses) == (1.0, 0.0, 0, 0)


def test_p_is_even_when_nothing_is_there():
    """Under the null 5 % of p values fall below 0.05: of 1,000 tests 50 ± 29 (more than four standard deviations)."""
    d = np.random.default_rng(8).normal(size=(60, 1000))
    p = randomisation_test(d, draws=999)
    assert 21 <= (p <= 0.05).sum() <= 79


def test_the_same_seed_gives_the_same_p():
    d = np.random.default_rng(9).normal(0.05, 1, (300, 1))
    first, again, other = (randomisation_test(d, draws=2_000, seed=seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_memory_does_not_grow_with_draws_times_queries():
    """20,000 draws of 4,000 signs would be 640 MB as numbers, 80 MB as bytes."""
    d = np.random.default_rng(0).normal(size=(4_000, 1))
    tracemalloc.start()
    randomisation_test(d, draws=20_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_swapping_the_systems_swaps_the_signs():
    rng = np.random.default_rng(3)
    a, b = rng.random(50), rng.random(50)
    forth, back = compare(a, b, draws=2_000), compare(b, a, draws=2_000)
    assert forth.p == back.p
    assert forth.difference == pytest.approx(-back.difference)
    assert forth.effect == pytest.approx(-back.effect)
    assert (forth.wins, forth.losses) == (back.losses, back.wins)


def test_effect_size_and_interval():
    a, b = np.array([0.5, 0.7, 0.9, 0.8, np.nan]), np.array([0.4, 0.5, 0.6, 0.4, 0.1])
    found = compare(a, b)
    d = np.array([0.1, 0.2, 0.3, 0.4])
    assert found.queries == 4
    assert found.effect == pytest.approx(d.mean() / d.std(ddof=1))
    assert 0.1 <= found.low < found.difference < found.high <= 0.4


def test_several_runs_are_averaged_first():
    runs = np.array([[0.2, 0.6, 0.1], [0.4, 0.2, 0.3]])
    assert compare(runs, [0.1, 0.1, 0.1]) == compare(runs.mean(axis=0), [0.1, 0.1, 0.1])


def test_the_interval_of_a_mean_is_the_textbooks():
    """For 500 values the percentile interval comes close to mean ± 1.96 standard errors."""
    d = np.random.default_rng(4).normal(0.1, 1.0, 500)
    low, high = percentile_interval(bootstrap_means(d[:, None], resamples=5_000)[:, 0])
    error = d.std(ddof=1) / np.sqrt(500)
    assert low == pytest.approx(d.mean() - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(d.mean() + 1.96 * error, abs=0.15 * error)


def test_holm_is_the_textbooks():
    assert holm([0.005, 0.011, 0.02, 0.04, 0.13]).tolist() == pytest.approx([0.025, 0.044, 0.06, 0.08, 0.13])
    assert holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []


def test_wrong_input_is_refused():
    with pytest.raises(DataError, match="same queries"):
        compare([0.1], [0.1, 0.2])
    with pytest.raises(DataError, match="no query"):
        compare([np.nan], [0.1])
    with pytest.raises(SettingError, match="draws"):
        compare([0.1], [0.2], draws=0)
    with pytest.raises(DataError, match="finite differences"):
        randomisation_test(np.array([[np.inf]]))
