"""Evidence of the referee: a specification of the click model, and how much better than another it predicts clicks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unskew.evaluation.bootstrap import bootstrap_means

Floats = npt.NDArray[np.float64]

# Queries with clicks below which nothing is announced.
LEAST = 10
# What a single parameter brings by overfitting (Akaike); less than that is not worth any, however sure it is.
LEAST_GAIN = 1.0


@dataclass(frozen=True)
class Budget:
    """What the referee may spend, whatever the size of the log.

    queries, rows : the most that it looks at, drawn at random; a row is an item at a position. folds : held-out parts.
    rounds : trees of every model.
    resamples : of the bootstrap; error : the share of logs without control effects in which some are announced.
    """

    queries: int = 2_000
    rows: int = 300_000
    folds: int = 4
    rounds: int = 300
    resamples: int = 2_000
    error: float = 0.05


@dataclass(frozen=True)
class Specification:
    """A specification and what it adds to the one it is compared with.

    log_likelihood : of held-out clicks; gain, low, high : what it adds to `against`, with its interval. Control terms
        are tried beside a position effect whose bends are held fixed, and have the likelihood of `position` and their
        gain.
    """

    name: str
    log_likelihood: float
    against: str | None = None
    gain: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @property
    def found(self) -> bool:
        """Whether it predicts held-out clicks better, beyond chance."""
        return self.low > 0 and self.gain >= LEAST_GAIN

    @property
    def unused(self) -> bool:
        """Whether held-out clicks would rather leave it out altogether."""
        return self.gain == self.low == self.high == 0

    def beside(self, what: str) -> Specification:
        """The same under another name of the effect that it stands beside."""
        against = self.against if self.against is None else self.against.replace("position", what)
        return replace(self, name=self.name.replace("position", what), against=against)


def compare(
    name: str, gain: Floats, against: Specification, budget: Budget, *, share: float, seed: int
) -> Specification:
    """A line of the table; `gain` is by query, `share` the chance of a lower bound above 0 when nothing is there."""
    low, high = interval(gain, budget, share, seed)
    total = float(gain.sum())
    return Specification(name, against.log_likelihood + total, against.name, total, low, high)


def interval(gain: Floats, budget: Budget, share: float, seed: int) -> tuple[float, float]:
    """Quantiles `share` and 1 − `share` of the total gain, by resampling queries."""
    sums = bootstrap_means(gain[:, None], resamples=budget.resamples, seed=seed)[:, 0] * len(gain)
    low, high = np.quantile(sums, [share, 1 - share])
    if len(gain) < LEAST:  # a handful of queries resampled looks surer than it is
        low, high = min(low, 0.0), max(high, 0.0)
    return float(low), float(high)
