"""Resampling queries: how much would a mean move with other queries of the same kind?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

# Queries drawn at once; bounds the memory whatever the number of resamples.
_CELLS = 1 << 20


def bootstrap_means(values: Values, *, resamples: int = 2_000, seed: int = 0) -> Values:
    """(resamples, columns) means of (queries, columns) values over queries drawn with replacement.

    All columns see the same queries, so that differences and ratios of them are paired.

    >>> bootstrap_means(np.ones((5, 2)), resamples=3).tolist()
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """
    rng = np.random.default_rng(seed)
    queries = len(values)
    means = np.empty((resamples, values.shape[1]))
    columns = np.ascontiguousarray(values.T)
    step = max(_CELLS // queries, 1)
    for start in range(0, resamples, step):
        end = min(start + step, resamples)
        drawn = rng.integers(0, queries, size=(end - start, queries), dtype=np.int32)
        for number, column in enumerate(columns):
            means[start:end, number] = column.take(drawn).mean(axis=1)
    return means


def percentile_interval(draws: Values, *, confidence: float = 0.95) -> tuple[float, float]:
    """The middle part of the draws, as (low, high)."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)
