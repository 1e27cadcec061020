"""Is the difference more than chance? Fisher's randomisation test, Holm's correction, effect size, interval."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError, SettingError
from unskew.evaluation.bootstrap import bootstrap_means, percentile_interval

Values = npt.NDArray[np.float64]

# Draws that are summed at once: their sums stay in the processor's cache.
_CHUNK = 8192
# With so few queries all sign patterns are gone through instead of drawn.
_ENUMERABLE = 16
# Every pattern of eight signs: (256, 8) of ±1.
_SIGNS = np.array(list(product([1.0, -1.0], repeat=8)))


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same queries, a against b.

    difference : mean of a - b, with its bootstrap interval low … high at 95 %.
    effect : mean of the differences over their standard deviation (Cohen's d for pairs); 0 if they never differ.
    p : two-sided p of Fisher's randomisation test; p_holm : corrected for the tests made together.
    wins, losses : queries on which a is better, worse; the rest are equal.
    """

    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    effect: float
    p: float
    p_holm: float
    wins: int
    losses: int
    queries: int


def compare(
    per_query_a: npt.ArrayLike,
    per_query_b: npt.ArrayLike,
    *,
    draws: int = 100_000,
    resamples: int = 2_000,
    seed: int = 0,
) -> Comparison:
    """Compare a metric of two systems query by query; queries where either is NaN are left out.

    Each argument is (queries,), or (seeds, queries) from several training runs, which are averaged first.

    >>> found = compare([0.5, 0.7, 0.9, 0.8], [0.4, 0.5, 0.6, 0.4])
    >>> round(found.difference, 3), found.p, found.wins
    (0.25, 0.125, 4)
    """
    a, b = paired(per_query_a, per_query_b)
    return compare_columns(a[:, None], b[:, None], draws=draws, resamples=resamples, seed=seed)[0]


def compare_columns(
    a: Values, b: Values, *, draws: int = 100_000, resamples: int = 2_000, seed: int = 0
) -> list[Comparison]:
    """A comparison for every column of (queries, metrics) paired values; flips and resamples are shared."""
    p_values = randomisation_test(a - b, draws=draws, seed=seed)
    means = bootstrap_means(a - b, resamples=resamples, seed=seed)
    return [_describe(a[:, i], b[:, i], float(p), percentile_interval(means[:, i])) for i, p in enumerate(p_values)]


def _describe(a: Values, b: Values, p: float, interval: tuple[float, float]) -> Comparison:
    difference = a - b
    spread = float(difference.std(ddof=1)) if len(difference) > 1 else 0.0
    mean = float(difference.mean())
    low, high = interval
    return Comparison(
        mean_a=float(a.mean()),
        mean_b=float(b.mean()),
        difference=mean,
        low=low,
        high=high,
        effect=mean / spread if spread > 0 else 0.0,
        p=p,
        p_holm=p,
        wins=int((difference > 0).sum()),
        losses=int((difference < 0).sum()),
        queries=len(difference),
    )


def randomisation_test(
    differences: Values, *, draws: int = 100_000, seed: int = 0, exact: bool | None = None
) -> Values:
    """(tests,) two-sided p of Fisher's randomisation test on (queries, tests) paired differences.

    Were the two systems alike, every difference might as well have the other sign. With T = |Σ d| and T* the same
    after random flips, p = (1 + #{T* ≥ T}) / (1 + draws). With 16 queries or fewer all 2^n patterns are gone
    through and p is exact (`exact` forces one or the other). All tests see the same flips.

    Eight queries at a time: their 256 possible sums are tabulated, and a random byte looks one up. Memory does not
    grow with draws × queries.

    >>> randomisation_test(np.array([[0.1], [0.2], [0.3]])).tolist()  # 2 of 8 patterns reach |Σ d|
    [0.25]
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim != 2 or len(d) == 0 or not np.isfinite(d).all():
        raise DataError("The randomisation test needs finite differences on at least one query.")
    if draws < 1:
        raise SettingError(f"draws must be 1 or greater, but {draws} was given.")
    d = d[(d != 0).any(axis=1)]  # a difference of zero has no sign
    if len(d) == 0:
        return np.ones(d.shape[1])
    if exact is None:
        exact = len(d) <= _ENUMERABLE and 2 ** len(d) <= draws
    # Sums of the same numbers in another order may differ in the last digits; they must count as reached.
    observed = np.abs(d.sum(axis=0)) - 1e-12 * np.abs(d).sum(axis=0)
    tables = _sums_of_eight(d)
    if exact:
        patterns = 2 ** len(d)
        every = (np.arange(patterns)[None, :] >> (8 * np.arange(len(tables)))[:, None]) & 255
        return _reached(tables, every, observed) / patterns
    rng = np.random.default_rng(seed)
    reached = np.zeros(d.shape[1], dtype=np.int64)
    for start in range(0, draws, _CHUNK):
        count = min(_CHUNK, draws - start)
        byte = np.frombuffer(rng.bytes(len(tables) * count), dtype=np.uint8).reshape(len(tables), count)
        reached += _reached(tables, byte, observed)
    return (1 + reached) / (1 + draws)


def holm(p_values: npt.ArrayLike) -> Values:
    """p values corrected for being tested together (Holm 1979), in the order given.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


def paired(*systems: npt.ArrayLike) -> list[Values]:
    """(queries,) values of several systems on the queries that all of them have; runs are averaged first."""
    averaged = [_over_runs(np.asarray(values, dtype=np.float64)) for values in systems]
    lengths = {len(values) for values in averaged}
    if len(lengths) > 1:
        raise DataError(f"Systems can be compared on the same queries only, but they have {sorted(lengths)} queries.")
    present = ~np.isnan(averaged).any(axis=0)
    if not present.any():
        raise DataError("There is no query on which all systems have a value.")
    return [values[present] for values in averaged]


def _over_runs(values: Values) -> Values:
    if values.ndim not in (1, 2):
        raise DataError(f"Per-query values must be (queries,) or (seeds, queries), but have shape {values.shape}.")
    return values if values.ndim == 1 else values.mean(axis=0)


def _sums_of_eight(d: Values) -> Values:
    """(queries / 8, 256, tests) sums of eight differences under every pattern of signs; the last are filled with 0."""
    padded = np.zeros((-(-len(d) // 8) * 8, d.shape[1]))
    padded[: len(d)] = d
    # Bit i of a byte stands for query i of the eight, so that patterns count upwards from the first query.
    return np.einsum("se,get->gst", _SIGNS[:, ::-1], padded.reshape(-1, 8, d.shape[1]))


def _reached(tables: Values, byte: npt.NDArray[np.integer], observed: Values) -> npt.NDArray[np.int64]:
    """(tests,) in how many of the draws (groups, draws) of bytes the sum is as large as the observed one."""
    total = np.zeros((byte.shape[1], tables.shape[2]))
    for table, pattern in zip(tables, byte):
        total += table.take(pattern, axis=0)
    return (np.abs(total) >= observed).sum(axis=0)
