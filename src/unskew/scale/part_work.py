"""What a worker does with its part of a log; everything that leaves it is small, or stays on the cluster."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import polars as pl

from unskew.control.debias import ClickOnResidual, debiased_labels, fit_click_on_residual
from unskew.control.stage_one import StageOne
from unskew.control.terms import control_terms
from unskew.control.transformations import Transformation
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.lists import training_lists
from unskew.errors import DataError
from unskew.scale.parts import Parts, as_log, changing, check_whole, frames, held_queries, queries_of, subset

# Where LightGBM's remarks go.
LOGGER = logging.getLogger("unskew.lightgbm")
LOGGER.setLevel(logging.ERROR)
Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LoadedPart:
    """The training and the validation queries of one file."""

    train: ClickLog | None
    valid: ClickLog | None


@dataclass(frozen=True)
class JudgedStages:
    """Sums of a metric over lists, one a number of trees, and the weight of the lists; parts add up."""

    sums: npt.NDArray[np.float64]
    weight: float

    def merge(self, other: JudgedStages) -> JudgedStages:
        return JudgedStages(self.sums + other.sums, self.weight + other.weight)

    @property
    def values(self) -> npt.NDArray[np.float64]:
        return self.sums / self.weight


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


def residual_part(log: ClickLog, stage_one: StageOne, row: npt.NDArray, position: npt.NDArray) -> npt.NDArray:
    """(n,) residuals of items of a part."""
    return stage_one.target.values(log, row, position) - stage_one.explain(log.data)[row]


def clicks_part(part: LoadedPart, stage_one: StageOne, reference: Transformation) -> ClickOnResidual | None:
    """The five sums of equation 8 over the training impressions of a part."""
    log = part.train
    if log is None:
        return None
    return fit_click_on_residual(log, reference(residual_part(log, stage_one, log.row, log.position)))


def training_part(
    part: LoadedPart, stage_one: StageOne, transformation: Transformation, form: Any
) -> tuple[Matrix, npt.NDArray, npt.NDArray, npt.NDArray] | None:
    """Features with Φ beside them, labels, list sizes and weights of a part; None where nothing was clicked."""
    log = part.train
    if log is None or log.n_clicks == 0:
        return None
    _hush_this_thread()
    lists = training_lists(log)
    value = transformation(residual_part(log, stage_one, lists.row, lists.position))
    design = DesignMatrix(log.data.features, lists.row, control_terms(log.data, form, value))
    return design[:], lists.label, lists.sizes, lists.weight


def _hush_this_thread() -> None:
    """LightGBM's C++ side keeps its verbosity by thread and tells of its sockets before it reads its settings."""
    lgb.Dataset(np.zeros((2, 1), np.float32), params={"verbosity": -1, "min_data_in_bin": 1}).construct()


def lists_shape(part: LoadedPart) -> tuple[int, int]:
    """Entries and lists that a part gives to training."""
    log = part.train
    if log is None or log.n_clicks == 0:
        return 0, 0
    lists = training_lists(log)
    return len(lists.row), len(lists.sizes)


def judge_part(
    part: LoadedPart,
    model: Any,
    ranker: Any,
    text: str,
    stages: Sequence[int],
    transformation: Transformation,
    stage_one: StageOne,
    clicks: ClickOnResidual | None,
    reference: Transformation,
) -> JudgedStages | None:
    """The metric of every number of trees on the validation lists of a part; None where it has nothing to judge."""
    valid = part.valid
    if valid is None:
        return None
    debiased = None
    if clicks is not None:
        debiased = debiased_labels(valid, stage_one=stage_one, transformation=reference, model=clicks)
    try:
        judge = model._judge(valid, transformation, debiased)
    except DataError:  # no grade above 0, no click: such queries do not count in memory either
        return None
    ranker.booster_ = lgb.Booster(model_str=text)
    scores, sums = np.zeros(len(judge.features)), []
    weight = _weight(valid, model.tune_on, debiased, judge)
    for start, stop in pairwise([0, *stages]):
        scores += ranker._scores(judge.features, start, stop)
        sums.append(judge(scores) * weight)
    return JudgedStages(np.array(sums), weight)


def _weight(valid: ClickLog, tune_on: str, debiased: Any, judge: Any) -> float:
    graded = tune_on == "grades" or (tune_on in ("auto", "debiased") and valid.data.grades is not None)
    if debiased is not None or graded:
        return float(judge.n_lists)
    clicked = valid.session_clicks > 0
    if valid.weight is None:
        return float(clicked.sum())
    mean = np.add.reduceat(valid.weight.astype(np.float64), valid.session_offsets[:-1]) / np.diff(valid.session_offsets)
    return float(mean[clicked].sum())
