"""PAL: position-bias aware learning of Guo, Yu, Liu, Tang and Zhang (RecSys 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from unskew.baselines.neural import NeuralMethod, Task
from unskew.baselines.rem import start_at_click_rate
from unskew.errors import check_choice
from unskew.rankers._torch import torch
from unskew.rankers.batches import Batch
from unskew.rankers.net import softmax_loss


@dataclass(kw_only=True, eq=False, repr=False)
class PAL(NeuralMethod):
    """P(click) = P(seen at k) · P(click | seen, x) = σ(a_k) σ(f), both learnt together on the log loss.

    With log p = log σ(a_k) + log σ(f), the loss is −c log p − (1 − c) log(1 − p), averaged over all items shown.

    objective : "product" as published; "softmax" compares the log p of a session's items list-wise instead.
    """

    name: ClassVar[str] = "pal"
    keep_empty: ClassVar[bool] = True
    objective: Literal["product", "softmax"] = "product"

    def towers(self, task: Task) -> torch.nn.Module:
        check_choice("objective", self.objective, ("product", "softmax"))
        return torch.nn.ParameterDict({"a": torch.zeros(task.positions)})

    def prepare(self, net: Any, towers: Any, task: Task) -> None:
        start_at_click_rate(net, task)

    def loss(self, f: torch.Tensor, batch: Batch, towers: Any) -> torch.Tensor:
        logsigmoid = torch.nn.functional.logsigmoid
        log_p = logsigmoid(towers["a"][batch.pack(batch.position)]) + logsigmoid(f)
        if self.objective == "softmax":
            return softmax_loss(batch.spread(log_p), batch.click, batch.weight)
        click, weight = batch.pack(batch.click).clamp(max=1), batch.pack(batch.weight)
        likelihood = torch.where(click > 0, log_p, log_one_minus_exp(log_p))
        return -(weight * likelihood).sum() / weight.sum()

    def examination(self, towers: Any, task: Task) -> torch.Tensor:
        return torch.sigmoid(towers["a"])


def log_one_minus_exp(x: torch.Tensor) -> torch.Tensor:
    """log(1 − eˣ) for x < 0, exact at both ends: −expm1 near 0, log1p far from it (Mächler's rule)."""
    x = x.clamp(max=-1e-7)
    near = x > -math.log(2)
    # The branch not taken gets a harmless argument, or its infinite slope would turn the gradient into NaN.
    return torch.where(
        near,
        torch.log(-torch.expm1(torch.where(near, x, -1.0))),
        torch.log1p(-torch.exp(torch.where(near, -1.0, x))),
    )
