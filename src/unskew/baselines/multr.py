"""MULTR: model-based unbiased learning to rank of Luo, Zou, Ai, Chen, Li, Yin and Davison (WSDM 2023)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unskew.baselines.neural import NeuralMethod, Task, inverse_ratio, session_batches
from unskew.baselines.user_simulator import click_loss, make_simulator, walk
from unskew.rankers._torch import torch
from unskew.rankers.batches import Batch
from unskew.rankers.net import Part, softmax_loss, train


class Simulator(NamedTuple):
    """Units of the item net and of the recurrent parts, learning rate, re-ordered lists per session."""

    item_units: tuple[int, ...]
    units: int
    rate: float
    orders: int


# A smaller simulator that learns faster makes up for fewer steps, and keeps a step below four of the naive ranker's.
PRESETS = {
    "paper": Simulator((512, 256), 64, 0.001, 32),
    "default": Simulator((128,), 16, 0.005, 32),
    "smoke": Simulator((16,), 8, 0.02, 4),
}
DROPOUT, DECAY = 0.4, 1e-5


@dataclass(kw_only=True, eq=False, repr=False)
class MULTR(NeuralMethod):
    """DLA, made doubly robust by a user simulator that clicks on lists nobody was shown.

    A recurrent simulator is first fitted to all sessions, then frozen. At every step it clicks on the lists as they
    were shown (ĉ) and on N random re-orderings of their items (c̃), and with w, v, exam loss as in DLA
        loss = exam loss + [ (A − B) + C + N·D ] / (2 + N)
        A = CE(s; c, w)   real clicks, inverse propensity      B = CE(s; ĉ, w)   the simulator's, the same weights
        C = CE(s; ĉ)      the simulator's clicks, unweighted    D = CE(s; c̃)     its clicks on the re-ordered lists
    so that errors of the simulator cancel between A and B where the weights are right.

    orders : N, re-ordered lists per session; None is the preset's 32.
    simulator_share : steps of the simulator's training, as a share of the ranker's steps.
    max_weight : no click weighs more than so many clicks at the top (A − B is not bounded below without it).
    """

    name: ClassVar[str] = "multr"
    orders: int | None = None
    simulator_share: float = 1.0
    max_weight: float = 100.0

    def towers(self, task: Task) -> torch.nn.Module:
        size = PRESETS[self.preset]
        simulator = make_simulator(task.n_features, task.positions, size.item_units, size.units)
        examination = torch.nn.ParameterDict({"e": torch.zeros(task.positions)})
        return torch.nn.ModuleDict({"examination": examination, "simulator": simulator})

    def prepare(self, net: Any, towers: Any, task: Task) -> None:
        simulator = towers["simulator"]
        if "simulator" in task.shared:  # the ranker's learning rate does not reach it
            simulator.load_state_dict(task.shared["simulator"])
        else:
            self._fit_simulator(simulator, task)
            task.shared["simulator"] = simulator.state_dict()
        simulator.requires_grad_(False)

    def _fit_simulator(self, simulator: Any, task: Task) -> None:
        # All sessions, not only those with a click: a simulator that never saw people leave would click too much.
        rng = np.random.default_rng(self.random_state)
        sessions = session_batches(task.log, self.list_size, rng, True, task.batches.scaling)

        def loss(batch: Batch) -> torch.Tensor:
            return click_loss(simulator, batch, teach=bool(rng.random() < 0.5), dropout=DROPOUT)

        steps = max(int(self.simulator_share * task.schedule.steps), 1)
        weights = list(simulator.parameters())
        part = Part(simulator, weights, torch.optim.Adam(weights, lr=PRESETS[self.preset].rate, weight_decay=DECAY))
        train([part], loss, sessions, replace(task.schedule, steps=steps))

    def loss(self, f: torch.Tensor, batch: Batch, towers: Any) -> torch.Tensor:
        s = batch.spread(f)
        logit = towers["examination"]["e"]
        e = logit[batch.position].masked_fill(~batch.mask, -torch.inf)
        w = inverse_ratio(logit[0], e, self.max_weight)
        v = inverse_ratio(s[:, :1], s, self.max_weight)
        shown, reordered = self.pseudo_clicks(batch, towers["simulator"])
        exam = softmax_loss(e, batch.click, batch.weight * v)
        a = softmax_loss(s, batch.click, batch.weight * w)
        b = softmax_loss(s, shown, batch.weight * w)
        c = softmax_loss(s, shown, batch.weight)
        d = softmax_loss(s, reordered, batch.weight)
        n = self._orders
        return exam + (a - b + c + n * d) / (2 + n)

    @property
    def _orders(self) -> int:
        return PRESETS[self.preset].orders if self.orders is None else self.orders

    def pseudo_clicks(self, batch: Batch, simulator: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, L) clicks on the lists as shown, and (B, L) how often each item was clicked in the re-ordered ones.

        The ranker scores item by item, so an item's share of the softmax is the same in every order of its list:
        counting its clicks over all orders gives D exactly, and only the simulator has to see the orders.
        """
        count, width = batch.mask.shape
        with torch.no_grad():
            items = batch.spread(simulator["item"](batch.x), fill=0.0)
            keys = torch.rand(self._orders, 1, width) + 2.0 * ~batch.mask  # places without an item stay last
            order = torch.cat([torch.arange(width).expand(1, count, width), keys.argsort(dim=2)]).reshape(-1, width)
            _, click = walk(simulator, items, batch.position, batch.mask, order=order)
            back = torch.zeros_like(click).scatter_(1, order, click).reshape(1 + self._orders, count, width)
            back = back * batch.mask
            return back[0], back[1:].sum(dim=0)

    def examination(self, towers: Any, task: Task) -> torch.Tensor:
        return towers["examination"]["e"].exp()
