"""The position effect b_k: a power law, bent at a few positions as far as the clicks insist on it.

b_k = −η log k + Σ_j d_j hat_j(log k), b_1 = 0: hats at positions 2, 3, 4, 5, 6, 8, 10, 14, 20, … (linear in log k
between them), η free, d_j ~ N(0, τ²) with τ chosen by the marginal likelihood of the clicks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from unskew._segments import IntArray
from unskew.control.click_model import QueryClicks
from unskew.control.conditional import LinearFit, fit_linear
from unskew.method import PositionCurve

Floats = npt.NDArray[np.float64]

_EARLY = (1, 2, 3, 4, 5, 6, 8, 10, 14)
# A curve names every position down to this one.
EVERY = 1000
# Standard deviations of the bends that are tried; 1 lets examination at a knot be off by a factor of e.
BENDS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


@dataclass(frozen=True)
class PositionBasis:
    """Columns whose combinations are position effects; none if only one position was ever used.

    knots : positions where the curve may bend, 1 first.
    """

    knots: tuple[int, ...]

    @classmethod
    def up_to(cls, longest: int) -> PositionBasis:
        """Knots for lists of that length.

        >>> PositionBasis.up_to(12).knots
        (1, 2, 3, 4, 5, 6, 8, 10, 12)
        """
        later = (round(14 * 2 ** (step / 2)) for step in range(1, 40))
        inner = [knot for knot in (*_EARLY, *later) if knot < longest * 0.95]
        return cls((*inner, longest) if longest > 1 else (1,))

    @property
    def size(self) -> int:
        """How many columns: the power law and one a knot after the first; two positions leave nothing to bend."""
        return {1: 0, 2: 1}.get(len(self.knots), len(self.knots))

    def columns(self, position: IntArray) -> Floats:
        """(n, size): −log k first, then the hats."""
        if self.size == 0:
            return np.zeros((len(position), 0))
        table = self.table
        return table[np.minimum(position, len(table)) - 1]

    @cached_property
    def table(self) -> Floats:
        """(longest, size) the columns of positions 1, 2, …"""
        log_position = np.log(np.arange(1, self.knots[-1] + 1))
        log_knots = np.log(self.knots)
        hats = [np.interp(log_position, log_knots, one) for one in np.eye(len(self.knots))[1:]]
        return np.column_stack([-log_position, *hats])[:, : self.size]

    def penalty(self, bend: float) -> Floats:
        """(size,) penalties that make the bends draws from N(0, bend²)."""
        return np.r_[0.0, np.full(self.size - 1, bend**-2.0)] if self.size else np.zeros(0)


def choose_bend(
    basis: PositionBasis,
    clicks: QueryClicks,
    columns: npt.NDArray[np.floating],
    *,
    penalty: Floats,
    centre: Floats | float = 0.0,
) -> tuple[float, LinearFit]:
    """The τ with the largest marginal likelihood, and the fit with it; `columns` begin with the basis' own.

    penalty, centre : of the columns after them.
    """
    best: tuple[float, LinearFit] | None = None
    start = None
    middle = np.r_[np.zeros(basis.size), np.broadcast_to(centre, penalty.shape)]
    for bend in BENDS if basis.size > 1 else BENDS[:1]:
        full = np.concatenate([basis.penalty(bend), penalty])
        fit = fit_linear(columns, clicks, penalty=full, centre=middle, start=start)
        start = fit.coefficients
        if best is None or fit.evidence > best[1].evidence:
            best = (bend, fit)
    assert best is not None
    return best


def position_curve(
    basis: PositionBasis,
    coefficients: Floats,
    covariance: Floats | None = None,
    *,
    confidence: float = 0.9,
    first: int = 1,
) -> PositionCurve:
    """Examination e^{b_k} of every position, with its interval.

    first : the highest position that anything was shown at; the curve begins there, and is relative to it.
    """
    if basis.size == 0:
        return PositionCurve(np.arange(1, basis.knots[-1] + 1), np.ones(basis.knots[-1]))
    position = _drawn(first, basis.knots[-1])
    table = basis.columns(position) - basis.columns(position[:1])
    effect = table @ coefficients
    if covariance is None:
        return PositionCurve(position, np.exp(effect))
    spread = np.sqrt(np.einsum("kp,pq,kq->k", table, covariance, table)) * ndtri(0.5 + confidence / 2)
    low, high = effect - spread, effect + spread
    return PositionCurve(position, np.exp(effect), np.exp(low), np.exp(high), confidence)


def _drawn(first: int, last: int) -> IntArray:
    """The positions of a curve: all of them, but beyond the thousandth only steps of 1 %, which bend no line there.

    >>> len(_drawn(1, 50)), len(_drawn(1, 1_000_000)), int(_drawn(5, 1_000_000)[-1])
    (50, 1695, 1000000)
    """
    near = np.arange(first, min(last, EVERY) + 1)
    steps = int(np.log(max(last / EVERY, 1.0)) / np.log(1.01)) + 1
    far = np.rint(np.geomspace(EVERY, last, steps + 1)) if last > EVERY else np.zeros(0)
    return np.unique(np.r_[near, far[far >= first]].astype(np.int64))


def falling(effect: Floats) -> Floats:
    """The nearest effect that never rises with position and stays 0 at the top (pool adjacent violators).

    >>> falling(np.array([0.0, -1.0, -0.5, -2.0])).tolist()
    [0.0, -0.75, -0.75, -2.0]
    """
    from sklearn.isotonic import isotonic_regression

    # The top position is known exactly (0), the others are not.
    weight = np.r_[1e9, np.ones(len(effect) - 1)]
    return np.asarray(isotonic_regression(effect, sample_weight=weight, increasing=False), dtype=np.float64).round(12)
