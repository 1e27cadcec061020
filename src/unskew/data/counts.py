"""Counts of clicks as sessions of 0s and 1s, so that methods made for single clicks read them alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, gather_segments, offsets_of, positions_in
from unskew.data.clicks import ClickLog

# A session becomes at most so many, or a log of long lists would grow with the square of their length.
MOST_LEVELS = 8


def single_clicks(log: ClickLog) -> ClickLog:
    """The log with every click 0 or 1: a session of counts becomes sessions whose clicks add up to them.

    For the distinct counts v₁ < v₂ < … of a session (v₀ = 0) there is a session with the same items in which those
    with at least v_k clicks are clicked, of weight v_k − v_{k−1}. Where there are more than eight distinct counts,
    neighbours are taken for their mean. A log without counts comes back as it is.

    >>> from unskew.data.ranking import RankingData
    >>> data = RankingData.from_arrays([[0.1], [0.7], [0.4]], sizes=[3])
    >>> log = ClickLog.from_arrays(data, row=[0, 1, 2], session=[0, 0, 0], position=[1, 2, 3], click=[5, 0, 2])
    >>> single = single_clicks(log)
    >>> single.click.reshape(2, 3).tolist(), single.weight.reshape(2, 3)[:, 0].tolist()
    ([[1, 0, 1], [1, 0, 0]], [2.0, 3.0])
    """
    if log.click.max(initial=0) <= 1:
        return log
    session, least, share = _levels(log)
    where, offsets = gather_segments(log.session_offsets, session)
    sizes = np.diff(offsets)
    weight = np.repeat(share, sizes).astype(np.float32)
    return replace(
        log,
        row=log.row[where],
        session_offsets=offsets,
        position=log.position[where],
        click=(log.click[where] >= np.repeat(least, sizes)).astype(log.click.dtype),
        session_ids=log.session_ids[session],
        weight=weight if log.weight is None else weight * log.weight[where],
        logging_score=None if log.logging_score is None else log.logging_score[where],
    )


def _levels(log: ClickLog) -> tuple[IntArray, IntArray, npt.NDArray[np.float64]]:
    """Sessions to make: of which session, the least count that is a click in it, and its weight."""
    base = int(log.click.max()) + 1
    clicked = np.flatnonzero(log.click)
    quiet = np.flatnonzero(log.session_clicks == 0)  # stay as they are: one session, nothing in it reaches 1
    found = np.r_[log.session_of[clicked] * base + log.click[clicked], quiet * base + 1]
    session, count = np.divmod(np.unique(found), base)
    distinct = np.bincount(session, minlength=log.n_sessions)
    place = positions_in(offsets_of(distinct)) - 1
    level = place * np.minimum(distinct, MOST_LEVELS)[session] // distinct[session]
    first = np.flatnonzero(np.r_[True, (session[1:] != session[:-1]) | (level[1:] != level[:-1])])
    mean = np.add.reduceat(count, first) / np.diff(np.r_[first, len(count)])
    below = np.where(level[first] > 0, np.r_[0.0, mean[:-1]], 0.0)
    return session[first], count[first], mean - below
