"""The residual transformations T of section 4.3, fitted once on training residuals, applied to any rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from unskew._segments import FloatArray
from unskew.control.density import grid_density
from unskew.control.statistics import ResidualStatistics
from unskew.errors import SettingError

# Algorithm 1 tries these four, in this order.
PAPER_TRANSFORMATIONS = ("minmax", "normal_pdf", "inverse_mills", "hazard")
_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
# Ratios above this share of the training weight are clipped: f / F has no bound in its left tail.
CLIP_SHARE = 0.999


@dataclass(frozen=True)
class Transformation:
    """A fitted T: residuals in, control values out.

    name : which one; function : the formula; parameters : what was fitted, JSON-able.
    shift : subtracted from every value; T(0) for centred transformations, else 0.
    """

    name: str
    function: Callable[[FloatArray], FloatArray]
    parameters: dict[str, Any] = field(default_factory=dict)
    shift: float = 0.0

    def __call__(self, residual: FloatArray) -> npt.NDArray[np.float32]:
        """(n,) float32 values T(ε̂)."""
        values = self._exact(residual)
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise SettingError(
                f"The transformation '{self.name}' gives {values[bad]} for the residual {residual[bad]:.6g}. "
                "It must be finite for every residual."
            )
        return values.astype(np.float32)

    @property
    def at_zero(self) -> float:
        """T(0): what an item placed exactly where its features say would get."""
        return float(self._exact(np.zeros(1))[0])

    def _exact(self, residual: FloatArray) -> npt.NDArray[np.float64]:
        return np.asarray(self.function(np.asarray(residual, dtype=np.float64)), dtype=np.float64) - self.shift

    def centred(self) -> Transformation:
        """T − T(0), so that zero at inference means: no residual."""
        return Transformation(self.name, self.function, self.parameters, shift=self.shift + self.at_zero)


def fit_transformation(
    kind: str | Callable[[FloatArray], FloatArray], statistics: ResidualStatistics
) -> Transformation:
    """A transformation by name or from any vectorised callable.

    `minmax`: (ε − min) / (max − min) over the whole training log, not clipped elsewhere.
    `normal_pdf`: φ(z), z = (ε − µ) / σ. `inverse_mills`: φ(z) / Φ(z), computed as exp(log φ − log Φ).
    `hazard`: f(ε) / F(ε) with f a kernel density and F its integral. `identity`: ε.
    """
    if callable(kind):
        return Transformation(getattr(kind, "__name__", "callable"), kind)
    if kind not in _FITTERS:
        listed = ", ".join(repr(name) for name in _FITTERS)
        raise SettingError(f"transformation must be one of {listed}, or a callable, but {kind!r} was given.")
    return _FITTERS[kind](statistics)


def _minmax(statistics: ResidualStatistics) -> Transformation:
    low, high = statistics.minimum, statistics.maximum
    width = high - low
    function = _Affine(low, width if width > 0 else 1.0)
    return Transformation("minmax", function, {"minimum": low, "maximum": high})


def _normal_pdf(statistics: ResidualStatistics) -> Transformation:
    function = _NormalPdf(statistics.mean, statistics.sd or 1.0)
    return Transformation("normal_pdf", function, {"mean": statistics.mean, "sd": statistics.sd})


def _inverse_mills(statistics: ResidualStatistics) -> Transformation:
    function = _InverseMills(statistics.mean, statistics.sd or 1.0)
    return Transformation("inverse_mills", function, {"mean": statistics.mean, "sd": statistics.sd})


def _identity(statistics: ResidualStatistics) -> Transformation:
    return Transformation("identity", _Affine(0.0, 1.0))


def _hazard(statistics: ResidualStatistics) -> Transformation:
    fitted = grid_density(statistics)
    floor = 1.0 / (statistics.weight + 1.0)
    ratio = fitted.density / np.maximum(fitted.cumulative, floor)
    weight = np.interp(fitted.grid, statistics.cells, statistics.histogram)
    order = np.argsort(ratio)
    heaviest = np.searchsorted(np.cumsum(weight[order]), CLIP_SHARE * weight.sum())
    limit = float(ratio[order][min(heaviest, len(ratio) - 1)])
    function = _Grid(fitted.grid, np.minimum(ratio, limit))
    return Transformation("hazard", function, {"bandwidth": fitted.bandwidth, "floor": floor, "limit": limit})


@dataclass(frozen=True)
class _Affine:
    start: float
    width: float

    def __call__(self, e: FloatArray) -> FloatArray:
        return (e - self.start) / self.width


@dataclass(frozen=True)
class _NormalPdf:
    mean: float
    sd: float

    def __call__(self, e: FloatArray) -> FloatArray:
        return np.exp(-0.5 * ((e - self.mean) / self.sd) ** 2 - _LOG_SQRT_2PI)


@dataclass(frozen=True)
class _InverseMills:
    mean: float
    sd: float

    def __call__(self, e: FloatArray) -> FloatArray:
        z = (e - self.mean) / self.sd
        return np.exp(-0.5 * z**2 - _LOG_SQRT_2PI - log_ndtr(z))


@dataclass(frozen=True, eq=False)
class _Grid:
    grid: FloatArray
    values: FloatArray

    def __call__(self, e: FloatArray) -> FloatArray:
        return np.interp(e, self.grid, self.values)


_FITTERS: dict[str, Callable[[ResidualStatistics], Transformation]] = {
    "minmax": _minmax,
    "normal_pdf": _normal_pdf,
    "inverse_mills": _inverse_mills,
    "hazard": _hazard,
    "identity": _identity,
}


def transformation_list(wanted: Any) -> Sequence[Any]:
    """The transformations to try: "auto" is Algorithm 1's four; one name, one callable or a list stand for themselves.

    >>> transformation_list("auto")
    ('minmax', 'normal_pdf', 'inverse_mills', 'hazard')
    >>> transformation_list("hazard")
    ('hazard',)
    """
    if isinstance(wanted, str):
        return PAPER_TRANSFORMATIONS if wanted == "auto" else (wanted,)
    if callable(wanted):
        return (wanted,)
    listed = tuple(wanted)
    if not listed:
        raise SettingError("transformation must name at least one transformation, but the list is empty.")
    return listed
