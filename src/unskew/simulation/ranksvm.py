"""RankSVM on any number of rows: one pass over the float32 matrix an evaluation, never a float64 copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve

from unskew._segments import IntArray, segment_blocks
from unskew.simulation.pairs import Floats, pair_curvature, pair_loss

Matrix = npt.NDArray[np.float32]
# Rows taken at once: a block and its scores stay in the processor's cache.
_ROWS = 8192
_STEPS = 100
_HALVINGS = 30
# Newton's decrement, relative to the objective, at which nothing but rounding is left to gain.
_TOLERANCE = 1e-15


@dataclass(frozen=True, eq=False)
class LinearScorer:
    """score = (x − center) · coefficients; a missing value counts as its center.

    coefficients, center, spread : (d,) float64, on raw features; spread is the standard deviation in training.
    """

    coefficients: Floats
    center: Floats
    spread: Floats

    def score(self, features: Matrix) -> Floats:
        """(n,) scores of (n, d) features."""
        out = np.empty(len(features))
        for rows, part in _blocks(features, _even(len(features)), self.center):
            np.matmul(part, self.coefficients, out=out[rows])
        return out


def fit_ranksvm(features: Matrix, grades: IntArray, offsets: IntArray, *, C: float) -> LinearScorer:
    """Minimise ½|w|² + C Σ max(0, 1 − w·(x_i − x_j))² over pairs of a query with grade_i > grade_j.

    Features are standardised inside, and there is no intercept (it has no part in a pair). The objective is made of
    parabolas, so Newton's method ends where rounding does: other processors, other libraries find the same ranker.

    features : (n, d); grades : (n,); offsets : (queries + 1,).

    >>> data = np.array([[0, 5], [1, 5], [2, 5]], dtype=np.float32)
    >>> scorer = fit_ranksvm(data, np.array([0, 1, 2]), np.array([0, 3]), C=1.0)
    >>> scorer.score(data).round(2).tolist()
    [-0.86, 0.0, 0.86]
    """
    center, spread = _moments(features)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    pairs = _Pairs(features, grades, offsets, center, scale, C)
    weights = np.zeros(features.shape[1])
    value, slope = pairs.objective(weights)
    for _ in range(_STEPS):
        step = solve(pairs.curvature(weights), -slope, assume_a="pos")
        promised = -float(slope @ step)
        tried, reached, next_slope = _backtrack(pairs, weights, step, value, promised)
        if reached >= value:
            break
        weights, value, slope = tried, reached, next_slope
        if promised <= _TOLERANCE * value:
            break
    return LinearScorer(weights * scale, center, spread)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The objective over weights of standardised features, a block of rows at a time."""

    features: Matrix
    grades: IntArray
    offsets: IntArray
    center: Floats
    scale: Floats
    C: float

    def objective(self, weights: Floats) -> tuple[float, Floats]:
        total, slope = 0.0, np.zeros_like(weights)
        for part, grades, offsets in self._queries():
            loss, by_score = pair_loss(part @ (weights * self.scale), grades, offsets)
            total += loss
            slope += by_score @ part
        return 0.5 * float(weights @ weights) + self.C * total, weights + self.C * self.scale * slope

    def curvature(self, weights: Floats) -> Floats:
        total = np.zeros((len(weights), len(weights)))
        for part, grades, offsets in self._queries():
            total += pair_curvature(part @ (weights * self.scale), grades, offsets, part)
        return np.eye(len(weights)) + self.C * self.scale[:, None] * total * self.scale

    def _queries(self) -> Iterator[tuple[Floats, IntArray, IntArray]]:
        bounds = segment_blocks(self.offsets, _ROWS)
        blocks = _blocks(self.features, self.offsets[bounds], self.center)
        for (rows, part), (first, last) in zip(blocks, pairwise(bounds)):
            yield part, self.grades[rows], self.offsets[first : last + 1] - self.offsets[first]


def _backtrack(
    pairs: _Pairs, weights: Floats, step: Floats, value: float, promised: float
) -> tuple[Floats, float, Floats]:
    """The first of the halved steps that keeps a little of what it promises, or the last: weights, value, slope."""
    for halvings in range(_HALVINGS):
        size = 0.5**halvings
        tried = weights + size * step
        reached, slope = pairs.objective(tried)
        if reached <= value - 1e-4 * size * promised:
            break
    return tried, reached, slope


def _moments(features: Matrix) -> tuple[Floats, Floats]:
    """Mean and standard deviation of every feature, missing values left out, summed in float64."""
    width = features.shape[1]
    count, total, square = np.zeros(width), np.zeros(width), np.zeros(width)
    for rows in _slices(_even(len(features))):
        part = features[rows].astype(np.float64)
        count += np.sum(~np.isnan(part), axis=0)
        total += np.nansum(part, axis=0)
    center = total / np.maximum(count, 1)
    for _, part in _blocks(features, _even(len(features)), center):
        square += np.einsum("ij,ij->j", part, part)
    spread = np.sqrt(square / np.maximum(count, 1))
    spread[spread <= 1e-6 * np.abs(center)] = 0.0  # what rounding alone produces is no variation
    return center, spread


def _blocks(features: Matrix, bounds: IntArray, center: Floats) -> Iterator[tuple[slice, Floats]]:
    """Slices of rows and their x − center in float64, missing values 0, in one buffer that is used again."""
    buffer = np.empty((int(np.diff(bounds).max(initial=0)), features.shape[1]))
    for rows in _slices(bounds):
        part = buffer[: rows.stop - rows.start]
        np.copyto(part, features[rows])
        part -= center
        if np.isnan(part.sum()):
            part[np.isnan(part)] = 0.0
        yield rows, part


def _slices(bounds: IntArray) -> Iterator[slice]:
    return (slice(int(first), int(last)) for first, last in pairwise(bounds))


def _even(rows: int) -> IntArray:
    """Bounds of blocks of at most _ROWS rows."""
    return np.append(np.arange(0, rows, _ROWS), rows)
