"""Measuring in one run: our time or memory and a peer's, as a ratio, against a target."""

from __future__ import annotations

import gc
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the table.

    ours, peer : the two measurements in `unit`; peer is None where there is only ours to report.
    ratio : how many times better ours is (peer / ours for times), or whatever `note` says.
    target : what `ratio` must reach, in words (">= 20"); ok : whether it does, None without a target.
    """

    topic: str
    what: str
    ours: float
    peer_name: str = ""
    peer: float | None = None
    unit: str = "s"
    ratio: float | None = None
    target: str = ""
    ok: bool | None = None
    note: str = ""


def faster(topic: str, what: str, ours: float, peer_name: str, peer: float, at_least: float, note: str = "") -> Row:
    """A row for two times, of which ours must be so many times shorter.

    >>> faster("metrics", "NDCG@10", 0.1, "ranx", 2.5, at_least=20).ok
    True
    """
    ratio = peer / ours
    return Row(topic, what, ours, peer_name, peer, "s", ratio, f"≥ {at_least:g} ×", ratio >= at_least, note)


def measure(function: Callable[[], Any], repeat: int = 5) -> float:
    """Median seconds of several calls."""
    return statistics.median(_seconds(function) for _ in range(repeat))


def measure_both(ours: Callable[[], Any], peer: Callable[[], Any], repeat: int = 5) -> tuple[float, float]:
    """Median seconds of two functions called in turn, so that other work on the machine hits both alike."""
    times = [(_seconds(ours), _seconds(peer)) for _ in range(repeat)]
    return statistics.median(a for a, _ in times), statistics.median(b for _, b in times)


def peak_memory(function: Callable[[], Any]) -> float:
    """Bytes by which the peak resident size of a fresh process grows while it runs the function.

    The function must be importable (defined at the top of a module, or a functools.partial of such a one), and its
    modules are imported before the count begins.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_report_peak, args=(function, there))
    process.start()
    there.close()
    try:
        return float(here.recv())
    except EOFError:
        raise RuntimeError(f"The process that ran {function} ended without a result.") from None
    finally:
        process.join()


def _report_peak(function: Callable[[], Any], pipe: Any) -> None:
    gc.collect()
    _reset_peak()
    before = _peak()
    function()
    pipe.send(_peak() - before)


def _reset_peak() -> None:
    """Linux lets a process forget its peak; elsewhere the peak so far is the zero."""
    try:
        with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
            file.write("5")
    except OSError:
        pass


def _peak() -> float:
    try:
        with open("/proc/self/status") as file:  # noqa: PTH123
            return next(float(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        scale = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * scale


def _seconds(function: Callable[[], Any]) -> float:
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
