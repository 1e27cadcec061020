"""Small models of every kind that deployment has to deal with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from unskew.data.design import DesignMatrix
from unskew.deploy.model import Model
from unskew.rankers.base import RankerState

NAMES = ("bm25(title)", "pagerank", "attribute(price)", "age", "clicks")


def train_booster(
    *, seed: int = 0, rows: int = 800, missing: bool = False, categorical: bool = False, trees: int = 30, **params: Any
) -> lgb.Booster:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, len(NAMES) + 2)).astype(np.float32)
    x[:, 1] = np.maximum(x[:, 1], 0)  # many zeros
    x[:, 3] = rng.integers(-2, 9, rows)
    if missing:
        x[rng.random(x.shape) < 0.15] = np.nan
    signal = np.nan_to_num(x) @ np.array([1, 2, 0.5, 0.2, 0.1, 1, 1]) + (np.nan_to_num(x[:, 3]) % 3 == 1)
    label = np.digitize(signal + rng.normal(size=rows), [0, 1, 2, 3])
    data = lgb.Dataset(x, label=label, group=np.full(rows // 20, 20), categorical_feature=[3] if categorical else [])
    base = {"objective": "lambdarank", "num_leaves": 12, "min_data_in_leaf": 5, "verbose": -1, "num_threads": 1}
    return lgb.train(base | {"cat_smooth": 1, "min_data_per_group": 5} | params, data, trees)


def model_of(booster: lgb.Booster, names: tuple[str, ...] = NAMES) -> Model:
    columns = (*names, *(f"t{i}" for i in range(booster.num_feature() - len(names))))
    state = RankerState("lightgbm", {"model.txt": booster.model_to_string().encode()}, columns, len(names))
    return Model.from_state(state)


@pytest.fixture(scope="session")
def make_booster() -> Callable[..., lgb.Booster]:
    return train_booster


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Model]:
    return model_of


@pytest.fixture(scope="session")
def models() -> dict[str, Model]:
    """plain: no missing values; missing: learnt ways for them; categorical; zeros: zero_as_missing; forest; xgboost."""
    forest = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "objective": "regression"}
    return {
        "plain": model_of(train_booster()),
        "missing": model_of(train_booster(missing=True)),
        "categorical": model_of(train_booster(categorical=True)),
        "zeros": model_of(train_booster(missing=True, zero_as_missing=True)),
        "forest": model_of(train_booster(**forest)),
        "linear": linear_model(),
    }


def linear_model(intercept: float = 0.0) -> Model:
    content = f'{{"coefficients": [0.5, -1.25, 2.0, 0.0, 0.125], "intercept": {intercept}}}'.encode()
    return Model.from_state(RankerState("linear", {"model.json": content}, NAMES, len(NAMES)))


@pytest.fixture(scope="session")
def small_net() -> RankerState:
    """A small net of three features and two terms."""
    pytest.importorskip("torch")
    from unskew.rankers.neural import NeuralRanker

    x = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    design = DesignMatrix(x, terms=_HalfTerms(("t1", "t2")))
    ranker = NeuralRanker(preset="smoke", hidden=(8,), steps=5)
    return ranker.fit(design, (x[:, 0] > 0).astype(int), np.full(10, 10)).state(("a", "b", "c", "t1", "t2"))


@dataclass(frozen=True)
class _HalfTerms:
    names: tuple[str, ...]

    def fill(self, out: np.ndarray, x: np.ndarray, row: np.ndarray, entry: np.ndarray) -> None:
        out[:] = x[:, :2] / 2


@pytest.fixture(scope="session")
def candidates() -> np.ndarray:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, len(NAMES))).astype(np.float32)
    x[:, 1] = np.maximum(x[:, 1], 0)
    x[:, 3] = rng.integers(-2, 9, 500)
    return x
