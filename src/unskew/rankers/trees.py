"""What the tree rankers share: checks of their lists, and the choice of the number of trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.data.design import DesignMatrix
from unskew.errors import DataError, SettingError
from unskew.rankers.base import Judge

# LightGBM's own limits for lambdarank; XGBoost is held to the same.
MAX_LABEL = 30
MAX_LIST = 10_000


def stages_of(ranker: Any, presets: Mapping[str, Mapping[str, Any]], judge: Judge | None) -> list[int]:
    """The numbers of trees to look at, ascending: with a judge all of them, else the one to be kept."""
    if ranker.trees is None and judge is None:
        return [presets[ranker.preset]["unjudged"]]
    stages = sorted(several(ranker.setting("trees")))
    if stages[0] < 1:
        raise SettingError(f"trees must be 1 or more, but {stages[0]} was given.")
    return stages if judge is not None else stages[-1:]


@dataclass
class StageWatch:
    """Looks at a forest with 25, 50, … trees through the judge's eyes; every tree is evaluated once.

    scores_of : (design, start, stop) → the sum of trees start … stop - 1. Of equals the fewest trees win.
    stage, best : the winner so far among the stages that may win; path : the best value of any look up to a stage.
    """

    scores_of: Callable[[DesignMatrix, int, int], npt.NDArray[np.float64]]
    judge: Judge
    stage: int = 0
    best: float = -np.inf
    path: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at = 0
        self._scores = np.zeros(len(self.judge.features))

    def look(self, stop: int, *, may_win: bool = True) -> float:
        """Judge the first `stop` trees; the best value of any look so far."""
        self._scores += self.scores_of(self.judge.features, self.at, stop)
        self.at = stop
        value = float(self.judge(self._scores))
        if may_win and (value > self.best or not self.stage):
            self.best, self.stage = value, stop
        self.path[stop] = max([value, *self.path.values()])
        return self.path[stop]


def choose_stage(
    scores_of: Callable[[DesignMatrix, int, int], npt.NDArray[np.float64]], stages: Sequence[int], judge: Judge | None
) -> tuple[int, float | None]:
    """The number of trees that the judge likes best, and its value."""
    if judge is None:
        return stages[-1], None
    watch = StageWatch(scores_of, judge)
    for stage in stages:
        watch.look(stage)
    return watch.stage, watch.best


def several(value: Any) -> tuple[Any, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not values:
        raise SettingError("trees and learning_rate must name at least one value, but one of them is empty.")
    return values


def check_lists(design: DesignMatrix, labels: npt.NDArray, sizes: IntArray) -> None:
    if not len(labels) == len(design) == int(np.sum(sizes)):
        raise DataError(
            f"{len(design):,} entries, {len(labels):,} labels and lists of {int(np.sum(sizes)):,} entries do not match."
        )
    values = np.asarray(labels)
    if (values < 0).any() or (values > MAX_LABEL).any() or (values != np.floor(values)).any():
        raise DataError(
            f"LambdaMART takes whole labels from 0 to {MAX_LABEL}, but found {values.min()} to {values.max()}. "
            "Real-valued labels need a pointwise ranker."
        )
    if np.max(sizes) > MAX_LIST:
        raise DataError(
            f"LightGBM orders lists of at most {MAX_LIST:,} items, but one has {int(np.max(sizes)):,}. "
            "Keep the top of such lists."
        )
