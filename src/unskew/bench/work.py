"""Doing a unit of work: fit, rank the test queries, measure."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.bench.collection import Collection
from unskew.bench.experiments import CONTROL, PLANTED
from unskew.bench.material import Material, make_material
from unskew.bench.scales import SELF_TUNED
from unskew.bench.units import Unit
from unskew.control.click_fit import PRESETS
from unskew.control.density import grid_density
from unskew.control.diagnostics import diagnose
from unskew.control.full import facts
from unskew.control.position_effect import position_curve
from unskew.control.referee import judge_log
from unskew.control.verdict import Verdict
from unskew.data.clicks import ClickLog
from unskew.deploy.manifest import plain
from unskew.evaluation.metrics import PerQuery, per_query
from unskew.method import Candidate, Method, PositionCurve
from unskew.rankers.make import RANKERS, make_ranker
from unskew.registry import make_method

# Points of a residual density that is kept for figures.
_DENSITY_POINTS = 201


@dataclass(frozen=True)
class Result:
    """What a unit came to.

    query_ids, metrics : the test queries and their values, NaN where a query has no relevant item; none for units
        that rank nothing.
    values : single numbers, for such units.
    record : settings, chosen candidate, curves, facts about the log, as JSON has them.
    seconds : log, stage_one, fit, test.
    """

    query_ids: list[Any] = field(default_factory=list)
    metrics: PerQuery = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


class Bench:
    """A place to work at: keeps the collection, and the log of the group it is at."""

    def __init__(self, collection: Collection, *, threads: int = 1) -> None:
        self.collection = collection
        self.threads = threads
        self._at: tuple[Any, Material] | None = None

    def material(self, unit: Unit) -> Material:
        """The unit's log; made once as long as units of its group follow each other."""
        if self._at is None or self._at[0] != unit.group:
            self._at = None  # let go of the old log before the new one is made
            self._at = unit.group, make_material(self.collection, unit.cell, unit.fold, unit.seed)
        return self._at[1]

    def do(self, unit: Unit) -> Result:
        """Do one unit."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about one log in a thousand; the record has the facts
            material = self.material(unit)
            if unit.kind == "residuals":
                return residuals(material, unit)
            return (referee if unit.kind == "referee" else ranking)(material, unit, self.threads)


def ranking(material: Material, unit: Unit, threads: int) -> Result:
    """Fit the method and measure how it ranks the test queries."""
    fitted = _fit_all(material, unit, threads)
    started = time.perf_counter()
    test = material.test
    scores = np.mean([one.model.predict(test) for one in fitted], axis=0)
    largest = test.max_grade if test.max_grade is not None else int(test.require_grades("Testing").max())
    metrics = per_query(test.require_grades("Testing"), scores, test.offsets, max_grade=largest, seed=unit.seed)
    first = fitted[0]
    record = {
        "log": material.facts,
        "planted_curve": _first(material.curve),
        "curve": _curve(first.model.bias_),
        "chosen": first.chosen,
        "candidates": first.candidates,
        "learnt": first.model.outcome_.extra,
    }
    seconds = {
        "log": material.seconds,
        "stage_one": sum(one.stage_one for one in fitted),
        "fit": sum(one.seconds for one in fitted),
        "test": time.perf_counter() - started,
    }
    return Result(test.query_ids.to_list(), metrics, {}, plain(record), seconds)


@dataclass(frozen=True)
class _Fit:
    model: Method
    candidates: list[dict[str, Any]]
    chosen: dict[str, Any] | None
    stage_one: float
    seconds: float


def _fit_all(material: Material, unit: Unit, threads: int) -> list[_Fit]:
    """The models whose mean ranks; with one candidate its number of trees is chosen once, by the first of them."""
    first, *others = _parts(material.log, unit.average)
    fitted = [_fit_best(material, unit, first, threads)]
    chosen = fitted[0].chosen or {}
    trees = (int(chosen["stage"]),) if len(fitted[0].candidates) == 1 and "stage" in chosen else None
    return fitted + [_fit_best(material, unit, log, threads, trees=trees) for log in others]


def _fit_best(
    material: Material, unit: Unit, log: ClickLog, threads: int, *, trees: tuple[int, ...] | None = None
) -> _Fit:
    """Fit with every learning rate; the method keeps what validation likes best, of equals the first."""
    options, stage_one = dict(unit.options), 0.0
    if unit.method in CONTROL and log is material.log:
        # Fitted once for all units of this log that need it, and timed apart.
        options["stage_one"], stage_one = material.stage_one(options.get("stage_one", "ridge"), unit.seed, threads)
    if options.get("examination") == PLANTED:
        options["examination"] = material.known_curve()
    model = _method(unit, options, threads, trees)
    if unit.method in SELF_TUNED and log is material.log:
        # Made by the first unit that needs it; those after it are charged for it as if they had.
        stage_one = sum(ground.seconds for ground in material.click_models.values())
        model.share(material.click_models)
    started = time.perf_counter()
    model.fit(log, validation=material.validation)
    seconds = time.perf_counter() - started
    tried = [{"setting": c.setting, "score": c.score} for c in model.candidates_]
    best = max(model.candidates_, key=_score, default=None)
    return _Fit(model, tried, None if best is None else best.setting, stage_one, seconds)


def _score(candidate: Candidate) -> float:
    return -np.inf if candidate.score is None else candidate.score


def _method(unit: Unit, options: dict[str, Any], threads: int, trees: tuple[int, ...] | None = None) -> Method:
    """The unit's method; learning rates and a net's settings go to the ranker, or to a method that is its own."""
    model = make_method(unit.method, preset=unit.preset, random_state=unit.seed, n_jobs=threads)
    known = model.get_params(deep=False)
    own = {**dict(unit.net), **({"learning_rate": unit.rates} if unit.rates else {})}
    own |= {"trees": trees} if trees else {}
    if "ranker" in known and unit.ranker in RANKERS:
        options["ranker"] = unit.ranker
        if own and unit.method not in SELF_TUNED:
            options["ranker"] = make_ranker(
                unit.ranker, preset=unit.preset, random_state=unit.seed, n_jobs=threads, **own
            )
    else:
        options.update({name: value for name, value in own.items() if name in known})
    if "tune_on" in known:
        options["tune_on"] = unit.tune_on
    return model.set_params(**options)


def _parts(log: ClickLog, count: int) -> Iterator[ClickLog]:
    """The log, or as many logs as asked for, each without a part of the queries."""
    if count == 1:
        yield log
        return
    order = np.random.default_rng(0).permutation(log.queries)
    for part in range(count):
        yield log.take_queries(np.sort(np.delete(order, np.s_[part::count])))


def residuals(material: Material, unit: Unit) -> Result:
    """What stage one leaves over: its size, its spread, and whether the spread changes with the features."""
    stage_one, seconds = material.stage_one(dict(unit.options).get("stage_one", "ridge"), unit.seed, None)
    started = time.perf_counter()
    found = diagnose(material.log, stage_one=stage_one, seed=unit.seed)
    density = grid_density(stage_one.statistics)
    at = np.linspace(density.grid[0], density.grid[-1], _DENSITY_POINTS)
    values = {
        "mean |residual|": stage_one.statistics.mean_absolute,
        "variance": stage_one.statistics.variance,
        "FK": found.spread.pooled_statistic,
        "FK p": found.spread.pooled_p,
        "features with changing spread": found.spread.n_rejected / max(found.spread.n_tested, 1),
        "r2": found.r2,
    }
    record = {
        "log": material.facts,
        "density": {"residual": at, "density": np.interp(at, density.grid, density.density)},
        "diagnostics": found.to_dict(),
    }
    times = {"log": material.seconds, "stage_one": seconds, "fit": 0.0, "test": time.perf_counter() - started}
    measured = {name: float(value) for name, value in values.items() if np.isfinite(value)}
    return Result([], {}, measured, plain(record), times)


def referee(material: Material, unit: Unit, threads: int) -> Result:
    """What the referee says about a log, beside what was planted in it."""
    placebo = bool(dict(unit.options).get("placebo"))
    started = time.perf_counter()
    verdict = judge_log(material.log, placebo=placebo, settings=PRESETS[unit.preset], seed=unit.seed, threads=threads)
    seconds = time.perf_counter() - started
    position, moved = verdict["position"], verdict.interventions
    values: dict[str, float | None] = {
        "corrected": float(verdict.method != "naive"),
        "terms found": float("terms" in verdict.settings),
        "refuted": float(moved is not None and moved.refuted),
        "gain a click": position.gain / verdict.clicks,
        "severity": verdict.severity,
        "curve covered": _covered(verdict, material.curve),
    }
    learnt = {} if verdict.fit is None else facts(verdict.fit)
    record = {"log": material.facts, "referee": verdict.to_dict(), "learnt": learnt}
    times = {"log": material.seconds, "stage_one": 0.0, "fit": seconds, "test": 0.0}
    return Result([], {}, {name: value for name, value in values.items() if value is not None}, plain(record), times)


def _covered(verdict: Verdict, planted: npt.NDArray[np.float64] | None) -> float | None:
    """The share of positions 2 to 10 whose 90 % interval holds the planted examination."""
    fit = verdict.fit
    if fit is None or planted is None or fit.basis.size == 0:
        return None
    curve = position_curve(fit.basis, fit.stack.effect, fit.stack.covariance, confidence=0.9)
    assert curve.low is not None
    assert curve.high is not None
    last = min(10, len(planted), len(curve.value))
    truth = planted[1:last] / planted[0]
    return float(np.mean((curve.low[1:last] <= truth) & (truth <= curve.high[1:last])))


def _curve(bias: PositionCurve | None) -> dict[str, Any] | None:
    if bias is None:
        return None
    return {
        "position": bias.position,
        "value": bias.value,
        "low": bias.low,
        "high": bias.high,
        "confidence": bias.confidence,
    }


def _first(curve: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64] | None:
    return None if curve is None else curve[:100]
