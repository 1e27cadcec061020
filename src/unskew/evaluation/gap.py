"""Gap closed: how much of the way from naive to oracle a method goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew.evaluation.bootstrap import bootstrap_means, percentile_interval
from unskew.evaluation.significance import paired


@dataclass(frozen=True)
class GapClosed:
    """(method - naive) / (oracle - naive), a fraction: 0 is no better than naive, 1 as good as grades.

    value, low, high : the fraction and its 95 % interval; None when the gap itself is not clearly above 0.
    gap : oracle - naive.
    note : why there is no value.
    """

    value: float | None
    low: float | None
    high: float | None
    gap: float
    note: str | None = None


def gap_closed(
    method: npt.ArrayLike,
    naive: npt.ArrayLike,
    oracle: npt.ArrayLike,
    *,
    resamples: int = 2_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> GapClosed:
    """Gap closed of per-query values, with an interval from resampling queries.

    Each argument is (queries,), or (seeds, queries), which are averaged first; all on the same queries, drawn
    together. A ratio means nothing when its divisor may be 0, so there is a value only when the interval of
    oracle - naive lies above 0.

    >>> found = gap_closed([0.5, 0.6, 0.7], [0.4, 0.4, 0.4], [0.6, 0.8, 0.9])
    >>> round(found.value, 3), found.low <= found.value <= found.high
    (0.545, True)
    >>> gap_closed([0.5, 0.6], [0.4, 0.7], [0.6, 0.5]).note
    'oracle is not clearly better than naive here (difference 0.0000), so there is no gap to close'
    """
    values = np.stack(paired(method, naive, oracle), axis=1)
    gained, gap = (values[:, 0] - values[:, 1]).mean(), float((values[:, 2] - values[:, 1]).mean())
    draws = bootstrap_means(values, resamples=resamples, seed=seed)
    gaps = draws[:, 2] - draws[:, 1]
    if percentile_interval(gaps, confidence=confidence)[0] <= 0 or gap <= 0:
        note = f"oracle is not clearly better than naive here (difference {gap:.4f}), so there is no gap to close"
        return GapClosed(None, None, None, gap, note)
    # The few draws without a gap (fewer than the interval leaves out) have no ratio.
    ratio = (draws[:, 0] - draws[:, 1])[gaps > 0] / gaps[gaps > 0]
    low, high = percentile_interval(ratio, confidence=confidence)
    return GapClosed(float(gained / gap), low, high, gap)
