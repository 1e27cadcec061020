"""Logs larger than memory: a fit out of core, statistics at reading speed, two workers against one.

Not part of `make bench`: the full size writes 14.5 million rows (about 1.3 GB) to a temporary folder.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import polars as pl

from benchmarks.harness import Row, peak_memory
from unskew.control.estimator import ControlFunctionRanker
from unskew.control.learners import Ridge
from unskew.data.columns import LogColumns
from unskew.rankers.lambdamart import LambdaMART
from unskew.scale import dask_fit
from unskew.scale.cluster import connect
from unskew.scale.dask_fit import DaskLog
from unskew.scale.parts import open_parts
from unskew.scale.scan import scan_gram
from unskew.scale.stream_fit import fit_streamed

TOPIC = "scale"
FEATURES, ITEMS, TREES = 18, 8, 100
ROWS, QUICK_ROWS = 14_500_000, 145_000
PART = 500_000
THREADS = 2


def run(quick: bool) -> list[Row]:
    """Rows of the table; quick shrinks the log a hundredfold."""
    rows = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory(prefix="unskew-bench-") as folder:
        parts = Path(folder) / "log"
        write_log(parts, rows, part=min(PART, rows // 4))
        return [*_out_of_core(parts, rows), _statistics(parts, rows), *_workers(parts, rows)]


def write_log(folder: Path, rows: int, *, part: int = PART, seed: int = 0) -> None:
    """A log of Baidu's shape: lists of eight, each seen once, ranked by a noisy score; one file after another."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=FEATURES)
    for number, start in enumerate(range(0, rows, part)):
        queries = min(part, rows - start) // ITEMS
        x = rng.normal(size=(queries, ITEMS, FEATURES)).astype(np.float32)
        score = x @ weights / 4 + rng.normal(size=(queries, ITEMS))
        position = (-score).argsort(axis=1).argsort(axis=1) + 1
        click = rng.random((queries, ITEMS)) < 1 / (1 + np.exp(1.5 - x[..., 0] - x[..., 1])) / position
        query = np.repeat(np.arange(queries) + start // ITEMS, ITEMS)
        columns: dict[str, Any] = {
            "query_id": query,
            "session_id": query,
            "item_id": np.tile(np.arange(ITEMS), queries),
            "position": position.ravel().astype(np.int32),
            "click": click.ravel().astype(np.int8),
        }
        flat = np.asfortranarray(x.reshape(-1, FEATURES))
        columns |= {f"f{i}": flat[:, i] for i in range(FEATURES)}
        pl.DataFrame(columns).write_parquet(folder / f"part-{number:05d}.parquet", compression_level=1)


def _ranker() -> LambdaMART:
    return LambdaMART(trees=TREES, n_jobs=THREADS)


def _fit(folder: Path) -> None:
    fit_streamed(folder, method="cfc", ranker=_ranker(), transformation="minmax", n_jobs=THREADS)


def _plain(folder: Path) -> float:
    """Seconds of LightGBM on the clicked lists with twice the columns, all of them in memory before the clock runs."""
    frame = pl.read_parquet(folder)
    clicked = frame.filter(pl.col("click").sum().over("query_id") > 0)
    x = clicked.select(f"f{i}" for i in range(FEATURES)).to_numpy().astype(np.float32)
    doubled = np.hstack([x, x * np.random.default_rng(0).random((len(x), 1), dtype=np.float32)])
    label, sizes = clicked["click"].to_numpy(), np.full(len(x) // ITEMS, ITEMS)
    ranker = _ranker()
    params = {**_params(ranker), "objective": "lambdarank"}
    started = time.perf_counter()
    lgb.train(params, lgb.Dataset(doubled, label, group=sizes, params={"num_threads": THREADS, "verbosity": -1}), TREES)
    return time.perf_counter() - started


def _params(ranker: LambdaMART) -> dict[str, Any]:
    from unskew.data.design import DesignMatrix

    return ranker._params(DesignMatrix(np.empty((0, FEATURES), np.float32)), verbosity=-1)


def _out_of_core(folder: Path, rows: int) -> list[Row]:
    peak = peak_memory(partial(_fit, folder))
    limit = 6e9
    ours, peer = _seconds(lambda: _fit(folder)), _plain(folder)
    return [
        Row(
            TOPIC,
            f"out-of-core fit, {rows:,} × {FEATURES}, peak memory",
            peak,
            unit="bytes",
            target="< 6 GB",
            ok=peak < limit,
            note="resident size, mapped pages of the scratch files included",
        ),
        Row(
            TOPIC,
            f"out-of-core fit, {TREES} trees, from Parquet",
            ours,
            "LightGBM in memory",
            peer,
            "s",
            ours / peer,
            "≤ 1.5 ×",
            ours <= 1.5 * peer,
            "ours reads, checks, fits stage one and validates; the peer begins with the doubled matrix",
        ),
    ]


def _statistics(folder: Path, rows: int) -> Row:
    """One process, the same columns. The best of seven turns each, because others may be busy on the machine; the note
    has the medians of the elapsed and of the processor time, which say how much that mattered."""
    parts = open_parts(folder, LogColumns())

    def ours() -> None:
        Ridge().solve(scan_gram(parts)[1])

    def reading() -> None:
        for file in parts.files:
            pl.read_parquet(file)

    times = np.array([(*_both_seconds(ours), *_both_seconds(reading)) for _ in range(7)])
    mine, _, theirs, _ = times.min(axis=0).tolist()
    median = np.median(times, axis=0)
    note = f"medians: elapsed {median[0] / median[2]:.2f} ×, processor {median[1] / median[3]:.2f} ×"
    what = f"stage-one statistics over Parquet, {rows:,} rows, checked"
    return Row(TOPIC, what, mine, "polars reads", theirs, "s", mine / theirs, "≤ 2 ×", mine <= 2 * theirs, note)


def _workers(folder: Path, rows: int) -> list[Row]:
    passes, fits = {}, {}
    for workers in (1, 2):
        with connect(workers=workers, threads=1) as client:
            log, method = DaskLog(folder, client), _method()
            _, loaded = dask_fit._load(log, seed=0, split=True)
            dask_fit._stage_one(client, loaded, method)  # everything is loaded and imported now
            passes[workers] = _seconds(partial(dask_fit._stage_one, client, loaded, method))
            if workers == 2:
                fits["dask"] = _seconds(lambda log=log: _method().fit(log))  # type: ignore[misc]
    fits["one process"] = _seconds(lambda: _fit(folder))
    gain = passes[1] / passes[2]
    ratio = fits["dask"] / fits["one process"]
    return [
        Row(
            TOPIC,
            f"statistics on two workers, {rows:,} rows",
            passes[2],
            "one worker",
            passes[1],
            "s",
            gain,
            "≥ 1.5 ×",
            gain >= 1.5,
        ),
        Row(
            TOPIC,
            "fit on two workers of one thread",
            fits["dask"],
            "one process, two threads",
            fits["one process"],
            "s",
            ratio,
            "≤ 1.6 ×",
            ratio <= 1.6,
        ),
    ]


def _method() -> ControlFunctionRanker:
    return ControlFunctionRanker(ranker=_ranker(), transformation="minmax")


def _both_seconds(function: Callable[[], Any]) -> tuple[float, float]:
    """Elapsed and processor time."""
    busy = time.process_time()
    return _seconds(function), time.process_time() - busy


def _seconds(function: Callable[[], Any]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
