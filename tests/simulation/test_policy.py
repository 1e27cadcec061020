"""What a session shows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew._segments import offsets_of, order_within, segment_of
from unskew.simulation.policy import rank_lists, shuffle_lists, swap_landmarks

LANDMARKS = (1, 3, 5, 10)


def _literal(shown: np.ndarray, offsets: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """The same swaps, list by list; chances : (lists, landmarks) the draws."""
    out = shown.copy()
    for number, (start, end) in enumerate(pairwise(offsets)):
        size = end - start
        for k, chance in zip(LANDMARKS, chances[number]):
            if k <= size and size > 1:
                others = [j for j in range(1, size + 1) if j != k]
                j = others[int(chance * (size - 1))]
                a, b = start + k - 1, start + j - 1
                out[a], out[b] = out[b], out[a]
    return out


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(0, 14), min_size=1, max_size=10), seed=st.integers(0, 10**6))
def test_swaps_follow_their_definition(sizes: list[int], seed: int) -> None:
    offsets = offsets_of(sizes)
    shown = np.arange(offsets[-1])
    chances = np.random.default_rng(seed).random((len(sizes), len(LANDMARKS)))
    swapped = swap_landmarks(shown, offsets, LANDMARKS, np.random.default_rng(seed))
    np.testing.assert_array_equal(swapped, _literal(shown, offsets, chances))
    np.testing.assert_array_equal(np.sort(swapped), shown)
    np.testing.assert_array_equal(segment_of(offsets)[swapped], segment_of(offsets))


def test_other_ranks_are_equally_likely() -> None:
    lists, size = 20_000, 5
    offsets = offsets_of([size] * lists)
    swapped = swap_landmarks(np.arange(lists * size), offsets, [3], np.random.default_rng(0))
    to_three = swapped.reshape(lists, size)[:, 2] % size
    counts = np.bincount(to_three, minlength=size)
    assert counts[2] == 0
    # 5,000 expected at each of the four others, standard deviation 61.
    assert abs(counts[[0, 1, 3, 4]] - lists / 4).max() < 5 * 61


def test_a_shuffle_is_uniform_and_stays_in_its_list() -> None:
    lists, size = 24_000, 4
    offsets = offsets_of([size] * lists)
    shown = shuffle_lists(np.arange(lists * size), offsets, np.random.default_rng(0)).reshape(lists, size)
    np.testing.assert_array_equal(shown // size, np.repeat(np.arange(lists), size).reshape(lists, size))
    _, counts = np.unique(shown % size, axis=0, return_counts=True)
    assert len(counts) == 24
    # 1,000 expected of each permutation, standard deviation 31.
    assert abs(counts - 1000).max() < 5 * 31


def test_input_is_left_alone() -> None:
    shown = np.arange(6)
    swap_landmarks(shown, np.array([0, 6]), [1, 3], np.random.default_rng(0))
    assert shown.tolist() == list(range(6))


@pytest.mark.parametrize("sizes", [[1], [0, 1]])
def test_nothing_to_swap_with(sizes: list[int]) -> None:
    assert swap_landmarks(np.array([4]), offsets_of(sizes), LANDMARKS, np.random.default_rng(0)).tolist() == [4]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 8), min_size=1, max_size=8),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["any", "tied", "tiny", "huge"]),
)
def test_fast_ranking_is_the_plain_one(sizes: list[int], seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    offsets = offsets_of(sizes)
    score = rng.normal(size=offsets[-1]) * {"any": 1, "tied": 1, "tiny": 1e-44, "huge": 1e38}[kind]
    score = np.clip(np.round(score) if kind == "tied" else score, -3e38, 3e38).astype(np.float32)  # has 0 and -0 too
    ties = rng.random(len(score))
    np.testing.assert_array_equal(rank_lists(score, offsets, ties), order_within(score, offsets, ties=ties))
