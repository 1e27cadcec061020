"""Workers: processes that do units, each with its share of the cores. Only the parent writes results.

A worker that dies takes one unit with it, which is recorded as failed; a new worker takes its place. When the parent
dies, however suddenly, its workers notice and end.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from unskew.bench.collection import Collection, Source, read_collection
from unskew.bench.units import Unit
from unskew.bench.work import Bench, Result
from unskew.errors import UnskewError

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
_WATCH = 0.5


@dataclass(frozen=True)
class Report:
    """A unit that ended: its result, or its error."""

    unit: Unit
    seconds: float
    result: Result | None = None
    error: str = ""
    traceback: str = ""


class Inline:
    """The one worker that is this process: for debugging, and for tests."""

    size = 1

    def __init__(self, collection: Collection, *, threads: int) -> None:
        self._bench = Bench(collection, threads=threads)
        self._given: Unit | None = None

    def idle(self) -> list[int]:
        return [0] if self._given is None else []

    def give(self, worker: int, unit: Unit) -> None:
        self._given = unit

    def running(self) -> list[tuple[Unit, float]]:
        return [] if self._given is None else [(self._given, 0.0)]

    def reports(self, timeout: float) -> list[Report]:
        assert self._given is not None
        unit, self._given = self._given, None
        return [do(self._bench, unit)]

    def close(self) -> None:
        pass


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    unit: Unit | None = None
    since: float = field(default_factory=time.monotonic)


class Pool:
    """Worker processes, started afresh (spawn), `threads` cores each."""

    def __init__(self, source: Source, *, real_log: bool, size: int, threads: int) -> None:
        self.size = size
        self._start = (source, real_log, threads)
        self._workers = [self._spawn() for _ in range(size)]

    def idle(self) -> list[int]:
        """Workers with nothing to do."""
        return [number for number, worker in enumerate(self._workers) if worker.unit is None]

    def give(self, worker: int, unit: Unit) -> None:
        """Hand a unit to an idle worker."""
        mine = self._workers[worker]
        mine.unit, mine.since = unit, time.monotonic()
        with suppress(OSError):  # it has died; `reports` finds that out
            mine.pipe.send(unit)

    def running(self) -> list[tuple[Unit, float]]:
        """Units at work, and the seconds they have had."""
        now = time.monotonic()
        return [(worker.unit, now - worker.since) for worker in self._workers if worker.unit is not None]

    def reports(self, timeout: float) -> list[Report]:
        """What ended within the timeout."""
        busy = {worker.pipe: number for number, worker in enumerate(self._workers) if worker.unit is not None}
        found = []
        for pipe in wait(list(busy), timeout):
            number = busy[pipe]  # type: ignore[index]
            worker = self._workers[number]
            unit, seconds = worker.unit, time.monotonic() - worker.since
            assert unit is not None
            try:
                found.append(worker.pipe.recv())
                worker.unit = None
            except (EOFError, OSError):
                found.append(Report(unit, seconds, error=_end_of(worker.process)))
                self._workers[number] = self._spawn()
        return found

    def close(self) -> None:
        """End all workers, whatever they are at."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(5)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def _spawn(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, os.getpid(), *self._start), daemon=True)
        with _cores(self._start[2]):
            process.start()
        there.close()
        return _Worker(process, here)


def do(bench: Bench, unit: Unit) -> Report:
    """Do a unit; an error becomes part of the report."""
    started = time.monotonic()
    try:
        result = bench.do(unit)
        return Report(unit, time.monotonic() - started, result)
    except Exception as error:
        message = str(error) if isinstance(error, UnskewError) else f"{type(error).__name__}: {error}"
        return Report(unit, time.monotonic() - started, error=message, traceback=traceback.format_exc())


def _work(pipe: Connection, parent: int, source: Source, real_log: bool, threads: int) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends us
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    bench: Bench | None = None
    while True:
        try:
            unit = pipe.recv()
        except (EOFError, OSError):
            return
        if bench is None:
            bench = Bench(read_collection(source, real_log=real_log), threads=threads)
        pipe.send(do(bench, unit))


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH)
    os._exit(1)


def _end_of(process: Any) -> str:
    process.join(5)
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = " Was there enough memory?" if name == "SIGKILL" else ""
        return f"The process that worked on it was ended by {name}.{hint}"
    return f"The process that worked on it ended with code {code}."


@contextmanager
def _cores(threads: int) -> Iterator[None]:
    """Numerical libraries read their number of threads when they are loaded: it must be there when a worker starts."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
