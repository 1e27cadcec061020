"""The place that the features make one expect: stage one, in the metric of the position effect.

m(x) divides a query's attention among its items as the production ranker did: it is the click model fitted to 1/k in
place of clicks, what the model would learn from position alone if all items were equally relevant. Position given m(x)
is what that ranker did for other reasons than these features; so m beside the position effect keeps what the ranker
knew about relevance from being counted as examination. No click is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, segment_mean, segment_sum
from unskew.control.additive import additive_scores
from unskew.control.additive_stage import Sample
from unskew.control.aggregate import Exposures
from unskew.control.boosting import CrossFit, TreeSettings, cross_fit

Floats = npt.NDArray[np.float64]

# Positions carry no noise of their own, so that these trees need little regularisation.
TREES = TreeSettings(
    leaves=8, rate=0.2, rounds=200, min_rows=10, l2=1.0, feature_fraction=0.7, bagging_fraction=0.7, extra=False
)
_RIDGE = 1.0
# Clicks that a query is given to divide; only their proportion to the trees' penalty matters.
_ATTENTION = 10.0


@dataclass(frozen=True, eq=False)
class ExpectedPlace:
    """A fitted m(x); n rows, d features.

    weights : (d,) of the features' normal scores; trees : fold models on top of them.
    held_out : (n,) m(x) of every row, its trees by the model that did not see its query.
    r2 : the share of the variance of log k inside queries that goes with it.
    """

    weights: Floats
    trees: CrossFit
    held_out: Floats
    r2: float


def fit_expected_place(
    features: npt.NDArray[np.float32],
    table: Exposures,
    fold: IntArray,
    sample: Sample,
    data: lgb.Dataset,
    *,
    settings: TreeSettings = TREES,
    seed: int = 0,
    threads: int = 0,
) -> ExpectedPlace:
    """Explain the positions of the table's rows; `data` holds their items' features, binned."""
    place = _centred(-np.log(table.position.astype(np.float64)), table)
    weights = _ridge(sample.normal, sample.table, place[sample.rows])
    linear = additive_scores(sample.scores, weights[None], features, table.row)[0]
    given = np.tile(linear, (int(fold.max()) + 1, 1))
    trees = cross_fit(data, _attention(table), fold, given, settings=settings, seed=seed, threads=threads)
    held_out = linear + trees.held_out
    return ExpectedPlace(weights, trees, held_out, _explained(place, _centred(held_out, table)))


def _attention(table: Exposures) -> Exposures:
    """The table as if every impression at position k had 1/k clicks, the same total for every query."""
    share = table.shown / table.position
    total = segment_sum(share, table.offsets)
    return replace(table, clicks=_ATTENTION * share / total[table.segment])


def _ridge(normal: npt.NDArray[np.float32], table: Exposures, target: Floats) -> Floats:
    """(d,) least squares inside queries: what is the same for all of a query's items explains nothing."""
    means = segment_mean(normal, table.offsets)
    gram = normal.T @ normal - means.T @ (means * np.diff(table.offsets)[:, None])
    slope = normal.T @ target.astype(np.float32)
    return np.linalg.solve(gram + _RIDGE * np.eye(normal.shape[1]), slope).astype(np.float64)


def _explained(values: Floats, by: Floats) -> float:
    cross = float(values @ by)
    return cross**2 / max(float(values @ values) * float(by @ by), 1e-12)


def _centred(values: Floats, table: Exposures) -> Floats:
    return values - segment_mean(values, table.offsets)[table.segment]
