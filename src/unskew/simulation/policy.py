"""What a session shows: the production ranking, with swaps at landmarks, or in random order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from unskew._segments import FloatArray, IntArray, order_within, segment_of


def rank_lists(score: npt.NDArray[np.float32], offsets: IntArray, ties: FloatArray) -> IntArray:
    """Rows list by list, the largest score first, equal scores by ascending `ties`: `order_within`, six times as fast.

    >>> rank_lists(np.float32([0.5, -1, 2, 0.5]), np.array([0, 3, 4]), np.zeros(4))
    array([2, 0, 1, 3])
    """
    # The bits of a float order as the number does (negative ones backwards), so that with the list's number above
    # them a single sort of integers does all lists. Adding 0 makes one zero of the two.
    bits = (score + np.float32(0)).view(np.int32).astype(np.int64)
    key = (segment_of(offsets) << 32) - np.where(bits < 0, -(2**31) - bits, bits)
    order = np.argsort(key)
    ranked = key[order]
    return order_within(score, offsets, ties=ties) if (ranked[1:] == ranked[:-1]).any() else order


def swap_landmarks(shown: IntArray, offsets: IntArray, landmarks: Sequence[int], rng: np.random.Generator) -> IntArray:
    """Swap, in every list, the item at each landmark with the one at a random other rank of the whole list.

    Landmarks are taken in the order given; one beyond a list's end is passed over (Joachims et al. 2017).
    shown : (n,) rows in the order of display, list by list; offsets : (lists + 1,). Returns a new (n,) array.

    >>> swap_landmarks(np.array([7, 8]), np.array([0, 2]), [1], np.random.default_rng(0))
    array([8, 7])
    """
    out = shown.copy()
    starts, sizes = offsets[:-1], np.diff(offsets)
    # Drawn for every list, so that one list's swaps do not depend on the other lists' lengths.
    chance = rng.random((len(sizes), len(landmarks)))
    for landmark, draw in zip(landmarks, chance.T):
        fits = (sizes >= landmark) & (sizes > 1)
        other = np.floor(draw[fits] * (sizes[fits] - 1)).astype(np.int64)
        other += other >= landmark - 1  # the landmark's own rank is not among the others
        here, there = starts[fits] + landmark - 1, starts[fits] + other
        out[here], out[there] = out[there], out[here]
    return out


def shuffle_lists(shown: IntArray, offsets: IntArray, rng: np.random.Generator) -> IntArray:
    """Every list in uniformly random order.

    >>> sorted(shuffle_lists(np.array([4, 5, 6]), np.array([0, 3]), np.random.default_rng(0)).tolist())
    [4, 5, 6]
    """
    return shown[np.argsort(segment_of(offsets) + rng.random(len(shown)))]
