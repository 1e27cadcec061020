"""XGBoost in the workers (extra `xgboost`): the same bins everywhere, each worker its own lists, one model.

xgboost.dask would let the workers agree on bins; which rows lie where would then decide a little about the trees.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any
from urllib.parse import urlparse

import numpy as np

from unskew._segments import offsets_of, segment_mean
from unskew.data.design import DesignMatrix, FloatMatrix
from unskew.errors import require_extra
from unskew.rankers.xgb import quantile_matrix
from unskew.scale.part_work import TrainingPart, own_threads

# In memory XGBoost looks at every entry when it cuts bins.
DISTINCT = False
SHARES_CONSTRAINED = True
# A worker whose peer has died raises an error as soon as it needs the other; a round of a large log may take so long.
GRACE_SECONDS = 120.0
# How long a worker may wait for a slower one, when they gather and in every round.
WAIT_SECONDS = 3600
# Trackers that run in this process, which is the scheduler's.
_trackers: dict[str, Any] = {}


@contextmanager
def network(client: Any, workers: Sequence[str]) -> Iterator[dict[str, dict[str, Any]]]:
    """What each worker needs to know to find the others: the tracker's address. It runs beside the scheduler.

    After a worker's death nobody would tell the tracker that all is over, so it is ended here.
    """
    if len(workers) == 1:
        yield {worker: {} for worker in workers}
        return
    host = urlparse(client.scheduler.address).hostname
    name, seat = client.run_on_scheduler(_start_tracker, len(workers), host)
    try:
        yield dict.fromkeys(workers, seat)
    finally:
        client.run_on_scheduler(_end_tracker, name)


def _start_tracker(workers: int, host: str) -> tuple[str, dict[str, Any]]:
    tracking = require_extra("xgboost.tracker", "xgboost", "The ranker 'xgboost'")
    tracker = tracking.RabitTracker(n_workers=workers, host_ip=host, sortby="task", timeout=WAIT_SECONDS)
    tracker.start()
    seat = {**tracker.worker_args(), "dmlc_timeout": WAIT_SECONDS}
    name = f"{host}:{seat['dmlc_tracker_port']}"
    _trackers[name] = tracker
    return name, seat


def _end_tracker(name: str) -> None:
    # Ending waits for connections to close, and the scheduler has other things to do.
    threading.Thread(target=_free, args=(_trackers.pop(name),), daemon=True).start()


def _free(tracker: Any) -> None:
    with suppress(Exception):  # that it was waiting for somebody counts as an error
        tracker.free()


def settings(ranker: Any, shape: DesignMatrix) -> dict[str, Any]:
    """What XGBoost is told, for lists of this shape."""
    return dict(ranker._params(shape))


def train(
    parts: list[TrainingPart], params: dict[str, Any], rounds: int, sample: FloatMatrix, seat: dict[str, Any]
) -> bytes:
    """Grow the trees together with the other workers; everybody ends with the same model."""
    xgboost = require_extra("xgboost", "xgboost", "The ranker 'xgboost'")
    threads = own_threads()
    with xgboost.config_context(verbosity=0):
        cuts = quantile_matrix(xgboost, [DesignMatrix(sample)], threads)
        with _together(seat):
            data = quantile_matrix(xgboost, [part.design for part in parts], threads, like=cuts)
            data.set_info(
                label=np.concatenate([part.label for part in parts]),
                group=np.concatenate([part.sizes for part in parts]),
                weight=np.concatenate([segment_mean(part.weight, offsets_of(part.sizes)) for part in parts]),
            )
            booster = xgboost.train({**params, "nthread": threads}, data, num_boost_round=rounds)
    return bytes(booster.save_raw("ubj"))


def _together(seat: dict[str, Any]) -> Any:
    if not seat:
        return nullcontext()
    from xgboost.dask import CommunicatorContext

    return CommunicatorContext(**seat)


def load(model: bytes) -> Any:
    """The trees that training came back with."""
    xgboost = require_extra("xgboost", "xgboost", "The ranker 'xgboost'")
    return xgboost.Booster(model_file=bytearray(model))
