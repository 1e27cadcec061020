from __future__ import annotations

from dataclasses import replace

import lightgbm as lgb
import numpy as np

from unskew.control.additive import NormalScores
from unskew.deploy.lightgbm_text import read_text, write_text
from unskew.rankers.forest import additive_forest, merge_forests

NAMES = ("a", "b", "c", "d")


def _features(n: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)
    x[:, 1] = np.round(x[:, 1])
    x[:, 2] = 3.0
    x[::7, 3] = np.nan
    return x


def _booster(text: bytes) -> lgb.Booster:
    return lgb.Booster(model_str=write_text(read_text(text)).decode())


def test_an_additive_function_is_exactly_its_trees() -> None:
    scores = NormalScores.of(_features(500, 0))
    slope = np.array([1.0, -2.0, 0.5, 0.3])
    model = additive_forest(NAMES, scores.edges, [s * w for s, w in zip(scores.scores, slope)], missing=True)
    booster = _booster(write_text(model))
    other = _features(300, 1)
    other[0] = 1e30
    other[1] = -1e30
    expected = np.empty_like(other)
    scores.fill(expected, other)
    np.testing.assert_allclose(booster.predict(other), expected @ slope, atol=1e-6)
    assert booster.num_trees() == 3  # the constant feature needs none


def test_without_missing_values_every_split_is_a_threshold() -> None:
    x = np.abs(_features(400, 2)[:, :2])
    scores = NormalScores.of(x)
    model = additive_forest(NAMES[:2], scores.edges, scores.scores, missing=scores.missing)
    assert len(model.threshold) == sum(map(len, scores.edges))
    expected = np.empty_like(x)
    scores.fill(expected, x)
    np.testing.assert_allclose(_booster(write_text(model)).predict(x), expected.sum(axis=1), atol=1e-6)


def test_nothing_to_say_is_a_tree_without_splits() -> None:
    model = additive_forest(NAMES, [np.zeros(0)] * 4, [np.zeros(1)] * 4)
    assert (_booster(write_text(model)).predict(_features(5, 0)) == 0).all()


def test_a_merged_forest_is_the_weighted_sum() -> None:
    x, rng = _features(500, 0), np.random.default_rng(1)
    target = np.nansum(x, axis=1) + rng.normal(size=500)
    settings = {"objective": "regression", "num_leaves": 5, "verbosity": -1, "boost_from_average": False}
    data = lgb.Dataset(x, target, free_raw_data=False)
    boosters = [lgb.train({**settings, "seed": seed, "feature_fraction": 0.5}, data, 20) for seed in (1, 2)]
    scores = NormalScores.of(x)
    parts = [replace(read_text(booster.model_to_string(num_iteration=10)), names=NAMES) for booster in boosters]
    parts.append(additive_forest(NAMES, scores.edges, scores.scores, missing=True))
    merged = _booster(write_text(merge_forests(parts, [0.2, 0.3, 2.0])))
    other = _features(200, 3)
    normal = np.empty_like(other)
    scores.fill(normal, other)
    single = [booster.predict(other, num_iteration=10) for booster in boosters]
    expected = 0.2 * single[0] + 0.3 * single[1] + 2 * normal.sum(axis=1)
    np.testing.assert_allclose(merged.predict(other), expected, atol=1e-6)
    assert merged.num_trees() == 23
