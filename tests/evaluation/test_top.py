"""The best rows of every query against a plain sort."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew._segments import offsets_of, order_within
from unskew.errors import SettingError
from unskew.evaluation import top
from unskew.evaluation.top import scramble, top_rows


def by_sorting(scores, offsets, depth, seed):
    ties = scramble(np.arange(len(scores)), seed)
    order = order_within(scores, offsets, ties=ties)
    out = np.full((len(offsets) - 1, depth), -1)
    for query, (start, end) in enumerate(itertools.pairwise(offsets)):
        best = order[start:end][:depth]
        out[query, : len(best)] = best
    return out


@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=25),
    depth=st.sampled_from([1, 2, 10, 23, 24, 30, 80]),
    levels=st.sampled_from([1, 2, 5, 50, 10_000]),
    seed=st.integers(0, 99),
)
@settings(max_examples=150, deadline=None)
def test_it_is_a_sort_cut_off(sizes, depth, levels, seed):
    """With few levels nearly all scores are equal, inside the top and across its edge."""
    offsets = offsets_of(sizes)
    scores = np.random.default_rng(seed).integers(0, levels, offsets[-1]) / 7.0 - 3.0
    found = top_rows(scores, offsets, depth, seed=seed)
    np.testing.assert_array_equal(found, by_sorting(scores, offsets, depth, seed))


def test_blocks_do_not_show(monkeypatch):
    offsets = offsets_of(np.random.default_rng(1).integers(1, 50, 300))
    scores = np.random.default_rng(2).integers(0, 20, offsets[-1]).astype(np.float32)
    whole = top_rows(scores, offsets, 10)
    monkeypatch.setattr(top, "_BLOCK_CELLS", 64)
    np.testing.assert_array_equal(top_rows(scores, offsets, 10), whole)
    np.testing.assert_array_equal(top_rows(scores[:280], np.arange(0, 281, 28), 10), whole_of(scores[:280]))


def whole_of(scores):
    return by_sorting(scores, np.arange(0, len(scores) + 1, 28), 10, 0)


def test_extreme_finite_scores_are_still_items():
    lowest = np.finfo(np.float64).min
    assert top_rows([lowest, lowest / 2], np.array([0, 2]), 3).tolist() == [[1, 0, -1]]


def test_whole_numbers_are_scores_too():
    assert top_rows(np.array([3, 1, 2]), np.array([0, 3]), 2).tolist() == [[0, 2]]


def test_input_is_left_alone():
    scores = np.arange(12.0)
    scores.flags.writeable = False
    top_rows(scores, np.array([0, 6, 12]), 3)
    np.testing.assert_array_equal(scores, np.arange(12.0))


def test_a_depth_of_zero_is_refused():
    with pytest.raises(SettingError, match="1 or greater"):
        top_rows([1.0], np.array([0, 1]), 0)


def test_the_scrambled_order_is_even():
    """Every item of a list of five comes first equally often: χ² of 4 degrees of freedom below 23.5 (p = 1e-4)."""
    first = np.argmin(scramble(np.arange(50_000), seed=3).reshape(-1, 5), axis=1)
    count = np.bincount(first, minlength=5)
    assert ((count - 2000) ** 2 / 2000).sum() < 23.5
