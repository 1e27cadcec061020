"""What the neural methods share: one net, one loop, one search. A method adds its towers and its loss."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unskew._options import Preset, TuneOn
from unskew.data.clicks import ClickLog
from unskew.data.counts import single_clicks
from unskew.data.design import DesignMatrix
from unskew.data.lists import by_content
from unskew.data.ranking import RankingData
from unskew.evaluation.judge import make_judge
from unskew.method import Candidate, Method, Outcome, PositionCurve
from unskew.rankers._torch import torch
from unskew.rankers.base import Judge
from unskew.rankers.batches import Batch, Batches, cut_lists, fit_scaling
from unskew.rankers.net import (
    TOWER_RATE,
    TOWER_START,
    Schedule,
    adagrad,
    make_net,
    net_judge,
    net_scores,
    seeded,
    train,
)
from unskew.rankers.net_scorer import Scaling
from unskew.rankers.neural import NeuralRanker, net_settings, rates_of, threads_of


@dataclass(frozen=True, eq=False)
class Task:
    """What a method knows when it builds its towers.

    log : the click log; batches : the lists the ranker trains on; positions : how many positions take part.
    shared : what one learning rate's training may leave for the next.
    """

    log: ClickLog
    batches: Batches
    schedule: Schedule
    positions: int
    shared: dict[str, Any] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        return self.log.data.n_features


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralMethod(Method):
    """A net over single items beside a model of how people look; only the net is kept for inference.

    preset : "default", "paper" (10,000 steps) or "smoke".
    tune_on : what validation is judged by: "grades", "clicks", or "auto" (grades where there are any).
    learning_rate : one rate, or several of which validation keeps the best; None stands for the preset's.
    list_size : positions that take part; clicks further down are not used. None: whole lists, at most 100.
    steps, hidden : training steps and hidden layers of the net, if not the preset's.
    n_jobs : threads; None leaves PyTorch's setting, -1 takes all cores.
    """

    preset: Preset = "default"
    tune_on: TuneOn = "auto"
    learning_rate: float | tuple[float, ...] | None = None
    list_size: int | None = 10
    steps: int | None = None
    hidden: Sequence[int] | None = None
    random_state: int = 0
    n_jobs: int | None = None

    # A likelihood of clicks needs the sessions without any; a softmax over clicks has no use for them.
    keep_empty: ClassVar[bool] = False

    @abstractmethod
    def towers(self, task: Task) -> torch.nn.Module:
        """The parameters beside the ranker's: what this method believes about looking and clicking."""

    @abstractmethod
    def loss(self, f: torch.Tensor, batch: Batch, towers: Any) -> torch.Tensor:
        """What one step minimises, given the (n,) scores f of the batch's items."""

    @abstractmethod
    def examination(self, towers: Any, task: Task) -> torch.Tensor:
        """(positions,) how likely a position is looked at, up to a constant."""

    def prepare(self, net: Any, towers: Any, task: Task) -> None:
        """Anything to be learnt or set before the ranker's training."""

    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome:
        log = by_content(single_clicks(log))
        judge = make_judge(validation, tune_on=self.tune_on)
        rates = rates_of(self.preset, self.learning_rate)
        shared: dict[str, Any] = {}
        fitted: list[tuple[NeuralRanker, PositionCurve]] = []
        candidates: list[Candidate] = []
        with seeded(self.random_state, threads_of(self.n_jobs)):
            # Without a judge nothing can be compared: the first rate has to do.
            for rate in rates if judge is not None else rates[:1]:
                started = time.perf_counter()
                fitted.append(self._train(log, rate, judge, shared))
                ranker = fitted[-1][0]
                setting = {"learning_rate": rate, "stage": ranker.stage_}
                candidates.append(Candidate(setting, ranker.judged_, time.perf_counter() - started))
        ranker, curve = fitted[0] if judge is None else max(fitted, key=lambda pair: pair[0].judged_ or 0.0)
        state = ranker.state(log.data.feature_names)
        return Outcome(ranker, state, bias=curve, candidates=candidates, extra=self._facts(log))

    def _train(
        self, log: ClickLog, rate: float, judge: Judge | None, shared: dict[str, Any]
    ) -> tuple[NeuralRanker, PositionCurve]:
        """Train net and towers together; the checkpoint that the judge likes best."""
        ranker = NeuralRanker(**{name: getattr(self, name) for name in SHARED}, learning_rate=rate)
        schedule, hidden = net_settings(ranker)
        torch.manual_seed(self.random_state % 2**63)  # torch takes no larger seed
        batches = session_batches(log, self.list_size, np.random.default_rng(self.random_state), self.keep_empty)
        task = Task(log, batches, schedule, batches.lists.deepest, shared)
        net = make_net(log.data.n_features, 0, hidden)
        towers = self.towers(task)
        self.prepare(net, towers, task)

        def loss(batch: Batch) -> torch.Tensor:
            return self.loss(net_scores(net, batch.x), batch, towers)

        parts = [adagrad(net, rate), adagrad(towers, TOWER_RATE, start=TOWER_START)]
        trained = train(parts, loss, batches, schedule, judge=net_judge(net, batches.scaling, judge))
        with torch.no_grad():
            curve = position_curve(self.examination(towers, task).numpy())
        return ranker.adopt(net, batches.scaling, trained), curve

    def _facts(self, log: ClickLog) -> dict[str, Any]:
        """Small facts for the manifest."""
        return {}


SHARED = ("preset", "hidden", "steps", "list_size", "random_state", "n_jobs")


def session_batches(
    log: ClickLog, list_size: int | None, rng: np.random.Generator, keep_empty: bool, scaling: Scaling | None = None
) -> Batches:
    """Batches of a log's sessions, cut at `list_size` positions."""
    design = DesignMatrix(log.data.features, log.row)
    lists = cut_lists(
        log.click,
        np.diff(log.session_offsets),
        list_size=list_size,
        position=log.position,
        weight=log.weight,
        logging_score=log.logging_score,
        keep_empty=keep_empty,
    )
    return Batches(design, lists, fit_scaling(design) if scaling is None else scaling, rng)


def position_curve(examination: npt.NDArray[np.floating]) -> PositionCurve:
    """Examination relative to the top position."""
    value = np.asarray(examination, dtype=np.float64)
    return PositionCurve(np.arange(1, len(value) + 1), value / value[0])


def inverse_ratio(first: torch.Tensor, logit: torch.Tensor, largest: float) -> torch.Tensor:
    """Weights exp(first − logit) = softmax(·)_first / softmax(·)_i, capped, taken as constants (no gradient)."""
    return (first - logit).detach().exp().clamp(max=largest)


__all__ = ["NeuralMethod", "Task", "inverse_ratio", "position_curve", "session_batches"]
