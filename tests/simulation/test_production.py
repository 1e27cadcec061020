"""The production ranker: samples, ties, what it leans on, whom it leaves out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from unskew.data.ranking import RankingData
from unskew.errors import FeatureError, GradeError, SettingError
from unskew.evaluation.metrics import ndcg
from unskew.simulation.production import FEWEST_QUERIES, rank_by, train_production
from unskew.simulation.synthetic import synthetic_collection


@pytest.fixture(scope="module")
def collection() -> RankingData:
    return synthetic_collection(600, features=12, typical=15)


def test_larger_samples_contain_smaller_ones(collection: RankingData) -> None:
    samples = [set(train_production(collection, share=s, seed=3).trained_on) for s in (0.001, 0.01, 0.1, 0.3, 1.0)]
    assert [len(sample) for sample in samples][2:] == [60, 180, 600]
    for smaller, larger in pairwise(samples):
        assert smaller <= larger


def test_a_share_beyond_one_per_cent_leaves_the_same_queries_out(collection: RankingData) -> None:
    weak, strong = (train_production(collection, share=s, seed=3) for s in (0.01, 1.0))
    np.testing.assert_array_equal(weak.unseen(collection), strong.unseen(collection))
    np.testing.assert_array_equal(np.setdiff1d(np.arange(600), weak.unseen(collection)), weak.trained_on)


def test_queries_are_recognised_by_content_not_by_id(collection: RankingData) -> None:
    ranker = train_production(collection)
    other = synthetic_collection(600, features=12, typical=15, seed=9)
    assert other.query_ids.to_list() == collection.query_ids.to_list()
    assert len(ranker.unseen(other)) == 600
    backwards = collection.take_queries(np.arange(600)[::-1])
    np.testing.assert_array_equal(599 - ranker.unseen(backwards)[::-1], ranker.unseen(collection))


def test_a_small_collection_still_gets_a_handful_of_queries() -> None:
    small = synthetic_collection(43, features=12)
    ranker = train_production(small)
    assert FEWEST_QUERIES <= len(ranker.trained_on) <= 8
    assert len(ranker.unseen(small)) >= 35


def test_queries_without_a_pair_do_not_count_towards_the_fewest() -> None:
    rng = np.random.default_rng(0)
    grades = np.zeros((400, 5), dtype=int)
    grades[::10, 0] = 1  # one query in ten has something to learn from
    data = RankingData.from_arrays(rng.normal(size=(2000, 3)), sizes=[5] * 400, grades=grades.ravel(), max_grade=4)
    ranker = train_production(data)
    assert (ranker.trained_on % 10 == 0).sum() == FEWEST_QUERIES


def test_better_than_chance_and_better_with_more(collection: RankingData) -> None:
    weak, strong = train_production(collection), train_production(collection, share=1.0)
    assert weak.ndcg is not None
    assert strong.ndcg is not None
    grades, unseen = collection.grades, weak.unseen(collection)
    chance = np.nanmean(ndcg(grades, np.zeros(collection.n_rows), collection.offsets)[unseen])
    assert chance + 0.05 < weak.ndcg < strong.ndcg
    own = np.nanmean(ndcg(grades, weak.score(collection), collection.offsets)[unseen])
    assert weak.ndcg == pytest.approx(own, abs=1e-9)


def test_features_are_matched_by_name(collection: RankingData) -> None:
    ranker = train_production(collection)
    scores = ranker.score(collection)
    turned = collection.with_features(collection.features[:, ::-1], collection.feature_names[::-1])
    np.testing.assert_allclose(ranker.score(turned), scores)
    frame = pl.DataFrame(collection.features, schema=list(collection.feature_names))
    np.testing.assert_allclose(ranker.score(frame), scores)
    with pytest.raises(FeatureError, match="missing"):
        ranker.score(collection.with_features(collection.features[:, 1:], collection.feature_names[1:]))


def test_leans_on_the_features_that_move_its_scores_most(collection: RankingData) -> None:
    ranker = train_production(collection, share=1.0)
    effect = np.abs(ranker.coefficients) * collection.features.std(axis=0, dtype=np.float64)
    first = ranker.leans_on(3)
    assert list(first) == [collection.feature_names[i] for i in np.argsort(-effect)[:3]]
    assert ranker.leans_on(0) == ()


def test_ties_follow_the_seed_not_the_file() -> None:
    scores, offsets = np.zeros(4000), np.array([0, 2000, 4000])
    first, again, other = (rank_by(scores, offsets, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.9
    assert np.sort(first[:2000]).tolist() == list(range(1, 2001))
    assert abs(np.corrcoef(first[:2000], np.arange(2000))[0, 1]) < 0.12


def test_rank_is_by_descending_score(collection: RankingData) -> None:
    ranker = train_production(collection)
    ranks, scores = ranker.rank(collection), ranker.score(collection)
    first = slice(collection.offsets[0], collection.offsets[1])
    assert scores[first][ranks[first] - 1 == 0] == scores[first].max()
    assert (np.diff(scores[first][np.argsort(ranks[first])]) <= 0).all()


@pytest.mark.parametrize("share", [0, -0.1, 1.5, float("nan")])
def test_share_out_of_range(collection: RankingData, share: float) -> None:
    with pytest.raises(SettingError, match="share"):
        train_production(collection, share=share)


@pytest.mark.parametrize("C", [0, -1, float("nan"), float("inf"), 1e300])
def test_a_pair_weight_must_be_positive_and_within_reach(collection: RankingData, C: float) -> None:
    with pytest.raises(SettingError, match="C must"):
        train_production(collection, C=C)


def test_nothing_to_learn_from() -> None:
    data = RankingData.from_arrays(np.eye(4), sizes=[2, 2], grades=[1, 1, 0, 0], max_grade=2)
    with pytest.raises(GradeError, match="different grades"):
        train_production(data)
    with pytest.raises(GradeError, match="needs human grades"):
        train_production(RankingData.from_arrays(np.eye(4), sizes=[2, 2]))
