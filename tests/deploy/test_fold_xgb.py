"""Folding XGBoost models: equal scores, to the last bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unskew.deploy.fold import fold
from unskew.deploy.fold_xgb import fold_xgboost
from unskew.deploy.scorers import make_scorer
from unskew.deploy.xgboost_json import read_xgboost, write_xgboost
from unskew.errors import ModelFileError
from unskew.rankers.base import RankerState

xgb = pytest.importorskip("xgboost")

PLAIN, TERMS = 4, 3
NAMES = tuple("abcdtuv")


def rows(rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.normal(size=(n, PLAIN + TERMS)).round(1).astype(np.float32)
    odd = np.float32([np.nan, 0.0, -0.0, 1e-45, -1e-45, 1e38])
    hit = rng.random(x.shape) < 0.25
    x[hit] = rng.choice(odd, hit.sum())
    return x


def train(rng: np.random.Generator, **params: object) -> object:
    x = rows(rng, 400)
    x[np.abs(x) > 10] = 2
    y = (np.nan_to_num(x[:, 1]) + np.nan_to_num(x[:, 5]) + rng.normal(size=400) > 0).astype(int)
    data = xgb.DMatrix(x, y)
    data.set_group([40] * 10)
    base = {"objective": "rank:ndcg", "nthread": 1, "seed": 1, "colsample_bynode": 0.5, "min_child_weight": 0}
    return xgb.train(base | params, data, 10)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32 - 1),
    depth=st.sampled_from([1, 2, 6]),
    objective=st.sampled_from(["rank:ndcg", "rank:pairwise", "reg:squarederror", "binary:logistic"]),
    unbiased=st.booleans(),
    value=st.sampled_from([0.0, 0.5, -1.25]),
)
def test_folded_equals_unfolded_to_the_last_bit(
    seed: int, depth: int, objective: str, unbiased: bool, value: float
) -> None:
    rng = np.random.default_rng(seed)
    more = {"lambdarank_unbiased": unbiased, "lambdarank_pair_method": "topk"} if objective == "rank:ndcg" else {}
    booster = train(rng, max_depth=depth, objective=objective, base_score=0.3, **more)
    content = bytes(booster.save_raw("json"))
    folded, summary = fold_xgboost(content, dict.fromkeys(range(PLAIN, PLAIN + TERMS), value), NAMES)
    x = rows(rng, 300)
    whole = x.copy()
    whole[:, PLAIN:] = value
    expected = booster.predict(xgb.DMatrix(whole), output_margin=True)
    theirs = xgb.Booster(model_file=bytearray(folded))
    np.testing.assert_array_equal(theirs.predict(xgb.DMatrix(x[:, :PLAIN]), output_margin=True), expected)
    ours = make_scorer("xgboost", folded, PLAIN, {})
    np.testing.assert_array_equal(ours.predict(np.ascontiguousarray(x[:, :PLAIN])), expected)
    assert summary.folded_splits <= summary.splits
    assert write_xgboost(read_xgboost(folded)) == folded


def test_fold_knows_xgboost_states() -> None:
    booster = train(np.random.default_rng(0), max_depth=3)
    state = RankerState("xgboost", {"model.json": bytes(booster.save_raw("json"))}, NAMES, PLAIN)
    folded, summary = fold(state)
    assert folded.columns == NAMES[:PLAIN]
    assert 0 < summary["term_gain"] < 1


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("learner", "gradient_booster", "name"), "dart", "booster"),
        (("learner", "learner_model_param", "base_score"), "nan", "base_score"),
        (("learner", "learner_model_param", "num_feature"), "1", "not among"),
        (("learner", "objective", "name"), "multi:softmax", "objective"),
        (("learner", "gradient_booster", "model", "trees", 0, "left_children", 0), 0, "points back"),
        (("learner", "gradient_booster", "model", "trees", 0, "left_children", 0), 99, "outside"),
        (("learner", "gradient_booster", "model", "trees", 0, "right_children", 0), -1, "one child"),
        (("learner", "gradient_booster", "model", "trees", 0, "right_children", 0), 1, "more than one parent"),
        (("learner", "gradient_booster", "model", "trees", 0, "split_type", 0), 1, "categorical"),
        (("learner", "gradient_booster", "model", "trees", 0, "split_conditions"), [], "entries"),
        (("learner", "gradient_booster", "model", "trees", 0, "split_conditions", 0), "x", "not a number"),
        (("learner", "gradient_booster", "model", "trees", 0, "split_conditions", 0), 1e300, "finite"),
    ],
)
def test_a_document_that_is_not_sound_is_refused(path: tuple[object, ...], value: object, message: str) -> None:
    document = json.loads(bytes(train(np.random.default_rng(0), max_depth=2).save_raw("json")))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ModelFileError, match=message):
        read_xgboost(json.dumps(document))
