"""Running experiments: what is done already is kept, the rest is spread over processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from unskew._machine import cores
from unskew.bench.collection import STAND_IN, Source, read_collection
from unskew.bench.experiments import experiment
from unskew.bench.lock import LOCK, locked
from unskew.bench.plan import Plan, Request, make_plan
from unskew.bench.pool import Inline, Pool, Report
from unskew.bench.schedule import Clock, Schedule
from unskew.bench.store import Failure, Store
from unskew.bench.units import Unit
from unskew.errors import MissingExtraError, OutputError, SettingError
from unskew.rankers.make import RANKERS

# How often progress is told while nothing ends.
_TICK = 1.0


@dataclass(frozen=True)
class Progress:
    """How far a run is. left : seconds until the end, None before anything was timed."""

    total: int
    done: int
    failed: int
    running: tuple[str, ...]
    left: float | None


@dataclass(frozen=True)
class RunSummary:
    """What a run came to: units there were already, units done now, and those that failed."""

    plans: tuple[Plan, ...]
    kept: int
    made: int
    failures: tuple[Failure, ...]
    seconds: float

    @property
    def total(self) -> int:
        return self.kept + self.made + len(self.failures)


def run(
    requests: Sequence[Request],
    source: Source,
    out: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    threads: int | None = None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> RunSummary:
    """Run experiments on one data set into a folder; what the folder has already is not done again.

    jobs : processes; None takes one a core, 0 does everything in this process.
    threads : cores a process may use; None shares them out.
    tell : hears how far it is.
    """
    started = time.monotonic()
    real_log = _real_log(requests)
    collection = read_collection(source, real_log=real_log)
    plans = tuple(make_plan(request, collection, source) for request in requests)
    units = list({unit.key: unit for plan in plans for unit in plan.units}.values())
    _check_extras(units)
    _refuse_foreign(Path(out))
    store = Store(out)
    with locked(store.folder):
        store.sweep()
        for plan in plans:
            store.write_plan(plan)
        waiting = [unit for unit in units if not store.is_current(unit)]
        if waiting:
            jobs = min(cores() if jobs is None else jobs, len(waiting))
            each = threads or max(cores() // max(jobs, 1), 1)
            pool: Inline | Pool
            if jobs == 0:
                pool = Inline(collection, threads=each)
            else:
                pool = Pool(source, real_log=real_log, size=jobs, threads=each)
            try:
                _drive(pool, waiting, store, len(units), tell)
            finally:
                pool.close()
        failures = [failure for unit in waiting if (failure := store.failure(unit)) is not None]
        made = len(waiting) - len(failures)
    return RunSummary(plans, len(units) - len(waiting), made, tuple(failures), time.monotonic() - started)


def _drive(
    pool: Inline | Pool, waiting: list[Unit], store: Store, total: int, tell: Callable[[Progress], None]
) -> None:
    """Hand out units and write what comes back, until nothing is left."""
    schedule, clock = Schedule(waiting), Clock()
    done, failed = total - len(waiting), 0

    def say() -> None:
        running = pool.running()
        left = clock.left(schedule.waiting(), running, pool.size)
        tell(Progress(total, done, failed, tuple(unit.said for unit, _ in running), left))

    while len(schedule) or pool.running():
        for worker in pool.idle():
            unit = schedule.next(worker)
            if unit is not None:
                pool.give(worker, unit)
        say()
        for report in pool.reports(_TICK):
            try:
                _keep(store, report)
            except OutputError as error:
                raise OutputError(
                    f"{error}\n{done} of {total} units are done and kept. Make room and run the same command again."
                ) from error
            if report.result is None:
                failed += 1
            else:
                done += 1
                clock.saw(report.unit, report.seconds)
    say()


def _keep(store: Store, report: Report) -> None:
    if report.result is None:
        store.fail(report.unit, report.error, report.traceback)
    else:
        store.write(report.unit, report.result)


def _real_log(requests: Sequence[Request]) -> bool:
    needs = {experiment(request.experiment).needs_log for request in requests}
    if len(needs) != 1:
        raise SettingError("rq3 trains on a real log and the others make their own: run rq3 by itself.")
    return needs.pop()


def default_source(request: Request, data: str | None = None, **given: object) -> Source:
    """The source a request falls back on: the preset's synthetic collection, and a made-up log for a smoke rq3."""
    from unskew.bench.scales import scale

    source = Source(data or scale(request.preset).data, **given)  # type: ignore[arg-type]
    if experiment(request.experiment).needs_log and source.log is None and request.preset == "smoke":
        return Source(source.data, source.max_grade, log=STAND_IN)
    return source


def finish(out: str | os.PathLike[str]) -> list[Path]:
    """Write the tables of everything in the folder, beside it; with the same units done, the same bytes."""
    from unskew.bench.formats import write_tables
    from unskew.bench.outcomes import open_run

    return write_tables(open_run(out), Path(out))


def _check_extras(units: Sequence[Unit]) -> None:
    """Refuse before anything is done what could only fail: rankers whose package is not there."""
    needed = dict.fromkeys(unit.ranker for unit in units)
    needed.update(dict.fromkeys("xgboost" for unit in units if dict(unit.options).get("stage_one") == "xgboost"))
    for ranker in needed:
        _, module, extra = RANKERS.get(ranker, ("", None, None))
        if module is not None and find_spec(module) is None:
            others = ",".join(name for name in dict.fromkeys(unit.ranker for unit in units) if name != ranker)
            leave = f", or leave it out with --rankers {others}" if others else ""
            raise MissingExtraError(
                f"This run needs the package '{module}' (for {ranker}), which is not installed.\n"
                f"Install it with: pip install 'unskew[{extra}]'{leave}."
            )


def _refuse_foreign(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not ((folder / "plans").is_dir() or (folder / LOCK).is_file()):
        raise OutputError(f"{folder} has other things in it and is not the folder of a run. Name another folder.")
