"""A fingerprint changes with the data it stands for."""

from __future__ import annotations

import numpy as np

from unskew.data.clicks import ClickLog
from unskew.data.fingerprint import fingerprint
from unskew.data.ranking import RankingData


def _log(*, features: np.ndarray | None = None, click: tuple[int, ...] = (0, 1, 0)) -> ClickLog:
    data = RankingData.from_arrays(np.eye(3) if features is None else features, sizes=[3])
    return ClickLog.from_arrays(data, row=[1, 2, 0], session=[0, 0, 0], position=[1, 2, 3], click=click)


def test_the_same_log_has_the_same_fingerprint_and_another_has_another() -> None:
    whole = fingerprint(_log())
    assert whole == fingerprint(_log())
    assert whole["sha256"] != fingerprint(_log(click=(1, 0, 0)))["sha256"]
    assert whole["sha256"] != fingerprint(_log(features=np.eye(3) + 0.01))["sha256"]
    assert (whole["queries"], whole["rows"], whole["sessions"], whole["impressions"], whole["clicks"]) == (
        1,
        3,
        1,
        3,
        1,
    )
