"""The neural ranker's network, its list-wise loss and the one training loop behind every neural method."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.data.design import DesignMatrix
from unskew.rankers._torch import torch
from unskew.rankers.base import Judge
from unskew.rankers.batches import Batch, Batches
from unskew.rankers.net_scorer import CHUNK, SCALING, Scaling

TOWER_UNITS = 32
EPSILON = 1e-5
# A handful of numbers per position has to travel several units while a net's weights move by hundredths: models of
# examination get a rate of their own, and accumulators that start low because their gradients are small.
TOWER_RATE, TOWER_START = 0.1, 1e-4


def make_net(n_plain: int, n_terms: int, hidden: Sequence[int], *, separate_terms: bool = False) -> torch.nn.ModuleDict:
    """Linear, ELU, layer norm, linear, …, the layers of Ai et al. (2018) with a layer norm before every linear one.

    Before the first one features are standardised instead: a norm across an item's features would mix them with the
    terms, and forgets the level of an item whose features are all high (with one feature it forgets everything).
    Terms enter through weights of their own ("terms"), or through a tower added to the score ("tower0", "tower1"):
    terms of zero then leave what the plain features say as it is.
    """
    nn, widths = torch.nn, [n_plain, *hidden, 1]
    layers: dict[str, torch.nn.Module] = {}
    for i, (wide, narrow) in enumerate(pairwise(widths)):
        if i:
            layers[f"norm{i}"] = nn.LayerNorm(wide, eps=EPSILON)
        layers[f"linear{i}"] = nn.Linear(wide, narrow)
    if n_terms and separate_terms:
        layers |= {"tower0": nn.Linear(n_terms, TOWER_UNITS), "tower1": nn.Linear(TOWER_UNITS, 1)}
    elif n_terms:
        layers["terms"] = nn.Linear(n_terms, widths[1], bias=False)
    return nn.ModuleDict(layers)


def net_scores(net: torch.nn.ModuleDict, x: torch.Tensor, terms: torch.Tensor | None = None) -> torch.Tensor:
    """(n,) scores of (n, d) standardised features and (n, t) scaled terms."""
    elu = torch.nn.functional.elu
    a = net["linear0"](x)
    if terms is not None and "terms" in net:
        a = a + net["terms"](terms)
    layer = 1
    while f"linear{layer}" in net:
        a = net[f"linear{layer}"](net[f"norm{layer}"](elu(a, inplace=True)))
        layer += 1
    if terms is not None and "tower0" in net:
        a = a + net["tower1"](elu(net["tower0"](terms)))
    return a[:, 0]


def softmax_loss(s: torch.Tensor, label: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """List-wise softmax cross-entropy, the mean over weighted clicks: Σ y w (−log softmax(s)) / Σ y w.

    s : (B, L) scores, −inf where there is no item; label, weight : (B, L), 0 there.

    The sums run over the whole batch, so a session with more, or heavier, clicks counts more (Ai et al., 2018).
    """
    y = label * weight
    log_share = s.log_softmax(dim=1).masked_fill(s == -torch.inf, 0)
    return -(y * log_share).sum() / y.sum().clamp(min=1e-12)


@dataclass(frozen=True)
class Schedule:
    """How long to train, how fast, how often to ask the judge; gradients are clipped at the norm `clip`."""

    steps: int
    learning_rate: float
    check_every: int
    clip: float = 5.0


@dataclass(frozen=True)
class Trained:
    """The best checkpoint: after how many steps, how the judge saw it (None without one)."""

    step: int
    judged: float | None


@dataclass(frozen=True, eq=False)
class Part:
    """A module with the optimiser that moves it; the optimiser lives as long as the training.

    A fresh optimiser at every step would forget its accumulators and move every weight by the full learning rate.
    """

    module: torch.nn.Module
    weights: list[Any]
    optimiser: Any


class AdaGrad:
    """Duchi et al. (2011): G ← G + g², weight ← weight − rate · g / √G.

    PyTorch's own does the same, but importing its optimisers takes longer than many a small training.
    """

    def __init__(self, weights: list[Any], rate: float, start: float) -> None:
        self.weights, self.rate = weights, rate
        self.sums = [torch.full_like(weight, start) for weight in weights]

    def zero_grad(self) -> None:
        for weight in self.weights:
            weight.grad = None

    def step(self) -> None:
        with torch.no_grad():
            for weight, total in zip(self.weights, self.sums):
                if weight.grad is not None:
                    total.addcmul_(weight.grad, weight.grad)
                    weight.addcdiv_(weight.grad, total.sqrt(), value=-self.rate)


def adagrad(module: torch.nn.Module, rate: float, *, start: float = 0.1) -> Part:
    """A part moved by AdaGrad, its accumulators G starting at `start`.

    0.1 is the published start: PyTorch's 0 would make the first step move every weight of the net by the full rate.
    """
    weights = [p for p in module.parameters() if p.requires_grad]
    return Part(module, weights, AdaGrad(weights, rate, start))


def train(
    parts: Sequence[Part],
    loss: Callable[[Batch], torch.Tensor],
    batches: Batches,
    schedule: Schedule,
    *,
    judge: Callable[[], float] | None = None,
) -> Trained:
    """Move all parts together, each clipped on its own; in the end the best checkpoint by the judge is put back."""
    best: tuple[float, int, list[Any]] | None = None
    for step in range(1, schedule.steps + 1):
        take_step(parts, loss, batches.draw(), schedule.clip)
        if judge is not None and (step % schedule.check_every == 0 or step == schedule.steps):
            score = judge()
            if best is None or score > best[0]:
                best = score, step, [copy.deepcopy(part.module.state_dict()) for part in parts]
    if best is None:
        return Trained(schedule.steps, None)
    for part, state in zip(parts, best[2]):
        part.module.load_state_dict(state)
    return Trained(best[1], best[0])


def take_step(parts: Sequence[Part], loss: Callable[[Batch], torch.Tensor], batch: Batch, clip: float) -> None:
    """One move of every part down the gradient of the loss on one batch."""
    for part in parts:
        part.optimiser.zero_grad()
    loss(batch).backward()
    for part in parts:
        torch.nn.utils.clip_grad_norm_(part.weights, clip)
        part.optimiser.step()


def design_scores(net: torch.nn.ModuleDict, scaling: Scaling, design: DesignMatrix) -> npt.NDArray[np.float64]:
    """(n,) scores of all entries of a design."""
    out = np.empty(len(design))
    with torch.no_grad():
        for start in range(0, len(design), CHUNK):
            part = slice(start, start + CHUNK)
            terms = torch.from_numpy(scaling.terms(design.extra(part))) if design.n_terms else None
            out[part] = net_scores(net, torch.from_numpy(scaling.plain(design.plain(part))), terms).numpy()
    return out


def net_judge(net: torch.nn.ModuleDict, scaling: Scaling, judge: Judge | None) -> Callable[[], float] | None:
    """The judge's opinion of the net as it is now."""
    return None if judge is None else lambda: judge(design_scores(net, scaling, judge.features))


def net_tensors(net: torch.nn.ModuleDict, scaling: Scaling) -> Mapping[str, npt.NDArray[np.float32]]:
    """The fitted net as arrays, under the names NetScorer knows."""
    return {
        **{f"input.{part}": getattr(scaling, part) for part in SCALING},
        **{name: value.detach().numpy().copy() for name, value in net.state_dict().items()},
    }


@contextmanager
def seeded(seed: int | None, threads: int | None) -> Iterator[None]:
    """PyTorch's chance and threads for the time of a fit; both are as before afterwards."""
    before = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(np.random.default_rng(seed).integers(2**62))
        if threads is not None:
            torch.set_num_threads(max(threads, 1))
        try:
            yield
        finally:
            torch.set_num_threads(before)
