"""Simulation: ten passes of clicks beside a loop over queries, RankSVM on a whole collection."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import polars as pl

from benchmarks.harness import Row, faster, measure, measure_both, peak_memory
from unskew._segments import offsets_of, positions_in
from unskew.data.ranking import RankingData
from unskew.simulation.clicks import draw_clicks, examination, perceived_relevance
from unskew.simulation.pairs import count_pairs
from unskew.simulation.production import train_production
from unskew.simulation.sessions import Behaviour, log_sessions

TOPIC = "simulation"
PASSES, ETA, NOISE, ITEMS = 10, 1.0, 0.1, 120


def run(quick: bool) -> list[Row]:
    """Rows of the table; quick shrinks the input."""
    queries, repeat = (300, 3) if quick else (6000, 5)
    return [*_clicks(queries, repeat), *_ranksvm(60 if quick else 6000)]


def _clicks(queries: int, repeat: int) -> list[Row]:
    data = _collection(queries, width=4)
    score = data.features[:, 0].astype(np.float64)
    offsets, grades = data.offsets, np.asarray(data.grades)
    size = f"{PASSES} passes × {data.n_rows:,} items"

    def ours() -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        look = examination(ITEMS, eta=ETA)[positions_in(offsets) - 1]
        probability = look * perceived_relevance(grades, noise=NOISE, max_grade=4)
        return [draw_clicks(probability, rng) for _ in range(PASSES)]

    def loop() -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        return [_session(grades[a:b], rng) for _ in range(PASSES) for a, b in pairwise(offsets.tolist())]

    behaviour = Behaviour(ETA, NOISE, PASSES, (), "production", 0.0, False, "item", 1.0, 0)
    clicks = measure_both(ours, loop, repeat)
    logs = measure_both(
        lambda: log_sessions(data, score, behaviour), lambda: _log_by_loop(score, grades, offsets), repeat
    )
    return [
        faster(TOPIC, f"Clicks, {size}", clicks[0], "loop", clicks[1], at_least=10, note="loop: numpy, query by query"),
        faster(TOPIC, f"Ranked lists, clicks and a checked log, {size}", logs[0], "loop", logs[1], at_least=3),
    ]


def _session(grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The click model as one would write it for a single list."""
    ranks = np.arange(1, len(grades) + 1)
    relevance = NOISE + (1 - NOISE) * (2.0**grades - 1) / (2.0**4 - 1)
    return rng.random(len(grades)) < (1 / ranks) ** ETA * relevance


def _log_by_loop(score: np.ndarray, grades: np.ndarray, offsets: np.ndarray) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    rows, positions, clicks, scores = [], [], [], []
    for start, end in pairwise(offsets.tolist()):
        order = start + np.argsort(-score[start:end])
        for _ in range(PASSES):
            rows.append(order)
            positions.append(np.arange(1, end - start + 1))
            clicks.append(_session(grades[order], rng))
            scores.append(score[order])
    return [np.concatenate(parts) for parts in (rows, positions, clicks, scores)]


def _ranksvm(queries: int) -> list[Row]:
    data = _collection(queries, width=136)
    what, matrix = f"RankSVM on 100 % of {data.n_rows:,} × 136", data.features.nbytes
    seconds = measure(partial(train_production, data, share=1.0), repeat=1)
    pairs = count_pairs(np.asarray(data.grades), data.offsets)
    del data
    beyond = peak_memory(partial(_train, queries)) - matrix
    large = matrix > 100e6  # a small matrix says nothing: the libraries' own growth is larger
    return [
        Row(TOPIC, what, seconds, note=f"{pairs:,} pairs"),
        Row(
            TOPIC,
            f"{what}, memory beyond the matrix",
            beyond,
            "matrix",
            matrix,
            "bytes",
            matrix / max(beyond, 1.0),
            "≥ 2 ×" if large else "",
            beyond <= matrix / 2 if large else None,
        ),
    ]


def _train(queries: int) -> None:
    train_production(_collection(queries, width=136), share=1.0)


def _collection(queries: int, width: int) -> RankingData:
    """Judged lists of MSLR's length: heavy-tailed features of which a quarter matters, five grades."""
    rng = np.random.default_rng(0)
    features = np.empty((queries * ITEMS, width), dtype=np.float32)
    rng.standard_normal(out=features, dtype=np.float32)
    useful = max(1, width // 4)
    utility = features[:, :useful] @ rng.standard_normal(useful, dtype=np.float32)
    utility += 2 * utility.std() * rng.standard_normal(len(utility), dtype=np.float32)
    np.exp(features[:, ::2], out=features[:, ::2])
    grades = np.searchsorted(np.quantile(utility, [0.52, 0.84, 0.97, 0.99]), utility).astype(np.int16)
    return RankingData(
        features=features,
        offsets=offsets_of(np.full(queries, ITEMS)),
        query_ids=pl.Series("query_id", np.arange(queries)),
        feature_names=tuple(f"f{i + 1}" for i in range(width)),
        grades=grades,
        max_grade=4,
    )
