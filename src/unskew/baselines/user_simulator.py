"""MULTR's user simulator: a recurrent net that clicks through any list of items, seen or not."""

from __future__ import annotations

from typing import Any

from unskew.rankers._torch import torch
from unskew.rankers.batches import Batch


def make_simulator(n_features: int, positions: int, item_units: tuple[int, ...], units: int) -> Any:
    """Item net, a GRU that reads the list in both directions, and a GRU that clicks from top to bottom.

    The decoder's input is [context of the list, item, position, previous click]; its input weights are kept as one
    matrix each, because the four parts change at different times: an item's part is computed once, however many
    lists it is put into.
    """
    nn, layers, width = torch.nn, [], n_features
    for wide in item_units:
        layers += [nn.Linear(width, wide), nn.ELU()]
        width = wide
    gates = 3 * units
    parts = {
        "item": nn.Sequential(*layers, nn.Linear(width, units)),
        "read_down": nn.Linear(units, gates),
        "read_up": nn.Linear(units, gates),
        "recur_down": nn.Linear(units, gates, bias=False),
        "recur_up": nn.Linear(units, gates, bias=False),
        "context": nn.Linear(2 * units, units),
        "see_context": nn.Linear(units, gates),
        "see_item": nn.Linear(units, gates, bias=False),
        "see_position": nn.Embedding(positions, gates),
        "see_click": nn.Embedding(2, gates),
        "recur": nn.Linear(units, gates, bias=False),
        "click": nn.Linear(units, 1),
    }
    return nn.ModuleDict(parts)


def click_loss(simulator: Any, batch: Batch, *, teach: bool, dropout: float) -> torch.Tensor:
    """Cross-entropy of the clicks, summed over the items of a session and averaged over sessions.

    teach : the decoder is told the real previous click; otherwise it lives with its own.
    """
    click = batch.click.clamp(max=1)
    items = batch.spread(simulator["item"](batch.x), fill=0.0)
    logit, _ = walk(simulator, items, batch.position, batch.mask, told=click if teach else None, dropout=dropout)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, click, batch.weight, reduction="sum")
    return loss / len(click)


def walk(
    simulator: Any,
    items: torch.Tensor,
    position: torch.Tensor,
    mask: torch.Tensor,
    *,
    order: torch.Tensor | None = None,
    told: torch.Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Read the lists, then click through them: (M, L) logits and (M, L) sampled clicks.

    items : (B, L, units) encoded items; position, mask : (B, L).
    order : (M, L) with M a multiple of B: which item stands at each place, for lists in other orders (M = N · B, the
        B lists repeated N times); None for the lists as they are.
    told : (M, L) previous clicks to go by instead of the sampled ones.
    """
    count, width, _ = items.shape
    order = torch.arange(width).expand(count, width) if order is None else order
    repeats = len(order) // count
    first = torch.arange(0, count * width, width).repeat(repeats)
    at = (order + first[:, None]).T.contiguous()  # (L, M) rows of the flattened items, place by place
    position, mask = position.repeat(repeats, 1).T.contiguous(), mask.repeat(repeats, 1).T.contiguous()
    flat = items.reshape(count * width, -1)
    ends = [
        _read(simulator["recur_down"], simulator["read_down"](flat), at, mask),
        _read(simulator["recur_up"], simulator["read_up"](flat), at.flip(0), mask.flip(0)),
    ]
    context = simulator["see_context"](simulator["context"](torch.cat(ends, dim=1)))
    return _decode(simulator, simulator["see_item"](flat), at, context, position, told, dropout)


def _read(recur: Any, gates: torch.Tensor, at: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(M, units) what a GRU remembers after the last item; places without an item leave it as it is."""
    h = gates.new_zeros(at.shape[1], recur.in_features)
    full = bool(mask.all())
    for rows, exists in zip(at, mask):
        new = gru_step(recur, gates.index_select(0, rows), h)
        h = new if full else torch.where(exists[:, None], new, h)
    return h


def _decode(
    simulator: Any,
    seen: torch.Tensor,
    at: torch.Tensor,
    context: torch.Tensor,
    position: torch.Tensor,
    told: torch.Tensor | None,
    dropout: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(M, L) logits and clicks, from the top of the lists to the bottom."""
    recur, places, clicks = simulator["recur"], simulator["see_position"], simulator["see_click"]
    h = seen.new_zeros(len(context), recur.in_features)
    previous = torch.zeros(len(context), dtype=torch.long)
    logits, sampled = [], []
    for place, rows in enumerate(at):
        gates = seen.index_select(0, rows).add_(context).add_(places(position[place])).add_(clicks(previous))
        h = gru_step(recur, gates, h)
        kept = torch.nn.functional.dropout(h, dropout) if dropout else h
        logit = simulator["click"](kept)[:, 0]
        drawn = torch.rand(len(h)) < torch.sigmoid(logit.detach())
        logits.append(logit)
        sampled.append(drawn)
        previous = drawn.long() if told is None else told[:, place].long()
    return torch.stack(logits, 1), torch.stack(sampled, 1).float()


def gru_step(recur: Any, gates: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """One step of a gated recurrent unit whose input part of the gates (reset, update, new) is known already."""
    two = 2 * h.shape[1]
    both = torch.addmm(gates[:, :two], h, recur.weight[:two].T).sigmoid()
    reset, update = both.chunk(2, dim=1)
    inner = torch.addcmul(gates[:, two:], reset, h @ recur.weight[two:].T)
    new = inner.mul_(2).sigmoid().mul(2).sub_(1)  # tanh, at a third of its cost
    return torch.lerp(new, h, update)
