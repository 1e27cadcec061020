"""What a worker does with its part of a log; everything that leaves it is small, or stays on the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew.control.debias import ClickOnResidual, fit_click_on_residual
from unskew.control.stage_one import StageOne
from unskew.control.terms import control_terms
from unskew.control.transformations import Transformation
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.fingerprint import fingerprint
from unskew.data.lists import training_lists
from unskew.rankers.binned import _distinct
from unskew.scale.parts import Parts, as_log, changing, check_whole, frames, held_queries, queries_of, subset

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LoadedPart:
    """The training and the validation queries of one file."""

    train: ClickLog | None
    valid: ClickLog | None


def part_queries(parts: Parts, number: int) -> pl.Series:
    """The query ids of a file."""
    return queries_of(parts, number, batch=parts.rows[number])


def split(queries: list[pl.Series], files: list[Path], seed: int, wanted: bool) -> pl.Series | None:
    """The queries to hold out, after a look whether every query is in one file only: 8 bytes a query, in one worker."""
    check_whole(queries, files)
    return held_queries(queries, seed=seed) if wanted else None


def load_part(parts: Parts, number: int, held: pl.Series | None, spread: bool) -> LoadedPart:
    """Read and check a file; it stays with the worker, and is read again by another if that one dies."""
    file = parts.files[number]
    log = as_log(parts, next(frames(parts, number, batch=parts.rows[number])), file, spread=spread)
    if held is None:
        return LoadedPart(log, None)
    out = log.data.query_ids.is_in(held.implode()).to_numpy()
    return LoadedPart(subset(log, ~out), subset(log, out))


def features_change(part: LoadedPart) -> bool:
    """Whether a part has a row per impression."""
    return any(log is not None and changing(log) for log in (part.train, part.valid))


def fingerprints(part: LoadedPart) -> list[dict[str, Any]]:
    """Of what a part gives to training, and of what was held out of it."""
    return [fingerprint(log) for log in (part.train, part.valid) if log is not None]


def residual_part(log: ClickLog, stage_one: StageOne, row: npt.NDArray, position: npt.NDArray) -> npt.NDArray:
    """(n,) residuals of items of a part."""
    return stage_one.target.values(log, row, position) - stage_one.explain(log.data)[row]


def clicks_part(part: LoadedPart, stage_one: StageOne, reference: Transformation) -> ClickOnResidual | None:
    """The five sums of equation 8 over the training impressions of a part."""
    log = part.train
    if log is None:
        return None
    return fit_click_on_residual(log, reference(residual_part(log, stage_one, log.row, log.position)))


@dataclass(frozen=True, eq=False)
class TrainingPart:
    """Lists to train on: features with Φ beside them, (n,) labels and weights, (lists,) sizes."""

    design: DesignMatrix
    label: npt.NDArray
    sizes: npt.NDArray
    weight: npt.NDArray


@dataclass(frozen=True, eq=False)
class Recipe:
    """How Φ comes about."""

    stage_one: StageOne
    transformation: Transformation
    form: Any

    def lists(self, part: LoadedPart) -> TrainingPart | None:
        """What a part gives to training; None where nothing was clicked."""
        log = part.train
        if log is None or log.n_clicks == 0:
            return None
        lists = training_lists(log)
        value = self.transformation(residual_part(log, self.stage_one, lists.row, lists.position))
        design = DesignMatrix(log.data.features, lists.row, control_terms(log.data, self.form, value))
        return TrainingPart(design, lists.label, lists.sizes, lists.weight)


def bin_sample(part: LoadedPart, recipe: Recipe, share: float, number: int, distinct: bool) -> Matrix | None:
    """Entries to cut bins from: all that the part has, or one of every row; or a fixed random share of them."""
    lists = recipe.lists(part)
    if lists is None:
        return None
    entries = _distinct(lists.design) if distinct else np.arange(len(lists.design))
    if share < 1:
        wanted = max(1, int(len(entries) * share))
        entries = np.sort(np.random.default_rng(number).choice(entries, wanted, replace=False))
    return lists.design[entries]


def joined(samples: list[Matrix | None]) -> Matrix:
    """The samples of all parts, for one worker to hand on."""
    return np.concatenate([sample for sample in samples if sample is not None])


def own_threads() -> int:
    """How many threads this worker may use."""
    from distributed import get_worker

    return int(get_worker().state.nthreads)


def lists_shape(part: LoadedPart) -> tuple[int, int]:
    """Entries that a part gives to training, and how many of its rows they are made of."""
    log = part.train
    if log is None or log.n_clicks == 0:
        return 0, 0
    row = training_lists(log).row
    return len(row), int((np.bincount(row, minlength=log.data.n_rows) > 0).sum())
