"""Chance, by kind: every kind of draw follows from the seed alone, whatever the other settings are."""

from __future__ import annotations

import numpy as np

from unskew.errors import SettingError

_KINDS = ("sample", "ties", "swaps", "shuffle", "shock", "clicks")


class Chance:
    """A generator for every kind of chance and every pass.

    A change of one setting leaves the draws of the others as they were, and more passes leave the first as they were.

    >>> Chance(7)("clicks", 2).random() == Chance(7)("clicks", 2).random()
    True
    """

    def __init__(self, seed: int) -> None:
        if seed < 0:
            raise SettingError(f"seed must be 0 or greater, but {seed} was given.")
        self._seed = seed
        self._made: dict[tuple[str, int], np.random.Generator] = {}

    def __call__(self, kind: str, number: int = 0) -> np.random.Generator:
        key = (kind, number)
        if key not in self._made:
            source = np.random.SeedSequence(self._seed, spawn_key=(_KINDS.index(kind), number))
            self._made[key] = np.random.default_rng(source)
        return self._made[key]
