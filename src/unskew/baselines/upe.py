"""UPE: unconfounded propensity estimation of Luo, Zou, Ai, Chen, Yin and Davison (SIGIR 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from unskew.baselines.neural import NeuralMethod, Task, inverse_ratio
from unskew.data.clicks import ClickLog
from unskew.rankers._torch import torch
from unskew.rankers.batches import Batch
from unskew.rankers.net import adagrad, softmax_loss, train

# preset → length of an item's code, units of the two hidden layers
SIZES = {"paper": (64, 256), "default": (64, 256), "smoke": (16, 32)}
# Lists whose items are tried at all positions together; their activations stay in the caches.
BLOCK = 16


@dataclass(kw_only=True, eq=False, repr=False)
class UPE(NeuralMethod):
    """Dual learning with a propensity that does not mistake relevant items at the top for looks at the top.

    A propensity net e(x, k) = head(α item(x) + position_k) is first fitted, without positions and with α = 1, to the
    logging policy's own scores: that is the confounder, what made the policy put an item where it is. It is then
    frozen, and the position vectors and α, its strength, learn from clicks beside the ranker, as in DLA:
        exam loss = CE(softmax(e); v),  v_i = exp(s̄ − s_i)
        rank loss = CE(softmax(s); w),  w_k = p_1 / p_k,  p_k = P(examined | do(k)) = mean over items of softmax(e)_k
    The mean over items places every item of a list once at every position (all cyclic shifts of the list). v refers
    to the list's average score s̄ where DLA has the first item's: sessions that happen to start with a relevant item
    would else count more, and since e depends on items here, that tilts p even where positions are random.

    max_weight : no click weighs more than so many clicks at the top.
    confounder_share : steps of the first phase, as a share of the ranker's steps.
    fixed_strength : keep α at 1, as published. The scale of logging scores is then taken for that of examination.
    joint : everything in one phase, as in the authors' code: clicks then move the confounder too.
    """

    name: ClassVar[str] = "upe"
    max_weight: float = 100.0
    confounder_share: float = 0.25
    fixed_strength: bool = False
    joint: bool = False

    def towers(self, task: Task) -> torch.nn.Module:
        nn, (code, units) = torch.nn, SIZES[self.preset]
        item = nn.Sequential(nn.Linear(task.n_features, units), nn.LeakyReLU(), nn.Linear(units, code))
        alpha = nn.Parameter(torch.ones(()), requires_grad=not self.fixed_strength)
        position = nn.ParameterDict({"table": torch.zeros(task.positions, code), "alpha": alpha})
        return nn.ModuleDict(
            {"item": item, "position": position, "head": nn.Linear(code, units), "out": nn.Linear(units, 1)}
        )

    def prepare(self, net: Any, towers: Any, task: Task) -> None:
        if self.joint:
            return

        def loss(batch: Batch) -> torch.Tensor:
            return confounder_loss(towers, batch)

        steps = max(int(self.confounder_share * task.schedule.steps), 1)
        train([adagrad(towers, task.schedule.learning_rate)], loss, task.batches, replace(task.schedule, steps=steps))
        for part in ("item", "head", "out"):
            towers[part].requires_grad_(False)

    def loss(self, f: torch.Tensor, batch: Batch, towers: Any) -> torch.Tensor:
        s = batch.spread(f)
        before, step = halves(towers, batch.x)
        e = batch.spread(logits(towers, before + step[batch.pack(batch.position)]))
        w = self.weights(batch, towers, before.detach(), step.detach())
        average = batch.spread(f, fill=0.0).sum(dim=1, keepdim=True) / batch.mask.sum(dim=1, keepdim=True)
        v = inverse_ratio(average, s, self.max_weight)
        loss = softmax_loss(s, batch.click, batch.weight * w) + softmax_loss(e, batch.click, batch.weight * v)
        return loss + confounder_loss(towers, batch) if self.joint else loss

    def weights(self, batch: Batch, towers: Any, before: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        """(B, L) w_k = p_1 / p_k at the items' positions."""
        with torch.no_grad():
            p = do_propensity(batch, towers, before, step)
            return (1 / p.clamp(min=1 / self.max_weight))[batch.position]

    def examination(self, towers: Any, task: Task) -> torch.Tensor:
        batches = replace(task.batches, size=2048, rng=np.random.default_rng(self.random_state))
        batch = batches.draw()
        return do_propensity(batch, towers, *halves(towers, batch.x))

    def _facts(self, log: ClickLog) -> dict[str, Any]:
        return {"confounder": "−log(position)" if log.logging_score is None else "logging score"}


def halves(towers: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The head's first layer on items, (n, h), and on positions, (positions, h): it is linear, so the halves add up.

    Every item is encoded once, however many positions it is tried at.
    """
    head, position = towers["head"], towers["position"]
    return position["alpha"] * (towers["item"](x) @ head.weight.T) + head.bias, position["table"] @ head.weight.T


def logits(towers: Any, a: torch.Tensor) -> torch.Tensor:
    """(…,) e from the (…, h) first layer of the head."""
    return towers["out"](torch.nn.functional.leaky_relu(a))[..., 0]


def confounder_loss(towers: Any, batch: Batch) -> torch.Tensor:
    """Cross-entropy of the propensity net without positions with softmax(logging scores), standardised per list.

    Raw scores have no scale: their softmax could be flat or all on one item. Without logging scores −log(position)
    stands in for them: it is what the policy's order says.
    """
    known = batch.logging_score
    score = -torch.log1p(batch.position.float()) if known is None else known
    score = score.masked_fill(~batch.mask, torch.nan)
    centred = score - score.nanmean(dim=1, keepdim=True)
    spread = centred.square().nanmean(dim=1, keepdim=True).sqrt().clamp(min=1e-6)
    target = (centred / spread).masked_fill(~batch.mask, -torch.inf).softmax(dim=1)
    e = batch.spread(logits(towers, towers["head"](towers["item"](batch.x))))
    return softmax_loss(e, target, batch.mask.float())


def do_propensity(batch: Batch, towers: Any, before: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    """(positions,) P(examined | do(k)) relative to the top position.

    Short lists share their attention among fewer positions, so that each position is compared with the top of those
    lists that reach it.
    """
    share = torch.cat([shifted_shares(*block) for block in _blocks(batch, towers, before, step)])
    has_top = (batch.position[:, :1] == 0) & batch.mask
    flat, k = share * has_top, batch.position
    here = torch.zeros(len(step)).index_add_(0, k.reshape(-1), flat.reshape(-1))
    top = torch.zeros(len(step)).index_add_(0, k.reshape(-1), (share[:, :1] * has_top).reshape(-1))
    return torch.where(top > 0, here / top.clamp(min=1e-12), 1.0)


def shifted_shares(grid: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(B, L) softmax over the places of a list, averaged over its n cyclic shifts.

    grid : (B, L, L) logits of item i at place j; mask : (B, L) which places exist.
    """
    width = mask.shape[1]
    size = mask.sum(dim=1)[:, None, None]
    r, j = torch.arange(width)[:, None], torch.arange(width)
    item = (j + r) % size  # (B, shift, place): the item that shift r puts at place j
    e = grid.gather(1, item)  # grid[b, item, j]
    share = e.masked_fill(~mask[:, None], -torch.inf).softmax(dim=2)
    return (share * (r < size)).sum(dim=1) / size[:, 0]


def _blocks(batch: Batch, towers: Any, before: torch.Tensor, step: torch.Tensor) -> Any:
    """Grids of item × place logits with their masks, a few lists at a time."""
    items = batch.spread(before, fill=0.0)
    for start in range(0, len(items), BLOCK):
        part = slice(start, start + BLOCK)
        a = items[part][:, :, None] + step[batch.position[part]][:, None]
        yield towers["out"](torch.nn.functional.leaky_relu(a, inplace=True))[..., 0], batch.mask[part]
