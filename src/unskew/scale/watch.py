"""Training that notices when a worker dies: the other workers would wait for it, LightGBM's for two hours."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from unskew.errors import ClusterError, UnskewError

POLL_SECONDS = 0.25
# How long workers may take to come back: a loaded machine needs a minute to start Python and import everything.
RETURN_SECONDS = 300.0


# How long a result or an error that is there may take to arrive.
ANSWER_SECONDS = 60.0
# Trainings that this worker is in.
_running: set[str] = set()


class WorkerLost(Exception):
    """Workers that were there when a training began are not there any more."""


@contextmanager
def running(training: str, process: int) -> Iterator[None]:
    """Note in a worker that it is in a training; refuses a worker that has been restarted since it was chosen."""
    if os.getpid() != process:
        raise RuntimeError("This worker was restarted after the training had begun.")
    _running.add(training)
    try:
        yield
    finally:
        _running.discard(training)


def watched(client: Any, futures: Sequence[Any], processes: Mapping[str, int]) -> Any:
    """The first result of tasks that end together; cancels them and raises WorkerLost if a worker dies.

    processes : the workers that take part, and their process ids.
    """
    from distributed import wait

    while pending := [future for future in futures if future.status == "pending"]:
        with suppress(TimeoutError):
            wait(pending, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
        failed = [future for future in futures if future.status not in ("pending", "finished")]
        lost = _gone(client, processes) if failed else set(processes) - set(client.ncores())
        if not lost and not failed:
            continue
        error = failed[0].exception(timeout=ANSWER_SECONDS) if failed else None
        client.cancel(list(futures), force=True)
        if lost:
            raise WorkerLost(", ".join(sorted(lost)))
        if isinstance(error, UnskewError):  # it says by itself what is wrong, a missing extra for instance
            raise error
        raise ClusterError(f"Training on the cluster failed: {error}") from error
    return _any_result(futures)


def _any_result(futures: Sequence[Any]) -> Any:
    """All workers end with the same; one that dies now does not matter as long as another can tell."""
    for future in futures:
        with suppress(TimeoutError, OSError):
            return future.result(timeout=ANSWER_SECONDS)
    raise WorkerLost("that held the result")


def wait_for_a_worker(client: Any) -> int:
    """How many workers there are, as soon as there is one."""
    deadline = time.monotonic() + RETURN_SECONDS
    while not (workers := client.ncores()):
        if time.monotonic() > deadline:
            raise ClusterError(f"All workers were lost during training, and none came back in {RETURN_SECONDS:.0f} s.")
        time.sleep(POLL_SECONDS)
    return len(workers)


def _gone(client: Any, processes: Mapping[str, int]) -> set[str]:
    """Workers that do not answer, or answer as another process.

    An error caused by a dead peer may arrive before the scheduler knows of the death, so they are asked themselves.
    """
    here = sorted(set(processes) & set(client.ncores()))
    answers = client.run(os.getpid, workers=here, on_error="return") if here else {}
    return {worker for worker, process in processes.items() if answers.get(worker) != process}


def leave(client: Any, training: str, grace: float) -> None:
    """See to it that no worker is in a training that has failed.

    Workers may notice by themselves within `grace` seconds; those that sit in a call which nobody will answer are
    restarted.
    """
    deadline = time.monotonic() + grace
    while (stuck := _inside(client, training)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    if not stuck:
        return
    try:
        client.restart_workers(stuck, timeout=RETURN_SECONDS, raise_for_error=False)
    except ValueError as error:
        raise ClusterError(
            f"A worker was lost during training, and {len(stuck)} others that wait for it could not be restarted "
            f"({error}). Start workers with a nanny (the default of: dask worker)."
        ) from error


def _inside(client: Any, training: str) -> list[str]:
    answers = client.run(_is_running, training, on_error="return")
    return [worker for worker, answer in answers.items() if answer is True]


def _is_running(training: str) -> bool:
    return training in _running
