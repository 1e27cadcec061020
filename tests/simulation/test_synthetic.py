"""The made-up collection looks like web-search data, and ranks methods as such data does."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

from unskew.data.lists import training_lists
from unskew.data.ranking import RankingData
from unskew.errors import SettingError
from unskew.evaluation.metrics import ndcg
from unskew.simulation.log import simulate_detailed
from unskew.simulation.production import train_production
from unskew.simulation.synthetic import synthetic_collection


@pytest.fixture(scope="module")
def collection() -> RankingData:
    return synthetic_collection(800)


def test_same_seed_same_bytes_and_other_seeds_differ() -> None:
    first, again, other = (synthetic_collection(20, seed=seed) for seed in (4, 4, 5))
    assert first.features.tobytes() == again.features.tobytes()
    assert first.features.tobytes() != other.features.tobytes()


@pytest.mark.parametrize("queries", [1, 255, 256, 257])
def test_a_smaller_collection_is_the_beginning_of_a_larger_one(queries: int, collection: RankingData) -> None:
    part = synthetic_collection(queries)
    np.testing.assert_array_equal(part.features, collection.features[: part.n_rows])
    np.testing.assert_array_equal(part.grades, collection.grades[: part.n_rows])
    assert part.n_queries == queries


def test_more_features_keep_grades_and_the_first_features(collection: RankingData) -> None:
    wide = synthetic_collection(50, features=136)
    assert wide.n_features == 136
    np.testing.assert_array_equal(wide.features[:, :40], collection.features[: wide.n_rows])
    np.testing.assert_array_equal(wide.grades, collection.grades[: wide.n_rows])
    assert np.isfinite(wide.features).all()


def test_grades_and_list_lengths(collection: RankingData) -> None:
    shares = np.bincount(collection.grades) / collection.n_rows
    assert len(shares) == 5
    assert 0.45 < shares[0] < 0.55
    assert (np.diff(shares) < 0).all()
    assert shares[4] > 0.015
    assert collection.sizes.min() == 5
    assert collection.sizes.max() == 150
    assert 35 < np.median(collection.sizes) < 45
    empty = np.mean(np.add.reduceat(collection.grades, collection.offsets[:-1]) == 0)
    assert 0 < empty < 0.05


def test_features_look_like_a_search_engines(collection: RankingData) -> None:
    x = collection.features.astype(np.float64)
    starts, sizes = collection.offsets[:-1], collection.sizes
    within = x - np.repeat(np.add.reduceat(x, starts) / sizes[:, None], sizes, axis=0)
    of_query = np.abs(within).max(axis=0) < 1e-2 * (x.std(axis=0) + 1e-12)
    names = np.array(collection.feature_names)
    assert {name for name in names if name.startswith("query_")} <= set(names[of_query])
    skew = ((x - x.mean(0)) ** 3).mean(0) / np.maximum(x.std(0), 1e-9) ** 3
    assert (skew > 4).sum() >= 8  # heavy tails
    moving = x.std(0) > 0
    assert not moving[list(names).index("constant")]
    together = np.abs(np.corrcoef(x[:, moving].T)) - np.eye(moving.sum())
    assert (together.max(axis=0) > 0.5).sum() >= 6  # redundant
    useless = [i for i, name in enumerate(names) if name.startswith(("useless", "noise"))]
    assert len(useless) >= 4
    for column in useless:
        assert abs(np.corrcoef(x[:, column], collection.grades)[0, 1]) < 0.03


def test_methods_come_out_in_the_order_of_real_data(collection: RankingData) -> None:
    """random < RankSVM on 1 % < naive LambdaMART on clicks < LambdaMART on grades, and trees beat a line."""
    test = synthetic_collection(500, seed=1)

    def quality(scores: np.ndarray) -> float:
        return float(np.nanmean(ndcg(test.grades, scores, test.offsets)))

    simulation = simulate_detailed(collection)
    log = simulation.log
    lists = training_lists(log)
    settings = {
        "objective": "lambdarank",
        "num_leaves": 15,
        "learning_rate": 0.1,
        "verbose": -1,
        "seed": 1,
        "num_threads": 1,
        "deterministic": True,
    }
    clicks = lgb.Dataset(log.data.features[lists.row], lists.label, group=lists.sizes, weight=lists.weight)
    grades = lgb.Dataset(log.data.features, log.data.grades, group=log.data.sizes)
    random = quality(np.zeros(test.n_rows))
    production = quality(simulation.production.score(test))
    line = quality(train_production(collection, share=1.0).score(test))
    naive = quality(lgb.train(settings, clicks, 40).predict(test.features))
    oracle = quality(lgb.train(settings, grades, 40).predict(test.features))
    assert random + 0.15 < production < naive - 0.02 < oracle - 0.05
    assert line + 0.04 < oracle


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"queries": 0}, "queries"),
        ({"features": 7}, "features must be 8 or greater"),
        ({"shortest": 0}, "shortest"),
        ({"shortest": 10, "longest": 9}, "shortest"),
        ({"typical": 500}, "typical"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, int], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        synthetic_collection(**settings)
