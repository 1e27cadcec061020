"""Splitting queries off a log, to choose settings on what training has not seen."""

from __future__ import annotations

import numpy as np

from unskew.data.clicks import ClickLog

HOLDOUT_SHARE = 0.2
# Fewer queries than this tell settings apart by luck.
SMALLEST_SPLIT = 10


def hold_out(
    log: ClickLog, *, share: float = HOLDOUT_SHARE, seed: int = 0, by_id: bool = False
) -> tuple[ClickLog, ClickLog | None]:
    """Split off a share of the queries to choose settings on; a log too small to split stays whole.

    Only queries with clicks that count can tell settings apart, so both parts must have some.

    by_id : draw from the queries in the order of their ids, whatever order the log has them in; a log that was read
        into memory has them in that order anyway.
    """
    queries = log.queries
    if by_id:
        queries = queries[log.data.query_ids.gather(queries).arg_sort().to_numpy()]
    order = np.random.default_rng(seed).permutation(len(queries))
    held = queries[order[: int(len(queries) * share)]]
    kept = queries[order[int(len(queries) * share) :]]
    if len(held) < SMALLEST_SPLIT:
        return log, None
    train, validation = log.take_queries(kept), log.take_queries(held)
    if train.n_counted_clicks == 0 or validation.n_counted_clicks == 0:
        return log, None
    return train, validation
