"""A log's fingerprint: enough to tell whether a model was trained on this very data."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from unskew.data.clicks import ClickLog

# Rows whose features are added up together: keeps the float64 copy of a block small.
_BLOCK = 1 << 14


def fingerprint(log: ClickLog) -> dict[str, Any]:
    """Counts and a checksum of a log: its names, its impressions and the sums of its features.

    >>> from unskew.data.ranking import RankingData
    >>> data = RankingData.from_arrays([[0.1], [0.7]], sizes=[2])
    >>> log = ClickLog.from_arrays(data, row=[1, 0], session=[0, 0], position=[1, 2], click=[0, 1])
    >>> fingerprint(log)["sha256"][:12], fingerprint(log)["clicks"]
    ('38d528598502', 1)
    """
    data = log.data
    digest = hashlib.sha256("\n".join(data.feature_names).encode())
    for array in (data.offsets, log.session_offsets, log.row, log.position, log.click, log.weight):
        if array is not None:
            digest.update(np.ascontiguousarray(array).data)
    for start in range(0, data.n_rows, _BLOCK):
        digest.update(data.features[start : start + _BLOCK].sum(axis=0, dtype=np.float64).data)
    return {
        "queries": data.n_queries,
        "rows": data.n_rows,
        "features": data.n_features,
        "sessions": log.n_sessions,
        "impressions": len(log.row),
        "clicks": log.n_counted_clicks,
        "clicked_positions": len(log.clicked_positions),
        "sha256": digest.hexdigest(),
    }
