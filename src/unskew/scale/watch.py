"""Training that notices when a worker dies: LightGBM's other workers would wait for it for two hours."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from unskew.errors import ClusterError

POLL_SECONDS = 0.25
# How long a training that was cancelled may take to notice.
GRACE_SECONDS = 5.0
# How long workers may take to come back: a loaded machine needs a minute to start Python and import everything.
RETURN_SECONDS = 300.0


class WorkerLost(Exception):
    """Workers that were there when a training began are not there any more."""


def watched(client: Any, train: Callable[[], Any]) -> Any:
    """Run a training on the cluster; raise WorkerLost, with everything stopped, if a worker dies meanwhile."""
    before, held = set(client.ncores()), set(client.futures)
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["result"] = train()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True, name="unskew-training")
    thread.start()
    while thread.is_alive():
        thread.join(POLL_SECONDS)
        lost = before - set(client.ncores())
        if lost and thread.is_alive():
            _stop(client, held)
            thread.join(GRACE_SECONDS)
            raise WorkerLost(_named(lost))
    if "error" in outcome:
        lost = _silent(client, before)
        if lost:
            _stop(client, held)
            raise WorkerLost(_named(lost)) from outcome["error"]
        raise ClusterError(f"Training on the cluster failed: {outcome['error']}") from outcome["error"]
    return outcome["result"]


def wait_for_a_worker(client: Any) -> int:
    """How many workers there are, as soon as there is one."""
    deadline = time.monotonic() + RETURN_SECONDS
    while not (workers := client.ncores()):
        if time.monotonic() > deadline:
            raise ClusterError(f"All workers were lost during training, and none came back in {RETURN_SECONDS:.0f} s.")
        time.sleep(POLL_SECONDS)
    return len(workers)


def _silent(client: Any, before: set[str]) -> set[str]:
    """Workers that do not answer: an error caused by a dead peer may arrive before the scheduler knows of the death."""
    here = set(client.ncores())
    answers = client.run(os.getpid, workers=sorted(before & here), on_error="return")
    return (before - here) | {worker for worker, answer in answers.items() if not isinstance(answer, int)}


def _stop(client: Any, held: set[Any]) -> None:
    """Cancel what the training has submitted, and restart workers that sit in a call which nobody will answer."""
    from distributed import Future

    stuck = [worker for worker, keys in client.processing().items() if any("_train_part" in str(key) for key in keys)]
    mine: list[Any] = [Future(key, client) for key in list(client.futures) if key not in held]
    client.cancel(mine, force=True)
    if not stuck:
        return
    try:
        client.restart_workers(stuck, timeout=RETURN_SECONDS, raise_for_error=False)
    except ValueError as error:
        raise ClusterError(
            f"A worker was lost during training, and {len(stuck)} others that wait for it could not be restarted "
            f"({error}). Start workers with a nanny (the default of: dask worker)."
        ) from error


def _named(lost: set[str]) -> str:
    return ", ".join(sorted(lost))
