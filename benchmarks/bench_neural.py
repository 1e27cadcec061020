"""A training step of each neural method, as a multiple of the naive net's step, and that one of a bare PyTorch step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.harness import Row
from unskew.baselines.dla import DLA
from unskew.baselines.multr import MULTR
from unskew.baselines.neural import NeuralMethod, Task, session_batches
from unskew.baselines.pal import PAL
from unskew.baselines.rem import REM
from unskew.baselines.upe import UPE
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.rankers._torch import torch
from unskew.rankers.batches import Batch, Batches
from unskew.rankers.net import Schedule, adagrad, make_net, net_scores, seeded, softmax_loss, take_step

HIDDEN, LISTS, ITEMS, FEATURES = (512, 256, 128), 256, 10, 136
QUERIES = 600
METHODS: list[tuple[NeuralMethod, float]] = [(DLA(), 1.3), (REM(), 1.3), (PAL(), 1.3), (UPE(), 2.0), (MULTR(), 4.0)]
Step = Callable[[], None]


def run(quick: bool) -> list[Row]:
    """One thread and processor time, steps taken in turn: other work on the machine then hits all alike."""
    log = _log()
    with seeded(0, 1):
        batches = session_batches(log, ITEMS, np.random.default_rng(0), keep_empty=False)
        steps: dict[str, Step] = {"bare": _bare(batches), "naive": _naive(batches)}
        steps |= {method.name: _step(method, log, batches) for method, _ in METHODS}
        seconds = _seconds(steps, repeat=7 if quick else 25)
    shape = f"{LISTS} lists × {ITEMS} items × {FEATURES} features"
    rows = [_row("naive step", seconds, "naive", "bare", "a bare PyTorch step", 1.5, shape)]
    for method, limit in METHODS:
        phase = "ranker step, default simulator" if method.name == "multr" else "step"
        rows.append(_row(f"{method.name} {phase}", seconds, method.name, "naive", "the naive step", limit, shape))
    return rows


def _row(what: str, seconds: dict[str, list[float]], ours: str, peer: str, name: str, limit: float, note: str) -> Row:
    ratio = statistics.median(a / b for a, b in zip(seconds[ours], seconds[peer]))
    medians = statistics.median(seconds[ours]), statistics.median(seconds[peer])
    note = f"our time over the peer's; {note}"
    return Row("neural", what, medians[0], name, medians[1], "s", ratio, f"≤ {limit:g} ×", ratio <= limit, note)


def _seconds(steps: dict[str, Step], repeat: int) -> dict[str, list[float]]:
    for step in steps.values():
        step()
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeat):
        for name, step in steps.items():
            started = time.process_time()
            step()
            seconds[name].append(time.process_time() - started)
    return seconds


def _log() -> ClickLog:
    rng = np.random.default_rng(0)
    entries = QUERIES * ITEMS
    return ClickLog.from_arrays(
        RankingData.from_arrays(rng.normal(size=(entries, FEATURES)), sizes=[ITEMS] * QUERIES),
        row=np.arange(entries),
        session=np.repeat(np.arange(QUERIES), ITEMS),
        position=np.tile(np.arange(1, ITEMS + 1), QUERIES),
        click=rng.random(entries) < 0.15,
    )


def _bare(batches: Batches) -> Step:
    """Forward, backward, AdaGrad of the same layers on tensors that lie ready."""
    nn, layers, wide = torch.nn, [], FEATURES
    for narrow in (*HIDDEN, 1):
        layers += (
            [nn.Linear(wide, narrow)] if wide == FEATURES else [nn.ELU(), nn.LayerNorm(wide), nn.Linear(wide, narrow)]
        )
        wide = narrow
    net, batch = nn.Sequential(*layers), batches.draw()
    optimiser = torch.optim.Adagrad(net.parameters(), lr=0.01, initial_accumulator_value=0.1)

    def step() -> None:
        optimiser.zero_grad()
        log_share = net(batch.x).reshape(LISTS, ITEMS).log_softmax(dim=1)
        (-(batch.click * log_share).sum() / batch.click.sum()).backward()
        optimiser.step()

    return step


def _naive(batches: Batches) -> Step:
    net = make_net(FEATURES, 0, HIDDEN)
    parts = [adagrad(net, 0.01)]

    def loss(batch: Batch) -> torch.Tensor:
        return softmax_loss(batch.spread(net_scores(net, batch.x)), batch.click, batch.weight)

    return lambda: take_step(parts, loss, batches.draw(), 5.0)


def _step(method: NeuralMethod, log: ClickLog, batches: Batches) -> Step:
    task = Task(log, batches, Schedule(1, 0.01, 1), ITEMS)
    net, towers = make_net(FEATURES, 0, HIDDEN), method.towers(task)
    method.prepare(net, towers, task)
    parts = [adagrad(net, 0.01), adagrad(towers, 0.1)]

    def loss(batch: Batch) -> torch.Tensor:
        return method.loss(net_scores(net, batch.x), batch, towers)

    return lambda: take_step(parts, loss, batches.draw(), 5.0)
