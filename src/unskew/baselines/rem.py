"""REM: regression-based EM of Wang, Golbandi, Bendersky, Metzler and Najork (WSDM 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from unskew.baselines.neural import NeuralMethod, Task
from unskew.rankers._torch import torch
from unskew.rankers.batches import Batch


@dataclass(kw_only=True, eq=False, repr=False)
class REM(NeuralMethod):
    """A position-based click model, P(click) = θ_k γ(x) with γ = σ(f), fitted by online EM.

    E-step, for an item at k that was not clicked (one that was clicked was examined and relevant):
        P(examined | c = 0) = θ(1 − γ) / (1 − θγ),   P(relevant | c = 0) = (1 − θ)γ / (1 − θγ)
    M-step: θ_k moves towards the mean of P(examined | c) over the items at k; f takes a gradient step on the
    cross-entropy with P(relevant | c).

    theta, step : θ starts at `theta` and moves by `step` of the way to each batch's mean: 0.05 in the "paper" preset,
        0.5 elsewhere, where a tenth of the steps makes as many rounds of EM.
    sampled : targets drawn from P(relevant | c), as in the paper, instead of the probabilities themselves.
    """

    name: ClassVar[str] = "rem"
    keep_empty: ClassVar[bool] = True
    theta: float = 0.9
    step: float | None = None
    sampled: bool = False

    def towers(self, task: Task) -> torch.nn.Module:
        start = torch.full((task.positions,), self.theta)
        return torch.nn.ParameterDict({"theta": torch.nn.Parameter(start, requires_grad=False)})

    def prepare(self, net: Any, towers: Any, task: Task) -> None:
        start_at_click_rate(net, task)

    def loss(self, f: torch.Tensor, batch: Batch, towers: Any) -> torch.Tensor:
        k, weight = batch.pack(batch.position), batch.pack(batch.weight)
        click = batch.pack(batch.click).clamp(max=1)
        examined, relevant = expectation(towers["theta"][k], f.detach(), click)
        towers["theta"].data = maximisation(towers["theta"], k, examined, weight, self._step)
        target = torch.bernoulli(relevant) if self.sampled else relevant
        cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
        return cross_entropy(f, target, weight, reduction="sum") / weight.sum()

    @property
    def _step(self) -> float:
        return self.step if self.step is not None else 0.05 if self.preset == "paper" else 0.5

    def examination(self, towers: Any, task: Task) -> torch.Tensor:
        return towers["theta"]


def expectation(theta: torch.Tensor, f: torch.Tensor, click: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(n,) P(examined | click) and (n,) P(relevant | click), in a form that does not overflow.

    P(relevant | c = 0) = σ(f − softplus(logit θ)) because softplus(logit θ) = −log(1 − θ); the other by symmetry.
    """
    logit, softplus = torch.logit(theta), torch.nn.functional.softplus
    examined = torch.sigmoid(logit - softplus(f))
    relevant = torch.sigmoid(f - softplus(logit))
    return click + (1 - click) * examined, click + (1 - click) * relevant


def maximisation(
    theta: torch.Tensor, k: torch.Tensor, examined: torch.Tensor, weight: torch.Tensor, step: float
) -> torch.Tensor:
    """θ after one move towards the mean of P(examined | click) at every position; 0 < θ < 1 is kept."""
    count = torch.zeros_like(theta).index_add_(0, k, weight)
    mean = torch.zeros_like(theta).index_add_(0, k, weight * examined) / count.clamp(min=1e-12)
    return torch.where(count > 0, theta + step * (mean - theta), theta).clamp(1e-6, 1 - 1e-6)


def start_at_click_rate(net: Any, task: Task) -> None:
    """Let the net's first guess be the log's click rate: clicks are rare, and AdaGrad would walk there for long."""
    lists = task.batches.lists
    shown = lists.position <= task.positions
    rate = float((lists.label[shown] > 0).mean())
    last = list(net.values())[-1]
    with torch.no_grad():
        last.bias.fill_(float(torch.logit(torch.tensor(min(max(rate, 1e-4), 0.9)))))
