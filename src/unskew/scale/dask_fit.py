"""The control-function method on a Dask cluster: statistics, Φ, training and judging happen where the data is."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from unskew.control.debias import ClickOnResidual
from unskew.control.estimator import REFERENCE_TRANSFORMATION, ControlFunctionRanker
from unskew.control.learners import Ridge
from unskew.control.stage_one import StageOne
from unskew.control.terms import term_names
from unskew.control.transformations import Transformation, fit_transformation, transformation_list
from unskew.data.clicks import ClickLog
from unskew.data.columns import LogColumns
from unskew.data.ranking import RankingData
from unskew.errors import ClusterError, LogError, SettingError
from unskew.method import Candidate, Outcome
from unskew.rankers.lambdamart import LambdaMART
from unskew.rankers.make import make_ranker
from unskew.rankers.trees import choose_stage, several
from unskew.scale import part_work as work
from unskew.scale.cluster import tree_merge
from unskew.scale.judging import judge_part
from unskew.scale.parts import Parts, open_parts
from unskew.scale.streaming import Counts, conclude, counts_of, gram_of, residual_scale, residuals_of, target_of
from unskew.scale.training import TRAINERS, Shapes, load_booster, train_together
from unskew.scale.watch import WorkerLost, wait_for_a_worker

# How often a candidate is trained again after a worker was lost.
RETRIES = 3


@dataclass(frozen=True, eq=False)
class DaskLog:
    """A folder of Parquet files with whole queries in each, to be read by the workers of a cluster.

    client : a distributed.Client. path : must mean the same folder to every worker.
    say : is told what happens (a worker lost, a candidate trained again).

    ControlFunctionRanker().fit(DaskLog("parts/", client))
    """

    path: str | Path
    client: Any
    columns: LogColumns = field(default_factory=LogColumns)
    say: Callable[[str], None] = lambda message: None

    def fit_into(self, method: Any, validation: Any) -> Any:
        """What `Method.fit` does with a log that is not in memory."""
        return fit_on_cluster(method, self, validation)


def fit_on_cluster(method: Any, log: DaskLog, validation: Any = None) -> ControlFunctionRanker:
    """Fit on the cluster: Algorithm 1 with its sums taken in the workers. Returns the fitted method.

    validation : a second folder (path or DaskLog), judged data in memory, or None to hold out queries of the log.
    """
    base = _check(method)
    client = log.client
    parts, train = _load(log, seed=method.random_state, split=validation is None)
    valid = train
    if isinstance(validation, (str, Path, DaskLog)):
        other = validation if isinstance(validation, DaskLog) else DaskLog(validation, client, log.columns)
        _, loaded = _load(other, seed=method.random_state, split=False)
        valid = [client.submit(_as_validation, part, pure=False) for part in loaded]
    stage_one = _stage_one(client, train, method)
    fitted = [fit_transformation(kind, stage_one.statistics) for kind in transformation_list(method.transformation)]
    if method.centred:
        fitted = [transformation.centred() for transformation in fitted]
    judged = validation if isinstance(validation, RankingData) else None
    search = _Search(client, log.say, method, base, parts, train, valid, stage_one, judged)
    best = search.run(fitted)
    method.stage_one_ = stage_one
    method.transformation_ = best.transformation
    names = term_names(method.form, parts.features)
    foldable = method._foldable()
    method.outcome_ = Outcome(
        ranker=best.ranker,
        state=best.ranker.state((*parts.features, *names)),
        candidates=search.candidates,
        fixed=np.full(len(names), method._at_inference()) if foldable else None,
        extra=method._facts(stage_one, best.ranker, best.setting),
    )
    method.bias_ = None
    method.fingerprint_ = _fingerprint(client, train, len(parts.features))
    method.candidates_ = list(search.candidates)
    method.n_features_in_ = len(parts.features)
    method.feature_names_in_ = np.asarray(parts.features, dtype=object)
    method.__dict__.pop("_model", None)
    return method


def _check(method: Any) -> Any:
    """The ranker of a method that the cluster can fit."""
    if not isinstance(method, ControlFunctionRanker):
        raise SettingError(
            f"On a cluster unskew fits cfc, cfc-s and cfc-bc, but the method is {type(method).__name__}. "
            "Other methods fit out of core on one machine (engine 'stream')."
        )
    method._check_settings()
    if method.stage_one != "ridge" or method.cross_fit or method.placebo is not None:
        raise SettingError("On a cluster stage one is ridge, in-sample and without placebo: its sums merge.")
    base = make_ranker(method.ranker, preset=method.preset, random_state=method.random_state, n_jobs=method.n_jobs)
    if type(base) not in TRAINERS:
        raise SettingError(f"On a cluster the ranker is lambdamart or xgboost, but {method.ranker!r} was given.")
    if getattr(base, "unbiased", False):
        raise SettingError("XGBoost's own unbiased training does not work on a cluster: it keeps positions to itself.")
    return base.set_params(separate_terms=True) if method.separate else base


def _load(log: DaskLog, *, seed: int, split: bool) -> tuple[Parts, list[Any]]:
    """The parts as futures; what is wrong with a file is raised here, by its name."""
    client, parts = log.client, open_parts(Path(log.path), log.columns)
    numbers = range(len(parts.files))
    queries = [client.submit(work.part_queries, parts, number, pure=False) for number in numbers]
    held = client.submit(work.split, queries, list(parts.files), seed, split, pure=False)
    for spread in (False, True):
        loaded = [client.submit(work.load_part, parts, number, held, spread, pure=False) for number in numbers]
        change = client.gather([client.submit(work.features_change, part, pure=False) for part in loaded])
        if spread or not any(change) or all(change):
            break
    return parts, loaded


def _as_validation(part: work.LoadedPart) -> work.LoadedPart:
    return work.LoadedPart(None, part.train)


def _on_train(function: Callable[..., Any], part: work.LoadedPart, *more: Any) -> Any:
    return None if part.train is None else function(part.train, *more)


def _weighs(log: ClickLog) -> bool:
    return log.weight is None or bool(log.weight[log.click > 0].any())


def _stage_one(client: Any, train: list[Any], method: ControlFunctionRanker) -> StageOne:
    def over_parts(function: Callable[..., Any], *more: Any) -> Any:
        return tree_merge(client, [client.submit(_on_train, function, part, *more, pure=False) for part in train])

    counts: Counts | None = over_parts(counts_of)
    if counts is None or counts.clicks == 0:
        raise LogError("This log has no click at all, so there is nothing to learn from. Is the click column right?")
    if not any(client.gather([client.submit(_on_train, _weighs, part, pure=False) for part in train])):
        raise LogError("No click has a weight above 0, so there is nothing to learn from. Is the weight column right?")
    target = target_of(counts, method.rank_target)
    gram = over_parts(gram_of, target)
    model = Ridge().solve(gram)
    residuals = over_parts(residuals_of, target, model, residual_scale(gram, model))
    return conclude(gram, residuals, model, target, np.empty(0))


def _fingerprint(client: Any, parts: list[Any], features: int) -> dict[str, Any]:
    """Of the whole log, with what was held out; parts have no checksum that would be that of a log in memory."""
    prints = client.gather([client.submit(work.fingerprints, part, pure=False) for part in parts])
    every = [one for part in prints for one in part]
    digest = hashlib.sha256("".join(one["sha256"] for one in every).encode())
    facts = {name: sum(one[name] for one in every) for name in ("queries", "rows", "sessions", "impressions", "clicks")}
    sums = {"sha256": None, "sha256_of_parts": digest.hexdigest()}
    return {**facts, "features": features, "parts": len(parts), **sums}


@dataclass(frozen=True, eq=False)
class _Best:
    ranker: Any
    transformation: Transformation
    setting: dict[str, Any]
    score: float


class _Search:
    """Candidates one after another; each trained by all workers together, and judged in them."""

    def __init__(
        self,
        client: Any,
        say: Callable[[str], None],
        method: ControlFunctionRanker,
        base: Any,
        parts: Parts,
        train: list[Any],
        valid: list[Any],
        stage_one: StageOne,
        judged: RankingData | None,
    ) -> None:
        self.client, self.say, self.method, self.base, self.parts = client, say, method, base, parts
        self.train, self.valid, self.stage_one, self.judged = train, valid, stage_one, judged
        self.candidates: list[Candidate] = []
        found = client.gather([client.submit(work.lists_shape, part, pure=False) for part in train])
        entries, rows = zip(*found)
        self.shapes = Shapes(entries, rows, parts.features, term_names(method.form, parts.features))
        self.reference = fit_transformation(REFERENCE_TRANSFORMATION, stage_one.statistics)
        self.clicks = self._clicks()

    def run(self, fitted: list[Transformation]) -> _Best:
        best: _Best | None = None
        for transformation in fitted:
            for ranker in self.base.grid():
                found = self._candidate(transformation, ranker)
                if best is None or found.score > best.score:
                    best = found
                if self.method.progress is not None:
                    self.method.progress(1, note=f"best {best.score:.4f}")
                if found.score == -np.inf:  # nothing to compare on: the first candidate is taken
                    return found
        assert best is not None
        return best

    def _clicks(self) -> ClickOnResidual | None:
        """Click on residual, where debiased clicks choose; None where grades or plain clicks do."""
        graded = self.client.gather([self.client.submit(_graded, part, pure=False) for part in self.valid])
        known = [one for one in graded if one is not None]
        if self.judged is not None or self.method.tune_on in ("grades", "clicks") or not known:
            return None
        if self.method.tune_on == "auto" and all(known):
            return None
        submit = self.client.submit
        sums = [submit(work.clicks_part, part, self.stage_one, self.reference, pure=False) for part in self.train]
        return tree_merge(self.client, sums)

    def _candidate(self, transformation: Transformation, ranker: Any) -> _Best:
        started = time.perf_counter()
        rate = several(ranker.setting("learning_rate"))[0]
        setting: dict[str, Any] = {"transformation": transformation.name}
        if len(self.base.grid()) > 1:
            setting["learning_rate"] = rate
        model = self._train(transformation, ranker, setting)
        fitted = clone(ranker)
        fitted.booster_ = load_booster(ranker, model)
        fitted.n_plain_, fitted.n_terms_ = len(self.shapes.features), len(self.shapes.terms)
        grown = fitted.booster_.num_trees() if isinstance(fitted, LambdaMART) else fitted.booster_.num_boosted_rounds()
        stages = sorted({min(stage, grown) for stage in several(ranker.setting("trees"))})
        fitted.stage_, fitted.judged_ = self._judge(transformation, fitted, model, stages)
        if isinstance(fitted, LambdaMART):
            fitted.position_effect_ = None
        setting["stage"] = fitted.stage_
        self.candidates.append(Candidate(dict(setting), fitted.judged_, time.perf_counter() - started))
        return _Best(fitted, transformation, setting, -np.inf if fitted.judged_ is None else fitted.judged_)

    def _judge(
        self, transformation: Transformation, ranker: Any, model: bytes, stages: list[int]
    ) -> tuple[int, float | None]:
        if self.judged is not None:
            judge = self.method._judge(self.judged, transformation, None)
            return choose_stage(ranker._scores, stages, judge)
        # A method and a ranker without anything learnt, so that little travels.
        bare, scorer = clone(self.method).set_params(progress=None), clone(ranker).set_params(n_jobs=1)
        more = (bare, scorer, model, stages, transformation, self.stage_one, self.clicks, self.reference)
        found = tree_merge(
            self.client, [self.client.submit(judge_part, part, *more, pure=False) for part in self.valid]
        )
        if found is None:
            return stages[-1], None
        best = int(np.argmax(found.values))
        return stages[best], float(found.values[best])

    def _train(self, transformation: Transformation, ranker: Any, setting: dict[str, Any]) -> bytes:
        named = ", ".join(f"{name} {value}" for name, value in setting.items())
        recipe = work.Recipe(self.stage_one, transformation, self.method.form)
        for _ in range(RETRIES):
            try:
                return train_together(self.client, self.train, self.shapes, recipe, ranker)
            except WorkerLost as error:
                left = wait_for_a_worker(self.client)
                kept = f"{len(self.candidates)} finished candidates are kept"
                again = f"it is trained again on the workers left (now {left}), {kept}"
                self.say(f"Worker {error} was lost while '{named}' was trained; {again}.")
        raise ClusterError(f"Workers were lost in {RETRIES} attempts to train '{named}'. Is there memory enough?")


def _graded(part: work.LoadedPart) -> bool | None:
    return None if part.valid is None else part.valid.data.grades is not None
