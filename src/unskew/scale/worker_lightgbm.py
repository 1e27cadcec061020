"""LightGBM in the workers: the same bins everywhere, each worker its own lists, one model grown by all together.

This is the network that DaskLGBMRanker uses. That class wants the wide matrix in one piece and lets every worker cut
some of the bins from its own rows; here the columns are binned block by block, with bins that all workers share.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlparse

import lightgbm as lgb
import numpy as np

from unskew.data.design import DesignMatrix, FloatMatrix
from unskew.rankers.binned import BIN_SETTINGS, BLOCK
from unskew.scale.part_work import TrainingPart, own_threads

# In memory bins are cut from distinct rows, so that merged sessions do not move them.
DISTINCT = True
# LightGBM 4.7 fails (std::bad_alloc) when several workers grow trees whose columns may not be mixed: one worker does.
SHARES_CONSTRAINED = False
# A worker whose peer has died waits on and on, so there is no point in waiting for it.
GRACE_SECONDS = 2.0
# Ports that this worker keeps free until its training begins.
_held: dict[int, socket.socket] = {}


@contextmanager
def network(client: Any, workers: Sequence[str]) -> Iterator[dict[str, dict[str, Any]]]:
    """What each worker needs to know to find the others."""
    ports = client.run(_reserve, workers=list(workers))
    machines = ",".join(f"{urlparse(worker).hostname}:{ports[worker]}" for worker in workers)
    shared = {"machines": machines, "num_machines": len(workers), "tree_learner": "data"}
    yield {worker: {**shared, "local_listen_port": ports[worker]} for worker in workers}


def _reserve() -> int:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))
    port = int(held.getsockname()[1])
    _held[port] = held
    return port


def settings(ranker: Any, shape: DesignMatrix) -> dict[str, Any]:
    """What LightGBM is told, for lists of this shape."""
    return {**ranker._params(shape, verbosity=-1), "objective": "lambdarank"}


def train(
    parts: list[TrainingPart], params: dict[str, Any], rounds: int, sample: FloatMatrix, seat: dict[str, Any]
) -> bytes:
    """Grow the trees together with the other workers; everybody ends with the same model."""
    hush_this_thread()
    alone = seat["num_machines"] == 1
    data = _binned(parts, sample)
    _held.pop(seat["local_listen_port"]).close()
    told = {**params, "num_threads": own_threads(), **({} if alone else seat)}
    try:
        booster = lgb.train(told, data, num_boost_round=rounds)
    finally:
        # Also after an error: this thread would go on talking to a dead peer in its next training.
        lgb.basic._LIB.LGBM_NetworkFree()
    return str(booster.model_to_string()).encode()


def load(model: bytes) -> lgb.Booster:
    """The trees that training came back with."""
    return lgb.Booster(model_str=model.decode())


def _binned(parts: list[TrainingPart], sample: FloatMatrix) -> lgb.Dataset:
    settings = {**BIN_SETTINGS, "num_threads": own_threads()}
    cuts = lgb.Dataset(sample, params=settings).construct()
    data = lgb.Dataset([_Rows(part.design) for part in parts], reference=cuts, params=settings).construct()
    data.set_label(np.concatenate([part.label for part in parts]).astype(np.float32))
    data.set_group(np.concatenate([part.sizes for part in parts]))
    return data.set_weight(np.concatenate([part.weight for part in parts]))


class _Rows(lgb.Sequence):
    """Features and terms of a part as LightGBM reads them: a block at a time."""

    batch_size = BLOCK

    def __init__(self, design: DesignMatrix) -> None:
        self._design = design

    def __getitem__(self, wanted: Any) -> FloatMatrix:
        return self._design[wanted]

    def __len__(self) -> int:
        return len(self._design)


def hush_this_thread() -> None:
    """LightGBM's C++ side keeps its verbosity by thread and tells of its sockets before it reads its settings."""
    lgb.Dataset(np.zeros((2, 1), np.float32), params={"verbosity": -1, "min_data_in_bin": 1}).construct()
