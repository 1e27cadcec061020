"""The production ranker: a RankSVM trained on the grades of a few queries."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from unskew._segments import FloatArray, IntArray, ranks_within
from unskew.data.inputs import as_matrix
from unskew.data.ranking import RankingData
from unskew.errors import GradeError, SettingError
from unskew.simulation.chance import Chance
from unskew.simulation.pairs import Floats
from unskew.simulation.ranksvm import LinearScorer, fit_ranksvm

BASE_SHARE = 0.01
# A RankSVM needs a handful of queries to be better than chance; 1 % of a small collection is less.
FEWEST_QUERIES = 5
# Beyond it ½|w|² is lost in rounding, and with it what makes the ranker unique.
_LARGEST_C = 1e12
_HEAD = 8


@dataclass(frozen=True, eq=False)
class ProductionRanker:
    """A linear ranker over raw features, and what it was made from.

    scorer : its coefficients, and the mean and standard deviation of the features in the training sample.
    feature_names : d names; data is matched by name.
    C : weight of a pair's squared hinge against ½|w|², on standardised features.
    share : the share of queries asked for.
    trained_on : indices of the training queries in the data it was trained on.
    left_out : digest of every query that logs leave out (the training queries of the 1 % sample).
    ndcg : NDCG@10 on the queries that are not left out.
    """

    scorer: LinearScorer
    feature_names: tuple[str, ...]
    C: float
    share: float
    trained_on: IntArray
    left_out: frozenset[bytes]
    ndcg: float | None = None

    def score(self, features: object) -> Floats:
        """(n,) scores of RankingData, a frame or an array; larger is better."""
        return self.scorer.score(as_matrix(features, self.feature_names))

    @property
    def coefficients(self) -> Floats:
        """(d,) on raw features."""
        return self.scorer.coefficients

    def rank(self, data: RankingData, *, seed: int = 0) -> IntArray:
        """(rows,) 1-based ranks inside every query, as a log of the same seed shows them; ties follow the seed."""
        return rank_by(self.score(data).astype(np.float32), data.offsets, seed=seed)

    def leans_on(self, count: int) -> tuple[str, ...]:
        """The features with the largest |coefficient| × standard deviation, strongest first."""
        strength = np.abs(self.scorer.coefficients) * self.scorer.spread
        return tuple(self.feature_names[i] for i in np.argsort(-strength, kind="stable")[:count])

    def unseen(self, data: RankingData) -> IntArray:
        """Indices of the queries of `data` that its logs may use: all but those in `left_out`, found by content."""
        heads = {digest[:_HEAD] for digest in self.left_out}
        seen = [
            _head(data, query) in heads and query_digest(data, query) in self.left_out
            for query in range(data.n_queries)
        ]
        return np.flatnonzero(~np.asarray(seen, dtype=bool))


def rank_by(scores: FloatArray, offsets: IntArray, *, seed: int = 0) -> IntArray:
    """Ranks by descending score; ties never follow the file's order, which may follow the grades.

    >>> rank_by(np.array([0.2, 0.9, 0.1]), np.array([0, 3]))
    array([2, 1, 3])
    """
    return ranks_within(scores, offsets, ties=Chance(seed)("ties").random(len(scores)))


def train_production(
    data: RankingData, *, share: float = BASE_SHARE, seed: int = 0, C: float | None = None
) -> ProductionRanker:
    """Train a RankSVM on the grades of a share of the queries; a larger share's sample contains a smaller one's.

    minimises ½|w|² + C Σ max(0, 1 − w·(x_i − x_j))² over pairs with grade_i > grade_j, on standardised features,
    without intercept; C = 200 / queries unless given.
    """
    if not 0 < share <= 1:
        raise SettingError(
            f"The production ranker's share must lie in (0, 1], but {share:g} was given. "
            "Name the share of queries to train it on (production=, --production): 0.01 is one query in a hundred."
        )
    sample, base = _samples(data, share, seed)
    C = 200.0 / len(sample) if C is None else float(C)
    if not 0 < C <= _LARGEST_C:
        raise SettingError(f"C must be greater than 0 and at most {_LARGEST_C:g}, but {C} was given.")
    train = data if len(sample) == data.n_queries else data.take_queries(np.sort(sample))
    scorer = fit_ranksvm(train.features, train.require_grades("RankSVM"), train.offsets, C=C)
    return ProductionRanker(
        scorer=scorer,
        feature_names=data.feature_names,
        C=C,
        share=share,
        trained_on=np.sort(sample),
        left_out=frozenset(query_digest(data, int(i)) for i in base),
        ndcg=_ndcg_beyond(scorer, data, base),
    )


def _ndcg_beyond(scorer: LinearScorer, data: RankingData, left_out: IntArray) -> float | None:
    """NDCG@10 on the queries that logs may use; None where none of them has a relevant item."""
    from unskew.evaluation.metrics import ndcg

    values = np.delete(ndcg(data.require_grades("NDCG"), scorer.score(data.features), data.offsets, at=10), left_out)
    judged = values[~np.isnan(values)]
    return float(judged.mean()) if judged.size else None


def query_digest(data: RankingData, query: int) -> bytes:
    """Bytes that stand for a query's features and grades, whatever its id."""
    rows = slice(int(data.offsets[query]), int(data.offsets[query + 1]))
    digest = hashlib.blake2b(data.features[rows].tobytes(), digest_size=16)
    if data.grades is not None:
        digest.update(data.grades[rows].astype(np.int16).tobytes())
    return _head(data, query) + digest.digest()


def _head(data: RankingData, query: int) -> bytes:
    """The beginning of a query's digest, from its first item alone: tells most queries apart at little cost."""
    start = int(data.offsets[query])
    return hashlib.blake2b(data.features[start : start + 1].tobytes(), digest_size=_HEAD).digest()


def _samples(data: RankingData, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Training queries for the share, and those of them that logs leave out (at most the 1 % sample)."""
    order = Chance(seed)("sample").permutation(data.n_queries)
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
