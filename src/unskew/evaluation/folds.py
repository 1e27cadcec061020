"""Folds by query: every query is tested once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unskew._segments import IntArray
from unskew.data.ranking import RankingData
from unskew.errors import DataError, SettingError


@dataclass(frozen=True, eq=False)
class Fold:
    """Queries (indices, ascending) to train on, to choose settings on, and to test on."""

    train: IntArray
    valid: IntArray
    test: IntArray

    def split(self, data: RankingData) -> tuple[RankingData, RankingData, RankingData]:
        """The three parts of the data."""
        return data.take_queries(self.train), data.take_queries(self.valid), data.take_queries(self.test)


def query_folds(data: RankingData, n: int = 5, *, seed: int = 0) -> list[Fold]:
    """n folds: one part to test on, the next to choose on, the rest to train on (3/1/1 for five).

    Parts are drawn over the sorted query ids, so that the order of the rows does not change them.

    >>> data = RankingData.from_arrays(np.zeros((10, 1)), sizes=[1] * 10)
    >>> [(len(fold.train), len(fold.valid), len(fold.test)) for fold in query_folds(data, 5)][:2]
    [(6, 2, 2), (6, 2, 2)]
    """
    if n < 3:
        raise SettingError(f"There must be 3 folds or more (train, valid, test), but {n} was given.")
    if data.n_queries < n:
        raise DataError(f"{n} folds need at least {n} queries, but the data has {data.n_queries}.")
    by_id = data.query_ids.arg_sort().to_numpy()
    parts = np.array_split(by_id[np.random.default_rng(seed).permutation(data.n_queries)], n)
    return [
        Fold(
            train=np.sort(np.concatenate([parts[(k + i) % n] for i in range(2, n)])),
            valid=np.sort(parts[(k + 1) % n]),
            test=np.sort(parts[k]),
        )
        for k in range(n)
    ]
