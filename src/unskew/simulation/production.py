"""The production ranker: a RankSVM trained on the grades of a few queries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from unskew._segments import IntArray, ranks_within, segment_sum
from unskew.data.inputs import as_matrix
from unskew.data.ranking import RankingData
from unskew.errors import GradeError, SettingError
from unskew.simulation.pairs import Floats, count_pairs, pair_loss

Seed = int | np.random.SeedSequence

BASE_SHARE = 0.01
# A RankSVM needs a handful of queries to be better than chance; 1 % of a small collection is less.
FEWEST_QUERIES = 5
_CHUNK = 2048


@dataclass(frozen=True, eq=False)
class ProductionRanker:
    """A linear ranker: score = (x − center) · coefficients; a missing value counts as its center.

    coefficients : (d,) float64, on raw features.
    center, spread : (d,) float64, mean and standard deviation of the features in the training sample.
    feature_names : d names; data is matched by name.
    C : weight of a pair's squared hinge against ½|w|², on standardised features.
    share : the share of queries asked for.
    trained_on : indices of the training queries in the data it was trained on.
    left_out : digest of every query that logs leave out (the training queries of the 1 % sample).
    ndcg : NDCG@10 on the queries that are not left out.
    """

    coefficients: Floats
    center: Floats
    spread: Floats
    feature_names: tuple[str, ...]
    C: float
    share: float
    trained_on: IntArray
    left_out: frozenset[bytes]
    ndcg: float | None = None

    def score(self, features: object) -> Floats:
        """(n,) scores of RankingData, a frame or an array; larger is better."""
        return _project(as_matrix(features, self.feature_names), self.coefficients, self.center)

    def rank(self, data: RankingData, *, seed: Seed = 0) -> IntArray:
        """(rows,) 1-based ranks inside every query; equal scores in an order drawn from the seed."""
        return rank_by(self.score(data), data.offsets, seed=seed)

    def leans_on(self, count: int) -> tuple[str, ...]:
        """The features with the largest |coefficient| × standard deviation, strongest first."""
        strength = np.abs(self.coefficients) * self.spread
        return tuple(self.feature_names[i] for i in np.argsort(-strength, kind="stable")[:count])

    def unseen(self, data: RankingData) -> IntArray:
        """Indices of the queries of `data` that its logs may use: all but those in `left_out`."""
        if not self.left_out:
            return np.arange(data.n_queries)
        return np.flatnonzero([query_digest(data, i) not in self.left_out for i in range(data.n_queries)])


def rank_by(scores: Floats, offsets: IntArray, *, seed: Seed = 0) -> IntArray:
    """Ranks by descending score; ties never follow the file's order, which may follow the grades.

    >>> rank_by(np.array([0.2, 0.9, 0.1]), np.array([0, 3]))
    array([2, 1, 3])
    """
    ties = np.random.default_rng(seed).random(len(scores))
    return ranks_within(scores, offsets, ties=ties)


def train_production(
    data: RankingData, *, share: float = BASE_SHARE, seed: Seed = 0, C: float | None = None
) -> ProductionRanker:
    """Train a RankSVM on the grades of a share of the queries; a larger share's sample contains a smaller one's.

    minimises ½|w|² + C Σ max(0, 1 − w·(x_i − x_j))² over pairs with grade_i > grade_j, on standardised features,
    without intercept; C = 200 / queries unless given.
    """
    if not 0 < share <= 1:
        raise SettingError(f"The production ranker's share must lie in (0, 1], but {share} was given.")
    sample, base = _samples(data, share, seed)
    C = 200.0 / len(sample) if C is None else float(C)
    if C <= 0:
        raise SettingError(f"C must be greater than 0, but {C} was given.")
    train = data if len(sample) == data.n_queries else data.take_queries(np.sort(sample))
    center, spread = _moments(train.features)
    weights = _fit(train, center, spread, C)
    ranker = ProductionRanker(
        coefficients=weights,
        center=center,
        spread=spread,
        feature_names=data.feature_names,
        C=C,
        share=share,
        trained_on=np.sort(sample),
        left_out=frozenset(query_digest(data, int(i)) for i in base),
    )
    return _with_ndcg(ranker, data, base, seed)


def query_digest(data: RankingData, query: int) -> bytes:
    """Sixteen bytes that stand for a query's features and grades, whatever its id."""
    rows = slice(int(data.offsets[query]), int(data.offsets[query + 1]))
    digest = hashlib.blake2b(data.features[rows].data, digest_size=16)
    if data.grades is not None:
        digest.update(data.grades[rows].astype(np.int16).data)
    return digest.digest()


def _samples(data: RankingData, share: float, seed: Seed) -> tuple[IntArray, IntArray]:
    """Training queries for the share, and those of them that logs leave out (at most the 1 % sample)."""
    order = np.random.default_rng(seed).permutation(data.n_queries)
    grades = data.require_grades("Training the production ranker")
    segments = data.offsets[:-1][data.sizes > 0]
    mixed = np.zeros(data.n_queries, dtype=bool)
    mixed[data.sizes > 0] = np.maximum.reduceat(grades, segments) > np.minimum.reduceat(grades, segments)
    usable = np.cumsum(mixed[order])
    if usable[-1] == 0:
        raise GradeError(
            f"Training the production ranker needs queries with items of different grades, but none of the "
            f"{data.n_queries:,} queries has any. Is the relevance column the right one?"
        )
    fewest = min(FEWEST_QUERIES, max(1, int(usable[-1]) // 4))
    enough = int(np.searchsorted(usable, fewest)) + 1
    sizes = [max(enough, round(part * data.n_queries)) for part in (share, min(share, BASE_SHARE))]
    return order[: sizes[0]], order[: sizes[1]]


def _moments(features: npt.NDArray[np.float32]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of every feature, missing values left out, summed in float64."""
    missing = np.isnan(features.sum(axis=0, dtype=np.float64)).any()
    count = np.sum(~np.isnan(features), axis=0) if missing else np.full(features.shape[1], len(features))
    total = np.zeros(features.shape[1])
    for _, part in _centered(features, total * 0.0):
        total += part.sum(axis=0)
    center = total / np.maximum(count, 1)
    square = np.zeros(features.shape[1])
    for _, part in _centered(features, center):
        square += np.einsum("ij,ij->j", part, part)
    spread = np.sqrt(square / np.maximum(count, 1))
    # What rounding alone produces is no variation.
    spread[spread <= 1e-6 * np.abs(center)] = 0.0
    return center, spread


def _fit(train: RankingData, center: Floats, spread: Floats, C: float) -> Floats:
    """(d,) coefficients on raw features."""
    grades, offsets = train.require_grades("RankSVM"), train.offsets
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    unit = 1.0 / (C * max(count_pairs(grades, offsets), 1))  # an objective of order one suits the stopping rule

    def objective(weights: Floats) -> tuple[float, Floats]:
        loss, slope = pair_loss(_project(train.features, weights * scale, center), grades, offsets)
        gradient = _project_back(train.features, slope, center) * scale
        return unit * float(0.5 * weights @ weights + C * loss), unit * (weights + C * gradient)

    start = np.zeros(train.n_features)
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-8, "gtol": 1e-6})
    return best.x * scale


def _project(features: npt.NDArray[np.float32], weights: Floats, center: Floats) -> Floats:
    """(n,) (x − center) · weights."""
    out = np.empty(len(features))
    for rows, part in _centered(features, center):
        np.matmul(part, weights, out=out[rows])
    return out


def _project_back(features: npt.NDArray[np.float32], slope: Floats, center: Floats) -> Floats:
    """(d,) Σ over rows of slope · (x − center)."""
    total = np.zeros(features.shape[1])
    for rows, part in _centered(features, center):
        total += slope[rows] @ part
    return total


def _centered(features: npt.NDArray[np.float32], center: Floats) -> Iterator[tuple[slice, Floats]]:
    """Rows and their x − center in float64, missing values 0: one small buffer, never a copy of the matrix."""
    buffer = np.empty((min(_CHUNK, len(features)), features.shape[1]))
    for start in range(0, len(features), _CHUNK):
        rows = slice(start, min(start + _CHUNK, len(features)))
        part = buffer[: rows.stop - start]
        np.copyto(part, features[rows])
        part -= center
        if np.isnan(part.sum()):
            part[np.isnan(part)] = 0.0
        yield rows, part


def _with_ndcg(ranker: ProductionRanker, data: RankingData, left_out: IntArray, seed: Seed) -> ProductionRanker:
    """The ranker with its NDCG@10 on the queries that logs may use (on all of them if there are none)."""
    ranks = ranker.rank(data, seed=seed)
    values = _ndcg(data.require_grades("NDCG"), ranks, data.offsets)
    logged = np.ones(data.n_queries, dtype=bool)
    logged[left_out] = False
    chosen = values[logged] if logged.any() else values
    chosen = chosen[~np.isnan(chosen)]
    return replace(ranker, ndcg=float(chosen.mean()) if len(chosen) else None)


def _ndcg(grades: IntArray, ranks: IntArray, offsets: IntArray, at: int = 10) -> Floats:
    """NDCG of every query; NaN where no item is relevant."""
    gain = np.exp2(grades.astype(np.float64)) - 1.0
    ideal = ranks_within(gain, offsets)
    dcg, best = (segment_sum(np.where(r <= at, gain / np.log2(r + 1.0), 0.0), offsets) for r in (ranks, ideal))
    return np.divide(dcg, best, out=np.full(len(best), np.nan), where=best > 0)
