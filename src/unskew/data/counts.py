"""Counts of clicks as sessions of single clicks, so that every list-wise method reads them alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unskew._segments import IntArray, gather_segments
from unskew.data.clicks import ClickLog


def single_clicks(log: ClickLog) -> ClickLog:
    """The log with every click 0 or 1: a session of counts becomes sessions whose clicks add up to them.

    For the distinct counts v₁ < v₂ < … of a session (v₀ = 0) there is a session with the same items in which those
    with at least v_k clicks are clicked, of weight v_k − v_{k−1}. A log without counts comes back as it is.

    >>> from unskew.data.ranking import RankingData
    >>> data = RankingData.from_arrays([[0.1], [0.7], [0.4]], sizes=[3])
    >>> log = ClickLog.from_arrays(data, row=[0, 1, 2], session=[0, 0, 0], position=[1, 2, 3], click=[5, 0, 2])
    >>> single = single_clicks(log)
    >>> single.click.reshape(2, 3).tolist(), single.weight.reshape(2, 3)[:, 0].tolist()
    ([[1, 0, 1], [1, 0, 0]], [2.0, 3.0])
    """
    if log.click.max(initial=0) <= 1:
        return log
    session, level, below = _levels(log)
    where, offsets = gather_segments(log.session_offsets, session)
    sizes = np.diff(offsets)
    weight = np.repeat(level - below, sizes).astype(np.float32)
    return replace(
        log,
        row=log.row[where],
        session_offsets=offsets,
        position=log.position[where],
        click=(log.click[where] >= np.repeat(level, sizes)).astype(log.click.dtype),
        session_ids=log.session_ids[session],
        weight=weight if log.weight is None else weight * log.weight[where],
        logging_score=None if log.logging_score is None else log.logging_score[where],
    )


def _levels(log: ClickLog) -> tuple[IntArray, IntArray, IntArray]:
    """The distinct counts of every session, ascending, and the count below each; 1 and 0 where nothing was clicked."""
    base = int(log.click.max()) + 1
    clicked = np.flatnonzero(log.click)
    owner = np.repeat(np.arange(log.n_sessions), np.diff(log.session_offsets))[clicked]
    quiet = np.flatnonzero(log.session_clicks == 0)
    session, level = np.divmod(np.unique(np.r_[owner * base + log.click[clicked], quiet * base + 1]), base)
    follows = np.r_[False, session[1:] == session[:-1]]
    return session, level, np.where(follows, np.r_[0, level[:-1]], 0)
