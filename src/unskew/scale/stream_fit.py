"""Out of core: the same fit over a log that lies in files, its features never in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unskew.control.estimator import ControlFunctionRanker
from unskew.data.clicks import ClickLog
from unskew.data.columns import LogColumns
from unskew.data.fingerprint import fingerprint
from unskew.data.ranking import RankingData
from unskew.errors import LogError, OutputError
from unskew.fitting import Fitted, fit_method
from unskew.method import Method
from unskew.recommended import Recommended
from unskew.registry import make_method
from unskew.scale.memory import SHARE, free_memory, in_memory_bytes, readable
from unskew.scale.parts import (
    BATCH,
    Parts,
    as_log,
    changing,
    check_whole,
    frames,
    held_queries,
    open_parts,
    queries_of,
    subset,
)
from unskew.scale.spool import Spool, SpooledLog, scratch_room
from unskew.scale.streaming import stream_stage_one

# Bytes of a row on disk besides its features.
SPOOL_KEYS = 40


def fits_memory(path: Path, columns: LogColumns, *, memory: int | None = None) -> tuple[bool, int, int]:
    """Whether a fit of this log would stay inside the budget; the bytes it would take, and the budget.

    Files that are not Parquet have to be read whole anyway, so for them the answer is yes.
    """
    from unskew.data.tables import parquet_files

    budget = int(SHARE * free_memory()) if memory is None else memory
    if parquet_files(path) is None:
        return True, 0, budget
    parts = open_parts(path, columns)
    need = in_memory_bytes(parts.n_rows, len(parts.features))
    return need <= budget, need, budget


def fit_streamed(
    path: str | Path,
    *,
    columns: LogColumns | None = None,
    validation: str | Path | ClickLog | RankingData | None = None,
    method: str = "default",
    seed: int = 0,
    batch: int = BATCH,
    scratch: str | Path | None = None,
    progress: Callable[..., None] | None = None,
    **settings: Any,
) -> Fitted:
    """Fit a method to a log in Parquet files without holding its features: `fit_method` over mapped files.

    The log is read once in batches of whole queries, checked, and written as plain arrays to a scratch folder
    (`scratch`, else the system's for temporary files; removed afterwards). Stage one is fitted by statistics that
    merge batch by batch; the ranker's columns are binned block by block.

    validation : a log in files, a log or judged data in memory, or None to hold out the queries that `hold_out` would,
        if the method chooses on any.
    """
    split = validation is None and make_method(method).chooses
    parts = open_parts(Path(path), columns or LogColumns())
    other = open_parts(Path(validation), columns or LogColumns()) if isinstance(validation, (str, Path)) else None
    with _scratch([parts] if other is None else [parts, other], scratch) as folder:
        train, chosen = _spooled(parts, folder, seed=seed, split=split, batch=batch)
        if other is not None:
            chosen, _ = _spooled(other, folder / "valid", seed=seed, split=False, batch=batch)
        elif validation is not None:
            chosen = None
        expected = _mapped(folder / "expected", train.log.data.n_rows)
        fitted = fit_method(
            train.log,
            method=method,
            validation=chosen.log if chosen is not None else validation,  # type: ignore[arg-type]
            seed=seed,
            progress=progress,
            prepare=lambda model: _prepare(model, train, expected),
            **settings,
        )
        _name_whole(fitted.method, train.log, chosen.log if split and chosen is not None else None)
        return fitted


def _prepare(model: Method, train: SpooledLog, expected: np.ndarray) -> None:
    """Fit ridge stage one batch by batch; the other learners read the mapped features themselves."""
    if isinstance(model, Recommended):
        model.hold_out_by_id()
    if isinstance(model, ControlFunctionRanker) and model.stage_one == "ridge" and not model.cross_fit:
        model.set_params(stage_one=stream_stage_one(train.batches, rank_target=model.rank_target, expected=expected))


def _name_whole(method: Method, train: ClickLog, held: ClickLog | None) -> None:
    """Let the fingerprint be that of the log that was given, with the queries held out of it.

    A checksum is that of a log in memory, its queries in the order of their ids; where the files have another order, or
    queries were held out, there is none.
    """
    if held is not None:
        other = fingerprint(held)
        added = {name: other[name] for name in ("queries", "rows", "sessions", "impressions", "clicks")}
        method.fingerprint_ |= {name: method.fingerprint_[name] + value for name, value in added.items()}
        method.fingerprint_["clicked_positions"] = len(np.union1d(train.clicked_positions, held.clicked_positions))
    if held is not None or not train.data.query_ids.is_sorted():
        method.fingerprint_["sha256"] = None


def _mapped(file: Path, rows: int) -> np.ndarray:
    """(rows,) numbers in a file. Its room is taken now: a map that finds none later would end the process."""
    with scratch_room(file.parent), file.open("wb") as out:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(out.fileno(), 0, 8 * rows)
        else:
            out.truncate(8 * rows)
    return np.memmap(file, dtype=np.float64, mode="r+", shape=(rows,))


@contextmanager
def _scratch(logs: Sequence[Parts], where: str | Path | None) -> Iterator[Path]:
    folder = _temporary() if where is None else Path(where)
    need = sum(parts.n_rows * (4 * len(parts.features) + SPOOL_KEYS) for parts in logs)
    free = shutil.disk_usage(folder).free
    if need > free:
        raise OutputError(
            f"Reading {logs[0].source} out of core needs {readable(need)} in {folder}, but {readable(free)} are free. "
            "Set TMPDIR to a folder with more room."
        )
    temporary = Path(tempfile.mkdtemp(prefix="unskew-", dir=folder))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # mapped files live on until nobody looks at them


def _temporary() -> Path:
    """The folder for temporary files; one that was asked for and cannot be used is not passed over."""
    asked = os.environ.get("TMPDIR")
    if asked and not (Path(asked).is_dir() and os.access(asked, os.W_OK)):
        raise OutputError(f"TMPDIR is {asked}, which is not a folder that can be written to. Name another one.")
    return Path(tempfile.gettempdir())


def _spooled(parts: Parts, folder: Path, *, seed: int, split: bool, batch: int) -> tuple[SpooledLog, SpooledLog | None]:
    """The log as mapped arrays, and the queries held out of it where a split is wanted and possible."""
    queries = [queries_of(parts, number, batch=batch) for number in range(len(parts.files))]
    check_whole(queries, parts.files)
    held = held_queries(queries, seed=seed) if split else None
    try:
        train, valid = _write(parts, folder / "spool", held, batch=batch, spread=False)
    except _FeaturesChange:
        shutil.rmtree(folder / "spool")
        train, valid = _write(parts, folder / "spread", held, batch=batch, spread=True)
    if held is not None and (valid is None or train.log.n_counted_clicks == 0 or valid.log.n_counted_clicks == 0):
        for name in ("spool", "spread"):
            shutil.rmtree(folder / name, ignore_errors=True)
        return _spooled(parts, folder / "whole", seed=seed, split=False, batch=batch)
    if train.log.n_clicks == 0:
        raise LogError(
            f"{parts.source} has no click at all, so there is nothing to learn from. "
            "Is the click column the right one, and does 1 mean clicked?"
        )
    if train.log.weight is not None and not train.log.weight.any():
        raise LogError(f"{parts.source}: No impression has a weight above 0, so there is nothing to learn from.")
    return train, valid


class _FeaturesChange(Exception):
    """Features change between impressions in one batch, so every batch needs a row per impression."""


def _write(
    parts: Parts, folder: Path, held: pl.Series | None, *, batch: int, spread: bool
) -> tuple[SpooledLog, SpooledLog | None]:
    train, valid = Spool(folder / "train"), Spool(folder / "held")
    for number, file in enumerate(parts.files):
        for frame in frames(parts, number, batch=batch):
            log = as_log(parts, frame, file, spread=spread)
            if changing(log) and not spread:
                raise _FeaturesChange
            out = np.zeros(log.data.n_queries, dtype=bool)
            if held is not None:
                out = log.data.query_ids.is_in(held.implode()).to_numpy()
            for target, mask in ((train, ~out), (valid, out)):
                part = subset(log, mask)
                if part is not None:
                    target.append(part)
    return train.finish(), None if valid.empty else valid.finish()
