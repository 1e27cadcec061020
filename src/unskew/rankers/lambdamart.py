"""LambdaMART: gradient-boosted trees on LightGBM's lambdarank."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Self

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone

from unskew._machine import native_threads
from unskew._options import Preset
from unskew._segments import IntArray
from unskew.data.design import DesignMatrix
from unskew.errors import DataError, NotFittedError, check_choice
from unskew.rankers.base import Judge, RankerState
from unskew.rankers.binned import BLOCK, binned, histograms
from unskew.rankers.race import Finish, Race, race_of
from unskew.rankers.trees import StageWatch, check_lists, several, stages_of

# `unjudged`: the number of trees when there is nothing to choose by.
PRESETS: dict[str, dict[str, Any]] = {
    # Regularised for sparse clicks: small trees with many rows a leaf, a part of the columns and rows a round.
    # On MQ2008 and the synthetic collection (ten passes, η = 1, two to five splits) its neighbours were within noise of
    # each other and ahead of trees of 31 leaves on all rows; from 200 trees on, click noise was learnt by heart.
    "default": {
        "trees": (25, 50, 100, 200, 300),
        "unjudged": 100,
        "learning_rate": (0.05,),
        "leaves": 15,
        "min_rows": 50,
        "l2": 5.0,
        "feature_fraction": 0.4,
        "bagging_fraction": 0.7,
        "truncation": 30,
    },
    # The paper's appendix; what it does not name is LightGBM's default.
    "paper": {
        "trees": (100, 300, 500),
        "unjudged": 500,
        "learning_rate": (0.05, 0.1),
        "leaves": 255,
        "min_rows": 2,
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
        "min_rows": 5,
        "l2": 1.0,
        "feature_fraction": 1.0,
        "bagging_fraction": 1.0,
        "truncation": 30,
    },
}
# No leaf has to hold more than this share of the entries, so that a small log can be split at all.
LARGEST_LEAF = 1 / 50


class LambdaMART(BaseEstimator):
    """Boosted trees that order lists (Burges 2010), by LightGBM.

    preset : "default" (regularised, ours), "paper" (255 leaves, 2 rows a leaf, 500 trees) or "smoke" (seconds).
        Every further setting that is not None takes the preset's place.
    trees : numbers of trees worth looking at; one training answers them all, since a prefix of the trees is the model
        with fewer of them. Without a judge the largest counts.
    min_rows : entries a leaf must have; the presets ask for fewer where a log is small.
    learning_rate : a rate, or several for `grid`.
    separate_terms : whether a tree may use plain columns or terms, but not both.
    n_jobs : threads; None means all. The result does not depend on it.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 3)).astype(np.float32)
    >>> ranker = LambdaMART(preset="smoke").fit(DesignMatrix(x), (x[:, 0] > 0).astype(int), np.full(20, 10))
    >>> bool(np.corrcoef(ranker.predict(DesignMatrix(x)), x[:, 0])[0, 1] > 0.7)
    True
    """

    takes_missing = True
    # Whether positions go to LightGBM's own position effect; a subclass with another objective may use them itself.
    _native_position = True

    def __init__(
        self,
        *,
        preset: Preset = "default",
        trees: int | tuple[int, ...] | None = None,
        learning_rate: float | tuple[float, ...] | None = None,
        leaves: int | None = None,
        min_rows: int | None = None,
        l2: float | None = None,
        feature_fraction: float | None = None,
        bagging_fraction: float | None = None,
        truncation: int | None = None,
        separate_terms: bool = False,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.preset = preset
        self.trees = trees
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.min_rows = min_rows
        self.l2 = l2
        self.feature_fraction = feature_fraction
        self.bagging_fraction = bagging_fraction
        self.truncation = truncation
        self.separate_terms = separate_terms
        self.random_state = random_state
        self.n_jobs = n_jobs

    def setting(self, name: str) -> Any:
        """A setting: the one given, else the preset's."""
        check_choice("preset", self.preset, PRESETS)
        given = getattr(self, name)
        return PRESETS[self.preset][name] if given is None else given

    def grid(self) -> list[Self]:
        """One ranker a learning rate; numbers of trees need no rankers of their own."""
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
        """Train on lists of the given sizes and keep the number of trees that the judge likes best.

        labels : (n,) whole numbers, clicks or grades; gain 2^label - 1.
        weight : (n,) multiplies an entry's gradient and hessian.
        position : (n,) adds LightGBM's position effect to the score during training: s = f(x) + g(position).
        """
        check_lists(design, labels, sizes)
        stages = stages_of(self, PRESETS, judge)
        effect = position is not None and self._native_position
        params = self._params(design, verbosity=2 if effect else -1)
        params["objective"] = self._objective(labels, sizes, weight, position)
        self.n_plain_, self.n_terms_ = design.n_plain, design.n_terms
        # Once LightGBM was told to talk it goes on, so all that it is asked to do happens where it is listened to.
        with _position_effects(listen=effect) as effects:
            data = binned(design, positions=effect, threads=self._threads, cache=cache)
            data.set_label(np.asarray(labels, dtype=np.float32)).set_group(sizes).set_weight(weight)
            if effect:
                data.set_position(np.asarray(position, dtype=np.int32))
            self.stage_, self.judged_ = self._train(params, data, stages, judge, race_of(cache))
        self.position_effect_ = effects[min(self.stage_, len(effects)) - 1] if effects else None
        return self

    def _train(
        self, params: dict[str, Any], data: lgb.Dataset, stages: Sequence[int], judge: Judge | None, race: Race | None
    ) -> tuple[int, float | None]:
        """Grow the trees and look at every stage on the way: the best one and its value."""
        pace, given_up = params["learning_rate"], False
        watch = None if judge is None else StageWatch(self._scores, judge)
        looks = {*stages, *(() if race is None else race.looks(stages[-1]))}

        def stop_when_hopeless(env: Any) -> None:
            nonlocal given_up
            self.booster_, stage = env.model, env.iteration + 1
            grown = env.model.current_iteration()
            if watch is None or stage not in looks or grown == watch.at:
                return
            # Where nothing was left to split, what has grown is all there will ever be.
            best = watch.look(grown, may_win=stage in stages or grown < stage)
            if race is None or stage == stages[-1]:
                return
            if race.hopeless(pace, stage, best, lists=watch.judge.n_lists):
                given_up = True
                raise lgb.callback.EarlyStopException(env.iteration, [])

        self.booster_ = lgb.train(params, data, num_boost_round=stages[-1], callbacks=[stop_when_hopeless])
        grown = self.booster_.current_iteration()  # fewer than asked for, when nothing is left to split
        if watch is None:
            return min(stages[-1], grown), None
        if not given_up:
            if watch.at < grown or not watch.path:
                watch.look(grown)
            if race is not None:
                race.finished.append(Finish(pace, watch.best, watch.path))
        elif not watch.stage:  # given up before any stage that might have won
            return watch.at, watch.path[watch.at]
        return watch.stage, watch.best

    def predict(self, design: DesignMatrix) -> npt.NDArray[np.float64]:
        """(n,) scores, larger is better."""
        return self._scores(design, 0, self._fitted().stage_)

    def state(self, columns: Sequence[str]) -> RankerState:
        """LightGBM's text format, cut to the chosen number of trees, with the columns' names."""
        text = self._fitted().booster_.model_to_string(num_iteration=self.stage_)
        return RankerState(
            kind="lightgbm",
            files={"model.txt": named_text(text, columns).encode()},
            columns=tuple(columns),
            n_plain=self.n_plain_,
            info={
                "trees": self.stage_,
                "learning_rate": several(self.setting("learning_rate"))[0],
                "gain_share_of_terms": self.gain_share(),
            },
        )

    def gain_share(self) -> float:
        """How much of the trees' total gain the terms took: 0 to 1."""
        gain = self._fitted().booster_.feature_importance("gain", iteration=self.stage_)
        return float(gain[self.n_plain_ :].sum() / max(gain.sum(), np.finfo(float).tiny))

    def _objective(
        self, labels: npt.NDArray, sizes: IntArray, weight: npt.NDArray | None, position: IntArray | None
    ) -> str | Callable[..., Any]:
        """What is minimised: a name LightGBM knows, or a function (scores, data) → (gradient, hessian)."""
        return "lambdarank"

    @property
    def _threads(self) -> int:
        return native_threads(self.n_jobs)

    def _params(self, design: DesignMatrix, *, verbosity: int) -> dict[str, Any]:
        bagging = self.setting("bagging_fraction")
        params = {
            "metric": "None",
            "learning_rate": several(self.setting("learning_rate"))[0],
            "num_leaves": self.setting("leaves"),
            "min_data_in_leaf": self._min_rows(len(design)),
            "lambda_l2": self.setting("l2"),
            "feature_fraction": self.setting("feature_fraction"),
            "bagging_fraction": bagging,
            "bagging_freq": int(bagging < 1),
            "lambdarank_truncation_level": self.setting("truncation"),
            "feature_pre_filter": False,
            "seed": self.random_state,
            "num_threads": self._threads,
            "deterministic": True,
            **histograms(self._threads),
            "verbosity": verbosity,  # LightGBM tells its position effect to the debug log (2) and nobody else
        }
        if self.separate_terms and design.n_terms:
            plain, total = design.n_plain, design.shape[1]
            params["interaction_constraints"] = [list(range(plain)), list(range(plain, total))]
        return params

    def _min_rows(self, entries: int) -> int:
        wanted = self.setting("min_rows")
        return wanted if self.min_rows is not None else max(1, min(wanted, int(entries * LARGEST_LEAF)))

    def _scores(self, design: DesignMatrix, start: int, stop: int) -> npt.NDArray[np.float64]:
        """The sum of trees start … stop - 1, block by block."""
        scores = np.zeros(len(design))
        if stop == start:  # LightGBM would take "no trees" for "all trees"
            return scores
        for at in range(0, len(design), BLOCK):
            block = design[at : at + BLOCK]
            scores[at : at + BLOCK] = self.booster_.predict(
                block, start_iteration=start, num_iteration=stop - start, raw_score=True, num_threads=self._threads
            )
        return scores

    def _fitted(self) -> Self:
        if not hasattr(self, "booster_"):
            raise NotFittedError("LambdaMART is not fitted yet. Call fit(design, labels, sizes) first.")
        return self


def named_text(model: str, columns: Sequence[str]) -> str:
    """The model text with the columns' names; characters that LightGBM cannot store in a name become '_'."""
    if "\nobjective=" not in model:  # LightGBM leaves it out after training with a function; scores stay raw anyway
        model = model.replace("\nfeature_names=", "\nobjective=lambdarank\nfeature_names=", 1)
    names = [re.sub(r'[\s,:\[\]{}"]', "_", column) or "_" for column in columns]
    if len(set(names)) < len(names):
        names = [f"{name}_{i}" for i, name in enumerate(names)]
    start = model.index("\nfeature_names=") + 1
    old = model[start : model.index("\n", start)].removeprefix("feature_names=").split(" ")
    if len(old) != len(names):
        raise DataError(f"The trees take {len(old)} columns, but {len(names)} names were given.")
    head, tail = model[:start], model[model.index("\n", start) :]
    trees, mark, rest = tail.partition("\nfeature_importances:\n")
    table, end, rest = rest.partition("\n\n")
    rename = dict(zip(old, names))
    lines = [
        f"{rename[name]}={count}" for name, _, count in (line.rpartition("=") for line in table.splitlines()) if name
    ]
    return f"{head}feature_names={' '.join(names)}{trees}{mark}" + "\n".join(lines) + end + rest


_EFFECT = re.compile(r"\[Debug\]\s+(\d+)\s+(-?[\d.]+(?:e[+-]?\d+)?|-?inf|-?nan)\s*$")
_LOGGER_LOCK = Lock()


@contextmanager
def _position_effects(*, listen: bool) -> Iterator[list[dict[int, float]]]:
    """Collect what LightGBM says about positions: after every round one dict, position → g(position)."""
    rounds: list[dict[int, float]] = []
    if not listen:
        yield rounds
        return

    class Listener:
        def info(self, message: str) -> None:
            if "bias_factor" in message:
                rounds.append({})
            elif rounds and (found := _EFFECT.search(message)):
                rounds[-1][int(found[1])] = float(found[2])

        def warning(self, message: str) -> None:
            pass

    # The logger is LightGBM's own global; it is put back as it was, and one training at a time may borrow it.
    with _LOGGER_LOCK:
        basic = lgb.basic
        before = basic._LOGGER, basic._INFO_METHOD_NAME, basic._WARNING_METHOD_NAME
        lgb.register_logger(Listener())
        try:
            yield rounds
        finally:
            lgb.register_logger(before[0], info_method_name=before[1], warning_method_name=before[2])
