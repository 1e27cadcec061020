"""Choosing among settings: fit every trial, keep the one that the judge likes best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from unskew._segments import IntArray
from unskew.data.design import DesignMatrix
from unskew.errors import SettingError
from unskew.method import Candidate
from unskew.rankers.base import Judge, Ranker
from unskew.rankers.race import start_race

Progress = Callable[..., None]


@dataclass(frozen=True, eq=False)
class Trial:
    """A ranker with its settings and what it is to be trained on.

    setting : what makes this trial different, for people to read.
    judge : a judge of its own, where the trial sees the validation items in its own way; else the search's.
    """

    ranker: Ranker
    design: DesignMatrix
    labels: npt.NDArray
    sizes: IntArray
    weight: npt.NDArray[np.float32] | None = None
    position: IntArray | None = None
    setting: dict[str, Any] = field(default_factory=dict)
    judge: Judge | None = None


def trials_of(
    ranker: Ranker,
    design: DesignMatrix,
    labels: npt.NDArray,
    sizes: IntArray,
    *,
    setting: dict[str, Any] | None = None,
    **more: Any,
) -> list[Trial]:
    """A trial for every entry of the ranker's grid, named by the settings in which the entries differ."""
    entries = list(ranker.grid())
    return [
        Trial(entry, design, labels, sizes, setting={**(setting or {}), **different}, **more)
        for entry, different in zip(entries, _differences(entries))
    ]


def search(
    trials: Iterable[Trial],
    judge: Judge | None = None,
    *,
    progress: Progress | None = None,
    cache: dict[Any, Any] | None = None,
) -> tuple[Any, Trial, list[Candidate]]:
    """Fit the trials one after another; the best fitted ranker, its trial, and how each candidate did.

    Without a judge nothing can be compared, so the first trial is fitted to its last stage and the rest is left.
    Trials may come from a generator: then only one design exists at a time. Of equals the first wins. Candidates that
    cannot be expected to win any more are given up early (`rankers/race.py`).
    """
    cache = {} if cache is None else cache
    start_race(cache)
    best: tuple[Any, Trial] | None = None
    top = -np.inf
    candidates: list[Candidate] = []
    for trial in trials:
        referee = trial.judge if trial.judge is not None else judge
        started = time.perf_counter()
        # A fresh copy: what a caller handed over stays as it was.
        fitted = clone(trial.ranker).fit(
            trial.design,
            trial.labels,
            trial.sizes,
            weight=trial.weight,
            position=trial.position,
            judge=referee,
            cache=cache,
        )
        value = getattr(fitted, "judged_", None)
        setting = {**trial.setting, "stage": fitted.stage_}
        candidates.append(Candidate(setting, value, time.perf_counter() - started))
        if best is None or (value is not None and value > top):
            best, top = (fitted, trial), -np.inf if value is None else value
        if progress is not None:
            progress(1, note="" if value is None else f"best {top:.4f}")
        if referee is None:
            break
    if best is None:
        raise SettingError("A search needs at least one trial, but none was given.")
    return *best, candidates


def _differences(entries: Sequence[Any]) -> list[dict[str, Any]]:
    settings = [entry.get_params(deep=False) for entry in entries]
    varied = [name for name in settings[0] if len({repr(values.get(name)) for values in settings}) > 1]
    return [{name: values[name] for name in varied} for values in settings]
