"""One-pass statistics that merge: what two halves of a log know is what the whole log knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._segments import FloatArray

# Rows converted to float64 at a time: small enough to stay in cache-friendly buffers, large enough for BLAS.
CHUNK = 16_384
# Cells of the residual histogram: this many to a standard deviation, this many standard deviations each way.
CELLS_PER_SD, SDS = 512, 64
SMALLEST_SCALE = 1e-9


@dataclass(frozen=True)
class GramStatistics:
    """Weighted moments of d features and a target, centred, in float64.

    weight : total weight; entries : number of distinct placements behind it.
    mean : (d + 1,) means of the features and, last, of the target.
    scatter : (d + 1, d + 1) weighted sum of products of deviations from the mean.
    """

    weight: float
    entries: float
    mean: npt.NDArray[np.float64]
    scatter: npt.NDArray[np.float64]

    def merge(self, other: GramStatistics) -> GramStatistics:
        """The statistics of both halves together, exact up to rounding."""
        if self.weight == 0:
            return other
        if other.weight == 0:
            return self
        weight = self.weight + other.weight
        gap = other.mean - self.mean
        scatter = self.scatter + other.scatter + np.outer(gap, gap) * (self.weight * other.weight / weight)
        mean = self.mean + gap * (other.weight / weight)
        return GramStatistics(weight, self.entries + other.entries, mean, scatter)


def gram_statistics(
    features: npt.NDArray[np.float32],
    rows: npt.NDArray[np.integer] | None,
    target: FloatArray,
    weight: FloatArray,
    scatter_of_target: float,
    entries: float,
) -> GramStatistics:
    """Statistics of the chosen rows (all, if None), one chunk of float64 at a time.

    target, weight : (rows,) weighted mean target of a row, and its weight (impressions).
    scatter_of_target : weighted sum of squares of the targets inside rows, which their means do not carry.
    """
    d = features.shape[1]
    total = GramStatistics(0.0, 0.0, np.zeros(d + 1), np.zeros((d + 1, d + 1)))
    buffer = np.empty((min(CHUNK, len(target)) or 1, d + 1))
    for part in chunks(len(target)):
        block = buffer[: part.stop - part.start]
        block[:, :d] = features[part] if rows is None else features[rows[part]]
        block[:, d] = target[part]
        total = total.merge(_chunk_statistics(block, weight[part]))
    scatter = total.scatter
    scatter[d, d] += scatter_of_target
    return GramStatistics(total.weight, entries, total.mean, scatter)


def _chunk_statistics(block: npt.NDArray[np.float64], weight: FloatArray) -> GramStatistics:
    total = float(weight.sum())
    if total == 0:
        width = block.shape[1]
        return GramStatistics(0.0, 0.0, np.zeros(width), np.zeros((width, width)))
    missing = np.isnan(block)
    if missing.any():
        present = np.where(missing, 0.0, weight[:, None])
        share = np.maximum(present.sum(axis=0), np.finfo(float).tiny)
        mean = np.einsum("ij,ij->j", present, np.where(missing, 0.0, block)) / share
        np.copyto(block, mean, where=missing)  # a missing value counts as the mean of its chunk
    mean = weight @ block / total
    block -= mean
    even = bool((weight == weight[0]).all())
    scatter = (block.T @ block) * weight[0] if even else (block * weight[:, None]).T @ block
    return GramStatistics(total, 0.0, mean, scatter)


def chunks(total: int, size: int = CHUNK) -> Iterator[slice]:
    """Slices that cover `total` rows.

    >>> [(part.start, part.stop) for part in chunks(5, 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


@dataclass(frozen=True)
class ResidualStatistics:
    """Moments, extremes and a fine histogram of stage-one residuals.

    cell : width of a histogram cell; cell j is centred on (j - cells // 2) * cell.
    histogram : (cells,) weight in each cell, spread linearly over the two nearest (so that the mean is kept).
    mean_absolute : mean of |e|, which the paper's residual table seems to report.
    """

    weight: float
    mean: float
    scatter: float
    mean_absolute: float
    minimum: float
    maximum: float
    cell: float
    histogram: npt.NDArray[np.float64]

    @property
    def variance(self) -> float:
        return self.scatter / self.weight

    @property
    def sd(self) -> float:
        return float(np.sqrt(self.variance))

    @property
    def cells(self) -> npt.NDArray[np.float64]:
        """(cells,) the residual at the centre of every cell."""
        return np.asarray((np.arange(len(self.histogram)) - len(self.histogram) // 2) * self.cell, dtype=np.float64)

    def merge(self, other: ResidualStatistics) -> ResidualStatistics:
        """The statistics of both halves together; both must have been binned with the same cell."""
        if self.cell != other.cell:
            raise ValueError(f"Histograms with cells of {self.cell} and {other.cell} cannot be merged.")
        weight = self.weight + other.weight
        gap = other.mean - self.mean
        return ResidualStatistics(
            weight=weight,
            mean=self.mean + gap * other.weight / weight,
            scatter=self.scatter + other.scatter + gap**2 * self.weight * other.weight / weight,
            mean_absolute=(self.mean_absolute * self.weight + other.mean_absolute * other.weight) / weight,
            minimum=min(self.minimum, other.minimum),
            maximum=max(self.maximum, other.maximum),
            cell=self.cell,
            histogram=self.histogram + other.histogram,
        )


def residual_statistics(residual: FloatArray, weight: FloatArray, *, scale: float) -> ResidualStatistics:
    """Statistics of residuals; `scale` (about one standard deviation) sets the width of the cells."""
    # Residuals without spread still get cells of a width that densities can live on.
    cell = max(scale, SMALLEST_SCALE) / CELLS_PER_SD
    total = float(weight.sum())
    mean = float(weight @ residual / total)
    return ResidualStatistics(
        weight=total,
        mean=mean,
        scatter=float(weight @ (residual - mean) ** 2),
        mean_absolute=float(weight @ np.abs(residual) / total),
        minimum=float(residual.min()),
        maximum=float(residual.max()),
        cell=cell,
        histogram=_histogram(residual, weight, cell),
    )


def _histogram(residual: FloatArray, weight: FloatArray, cell: float) -> npt.NDArray[np.float64]:
    cells = 2 * SDS * CELLS_PER_SD + 1
    place = np.clip(residual / cell + cells // 2, 0, cells - 1)
    left = np.minimum(place.astype(np.int64), cells - 2)
    share = place - left
    counts = np.bincount(left, weights=weight * (1 - share), minlength=cells).astype(np.float64)
    counts += np.bincount(left + 1, weights=weight * share, minlength=cells)
    return counts
