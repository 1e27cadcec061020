"""NeuralRanker: the deep list-wise ranker of Ai et al. (SIGIR 2018), as stage two of any method."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone

from unskew._options import Preset
from unskew._segments import IntArray
from unskew.data.design import DesignMatrix
from unskew.errors import NotFittedError, SettingError, check_choice
from unskew.rankers._torch import torch
from unskew.rankers.base import Judge, RankerState
from unskew.rankers.batches import Batch, Batches, cut_lists, fit_scaling
from unskew.rankers.net import (
    EPSILON,
    TOWER_RATE,
    TOWER_START,
    Schedule,
    Trained,
    adagrad,
    make_net,
    net_judge,
    net_scores,
    net_tensors,
    seeded,
    softmax_loss,
    train,
)
from unskew.rankers.net_scorer import CHUNK, MODEL_FILE, NetScorer, Scaling, write_tensors
from unskew.rankers.trees import several


@dataclass(frozen=True)
class NetPreset:
    """Settings that go together; `rates` are the learning rates worth trying."""

    hidden: tuple[int, ...]
    steps: int
    check_every: int
    rates: tuple[float, ...]


# On logs of 2,000 to 27,000 clicks the published net, watched for up to 3,000 steps, was at its best after 50 to 2,250
# and overfitted from there; the smaller one was as good within the noise of a split (0.01 of NDCG@10).
PRESETS: dict[str, NetPreset] = {
    "paper": NetPreset(hidden=(512, 256, 128), steps=10_000, check_every=100, rates=(0.01, 0.05)),
    "default": NetPreset(hidden=(128, 64), steps=1_000, check_every=25, rates=(0.01, 0.05)),
    "smoke": NetPreset(hidden=(32, 16), steps=60, check_every=20, rates=(0.05,)),
}


class NeuralRanker(BaseEstimator):
    """A deep net over single items, trained with the list-wise softmax cross-entropy on batches of lists.

    preset : "paper" is the published setting ([512, 256, 128] units, 10,000 steps); "default" reaches its quality with
        [128, 64] units in a tenth of the steps.
    hidden : units of the hidden layers.
    learning_rate : a rate, or several for `grid`; None stands for the preset's.
    steps, batch_lists : how many steps of how many lists, drawn with replacement.
    list_size : train on the top so many items of every list; None takes whole lists, at most 100 items.
    gain : what a label counts as target: "linear", the label itself; "exponential", 2^label − 1.
    separate_terms : extra terms get a small tower of their own, added to the score, instead of entering with the
        features.
    n_jobs : threads while fitting; None leaves PyTorch's setting, -1 takes all cores.

    After fit: `stage_` the step of the best checkpoint, `judged_` how the judge saw it, `position_effect_` the
    effect b_k of every position if positions were given.

    >>> x = np.float32([[1], [0], [1], [0]])
    >>> ranker = NeuralRanker(preset="smoke").fit(DesignMatrix(x), np.array([1, 0, 1, 0]), np.array([2, 2]))
    >>> scores = ranker.predict(DesignMatrix(x))
    >>> bool(scores[0] > scores[1])
    True
    """

    takes_missing = False

    def __init__(
        self,
        *,
        preset: Preset = "default",
        hidden: Sequence[int] | None = None,
        learning_rate: float | tuple[float, ...] | None = None,
        steps: int | None = None,
        batch_lists: int = 256,
        list_size: int | None = 10,
        gain: Literal["linear", "exponential"] = "linear",
        separate_terms: bool = False,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.preset = preset
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.steps = steps
        self.batch_lists = batch_lists
        self.list_size = list_size
        self.gain = gain
        self.separate_terms = separate_terms
        self.random_state = random_state
        self.n_jobs = n_jobs

    def grid(self) -> Sequence[Self]:
        """One ranker per learning rate worth trying."""
        return [clone(self).set_params(learning_rate=rate) for rate in rates_of(self.preset, self.learning_rate)]

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
        """Minimise Σ y (−log softmax(s)) / Σ y; with positions, s = f(x) + b_k while training and f(x) afterwards."""
        schedule, hidden = net_settings(self)
        check_choice("gain", self.gain, ("linear", "exponential"))
        target = labels if self.gain == "linear" else np.exp2(labels.astype(np.float32)) - 1
        lists = cut_lists(target, sizes, list_size=self.list_size, position=position, weight=weight)
        with seeded(self.random_state, threads_of(self.n_jobs)):
            scaling = fit_scaling(design)
            net = make_net(design.n_plain, design.n_terms, hidden, separate_terms=self.separate_terms)
            effect = torch.nn.ParameterDict()
            if position is not None:
                effect["b"] = torch.zeros(lists.deepest)

            def loss(batch: Batch) -> torch.Tensor:
                s = batch.spread(net_scores(net, batch.x, batch.terms))
                if "b" in effect:
                    s = s + effect["b"][batch.position]
                return softmax_loss(s, batch.click, batch.weight)

            rng = np.random.default_rng(self.random_state)
            batches = Batches(design, lists, scaling, rng, self.batch_lists)
            parts = [adagrad(net, schedule.learning_rate), adagrad(effect, TOWER_RATE, start=TOWER_START)]
            trained = train(parts, loss, batches, schedule, judge=net_judge(net, scaling, judge))
            self.adopt(net, scaling, trained)
        if "b" in effect:
            b = effect["b"].detach().numpy()
            self.position_effect_ = {k + 1: float(value - b[0]) for k, value in enumerate(b)}
        return self

    def adopt(self, net: Any, scaling: Scaling, trained: Trained) -> Self:
        """Take over a net that some method trained."""
        widths = [net["linear0"].in_features]
        while f"linear{len(widths) - 1}" in net:
            widths.append(net[f"linear{len(widths) - 1}"].out_features)
        self.stage_ = trained.step
        self.judged_ = trained.judged
        self.tensors_ = net_tensors(net, scaling)
        self.info_ = {
            "architecture": "signed log, standardise, clip, linear, then (ELU, layer norm, linear) until the score",
            "layers": widths,
            "terms": len(scaling.term_scale),
            "separate_terms": "tower0" in net,
            "epsilon": EPSILON,
            "clip": scaling.clip,
            "step": trained.step,
        }
        return self

    def predict(self, design: DesignMatrix) -> npt.NDArray[np.float64]:
        """(n,) scores of the entries of a design, terms included."""
        scorer = NetScorer.from_bytes(self._bytes(), self.info_)
        parts = [scorer.predict(design[start : start + CHUNK]) for start in range(0, len(design), CHUNK)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def state(self, columns: Sequence[str]) -> RankerState:
        """The net as safetensors."""
        data = self._bytes()
        names = tuple(columns)
        return RankerState("net", {MODEL_FILE: data}, names, len(self.tensors_["input.mean"]), self.info_)

    def _bytes(self) -> bytes:
        if not hasattr(self, "tensors_"):
            raise NotFittedError("NeuralRanker is not fitted yet. Call fit first.")
        return write_tensors(self.tensors_)


def preset_of(name: str) -> NetPreset:
    """The named preset, or an error listing them."""
    check_choice("preset", name, get_args(Preset))
    return PRESETS[name]


def rates_of(preset: str, given: float | Sequence[float] | None) -> tuple[float, ...]:
    """The learning rates worth trying: those given, else the preset's."""
    return preset_of(preset).rates if given is None else several(given)


def net_settings(settings: Any) -> tuple[Schedule, tuple[int, ...]]:
    """Schedule and hidden layers of anything with the settings preset, hidden, learning_rate and steps."""
    preset = preset_of(settings.preset)
    rate = rates_of(settings.preset, settings.learning_rate)[0]
    steps = preset.steps if settings.steps is None else settings.steps
    hidden = preset.hidden if settings.hidden is None else tuple(settings.hidden)
    if steps < 1 or rate <= 0 or not hidden:
        raise SettingError(
            f"steps and learning_rate must be positive and hidden must name at least one layer, but steps={steps}, "
            f"learning_rate={rate}, hidden={hidden}."
        )
    return Schedule(steps, rate, min(preset.check_every, steps)), hidden


def threads_of(n_jobs: int | None) -> int | None:
    """scikit-learn's n_jobs as a number of threads: None leaves it alone, -1 means all cores."""
    return (os.cpu_count() or 1) + 1 + n_jobs if n_jobs is not None and n_jobs < 0 else n_jobs
