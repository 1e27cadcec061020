"""Does the spread of the residuals change with the features? The condition Lewbel's identification rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from unskew._segments import FloatArray, IntArray
from unskew.control.learners import Ridge
from unskew.control.statistics import gram_statistics
from unskew.data.clicks import ClickLog
from unskew.evaluation.significance import holm

# With half a million rows every difference is significant; a sample keeps the tests quick and the p-values readable.
SAMPLE = 20_000
GROUPS = 10
LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class Heteroskedasticity:
    """Fligner–Killeen by feature (decile groups) on one item per query, overall, and a Breusch–Pagan companion.

    Items of one query are dependent, so the verdict rests on one random item per query; `pooled_*` repeats the
    overall test on a sample of all items, as published tables do.

    features : tested features; statistic, p : (tested,), p corrected by Holm; ratio : (tested,) variance of the
    residuals in the top decile group over the bottom one, larger over smaller.
    overall_* … breusch_pagan_* : NaN where there were too few items to test.
    """

    features: tuple[str, ...]
    statistic: npt.NDArray[np.float64]
    p: npt.NDArray[np.float64]
    ratio: npt.NDArray[np.float64]
    overall_statistic: float
    overall_p: float
    pooled_statistic: float
    pooled_p: float
    breusch_pagan: float
    breusch_pagan_p: float
    n_items: int

    @property
    def n_tested(self) -> int:
        return len(self.features)

    @property
    def n_rejected(self) -> int:
        return int((self.p < LEVEL).sum())

    @property
    def found(self) -> bool:
        """Whether any feature changes the spread, after Holm's correction."""
        return self.n_rejected > 0

    @property
    def largest_feature(self) -> str:
        return self.features[int(np.argmin(self.p))] if self.features else ""

    @property
    def largest_ratio(self) -> float:
        return float(self.ratio[int(np.argmin(self.p))]) if self.features else 1.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "tested": self.n_tested,
            "rejected": self.n_rejected,
            "items": self.n_items,
            "overall": _test(self.overall_statistic, self.overall_p),
            "pooled": _test(self.pooled_statistic, self.pooled_p),
            "breusch_pagan": _test(self.breusch_pagan, self.breusch_pagan_p),
            "features": [
                {"name": name, "statistic": s, "p": p, "variance_ratio": r}
                for name, s, p, r in zip(self.features, self.statistic, self.p, self.ratio)
            ],
        }


def _test(statistic: float, p: float) -> dict[str, float | None]:
    """A test as JSON has it; nothing where there was none."""
    return {"statistic": statistic, "p": p} if np.isfinite(p) else {"statistic": None, "p": None}


def spread_test(
    log: ClickLog, *, row: IntArray, residual: FloatArray, expected: FloatArray, seed: int = 0
) -> Heteroskedasticity:
    """Test the residuals of placements (row, residual, expected rank) against every feature that varies."""
    rng = np.random.default_rng(seed)
    single = _one_per_query(log, row, rng)
    features = log.data.features[row[single]]
    names, statistic, p, ratio = [], [], [], []
    for j, name in enumerate(log.data.feature_names):
        groups = _groups(residual[single], features[:, j])
        if groups is None:
            continue
        value, chance = _fligner(groups)
        names.append(name)
        statistic.append(value)
        p.append(chance)
        ratio.append(_variance_ratio(groups))
    overall = _fligner(_groups(residual[single], expected[single]) or [])
    pooled = rng.permutation(len(row))[:SAMPLE]
    pooled_test = _fligner(_groups(residual[pooled], expected[pooled]) or [])
    lagrange, lagrange_p = _breusch_pagan(features, residual[single])
    return Heteroskedasticity(
        features=tuple(names),
        statistic=np.array(statistic),
        p=holm(np.array(p)) if p else np.zeros(0),
        ratio=np.array(ratio),
        overall_statistic=overall[0],
        overall_p=overall[1],
        pooled_statistic=pooled_test[0],
        pooled_p=pooled_test[1],
        breusch_pagan=lagrange,
        breusch_pagan_p=lagrange_p,
        n_items=len(single),
    )


def _one_per_query(log: ClickLog, row: IntArray, rng: np.random.Generator) -> IntArray:
    order = rng.permutation(len(row))
    _, first = np.unique(log.data.query_of_row[row[order]], return_index=True)
    return rng.permutation(order[first])[:SAMPLE]


def _groups(residual: FloatArray, by: npt.NDArray) -> list[FloatArray] | None:
    """Residuals split by deciles of `by`, equal deciles merged; None where there is nothing to compare."""
    keep = np.isfinite(by)
    residual, by = residual[keep], by[keep]
    if len(by) < 4 * GROUPS:
        return None
    edges = np.unique(np.quantile(by, np.linspace(0, 1, GROUPS + 1)[1:-1]))
    group = np.searchsorted(edges, by, side="right")
    parts = [residual[group == g] for g in range(len(edges) + 1)]
    parts = [part for part in parts if len(part) >= 5]
    return parts if len(parts) > 1 else None


def _fligner(groups: list[FloatArray]) -> tuple[float, float]:
    if len(groups) < 2:
        return np.nan, np.nan
    if np.ptp(np.concatenate(groups)) == 0:
        return 0.0, 1.0
    with np.errstate(all="ignore"):
        result = stats.fligner(*groups, center="median")
    return (float(result.statistic), float(result.pvalue)) if np.isfinite(result.pvalue) else (0.0, 1.0)


def _variance_ratio(groups: list[FloatArray]) -> float:
    low, high = float(np.var(groups[0])), float(np.var(groups[-1]))
    return max(low, high) / max(min(low, high), np.finfo(float).tiny) if max(low, high) > 0 else 1.0


def _breusch_pagan(features: npt.NDArray[np.float32], residual: FloatArray) -> tuple[float, float]:
    """Koenker's studentised version: n R² of the squared residuals on the features."""
    square = (residual - residual.mean()) ** 2
    if len(square) <= features.shape[1] + 1:
        return np.nan, np.nan
    if np.ptp(square) == 0:
        return 0.0, 1.0
    fit = Ridge().solve(gram_statistics(features, None, square, np.ones(len(square)), 0.0, len(square)))
    left = square - fit.predict(features)
    share = 1 - left.var() / square.var()
    freedom = int((fit.sd > 0).sum())
    statistic = max(len(square) * share, 0.0)
    return float(statistic), float(stats.chi2.sf(statistic, freedom))
