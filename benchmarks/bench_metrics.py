"""NDCG@10 and ERR@10 against ranx, and the randomisation test against scipy's."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import stats

from benchmarks.harness import Row, faster, measure, measure_both
from unskew.evaluation.metrics import per_query
from unskew.evaluation.significance import randomisation_test

TOPIC = "metrics"


def run(quick: bool) -> list[Row]:
    """Rows of the table; quick shrinks the input."""
    queries, items, repeat = (500, 120, 3) if quick else (10_000, 120, 9)
    rng = np.random.default_rng(0)
    grades = rng.choice(5, p=[0.52, 0.32, 0.13, 0.02, 0.01], size=(queries, items)).astype(np.int16)
    scores = rng.normal(size=(queries, items))
    return [*_against_ranx(grades, scores, repeat), _against_scipy(quick)]


def _against_ranx(grades: np.ndarray, scores: np.ndarray, repeat: int) -> list[Row]:
    """ranx as its documentation shows it: Qrels and Run from dictionaries, then evaluate(qrels, run, metric).

    ranx has no ERR, so that ours computes both metrics while ranx computes one.
    """
    from ranx import Qrels, Run, evaluate

    warnings.filterwarnings("ignore", module="ranx")
    queries, items = grades.shape
    offsets, flat_grades, flat_scores = np.arange(queries + 1) * items, grades.ravel(), scores.ravel()
    judged = _nested(grades, int)
    ranked = _nested(scores, float)
    qrels, ranking = Qrels(judged), Run(ranked)

    def ours() -> dict[str, np.ndarray]:
        return per_query(flat_grades, flat_scores, offsets, max_grade=4, at=[10])

    def theirs() -> np.ndarray:
        return evaluate(qrels, ranking, "ndcg_burges@10", return_mean=False)

    worst = float(np.abs(np.nan_to_num(ours()["ndcg@10"]) - theirs()).max())  # also compiles ranx
    our_time, ranx_time = measure_both(ours, theirs, repeat)
    whole = measure(lambda: evaluate(Qrels(judged), Run(ranked), "ndcg_burges@10"), repeat=1)
    what = f"NDCG@10 and ERR@10, {queries:,} queries × {items}"
    note = f"ranx: NDCG@10 only, Qrels and Run built before; {whole / our_time:,.0f} × with building them"
    return [
        faster(TOPIC, what, our_time, "ranx", ranx_time, at_least=20, note=note),
        Row(TOPIC, "NDCG@10, largest difference to ranx", worst, unit="", target="≤ 1e-9", ok=worst <= 1e-9),
    ]


def _nested(values: np.ndarray, kind: type) -> dict[str, dict[str, int | float]]:
    # ranx orders queries by name; leading zeros keep the order of the rows.
    return {f"q{i:05}": {f"d{j}": kind(value) for j, value in enumerate(row)} for i, row in enumerate(values)}


def _against_scipy(quick: bool) -> Row:
    """scipy.stats.permutation_test flips in blocks too; it is given fewer draws and its time is scaled up."""
    queries, draws, fewer = (300, 5_000, 1_000) if quick else (2_000, 100_000, 10_000)
    d = np.random.default_rng(1).normal(0.002, 0.1, queries)

    def theirs() -> object:
        return stats.permutation_test(
            (d, np.zeros_like(d)),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=fewer,
            batch=1_000,
            rng=np.random.default_rng(0),
        )

    ours, peer = measure_both(lambda: randomisation_test(d[:, None], draws=draws), theirs, repeat=3)
    what = f"Fisher's test, {queries:,} queries, {draws:,} draws"
    return Row(TOPIC, what, ours, "scipy", peer * draws / fewer, ratio=peer * draws / fewer / ours)
