"""The additive part of f: a weight for every feature's normal score, learnt with few clicks and written as trees.

u_j(x_j) is constant inside each of a few bins of feature j (the normal score of the bin's middle rank), so that
Σ_j β_j u_j(x_j) is exactly one small tree a feature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from unskew._segments import IntArray

Floats = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float32]

BINS = 32
_SAMPLE = 100_000
_BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class NormalScores:
    """Bins of every feature and their scores, of mean 0 and variance 1 over the items they were made from.

    edges : for every feature the thresholds between its bins, ascending; a value goes to the first bin whose upper
        threshold is not below it, as in LightGBM.
    scores : for every feature one score a bin; a missing value has score 0.
    missing : whether any value was missing.
    """

    edges: tuple[Floats, ...]
    scores: tuple[Floats, ...]
    missing: bool = False

    @classmethod
    def of(cls, features: Matrix, *, bins: int = BINS, seed: int = 0) -> NormalScores:
        """Bins that hold about as many of the items each.

        >>> made = NormalScores.of(np.array([[1.0], [2.0], [3.0], [4.0]], dtype=np.float32), bins=2)
        >>> made.edges[0].tolist(), made.scores[0].round(3).tolist()
        ([2.5], [-1.0, 1.0])
        """
        if len(features) > _SAMPLE:
            chosen = np.random.default_rng(seed).choice(len(features), _SAMPLE, replace=False)
            features = features[np.sort(chosen)]
        pairs = [_bins_of(features[:, j].astype(np.float64), bins) for j in range(features.shape[1])]
        missing = bool(np.isnan(features.sum(dtype=np.float64)))
        return cls(tuple(edges for edges, _ in pairs), tuple(scores for _, scores in pairs), missing)

    def fill(self, out: Matrix, features: Matrix) -> None:
        """Write the scores of the features into `out`, both (n, d)."""
        for j, (edges, scores) in enumerate(zip(self.edges, self.scores)):
            column = features[:, j]
            values = scores[np.searchsorted(edges, column, side="left")].astype(np.float32)
            missing = np.isnan(column)
            out[:, j] = np.where(missing, np.float32(0), values) if missing.any() else values


def _bins_of(values: Floats, bins: int) -> tuple[Floats, Floats]:
    values = np.sort(values[~np.isnan(values)])
    if len(values) == 0 or values[0] == values[-1]:
        return np.zeros(0), np.zeros(1)
    distinct, first = np.unique(values, return_index=True)
    # Cut after the last of the equal values that hold a quantile, half-way to the next value.
    wanted = (np.arange(1, bins) * len(values)) // bins
    last = np.unique(np.searchsorted(first, wanted - 1, side="right") - 1)
    last = last[last < len(distinct) - 1]
    edges = (distinct[last] + distinct[last + 1]) / 2
    counts = np.diff(np.r_[0, np.searchsorted(values, edges, side="right"), len(values)])
    middle = (np.cumsum(counts) - counts / 2) / len(values)
    scores = ndtri(middle)
    scores -= np.average(scores, weights=counts)
    spread = np.sqrt(np.average(scores**2, weights=counts))
    return edges, scores / spread if spread > 0 else scores


def additive_scores(scores: NormalScores, weights: Floats, features: Matrix, row: IntArray) -> Floats:
    """(models, n) Σ_j weights[·, j] u_j(x_j) of some rows of the features, a block at a time."""
    out = np.empty((len(weights), len(row)))
    slopes = weights.T.astype(np.float32)
    block = np.empty((min(_BLOCK, len(row)), features.shape[1]), dtype=np.float32)
    for start in range(0, len(row), _BLOCK):
        rows = row[start : start + _BLOCK]
        scores.fill(block[: len(rows)], features[rows])
        out[:, start : start + len(rows)] = (block[: len(rows)] @ slopes).T
    return out
