"""Candidates judged in the workers: two numbers a stage and part come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.control.debias import ClickOnResidual, debiased_labels
from unskew.control.stage_one import StageOne
from unskew.control.transformations import Transformation
from unskew.data.clicks import ClickLog
from unskew.data.counts import single_clicks
from unskew.errors import DataError
from unskew.scale.part_work import LoadedPart
from unskew.scale.training import load_booster


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


def judge_part(
    part: LoadedPart,
    model: Any,
    ranker: Any,
    booster: bytes,
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
    ranker.booster_ = load_booster(ranker, booster)
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
    valid = single_clicks(valid)
    clicked = valid.session_clicks > 0
    if valid.weight is None:
        return float(clicked.sum())
    mean = np.add.reduceat(valid.weight.astype(np.float64), valid.session_offsets[:-1]) / np.diff(valid.session_offsets)
    return float(mean[clicked].sum())
