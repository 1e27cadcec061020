"""One training over all workers: every worker takes the lists it holds, and the library's own network does the rest."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from unskew.data.design import DesignMatrix, FloatMatrix, ZeroTerms
from unskew.rankers.binned import SAMPLE
from unskew.rankers.lambdamart import LambdaMART
from unskew.rankers.trees import several
from unskew.rankers.xgb import XGBoostRanker
from unskew.scale import worker_lightgbm, worker_xgboost
from unskew.scale.part_work import LoadedPart, Recipe, bin_sample, joined
from unskew.scale.watch import POLL_SECONDS, WorkerLost, leave, running, wait_for_a_worker, watched

# Who trains a ranker: a module with network, settings, train and load.
TRAINERS: dict[type, ModuleType] = {LambdaMART: worker_lightgbm, XGBoostRanker: worker_xgboost}


@dataclass(frozen=True)
class Shapes:
    """(parts,) entries of every part, the rows behind them; names of features and terms."""

    entries: tuple[int, ...]
    rows: tuple[int, ...]
    features: tuple[str, ...]
    terms: tuple[str, ...]

    @property
    def design(self) -> DesignMatrix:
        """A design of this shape that takes no memory."""
        plain = np.broadcast_to(np.zeros(1, np.float32), (sum(self.entries), len(self.features)))
        return DesignMatrix(plain, terms=ZeroTerms(self.terms))


def load_booster(ranker: Any, model: bytes) -> Any:
    """The trees that `train_together` came back with."""
    return TRAINERS[type(ranker)].load(model)


def train_together(client: Any, parts: Sequence[Any], shapes: Shapes, recipe: Recipe, ranker: Any) -> bytes:
    """Train a ranker on the lists of all parts (futures), each where it lies; raises WorkerLost if a worker dies."""
    trainer = TRAINERS[type(ranker)]
    params, rounds = trainer.settings(ranker, shapes.design), max(several(ranker.setting("trees")))
    sample = _sample(client, parts, shapes, recipe, distinct=trainer.DISTINCT)
    shares = _shares(client, parts, shapes)
    if "interaction_constraints" in params and not trainer.SHARES_CONSTRAINED:
        shares = {
            max(shares, key=lambda worker: len(shares[worker])): [part for held in shares.values() for part in held]
        }
    training, futures = f"unskew-training-{uuid.uuid4().hex}", []
    try:
        processes = client.run(os.getpid, workers=list(shares))
        with trainer.network(client, list(shares)) as seats:
            for number, (worker, held) in enumerate(shares.items()):
                orders = (params, rounds, seats[worker], training, processes[worker])
                task = (_take_part, held, recipe, sample, type(ranker), orders)
                futures.append(client.submit(*task, key=f"{training}-{number}", workers=[worker]))
            return bytes(watched(client, futures, processes))
    except OSError as error:  # a worker died while the others were told where it is
        leave(client, training, trainer.GRACE_SECONDS)
        raise WorkerLost("that could not be reached") from error
    except BaseException:
        leave(client, training, trainer.GRACE_SECONDS)
        raise
    finally:
        for future in futures:  # kept any longer, a worker's death would have it computed again
            future.release()


def _take_part(
    parts: list[LoadedPart], recipe: Recipe, sample: FloatMatrix, kind: type, orders: tuple[Any, ...]
) -> bytes:
    """What a worker does: its lists, and then the training that all are in."""
    params, rounds, seat, training, process = orders
    with running(training, process):
        lists = [lists for part in parts if (lists := recipe.lists(part)) is not None]
        return bytes(TRAINERS[kind].train(lists, params, rounds, sample, seat))


def _sample(client: Any, parts: Sequence[Any], shapes: Shapes, recipe: Recipe, *, distinct: bool) -> Any:
    """A future of the rows that bins are cut from: the same for every worker, and if they are few those of memory."""
    known = sum(shapes.rows if distinct else shapes.entries)
    share = min(1.0, SAMPLE / max(known, 1))
    numbered = enumerate(parts)
    drawn = [client.submit(bin_sample, part, recipe, share, number, distinct, pure=False) for number, part in numbered]
    return client.submit(joined, drawn, pure=False)


def _shares(client: Any, parts: Sequence[Any], shapes: Shapes) -> dict[str, list[Any]]:
    """The parts with lists, by the worker that holds them; of several holders the one with the least to do."""
    load: dict[str, int] = {}
    shares: dict[str, list[Any]] = {}
    places = _places(client, [part for part, entries in zip(parts, shapes.entries) if entries])
    for part, entries in zip(parts, shapes.entries):
        if entries:
            worker = min(places[part.key], key=lambda one: load.get(one, 0))
            load[worker] = load.get(worker, 0) + entries
            shares.setdefault(worker, []).append(part)
    return shares


def _places(client: Any, parts: Sequence[Any]) -> dict[str, list[str]]:
    """Where parts are, as soon as all are somewhere: what a dead worker held is read again by others."""
    while True:
        wait_for_a_worker(client)
        here = set(client.ncores())
        held = client.who_has(list(parts))
        places = {part.key: [worker for worker in held.get(part.key, ()) if worker in here] for part in parts}
        if all(places.values()):
            return places
        for part in parts:
            if part.status == "error":
                part.result()  # raises what went wrong with the file
        time.sleep(POLL_SECONDS)
