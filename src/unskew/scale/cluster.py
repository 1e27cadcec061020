"""A Dask cluster: one that is there, or a local one for the time of the work."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from unskew.errors import ClusterError, SettingError, require_extra

CONNECT_SECONDS = 10
# How long a local cluster may take to end by itself.
CLOSE_SECONDS = 30
# How many statistics one task of a tree merges.
FAN_IN = 8


@contextmanager
def connect(
    scheduler: str | None = None,
    *,
    workers: int = 2,
    threads: int = 1,
    dashboard: bool = True,
    say: Callable[[str], None] | None = None,
) -> Iterator[Any]:
    """A client of the scheduler at an address, or of a local cluster that is closed afterwards."""
    distributed = require_extra("distributed", "dask", "engine='dask'")
    if workers < 1 or threads < 1:
        raise SettingError(f"A cluster needs workers and threads, but {workers} × {threads} were asked for.")
    tell = say or (lambda message: None)
    if scheduler is not None:
        with _reach(distributed, scheduler) as client:
            tell(f"Scheduler {scheduler}, {len(client.ncores())} workers. {_dashboard(client)}")
            yield client
        return
    with tempfile.TemporaryDirectory(prefix="unskew-dask-", ignore_cleanup_errors=True) as scratch:
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=True,
            dashboard_address=":0",  # also without a dashboard: the scheduler would look for port 8787
            scheduler_kwargs={"dashboard": dashboard},
            local_directory=scratch,
            silence_logs=logging.CRITICAL,
        )
        client = distributed.Client(cluster)
        try:
            client.register_plugin(_own_output(distributed))
            link = _dashboard(client) if dashboard else "No dashboard."
            tell(f"Local cluster of {workers} workers with {threads} threads each. {link}")
            yield client
        finally:
            _close(client, cluster)


def _close(client: Any, cluster: Any) -> None:
    """End a local cluster. After a worker has died this may fail or take forever, which must not cost the result."""
    with suppress(TimeoutError, OSError):
        client.close(timeout=CLOSE_SECONDS)
    processes = [nanny.pid for nanny in cluster.workers.values()]
    try:
        cluster.close(timeout=CLOSE_SECONDS)
    except (TimeoutError, OSError):
        for process in processes:
            if process is not None:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


@contextmanager
def _reach(distributed: Any, address: str) -> Iterator[Any]:
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"The scheduler at {address} cannot be reached ({type(error).__name__}). Is it running, and is the address "
            "of the form tcp://host:port? Without --scheduler a local cluster is started."
        ) from error
    try:
        if not client.ncores():
            raise ClusterError(f"The scheduler at {address} has no workers. Start some with: dask worker {address}")
        yield client
    finally:
        client.close()


def _own_output(distributed: Any) -> Any:
    """Workers of a local cluster share the command's standard output, which is for its result: they lose it.

    Nothing of ours is printed there, only what native code tells of its sockets.
    """

    class OwnOutput(distributed.WorkerPlugin):
        name = "unskew-own-output"

        def setup(self, worker: Any) -> None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.close(nowhere)

    return OwnOutput()


def _dashboard(client: Any) -> str:
    missing = "" if find_spec("bokeh") else " (it needs the package bokeh on the scheduler)"
    return f"Dashboard: {client.dashboard_link}{missing}"


def tree_merge(client: Any, parts: Sequence[Any]) -> Any:
    """The merged statistics of the parts (futures): merged in the workers, a few at a time; one comes back."""
    level = list(parts)
    while len(level) > 1:
        level = [
            client.submit(_merge, level[start : start + FAN_IN], pure=False) for start in range(0, len(level), FAN_IN)
        ]
    return level[0].result()


def _merge(parts: list[Any]) -> Any:
    from unskew.scale.streaming import merged

    known = [part for part in parts if part is not None]
    return merged(known) if known else None
