"""DLA: the dual learning algorithm of Ai, Bi, Luo, Guo and Croft (SIGIR 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from unskew.baselines.neural import NeuralMethod, Task, inverse_ratio
from unskew.rankers._torch import torch
from unskew.rankers.batches import Batch
from unskew.rankers.net import softmax_loss


@dataclass(kw_only=True, eq=False, repr=False)
class DLA(NeuralMethod):
    """Ranker and examination model weigh each other's clicks.

    With scores s of the items and a logit e_k for every position, over the clicks of a session
        rank loss = CE(softmax(s); w),  w_i = softmax(e)_1 / softmax(e)_k = exp(e_1 − e_k)   (inverse propensity)
        exam loss = CE(softmax(e); v),  v_i = softmax(s)_1 / softmax(s)_i = exp(s_1 − s_i)   (inverse relevance)
    and both are minimised at once; the weights are constants. e starts at 0: the first step is the naive ranker's.

    max_weight : no click weighs more than so many clicks at the top.
    """

    name: ClassVar[str] = "dla"
    max_weight: float = 100.0

    def towers(self, task: Task) -> torch.nn.Module:
        return torch.nn.ParameterDict({"e": torch.zeros(task.positions)})

    def loss(self, f: torch.Tensor, batch: Batch, towers: Any) -> torch.Tensor:
        s = batch.spread(f)
        e = towers["e"][batch.position].masked_fill(~batch.mask, -torch.inf)
        w = inverse_ratio(towers["e"][0], e, self.max_weight)
        v = inverse_ratio(s[:, :1], s, self.max_weight)
        return softmax_loss(s, batch.click, batch.weight * w) + softmax_loss(e, batch.click, batch.weight * v)

    def examination(self, towers: Any, task: Task) -> torch.Tensor:
        return towers["e"].exp()
