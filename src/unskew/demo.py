"""The whole way on an embedded collection: log, checks, diagnostics, three models, a table, a saved model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.control.diagnostics import Diagnostics, diagnose
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.data.validation import Validation, validate_log
from unskew.errors import UnskewWarning
from unskew.evaluation.gap import GapClosed, gap_closed
from unskew.evaluation.report import Evaluation, evaluate
from unskew.fitting import Fitted, fit_method
from unskew.simulation.log import Simulation, simulate, simulate_detailed
from unskew.simulation.synthetic import synthetic_collection

# Queries for training (and the production ranker), for choosing settings, for the final table.
SPLIT = (400, 150, 250)
METHODS = ("naive", "cfc", "default", "oracle")
SETTINGS: dict[str, Any] = {"passes": 10, "eta": 1.0, "production": 0.02}


@dataclass(frozen=True, eq=False)
class DemoData:
    """A simulated log, a validation log from the same production ranker, and judged test queries."""

    simulation: Simulation
    validation: ClickLog
    test: RankingData

    @property
    def log(self) -> ClickLog:
        return self.simulation.log


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Everything the demo made; `gap` holds the NDCG@10 gap closed of every method."""

    data: DemoData
    checks: Validation
    diagnostics: Diagnostics
    fitted: dict[str, Fitted]
    evaluation: Evaluation
    gap: dict[str, GapClosed]
    log_path: Path
    model_path: Path
    seconds: float


def demo_data(seed: int = 0) -> DemoData:
    """Synthetic judged queries, split three ways, and clicks on two of the parts."""
    train, valid, _ = SPLIT
    judged = synthetic_collection(sum(SPLIT), seed=seed)
    simulation = simulate_detailed(judged.take_queries(np.arange(train)), seed=seed, **SETTINGS)
    settings = {**SETTINGS, "production": simulation.production}
    validation = simulate(judged.take_queries(np.arange(train, train + valid)), seed=seed + 1, **settings)
    return DemoData(simulation, validation, judged.take_queries(np.arange(train + valid, sum(SPLIT))))


def run_demo(
    out: Path, *, seed: int = 0, n_jobs: int | None = None, tell: Callable[[str, Any], None] = lambda step, thing: None
) -> DemoResult:
    """Run every step; `tell(step, thing)` hears about each as it is done."""
    started = time.perf_counter()
    data = demo_data(seed)
    log_path, model_path = out / "log.parquet", out / "model"
    data.log.write(log_path)
    tell("log", data)
    checks = validate_log(log_path)
    tell("checks", checks)
    fitted = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)  # the checks have just said it
        diagnostics = diagnose(data.log, seed=seed)
        tell("diagnostics", diagnostics)
        for name in METHODS:
            fitted[name] = fit_method(data.log, method=name, validation=data.validation, seed=seed, n_jobs=n_jobs)
            tell("fitted", fitted[name])
    scores = {name: one.method.predict(data.test) for name, one in fitted.items()}
    evaluation = evaluate(data.test, scores, seed=seed)
    gap = {name: _gap(evaluation, name, seed) for name in fitted if name not in ("naive", "oracle")}
    fitted["default"].method.save(model_path)
    tell("evaluation", (evaluation, gap))
    return DemoResult(
        data, checks, diagnostics, fitted, evaluation, gap, log_path, model_path, time.perf_counter() - started
    )


def _gap(evaluation: Evaluation, name: str, seed: int) -> GapClosed:
    tables = evaluation.per_query.partition_by("system", as_dict=True)
    method, naive, oracle = (tables[(system,)]["ndcg@10"].to_numpy() for system in (name, "naive", "oracle"))
    return gap_closed(method, naive, oracle, seed=seed)
