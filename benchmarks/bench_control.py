"""The method: stage one to Φ against the usual parts, the whole search against separate trainings, and growth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import lightgbm as lgb
import numpy as np
import polars as pl
from scipy.stats import gaussian_kde, norm
from sklearn.linear_model import Ridge

from benchmarks.harness import Row, faster, measure_both, peak_memory
from unskew.control.estimator import ControlFunctionRanker
from unskew.control.stage_one import fit_stage_one
from unskew.control.terms import control_terms
from unskew.control.transformations import PAPER_TRANSFORMATIONS, fit_transformation
from unskew.data.clicks import ClickLog
from unskew.data.lists import training_lists
from unskew.data.ranking import RankingData
from unskew.evaluation.judge import make_judge
from unskew.rankers.binned import BLOCK
from unskew.rankers.lambdamart import LambdaMART
from unskew.registry import make_method
from unskew.simulation.log import simulate, simulate_detailed
from unskew.simulation.synthetic import synthetic_collection

TOPIC = "control"
LIST = 120
BINS = {"feature_pre_filter": False, "data_random_seed": 1, "verbosity": -1, "num_threads": 1}


def run(quick: bool) -> list[Row]:
    """Rows of the table; quick shrinks the input."""
    n, d = (60_000, 40) if quick else (720_000, 136)
    return [*_control_terms(n, d, quick), *_search(quick), *_default_fits(quick), _growth(quick)]


def ranked_log(n: int, d: int, *, seed: int = 0) -> ClickLog:
    """n items with d features in lists of 120, ranked by a noisy linear score; built without a second matrix."""
    rng = np.random.default_rng(seed)
    features = rng.random((n, d), dtype=np.float32)
    queries = n // LIST
    data = RankingData(
        features=features,
        offsets=np.arange(queries + 1) * LIST,
        query_ids=pl.Series("query_id", np.arange(queries)),
        feature_names=tuple(f"f{j + 1}" for j in range(d)),
    )
    score = features[:, :8].sum(axis=1) + rng.random(n, dtype=np.float32)
    order = np.argsort(-score.reshape(queries, LIST), axis=1) + np.arange(0, n, LIST)[:, None]
    position = np.tile(np.arange(1, LIST + 1), queries)
    return ClickLog.from_arrays(
        data,
        row=order.ravel(),
        session=np.repeat(np.arange(queries), LIST),
        position=position,
        click=rng.random(n) < 0.3 / position,
    )


def our_terms(log: ClickLog) -> float:
    """Stage one, four transformations, and Φ of each into one buffer."""
    stage_one = fit_stage_one(log)
    residual = stage_one.residual(log, log.row, log.position)
    out = np.empty((log.n_impressions, log.data.n_features), dtype=np.float32)
    for kind in PAPER_TRANSFORMATIONS:
        terms = control_terms(log.data, "interaction", fit_transformation(kind, stage_one.statistics)(residual))
        for start in range(0, len(out), BLOCK):
            part = np.arange(start, min(start + BLOCK, len(out)))
            row = log.row[part]
            terms.fill(out[part[0] : part[-1] + 1], log.data.features[row], row, part)
    return float(out[0, 0])


def their_terms(log: ClickLog) -> float:
    """The same work with the usual parts: Ridge, gaussian_kde on 2,000 points, numpy."""
    x, y = log.data.features[log.row], log.position / log.longest_list
    residual = y - Ridge().fit(x, y).predict(x)
    z = (residual - residual.mean()) / residual.std()
    grid = np.linspace(residual.min(), residual.max(), 2_000)
    density = gaussian_kde(residual)(grid)
    area = np.cumsum(density)
    hazard = np.interp(residual, grid, density / (area / area[-1]))
    minmax = (residual - residual.min()) / np.ptp(residual)
    means = x.reshape(-1, LIST, x.shape[1]).mean(axis=1).repeat(LIST, axis=0)
    for value in (minmax, norm.pdf(z), norm.pdf(z) / norm.cdf(z), hazard):
        phi = (x - means) * value[:, None].astype(np.float32)
    return float(phi[0, 0])


def _control_terms(n: int, d: int, quick: bool) -> list[Row]:
    log = ranked_log(n, d)
    ours, theirs = measure_both(lambda: our_terms(log), lambda: their_terms(log), repeat=1 if not quick else 2)
    what = f"stage one, four T and Φ, {n:,} × {d}"
    grown = peak_memory(partial(_terms_of_fresh_log, n, d))
    budget = 2.0 * n * d * 4
    return [
        faster(TOPIC, what, ours, "scikit-learn + scipy + numpy", theirs, at_least=4),
        Row(
            TOPIC,
            f"{what}: peak memory",
            grown / 1e6,
            "features + Φ",
            budget / 1e6,
            "MB",
            grown / budget,
            "≤ 1.2 ×",
            grown <= 1.2 * budget,
        ),
    ]


def _terms_of_fresh_log(n: int, d: int) -> None:
    our_terms(ranked_log(n, d))


def _search(quick: bool) -> list[Row]:
    """All four transformations × two rates × 500 trees, our way and as eight trainings on the same lists and bins.

    Time is the processor's, with one thread each: it does not depend on what else the machine does. Memory is looked
    at on a larger log with few trees, where the matrices outweigh what both have to import.
    """
    setting = _search_setting(quick)
    started = time.process_time()
    ours = our_search(*setting)
    middle = time.process_time()
    theirs = their_search(*setting)
    ended = time.process_time()
    our_time, their_time = middle - started, ended - middle
    our_peak, their_peak = (peak_memory(partial(_large_search, one, quick)) for one in (our_search, their_search))
    same, peer = ours == theirs, "8 LightGBM trainings"
    return [
        Row(TOPIC, "whole search", our_time, peer, their_time, "s", our_time / their_time, "≤ 0.7 ×",
            our_time <= 0.7 * their_time, f"processor time, one thread; chosen: {ours}, by {peer}: {theirs}"),
        Row(TOPIC, "whole search: peak memory", our_peak / 1e6, peer, their_peak / 1e6, "MB", our_peak / their_peak,
            "≤ 0.6 ×", our_peak <= 0.6 * their_peak),
        Row(TOPIC, "whole search: the same choice", float(same), unit="", target="= 1", ok=same),
    ]  # fmt: skip


Setting = tuple[ClickLog, RankingData, LambdaMART]
Choice = tuple[str, float, int]


def _search_setting(quick: bool) -> Setting:
    train, valid = (40, 30) if quick else (120, 120)
    judged = synthetic_collection(train + valid, seed=5)
    simulation = simulate_detailed(judged.take_queries(np.arange(train)), seed=5)
    trees = (10, 20) if quick else (100, 300, 500)
    ranker = LambdaMART(preset="paper", trees=trees, n_jobs=1)
    return simulation.log, judged.take_queries(np.arange(train, train + valid)), ranker


def our_search(log: ClickLog, valid: RankingData, ranker: LambdaMART) -> Choice:
    """ControlFunctionRanker's own."""
    model = ControlFunctionRanker(ranker=ranker).fit(log, validation=valid)
    best = max(model.candidates_, key=lambda candidate: candidate.score or 0.0)
    return best.setting["transformation"], best.setting["learning_rate"], best.setting["stage"]


def their_search(log: ClickLog, valid: RankingData, ranker: LambdaMART) -> Choice:
    """The lists stacked into a doubled float32 matrix, built and binned anew for every training."""
    stage_one = fit_stage_one(log)
    lists = training_lists(log)
    residual = stage_one.residual(log, lists.row, lists.position)
    judge = make_judge(valid)
    assert judge is not None
    unseen = np.hstack([valid.features, np.zeros_like(valid.features)])
    distinct = np.sort(np.unique(lists.row, return_index=True)[1])
    means = log.data.query_means[log.data.query_of_row[lists.row]]
    stages, found = ranker.setting("trees"), []
    for kind in PAPER_TRANSFORMATIONS:
        for rate in (0.05, 0.1):
            value = fit_transformation(kind, stage_one.statistics)(residual)
            x = log.data.features[lists.row]
            wide = np.hstack([x, (x - means) * value[:, None]])
            cuts = lgb.Dataset(wide[distinct], params=BINS).construct()  # the same bins, so the same choice
            data = lgb.Dataset(
                wide, label=lists.label, group=lists.sizes, weight=lists.weight, reference=cuts, params=BINS
            )
            params = {
                "objective": "lambdarank", "num_leaves": 255, "min_data_in_leaf": 2, "learning_rate": rate,
                "deterministic": True, "force_row_wise": True, "seed": 0, **BINS,
            }  # fmt: skip
            booster = lgb.train(params, data, num_boost_round=stages[-1])
            scores = (np.asarray(booster.predict(unseen, num_iteration=stage, num_threads=1)) for stage in stages)
            found += [(judge(score), kind, rate, stage) for score, stage in zip(scores, stages)]
    best = max(found, key=lambda entry: entry[0])
    return best[1:]


def _large_search(search: Callable[..., Choice], quick: bool) -> None:
    n, d = (12_000, 20) if quick else (240_000, 136)
    log = ranked_log(n, d)
    few = replace(log.data.take_queries(np.arange(20)), grades=np.resize([0, 1], 20 * LIST).astype(np.int16))
    search(log, few, LambdaMART(preset="paper", trees=(2,), n_jobs=1))


# Where lists change, the click model has a row for every position that an item had: there is no target for these.
_LISTS: dict[str, dict[str, Any]] = {
    "lists that never change": {},
    "some items swapped": {"landmarks": (1, 3, 5, 10)},
    "lists that differ by session": {"shock": 1.0, "shock_per": "session"},
}


def _default_fits(quick: bool) -> Iterator[Row]:
    """`default` (the referee, then what it recommends) against a naive fit of the same preset on the same log."""
    train, valid = (60, 30) if quick else (400, 150)
    judged = synthetic_collection(train + valid, seed=0)
    validation = judged.take_queries(np.arange(train, train + valid))
    for lists, settings in _LISTS.items():
        log = simulate(judged.take_queries(np.arange(train)), production=0.02, seed=0, **settings)
        seconds = {}
        for name in ("naive", "default"):
            started = time.process_time()
            make_method(name, n_jobs=1).fit(log, validation=validation)
            seconds[name] = time.process_time() - started
        ratio = seconds["default"] / seconds["naive"]
        target, ok = ("", None) if settings else ("≤ 3 ×", ratio <= 3)
        what = f"default fit, {train} queries × 10 passes, {lists}"
        yield Row(TOPIC, what, seconds["default"], "naive", seconds["naive"], "s", ratio, target, ok,
                  "processor time, one thread")  # fmt: skip


def _growth(quick: bool) -> Row:
    """Stage one, one transformation and 20 small trees on logs of growing size: the exponent of time in rows."""
    sizes = (12_000, 48_000) if quick else (100_000, 400_000, 1_600_000, 3_200_000)
    seconds = []
    for size in sizes:
        log = ranked_log(size // LIST * LIST, 18)
        ranker = LambdaMART(preset="smoke")
        started = time.perf_counter()
        held = small_validation(log)
        ControlFunctionRanker(ranker=ranker, transformation="minmax").fit(log, validation=held)
        seconds.append(time.perf_counter() - started)
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    what = f"growth of a fit from {sizes[0]:,} to {sizes[-1]:,} rows"
    note = "exponent of time in rows; seconds: " + ", ".join(f"{value:.1f}" for value in seconds)
    return Row(TOPIC, what, exponent, unit="", target="≤ 1", ok=exponent <= 1.0, note=note)


def small_validation(log: ClickLog) -> ClickLog:
    """A small validation log of the same shape, so that no part of the log is held out."""
    return log.take_queries(np.arange(50))
