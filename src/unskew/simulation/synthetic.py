"""A made-up collection that behaves like web-search data, for everything that must run without a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._segments import IntArray, offsets_of, segment_of
from unskew.data.ranking import RankingData
from unskew.errors import SettingError

Matrix = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

MAX_GRADE = 4
# Utilities above which an item earns grade 1, 2, 3, 4: about half of the items stay below the first.
_THRESHOLDS = (0.3, 1.15, 1.87, 2.66)
# Queries made at once; fixed, so that the first queries are the same whatever the size of the collection.
_BLOCK = 256

_ITEM = ("match", "title", "anchor", "authority", "age", "quality", "length")
_QUERY = ("navigational", "timely", "breadth", "rarity", "words")


class Column(NamedTuple):
    """A feature: shape(Σ loading · latent + noise); a query-level one is the same for all items of a query."""

    name: str
    loadings: dict[str, float]
    noise: float
    shape: str = "plain"


_COLUMNS = (
    Column("bm25_body", {"match": 1.0}, 0.68, "positive"),
    Column("pagerank", {"authority": 1.1}, 0.6, "heavy"),
    Column("bm25_title", {"title": 1.0, "match": 0.3}, 0.6, "sparse"),
    Column("query_navigational", {"navigational": 1.0}, 0.0, "share"),
    Column("age_days", {"age": 1.2}, 0.45, "heavy"),
    Column("length_body", {"length": 0.9}, 0.15, "count"),
    Column("query_timely", {"timely": 1.0}, 0.0, "share"),
    Column("quality", {"quality": 1.0}, 0.75, "share"),
    Column("bm25_anchor", {"anchor": 1.0, "authority": 0.3}, 0.75, "sparse"),
    Column("inlinks", {"authority": 1.6, "anchor": 0.3}, 0.9, "count"),
    Column("lm_body", {"match": 0.8, "length": -0.3}, 0.6),
    Column("query_words", {"words": 1.0}, 0.0, "count"),
    Column("useless_1", {}, 1.0, "heavy"),
    Column("tfidf_body", {"match": 0.9, "length": 0.5, "rarity": 0.4}, 0.6, "heavy"),
    Column("bm25_whole", {"match": 0.7, "title": 0.4, "anchor": 0.2}, 0.6, "positive"),
    Column("query_idf", {"rarity": 1.0, "words": 0.5}, 0.0, "positive"),
    Column("site_rank", {"authority": 0.7}, 1.2),
    Column("lm_title", {"title": 0.8}, 0.9),
    Column("spam", {"quality": -1.0}, 1.05, "heavy"),
    Column("covered_terms", {"match": 0.8, "title": 0.3, "words": 0.5}, 0.75, "count"),
    Column("useless_2", {}, 1.0),
    Column("update_rate", {"age": -0.8}, 1.05, "heavy"),
    Column("url_slashes", {"navigational": 0.2, "authority": -0.4}, 0.9, "count"),
    Column("query_results", {"breadth": 1.5}, 0.0, "heavy"),
    Column("length_title", {"length": 0.3}, 0.9, "count"),
    Column("outlinks", {"length": 0.6}, 1.2, "count"),
    Column("covered_ratio", {"match": 0.9, "title": 0.2}, 0.9, "share"),
    Column("useless_3", {}, 1.0, "count"),
    Column("visits", {"authority": 0.9, "match": 0.2, "quality": 0.3}, 1.5, "count"),
    Column("length_url", {"authority": -0.2}, 1.35, "count"),
    Column("constant", {}, 0.0),
    Column("anchor_count", {"anchor": 0.8, "authority": 0.8}, 0.9, "count"),
)


def synthetic_collection(
    queries: int = 200, *, seed: int = 0, features: int = 40, shortest: int = 5, longest: int = 150, typical: float = 40
) -> RankingData:
    """Judged web-search-like data: heavy tails, query-level, redundant and useless features, five grades.

    Relevance is not linear in the features: what makes an item relevant depends on the query (navigational queries
    want authority and a title that matches, others a body that matches and is neither short nor long), effects set in
    at thresholds, and age counts only where a query is timely. Another seed draws other queries from the same world,
    so that a model trained on one seed can be tested on another; the first queries of a larger collection are those
    of a smaller one.

    queries : how many; features : how many columns, at least 8; shortest, longest, typical : items per query
    (log-normal around `typical`).

    >>> synthetic_collection(100)
    RankingData(100 queries, 4,391 items, 40 features, grades 0–4)
    """
    _check(queries, features, shortest, longest, typical, seed)
    columns = _columns(features)
    blocks = range(-(-queries // _BLOCK))
    sizes = [_sizes(seed, block, shortest, longest, typical) for block in blocks]
    offsets = offsets_of(np.concatenate(sizes)[:queries])
    matrix = np.empty((int(offsets[-1]), features), dtype=np.float32)
    grades = np.empty(len(matrix), dtype=np.int16)
    for block in blocks:
        start = int(offsets[block * _BLOCK])
        # The last block is made whole and cut, so that its first queries do not depend on how many were wanted.
        values, judged = _make_block(columns, offsets_of(sizes[block]), seed, block)
        matrix[start : start + len(values)] = values[: len(matrix) - start]
        grades[start : start + len(judged)] = judged[: len(matrix) - start]
    return RankingData(
        features=matrix,
        offsets=offsets,
        grades=grades,
        query_ids=pl.Series("query_id", np.arange(queries)),
        item_ids=pl.Series("item_id", np.arange(len(matrix))),
        feature_names=tuple(column.name for column in columns),
        max_grade=MAX_GRADE,
    )


def _check(queries: int, features: int, shortest: int, longest: int, typical: float, seed: int) -> None:
    rules = (
        ("queries", queries, queries >= 1, "1 or greater"),
        ("features", features, features >= 8, "8 or greater"),
        ("shortest", shortest, 1 <= shortest <= longest, f"between 1 and longest ({longest})"),
        ("typical", typical, shortest <= typical <= longest, f"between shortest and longest ({shortest}–{longest})"),
        ("seed", seed, seed >= 0, "0 or greater"),
    )
    for name, value, holds, expected in rules:
        if not holds:
            raise SettingError(f"{name} must be {expected}, but {value} was given.")


def _columns(count: int) -> tuple[Column, ...]:
    """The named features, then mixtures of latents (redundant) and noise (useless), two to one."""
    extra = []
    for number in range(1, count - len(_COLUMNS) + 1):
        if number % 3 == 0:
            extra.append(Column(f"noise_{number}", {}, 1.0, ("plain", "heavy", "count")[number % 9 // 3]))
        else:
            one, two = _ITEM[number % len(_ITEM)], _ITEM[(2 * number + 1) % len(_ITEM)]
            shape = ("heavy", "plain", "positive", "share")[number % 4]
            extra.append(Column(f"blend_{number}", {one: 0.6, two: 0.4}, 0.8, shape))
    return (*_COLUMNS, *extra)[:count]


def _sizes(seed: int, block: int, shortest: int, longest: int, typical: float) -> IntArray:
    """(_BLOCK,) list lengths."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, block)))
    return np.clip(np.rint(typical * np.exp(0.7 * rng.standard_normal(_BLOCK))), shortest, longest).astype(np.int64)


def _make_block(columns: tuple[Column, ...], offsets: IntArray, seed: int, block: int) -> tuple[Matrix, IntArray]:
    """Features and grades of a block of queries."""
    world, views = np.random.SeedSequence(seed, spawn_key=(1, block)).spawn(2)
    rng = np.random.default_rng(world)
    latent = _latents(offsets, rng)
    grades = np.digitize(_utility(latent, rng), _THRESHOLDS)
    measured = np.random.default_rng(views)
    values = np.empty((int(offsets[-1]), len(columns)), dtype=np.float32)
    for place, column in enumerate(columns):
        values[:, place] = _measure(column, latent, measured)
    return values, grades


def _latents(offsets: IntArray, rng: np.random.Generator) -> dict[str, Matrix]:
    """(rows,) what items and queries are like, before anybody measures it."""
    query = segment_of(offsets)
    n = len(query)
    of_query = {name: rng.standard_normal(len(offsets) - 1, dtype=np.float32) for name in _QUERY}
    latent = {name: values[query] for name, values in of_query.items()}
    draw = {name: rng.standard_normal(n, dtype=np.float32) for name in _ITEM}
    # Queries with many results have better matches; titles and anchors follow the body; links follow age.
    latent["match"] = draw["match"] + 0.4 * latent["breadth"]
    latent["title"] = 0.6 * latent["match"] + 0.8 * draw["title"]
    latent["authority"] = draw["authority"] + 0.2 * latent["breadth"]
    latent["anchor"] = 0.5 * latent["authority"] + 0.4 * latent["match"] + 0.7 * draw["anchor"]
    latent["age"] = 0.3 * latent["authority"] + 0.95 * draw["age"]
    latent["quality"] = 0.3 * latent["authority"] + 0.95 * draw["quality"]
    latent["length"] = draw["length"]
    return latent


def _utility(latent: dict[str, Matrix], rng: np.random.Generator) -> Matrix:
    """(rows,) how useful an item is for its query: thresholds, interactions, and some chance."""
    navigational, timely = _step(latent["navigational"], 0.3, 3.0), _step(latent["timely"], 0.5, 3.0)
    body = _step(latent["match"], 0.5, 2.5) * (0.2 + _rounded(_bell, latent["length"]))
    known = _step(latent["authority"], 0.7, 3.0) * _step(latent["title"], 0.2, 3.0)
    fresh = _step(latent["age"], -0.6, -3.0) * _step(latent["match"], 0.0, 2.0)
    bad = _step(latent["quality"], -1.0, -4.0)
    chance = 0.65 * rng.standard_normal(len(body), dtype=np.float32)
    return (
        1.7 * (1.0 - navigational) * body
        + 2.4 * navigational * known
        + 1.2 * timely * fresh
        + 0.08 * latent["match"]
        + 0.05 * latent["anchor"]
        - 0.9 * bad
        + 0.7 * latent["rarity"]
        + chance
    )


def _step(values: Matrix, where: float, steepness: float) -> Matrix:
    """A soft threshold: 0 below, 1 above."""
    return _rounded(lambda v: 1.0 / (1.0 + np.exp(-steepness * (v - where))), values)


def _measure(column: Column, latent: dict[str, Matrix], rng: np.random.Generator) -> Matrix:
    """(rows,) one feature as a search engine would record it."""
    noise = rng.standard_normal(
        len(latent[_ITEM[0]]), dtype=np.float32
    )  # drawn for every column, so that no column shifts another's
    value = column.noise * noise
    for name, loading in column.loadings.items():
        value = value + np.float32(loading) * latent[name]
    return _rounded(_SHAPES[column.shape], value)


def _rounded(function: Callable[[Floats], Floats], values: Matrix) -> Matrix:
    """The function in float64, then rounded: processors disagree about the last bit of exp, which must not show."""
    return function(values.astype(np.float64)).astype(np.float32)


def _bell(values: Floats) -> Floats:
    return np.exp(-0.7 * values**2)


_SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "plain": lambda v: v,
    "positive": lambda v: 5.0 * np.log1p(np.exp(v)),
    "heavy": lambda v: np.exp(1.3 * v),
    "count": lambda v: np.floor(np.exp(1.0 + 1.2 * v)),
    "sparse": lambda v: np.where(v > 0.3, 4.0 * v, 0.0),
    "share": lambda v: 1.0 / (1.0 + np.exp(-1.5 * v)),
}
