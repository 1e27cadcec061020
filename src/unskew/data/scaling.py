"""Features brought to a common scale, learnt on the training part and shared by all parts and methods.

Everything learnt is a one-pass statistic that can be merged, so that parts of a collection (or of a cluster) can be
read one after the other or side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self, get_args

import numpy as np
import numpy.typing as npt

from unskew._options import ScalingName
from unskew.data.ranking import RankingData
from unskew.errors import FeatureError, check_choice

Features = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float64]

_BLOCK_VALUES = 1 << 20


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """What scaling needs to know of every feature; (d,) each, over values that are present and no sentinels.

    count : how many values.
    low, high : the smallest and the largest (∞ and −∞ where there is none).
    mean : their mean.
    squares : the sum of squared deviations from it.
    """

    count: Vector
    low: Vector
    high: Vector
    mean: Vector
    squares: Vector

    def merge(self, other: FeatureStatistics) -> FeatureStatistics:
        """The statistics of both parts together (Chan's update of mean and squares)."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        delta = other.mean - self.mean
        return FeatureStatistics(
            count=count,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            mean=self.mean + delta * share,
            squares=self.squares + other.squares + delta**2 * self.count * share,
        )


def feature_statistics(features: Features, *, sentinel: float | None = None) -> FeatureStatistics:
    """Statistics of a (rows, d) matrix; values with |v| ≥ sentinel mark special cases and are left out.

    >>> stats = feature_statistics(np.float32([[1, 5], [3, 1e9]]), sentinel=1e9)
    >>> stats.low.tolist(), stats.high.tolist(), stats.mean.tolist()
    ([1.0, 5.0], [3.0, 5.0], [2.0, 5.0])
    """
    zero = np.zeros(features.shape[1])
    total = FeatureStatistics(zero, zero + np.inf, zero - np.inf, zero, zero)
    for block in _blocks(features):
        total = total.merge(_block_statistics(features[block].astype(np.float64), sentinel))
    return total


def _block_statistics(values: Vector, sentinel: float | None) -> FeatureStatistics:
    present = ~np.isnan(values) if sentinel is None else np.abs(values) < sentinel
    count = present.sum(axis=0).astype(np.float64)
    mean = np.where(present, values, 0).sum(axis=0) / np.maximum(count, 1)
    return FeatureStatistics(
        count=count,
        low=np.where(present, values, np.inf).min(axis=0),
        high=np.where(present, values, -np.inf).max(axis=0),
        mean=mean,
        squares=(np.where(present, values - mean, 0) ** 2).sum(axis=0),
    )


@dataclass(frozen=True, eq=False)
class FeatureScaling:
    """How features are scaled: v is clipped to the range [low, high] seen in training, then

    minmax : 2 (v − low) / (high − low) − 1, into [−1, 1];
    log : the same of log10(1 + v − low), for features that span many orders of magnitude;
    standard : (v − mean) / deviation.

    A feature that was constant becomes 0, missing values stay missing, and sentinels land on the end of the range.

    low, high, mean, deviation : (d,) float64.
    """

    kind: ScalingName
    low: Vector
    high: Vector
    mean: Vector
    deviation: Vector

    def apply(self, features: Features) -> Features:
        """A scaled copy of a (rows, d) matrix, float32."""
        if features.ndim != 2 or features.shape[1] != len(self.low):
            raise FeatureError(f"The scaling was fitted on {len(self.low)} features, but got shape {features.shape}.")
        scaled = np.empty(features.shape, dtype=np.float32)
        for block in _blocks(features):
            scaled[block] = self._transform(np.clip(features[block].astype(np.float64), self.low, self.high))
        return scaled

    def apply_to(self, data: RankingData) -> RankingData:
        """The same pairs with scaled features."""
        return data.with_features(self.apply(data.features), data.feature_names)

    def _transform(self, values: Vector) -> Vector:
        if self.kind == "standard":
            return (values - self.mean) / np.where(self.deviation > 0, self.deviation, 1)
        above, width = values - self.low, self.high - self.low
        if self.kind == "log":
            above, width = np.log10(1 + above), np.log10(1 + width)
        varies = width > 0
        return np.where(varies, 2 * above / np.where(varies, width, 1) - 1, above)

    def state(self) -> dict[str, Any]:
        """As JSON has it; `from_state` reads it back."""
        return {name: value if isinstance(value, str) else value.tolist() for name, value in asdict(self).items()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `state` gave."""
        parts: dict[str, Any] = {name: v if isinstance(v, str) else np.array(v) for name, v in state.items()}
        return cls(**parts)


def fit_scaling(statistics: FeatureStatistics, kind: ScalingName = "minmax") -> FeatureScaling:
    """The scaling that statistics of the training part give.

    >>> scaling = fit_scaling(feature_statistics(np.float32([[0], [10]])))
    >>> scaling.apply(np.float32([[0], [5], [99]])).ravel().tolist()
    [-1.0, 0.0, 1.0]
    """
    check_choice("kind", kind, get_args(ScalingName))
    seen = statistics.count > 0
    return FeatureScaling(
        kind=kind,
        low=np.where(seen, statistics.low, 0),
        high=np.where(seen, statistics.high, 0),
        mean=statistics.mean,
        deviation=np.sqrt(statistics.squares / np.maximum(statistics.count, 1)),
    )


def _blocks(features: Features) -> Iterator[slice]:
    """Rows a few at a time: float64 copies stay small."""
    step = max(_BLOCK_VALUES // max(features.shape[1], 1), 1)
    for start in range(0, len(features), step):
        yield slice(start, start + step)
