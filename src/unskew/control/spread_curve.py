"""How widely the residuals scatter from the low to the high values of something: the picture behind the spread test."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from unskew._segments import FloatArray

GROUPS = 10
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, eq=False)
class SpreadCurve:
    """Residuals in groups of about equal size, from low to high values of `by`; equal values stay together.

    by : what the groups are made by.
    low, high : (groups,) its smallest and largest value in every group.
    items : (groups,) how many; sd : (groups,) of their residuals.
    quantiles : (groups, 5) of their residuals, at SHARES.
    """

    by: str
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    items: npt.NDArray[np.int64]
    sd: npt.NDArray[np.float64]
    quantiles: npt.NDArray[np.float64]


def spread_curve(by: str, values: npt.NDArray, residual: FloatArray, *, groups: int = GROUPS) -> SpreadCurve:
    """Group the residuals by the quantiles of `values`; missing values are left out.

    >>> curve = spread_curve("x", np.arange(100.0), np.tile([-1.0, 1.0], 50) * np.arange(100), groups=2)
    >>> curve.items, curve.sd.round(1)
    (array([50, 50]), array([28.4, 75.9]))
    """
    kept = np.flatnonzero(np.isfinite(values))
    order = kept[np.argsort(values[kept], kind="stable")]
    ordered, left = np.asarray(values[order], dtype=np.float64), residual[order]
    edges = np.unique(np.quantile(ordered, np.linspace(0, 1, groups + 1)[1:-1])) if len(ordered) else np.zeros(0)
    bounds = np.unique(np.concatenate([[0], np.searchsorted(ordered, edges, side="left"), [len(ordered)]]))
    parts = [left[start:stop] for start, stop in pairwise(bounds)]
    return SpreadCurve(
        by=by,
        low=ordered[bounds[:-1]],
        high=ordered[bounds[1:] - 1],
        items=np.diff(bounds),
        sd=np.array([part.std() for part in parts]),
        quantiles=np.array([np.quantile(part, SHARES) for part in parts]).reshape(len(parts), len(SHARES)),
    )
