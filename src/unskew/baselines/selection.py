"""A penalised probit, and the ratio that corrects for selection (Heckman 1979)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_ndtr

Floats = npt.NDArray[np.float64]

HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
BLOCK = 65_536


@dataclass(frozen=True)
class Probit:
    """P(y = 1 | z) = Φ(intercept + coefficients · z); coefficients : (k,), in the columns' own units."""

    coefficients: Floats
    intercept: float

    def index(self, z: npt.NDArray[np.floating]) -> Floats:
        """(n,) the argument of Φ."""
        return z @ self.coefficients + self.intercept


def fit_probit(z: Any, yes: npt.ArrayLike, no: npt.ArrayLike, *, penalty: float = 1.0) -> Probit:
    """Maximum likelihood with ½ · penalty · ‖coefficients of standardised columns‖²; the intercept goes free.

    z : (n, k) matrix or DesignMatrix, read in blocks. yes, no : (n,) how often y was 1 and 0 at each row.
    Without the penalty a y that the columns separate perfectly (a cut-off on a rank that is among them) would drive
    the coefficients to infinity.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(4000, 1))
    >>> y = z[:, 0] + rng.normal(size=4000) > 0.5
    >>> fit_probit(z, y, ~y, penalty=1e-3).index(np.array([[0.0], [1.0]])).round(1)
    array([-0.5,  0.5])
    """
    ones, zeros = np.asarray(yes, dtype=np.float64), np.asarray(no, dtype=np.float64)
    centre, scale = _moments(z, ones + zeros)

    def loss(theta: Floats) -> tuple[float, Floats]:
        slope = theta[1:] / scale
        constant = theta[0] - centre @ slope
        value, total, along = 0.0, 0.0, np.zeros(len(slope))
        for part, block in _blocks(z):
            index = block @ slope + constant
            log_yes, log_no = log_ndtr(index), log_ndtr(-index)
            density = -0.5 * index**2 - HALF_LOG_2PI
            value -= ones[part] @ log_yes + zeros[part] @ log_no
            pull = zeros[part] * np.exp(density - log_no) - ones[part] * np.exp(density - log_yes)
            total += pull.sum()
            along += pull @ block
        gradient = (along - total * centre) / scale + penalty * theta[1:]
        return value + 0.5 * penalty * float(theta[1:] @ theta[1:]), np.concatenate([[total], gradient])

    start = np.zeros(len(centre) + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    slope = found[1:] / scale
    return Probit(slope, float(found[0] - centre @ slope))


def heckman_ratio(index: Floats, *, ceiling: float = 20.0) -> Floats:
    """λ = φ(index) / Φ(index), in logarithms so that a very negative index does not divide 0 by 0; at most `ceiling`.

    >>> heckman_ratio(np.array([0.0, 40.0, -1e6])).round(4)
    array([ 0.7979,  0.    , 20.    ])
    """
    bounded = np.maximum(index, -ceiling)  # λ(z) ≈ -z far left, so nothing below matters
    return np.minimum(np.exp(-0.5 * bounded**2 - HALF_LOG_2PI - log_ndtr(bounded)), ceiling)


def _blocks(z: Any) -> Iterator[tuple[slice, Floats]]:
    for start in range(0, len(z), BLOCK):
        part = slice(start, start + BLOCK)
        yield part, np.asarray(z[part], dtype=np.float64)


def _moments(z: Any, weight: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of every column; a constant column keeps scale 1."""
    total = weight.sum()
    centre = sum(weight[part] @ block for part, block in _blocks(z)) / total
    spread = sum(weight[part] @ np.square(block - centre) for part, block in _blocks(z)) / total
    scale = np.sqrt(spread)
    return centre, np.where(scale > 1e-9 * np.maximum(np.abs(centre), 1e-300), scale, 1.0)
