"""What the units of a group share: a log, validation data, test queries, and stage ones fitted to the log."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.bench.cells import Cell
from unskew.bench.collection import Collection
from unskew.control.diagnostics import click_curve
from unskew.control.groundwork import Shared
from unskew.control.stage_one import StageOne, fit_stage_one
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import SettingError, UnskewWarning
from unskew.simulation.log import simulate, simulate_detailed

# Validation clicks are drawn apart from those of training, whatever the seed.
_VALIDATION = 1_000_003


@dataclass(frozen=True, eq=False)
class Material:
    """The log of a group and what is measured on.

    validation : a log from the same production ranker, with grades; for a real log judged queries.
    curve : (positions,) the planted examination; None for a real log.
    facts : about the log, as JSON has it.
    seconds : to make the log.
    click_models : what click models of this log have in common, as soon as one of them is fitted.
    """

    log: ClickLog
    validation: ClickLog | RankingData
    test: RankingData
    curve: npt.NDArray[np.float64] | None
    facts: dict[str, Any]
    seconds: float
    click_models: Shared = field(default_factory=dict)
    _stage_ones: dict[tuple[Any, ...], tuple[StageOne, float]] = field(default_factory=dict)

    def known_curve(self) -> npt.NDArray[np.float64]:
        """The planted examination, or an error: nobody knows that of a real log."""
        if self.curve is None:
            raise SettingError("examination=planted needs simulated clicks: nobody knows that of a real log.")
        return self.curve

    def stage_one(self, learner: str, seed: int, n_jobs: int | None) -> tuple[StageOne, float]:
        """Stage one and the seconds it took; fitted once for all units of the group that need it."""
        key = (learner, seed)
        if key not in self._stage_ones:
            started = time.perf_counter()
            fitted = fit_stage_one(self.log, learner=learner, random_state=seed, n_jobs=n_jobs)
            self._stage_ones[key] = fitted, time.perf_counter() - started
        return self._stage_ones[key]


def make_material(collection: Collection, cell: Cell, fold: int, seed: int) -> Material:
    """Split the collection, and draw clicks on its training and validation queries (a real log stays as it is)."""
    started = time.perf_counter()
    train, valid, test = collection.split(fold)
    if isinstance(train, ClickLog):
        return Material(train, valid, test, None, _facts(train), time.perf_counter() - started)
    settings = cell.settings()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)
        made = simulate_detailed(train, seed=seed, **settings)
        again = {**settings, "production": made.production, "hidden": made.hidden_names}
        validation = simulate(valid, seed=seed + _VALIDATION, **again)
    facts = {
        **_facts(made.log),
        "production_ndcg@10": made.production.ndcg,
        "production_queries": len(made.production.trained_on),
        "hidden": list(made.hidden_names),
    }
    return Material(made.log, validation, test, made.curve, facts, time.perf_counter() - started)


def _facts(log: ClickLog) -> dict[str, Any]:
    clicks = click_curve(log)
    return {
        "queries": len(log.queries),
        "sessions": log.n_sessions,
        "impressions": log.n_impressions,
        "clicks": log.n_clicks,
        "by_position": {
            "position": clicks.position.tolist(),
            "impressions": clicks.impressions.tolist(),
            "rate": clicks.rate.tolist(),
        },
    }
