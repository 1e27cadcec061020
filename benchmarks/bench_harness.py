"""The bench's own cost: beside calling the methods directly, and on two cores beside one.

With UNSKEW_TEST_DATA on MQ2008 and MQ2007, else on the synthetic collection.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Row
from unskew._machine import cores
from unskew.bench.collection import Source, read_collection
from unskew.bench.plan import Request
from unskew.bench.run import run as run_experiments
from unskew.bench.scales import RATES
from unskew.evaluation.metrics import per_query
from unskew.rankers.make import make_ranker
from unskew.registry import make_method
from unskew.simulation.log import simulate, simulate_detailed

METHODS = ("naive", "oracle", "cfc", "position")
ALL = ("naive", "oracle", "cfc", "cfc-s", "cfc-bc", "full-cfc", "pijd", "paird", "position")
OVERHEAD = 1.05
SPEED_UP = 1.6
NOTE = "rq1 with naive, oracle, cfc and position"


def run_bench(source: Source, preset: str, folds: int, jobs: int, methods: tuple[str, ...] = METHODS) -> None:
    """rq1 with LambdaMART methods into a folder of its own."""
    folder = Path(tempfile.mkdtemp())
    try:
        request = Request("rq1", preset, methods, ("lambdamart",), folds)  # type: ignore[arg-type]
        summary = run_experiments([request], source, folder / "run", jobs=jobs, threads=1)
        assert not summary.failures, summary.failures[0].error
    finally:
        shutil.rmtree(folder)


def call_directly(source: Source, preset: str, folds: int) -> None:
    """The same fits and the same tests, by hand."""
    collection = read_collection(source)
    for fold in range(folds):
        train, valid, test = collection.split(fold)
        made = simulate_detailed(train, seed=0)
        validation = simulate(valid, production=made.production, seed=1)
        for name in METHODS:
            best: tuple[float, Any] | None = None
            for rate in _rates(name, preset):
                given = {} if rate is None else {"learning_rate": rate}
                ranker = make_ranker("lambdamart", preset=preset, n_jobs=1, **given)  # type: ignore[arg-type]
                model = make_method(name, ranker=ranker, tune_on="grades", n_jobs=1)
                model.fit(made.log, validation=validation)
                score = max(candidate.score or 0.0 for candidate in model.candidates_)
                if best is None or score > best[0]:
                    best = score, model
            assert best is not None
            grades, largest = test.require_grades("testing"), test.max_grade or 1
            per_query(grades, best[1].predict(test), test.offsets, max_grade=largest)


def _rates(name: str, preset: str) -> tuple[float | None, ...]:
    if preset == "smoke":
        return (None,)
    return RATES["lambdamart"][:1] if name == "cfc" else RATES["lambdamart"]


def run(quick: bool) -> list[Row]:
    """One row a question."""
    preset = "smoke" if quick else "default"
    source = _source("mq2008.txt.xz", quick)
    by_hand, by_bench = _both(
        partial(call_directly, source, preset, 1), partial(run_bench, source, preset, 1, 0), repeat=3
    )
    ratio = by_bench / by_hand
    overhead = Row(
        "harness",
        "the bench beside calling the methods directly",
        by_bench,
        "by hand",
        by_hand,
        "s",
        ratio,
        f"≤ {OVERHEAD:g} ×",
        None if quick else ratio <= OVERHEAD,
        f"{source.label}, {NOTE}",
    )
    if quick or cores() < 2:
        return [overhead]
    source = _source("mq2007-part.txt.xz", quick)
    one, two = _both(
        partial(run_bench, source, preset, 5, 1, ALL), partial(run_bench, source, preset, 5, 2, ALL), repeat=1
    )
    speed_up = one / two
    return [
        overhead,
        Row(
            "harness",
            "two cores beside one, five folds",
            two,
            "one core",
            one,
            "s",
            speed_up,
            f"≥ {SPEED_UP:g} ×",
            speed_up >= SPEED_UP,
            f"{source.label}, rq1 with all LambdaMART methods; start-up included",
        ),
    ]


def _source(name: str, quick: bool) -> Source:
    path = Path(os.environ.get("UNSKEW_TEST_DATA", "")) / "letor" / name
    if not quick and path.is_file():
        return Source(str(path), 2)
    return Source("synthetic:60" if quick else "synthetic:300")


def _both(first: Callable[[], None], second: Callable[[], None], repeat: int) -> tuple[float, float]:
    """The shortest seconds of two functions called in turn: what the machine does besides only ever adds."""
    times = [(_seconds(first), _seconds(second)) for _ in range(repeat)]
    return min(a for a, _ in times), min(b for _, b in times)


def _seconds(function: Callable[[], None]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
