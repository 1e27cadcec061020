"""LambdaMART by XGBoost (extra `xgboost`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone

from unskew._machine import native_threads
from unskew._options import Preset
from unskew._segments import IntArray, offsets_of, positions_in, segment_mean
from unskew.data.design import DesignMatrix
from unskew.errors import LogError, NotFittedError, SettingError, check_choice, require_extra
from unskew.rankers.base import Judge, RankerState
from unskew.rankers.trees import check_lists, choose_stage, several, stages_of

BLOCK = 65_536

PRESETS: dict[str, dict[str, Any]] = {
    "default": {
        "trees": (25, 50, 100, 200, 300),
        "unjudged": 100,
        "learning_rate": (0.05,),
        "leaves": 15,
        "min_hessian": 5.0,
        "l2": 5.0,
        "feature_fraction": 0.4,
        "bagging_fraction": 0.7,
        "truncation": 30,
    },
    "paper": {
        "trees": (100, 300, 500),
        "unjudged": 500,
        "learning_rate": (0.05, 0.1),
        "leaves": 255,
        "min_hessian": 0.001,
        "l2": 0.0,
        "feature_fraction": 1.0,
        "bagging_fraction": 1.0,
        "truncation": 30,
    },
    "smoke": {
        "trees": (10, 20),
        "unjudged": 20,
        "learning_rate": (0.2,),
        "leaves": 7,
        "min_hessian": 0.1,
        "l2": 1.0,
        "feature_fraction": 1.0,
        "bagging_fraction": 1.0,
        "truncation": 30,
    },
}


class XGBoostRanker(BaseEstimator):
    """Boosted trees that order lists, by XGBoost's rank:ndcg.

    The settings are LambdaMART's, with two exceptions: `min_hessian` bounds a leaf from below by the sum of its
    hessians, XGBoost's way, and `unbiased` switches on its own unbiased LambdaMART, which takes an item's place among
    the rows of its list for its position. A list's weight is the mean of its entries': XGBoost knows no other.
    """

    takes_missing = True

    def __init__(
        self,
        *,
        preset: Preset = "default",
        trees: int | tuple[int, ...] | None = None,
        learning_rate: float | tuple[float, ...] | None = None,
        leaves: int | None = None,
        min_hessian: float | None = None,
        l2: float | None = None,
        feature_fraction: float | None = None,
        bagging_fraction: float | None = None,
        truncation: int | None = None,
        unbiased: bool = False,
        separate_terms: bool = False,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.preset = preset
        self.trees = trees
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.min_hessian = min_hessian
        self.l2 = l2
        self.feature_fraction = feature_fraction
        self.bagging_fraction = bagging_fraction
        self.truncation = truncation
        self.unbiased = unbiased
        self.separate_terms = separate_terms
        self.random_state = random_state
        self.n_jobs = n_jobs

    def setting(self, name: str) -> Any:
        """A setting: the one given, else the preset's."""
        check_choice("preset", self.preset, PRESETS)
        given = getattr(self, name)
        return PRESETS[self.preset][name] if given is None else given

    def grid(self) -> list[Self]:
        """One ranker a learning rate."""
        return [clone(self).set_params(learning_rate=rate) for rate in several(self.setting("learning_rate"))]

    def fit(
        self,
        design: DesignMatrix,
        labels: npt.NDArray,
        sizes: IntArray,
        *,
        weight: npt.NDArray[np.float32] | None = None,
        position: IntArray | None = None,
        judge: Judge | None = None,
        cache: dict[Any, Any] | None = None,
    ) -> Self:
        """Train on lists and keep the number of trees that the judge likes best."""
        xgboost = require_extra("xgboost", "xgboost", "The ranker 'xgboost'")
        check_lists(design, labels, sizes)
        self._check_positions(position, sizes)
        stages = stages_of(self, PRESETS, judge)
        data = _quantiles(xgboost, design, self._threads, cache)
        list_weight = np.ones(len(sizes)) if weight is None else segment_mean(weight, offsets_of(sizes))
        data.set_info(label=labels, group=sizes, weight=list_weight)
        booster = xgboost.train(self._params(design), data, num_boost_round=stages[-1])
        self.booster_, self.n_plain_, self.n_terms_ = booster, design.n_plain, design.n_terms
        self.stage_, self.judged_ = choose_stage(self._scores, stages, judge)
        return self

    def predict(self, design: DesignMatrix) -> npt.NDArray[np.float64]:
        """(n,) scores, larger is better."""
        return self._scores(design, 0, self._fitted().stage_)

    def state(self, columns: Sequence[str]) -> RankerState:
        """XGBoost's JSON, cut to the chosen number of trees."""
        booster = self._fitted().booster_[: self.stage_]
        info = {"trees": self.stage_, "learning_rate": several(self.setting("learning_rate"))[0]}
        content = bytes(booster.save_raw("json"))
        return RankerState("xgboost", {"model.json": content}, tuple(columns), self.n_plain_, info)

    def gain_share(self) -> float:
        """How much of the trees' total gain the terms took: 0 to 1."""
        gain = self._fitted().booster_[: self.stage_].get_score(importance_type="total_gain")
        terms = sum(value for name, value in gain.items() if int(name.removeprefix("f")) >= self.n_plain_)
        return float(terms / max(sum(gain.values()), np.finfo(float).tiny))

    def position_ratios(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """t⁺ and t⁻ by position that unbiased training ended with (after its last tree)."""
        learnt = json.loads(self._fitted().booster_.save_config())["learner"]["objective"]
        return np.asarray(learnt["ti+"], dtype=float), np.asarray(learnt["tj-"], dtype=float)

    @property
    def _threads(self) -> int:
        return native_threads(self.n_jobs)

    def _check_positions(self, position: IntArray | None, sizes: IntArray) -> None:
        if position is None and not self.unbiased:
            return
        if not self.unbiased:
            raise SettingError("XGBoost uses positions only with unbiased=True.")
        if position is None:
            raise SettingError("XGBoost's unbiased training needs the position of every item.")
        expected = positions_in(offsets_of(sizes))
        wrong = np.flatnonzero(position != expected)
        if wrong.size:
            raise LogError(
                "XGBoost takes the order of rows inside a list for their positions, so lists must be sorted and shown "
                f"without gaps from position 1, but {wrong.size:,} entries are not (first: entry {wrong[0]}, position "
                f"{position[wrong[0]]} where {expected[wrong[0]]} was expected). "
                "Use the method 'position' or 'paird', which take positions as they are."
            )

    def _params(self, design: DesignMatrix) -> dict[str, Any]:
        params = {
            "objective": "rank:ndcg",
            "lambdarank_pair_method": "topk",
            "lambdarank_num_pair_per_sample": self.setting("truncation"),
            "lambdarank_unbiased": self.unbiased,
            "lambdarank_bias_norm": 1.0,
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": self.setting("leaves"),
            "min_child_weight": self.setting("min_hessian"),
            "reg_lambda": self.setting("l2"),
            "colsample_bytree": self.setting("feature_fraction"),
            "subsample": self.setting("bagging_fraction"),
            "eta": several(self.setting("learning_rate"))[0],
            "base_score": 0.0,
            "seed": self.random_state,
            "nthread": self._threads,
            "verbosity": 0,
        }
        if self.separate_terms and design.n_terms:
            plain, total = design.n_plain, design.shape[1]
            # As text: XGBoost takes the members of a list for names, which its data does not have here.
            params["interaction_constraints"] = str([list(range(plain)), list(range(plain, total))])
        return params

    def _scores(self, design: DesignMatrix, start: int, stop: int) -> npt.NDArray[np.float64]:
        scores = np.zeros(len(design))
        for at in range(0, len(design), BLOCK):
            block = design[at : at + BLOCK]
            scores[at : at + BLOCK] = self.booster_.inplace_predict(
                block, iteration_range=(start, stop), predict_type="margin"
            )
        return scores

    def _fitted(self) -> Self:
        if not hasattr(self, "booster_"):
            raise NotFittedError("XGBoostRanker is not fitted yet. Call fit(design, labels, sizes) first.")
        return self


def _quantiles(xgboost: Any, design: DesignMatrix, threads: int, cache: dict[Any, Any] | None) -> Any:
    """The design, binned block by block; kept in the cache for as long as the same design comes back."""
    cache = {} if cache is None else cache
    key = (id(design.features), id(design.row), id(design.terms))
    held = cache.get("xgboost")
    if held is not None and held[0] == key:
        return held[1]

    data = quantile_matrix(xgboost, [design], threads)
    cache["xgboost"] = (key, data, design)
    return data


def quantile_matrix(xgboost: Any, designs: Sequence[DesignMatrix], threads: int, *, like: Any = None) -> Any:
    """The entries of all designs as XGBoost trains on them, binned block by block; with the bins of `like` if given."""
    spans = [(design, at) for design in designs for at in range(0, len(design), BLOCK)]

    class Blocks(xgboost.DataIter):
        def __init__(self) -> None:
            self.at = 0
            super().__init__()

        def reset(self) -> None:
            self.at = 0

        def next(self, input_data: Callable[..., None]) -> bool:
            if self.at >= len(spans):
                return False
            design, start = spans[self.at]
            input_data(data=design[start : start + BLOCK])
            self.at += 1
            return True

    return xgboost.QuantileDMatrix(Blocks(), max_bin=256, nthread=threads, ref=like)
