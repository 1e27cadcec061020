"""One small log for every engine: planted features, a production ranking with shocks, clicks that decay."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest


def make_scale_log(queries: int = 240, items: int = 8, sessions: int = 6, seed: int = 0) -> pl.DataFrame:
    """A log of text-free ids; every session shows all items of its query, ordered by a noisy production score."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(queries, items, 5)).astype(np.float32)
    grade = np.clip(np.round(1.2 + x[..., 0] + 0.7 * x[..., 1] + 0.3 * rng.normal(size=(queries, items))), 0, 4)
    score = (0.4 * x[..., 0] + x[..., 2])[:, None] + 0.8 * rng.normal(size=(queries, sessions, items))
    position = (-score).argsort(axis=2).argsort(axis=2) + 1
    chance = (2.0 ** grade[:, None] - 1) / 15 / position
    click = rng.random(position.shape) < chance
    query, session, item = np.meshgrid(np.arange(queries), np.arange(sessions), np.arange(items), indexing="ij")
    shape = (queries, sessions, items)
    columns = {
        "query_id": query,
        "session_id": query * sessions + session,
        "item_id": item,
        "position": position,
        "click": click.astype(np.int8),
        "relevance": np.broadcast_to(grade[:, None].astype(np.int8), shape),
    }
    features = {f"f{i}": np.broadcast_to(x[:, None, :, i], shape) for i in range(5)}
    return pl.DataFrame({name: values.ravel() for name, values in (columns | features).items()})


@pytest.fixture(scope="session")
def scale_log() -> pl.DataFrame:
    return make_scale_log()


@pytest.fixture(scope="session")
def scale_test_log() -> pl.DataFrame:
    return make_scale_log(seed=1).with_columns(pl.col("query_id") + 100_000, pl.col("session_id") + 1_000_000)
