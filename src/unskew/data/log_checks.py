"""Checks of a log as a whole: does it contradict itself, and can anything be learnt from it?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew._words import percent
from unskew.data.checks import SHOWN_ROWS, Check, plural
from unskew.data.columns import Coded
from unskew.data.keys import LogKeys, repeated
from unskew.errors import GradeError

# A log where most queries have no click is unusual enough to be said.
MANY = 0.5
# Orders of a query are of unlike traffic where the ninth decile of their totals of clicks is so many times the first …
UNLIKE = 3.0
# … and so many standard errors beyond that, or small counts would differ by chance; some queries may have such orders.
SURE, SOME = 3.0, 0.1


def structure_checks(keys: LogKeys) -> Iterator[Check]:
    """Sessions belong to one query, positions and items occur once in a session, an item has one grade."""
    yield _one_query(keys)
    hint = "If another column tells the sessions apart, name it with {session='NAME'}."
    taken = _same_session(keys) & np.r_[False, np.diff(keys.position) == 0]
    found = "A position must be taken once in a session, but {rows} {have} one that is taken already"
    yield keys.rows.check("position: once a session", taken, found, values=keys.position, hint=hint)
    again = repeated(keys.session.codes * len(keys.item) + keys.item.codes)
    found = "An item must be shown once in a session, but {rows} {have} one that was shown already"
    yield keys.rows.check("item: once a session", again, found, hint=hint)
    if keys.grade is not None:
        first, pair = keys.pairs
        other = keys.grade != keys.grade[first][pair]
        found = "An item must have one grade in a query, but {rows} {have} another one than before"
        yield keys.rows.check("relevance: one per item", other, found, values=keys.grade, error=GradeError)


def _same_session(keys: LogKeys) -> npt.NDArray[np.bool_]:
    """Which impressions belong to the session of the one before."""
    return np.r_[False, (np.diff(keys.session.codes) == 0) & (np.diff(keys.query.codes) == 0)]


def _one_query(keys: LogKeys) -> Check:
    name, total = "session: one query", len(keys.session)
    low, high = _extremes(keys.session.codes, keys.query.codes, total)
    split = np.flatnonzero(high > low)
    if split.size == 0:
        return Check(name, "PASS", plural(total, "session"), total)
    sessions, queries = keys.session.values, keys.query.values
    rows = tuple(
        {"session_id": sessions[int(one)], "query_ids": [queries[int(low[one])], queries[int(high[one])]]}
        for one in split[:SHOWN_ROWS]
    )
    message = (
        f"A session must belong to one query, but {plural(split.size, 'session')} "
        f"{'spans' if split.size == 1 else 'span'} several (first: session '{rows[0]['session_id']}', queries "
        f"'{rows[0]['query_ids'][0]}' and '{rows[0]['query_ids'][1]}')."
    )
    hint = "If session ids start again for every query, join query and session id into one column."
    return Check(name, "FAIL", message, int(split.size), rows, hint)


def _extremes(segment: IntArray, values: IntArray, total: int) -> tuple[IntArray, IntArray]:
    """Smallest and largest value of every segment, in whatever order the entries come."""
    low, high = np.full(total, np.iinfo(np.int64).max), np.full(total, -1)
    np.minimum.at(low, segment, values)
    np.maximum.at(high, segment, values)
    return low, high


def observations(keys: LogKeys) -> Iterator[Check]:
    """What is allowed but worth knowing before a log is trusted: never FAIL."""
    for note in keys.notes:
        yield Check("session: told apart", "WARN", note, len(keys.session))
    yield _gaps(keys)
    yield _positions(keys)
    yield _single_items(keys)
    yield _clicked_queries(keys)
    yield _policy(keys)
    if keys.click.max() > 1:
        yield _traffic(keys)


def _gaps(keys: LogKeys) -> Check:
    longest = _extremes(keys.session.codes, keys.position, len(keys.session))[1]
    shown = np.bincount(keys.session.codes, minlength=len(keys.session))
    gaps = np.flatnonzero(longest > shown)
    if gaps.size == 0:
        return Check("position: no gaps", "PASS")
    one = int(gaps[0])
    message = (
        f"{plural(gaps.size, 'session')} of {len(keys.session):,} skip positions (first: session "
        f"'{keys.session.values[one]}' shows {plural(int(shown[one]), 'item')} down to position {int(longest[one])})."
    )
    hint = "Is the log complete? Items that were shown but left out make the ones below look worse than they are."
    return Check("position: no gaps", "WARN", message, int(gaps.size), _named("session_id", keys.session, gaps), hint)


def _named(name: str, ids: Coded, chosen: IntArray) -> tuple[dict[str, Any], ...]:
    return tuple({name: ids.values[int(one)]} for one in chosen[:SHOWN_ROWS])


def _positions(keys: LogKeys) -> Check:
    """Whether impressions, and clicks among them, are spread over positions."""
    name, clicked = "position: varied", np.unique(keys.position[keys.counted > 0])
    if keys.position.min() == keys.position.max():
        message = f"Every impression is at position {keys.position[0]}, so nothing can be learnt about positions."
        return Check(name, "WARN", message, len(keys))
    if len(clicked) == 1:
        message = f"All clicks are at position {clicked[0]}, so relevance and position cannot be told apart."
        return Check(name, "WARN", message, int(keys.counted.sum()))
    return Check(name, "PASS", f"{keys.position.min()} to {keys.position.max()}, clicks at {len(clicked)} of them")


def _single_items(keys: LogKeys) -> Check:
    first, _ = keys.pairs
    items = np.bincount(keys.query.codes[first], minlength=len(keys.query))
    single = np.flatnonzero(items == 1)
    if single.size == 0:
        return Check("query: several items", "PASS", f"{items.min():,} to {items.max():,} items a query")
    message = (
        f"{plural(single.size, 'query')} of {len(keys.query):,} {'has' if single.size == 1 else 'have'} a single item "
        f"(first: query '{keys.query.values[int(single[0])]}'); there is nothing to rank."
    )
    rows = _named("query_id", keys.query, single)
    return Check("query: several items", "WARN", message, int(single.size), rows)


def _clicked_queries(keys: LogKeys) -> Check:
    clicks = np.bincount(keys.query.codes, weights=keys.counted, minlength=len(keys.query))
    without = np.flatnonzero(clicks == 0)
    share = without.size / len(keys.query)
    message = (
        f"{without.size:,} of {plural(len(keys.query), 'query')} ({percent(share)}) have no click{_that_counts(keys)}"
    )
    if share <= MANY:
        return Check("query: clicked", "PASS", message, int(without.size))
    message += f" (first: query '{keys.query.values[int(without[0])]}'); nothing is learnt from them."
    return Check("query: clicked", "WARN", message, int(without.size), _named("query_id", keys.query, without))


def _that_counts(keys: LogKeys) -> str:
    return "" if keys.weight is None or keys.weight.all() else " of a weight above 0"


def _policy(keys: LogKeys) -> Check:
    first, pair = keys.pairs
    low, high = _extremes(pair, keys.position, len(first))
    moved = int(np.count_nonzero(high > low))
    if moved == 0:
        message = "deterministic: every item is always at the same position of its query (diagnose says what follows)"
    else:
        message = f"{percent(moved / len(first))} of the query-item pairs were shown at several positions"
    return Check("policy", "PASS", message, moved)


def _traffic(keys: LogKeys) -> Check:
    """Whether the sessions of a query, which are its orders in a log of counts, had like traffic by their clicks."""
    several, low, high = _totals(keys)
    name, total = "counts: like traffic", int(several.sum())
    beyond = high - UNLIKE * low > SURE * np.sqrt(high + UNLIKE**2 * low)
    unlike = np.flatnonzero(several & beyond)
    if unlike.size <= SOME * total:
        return Check(name, "PASS", f"{plural(total, 'query')} with several sessions", int(unlike.size))
    one = int(unlike[0])
    message = (
        f"A session of counts is taken as one impression, but in {unlike.size:,} of {plural(total, 'query')} with "
        f"several sessions they have totals of clicks that differ by more than a factor of {UNLIKE:g} (first: query "
        f"'{keys.query.values[one]}', {low[one]:,.0f} and {high[one]:,.0f} clicks): orders of much and of little "
        "traffic are compared as if people had seen them equally often."
    )
    hint = (
        "Log impressions, one row each with click 0 or 1, or keep in one log only orders of like traffic. A weight "
        "cannot repair it: it multiplies the clicks too."
    )
    return Check(name, "WARN", message, int(unlike.size), _named("query_id", keys.query, unlike), hint)


def _totals(keys: LogKeys) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """By query: several sessions or not, and the first and ninth decile of their clicks (the extremes of few)."""
    totals = np.bincount(keys.session.codes, weights=keys.click, minlength=len(keys.session))
    query = _extremes(keys.session.codes, keys.query.codes, len(keys.session))[0]
    ordered = totals[np.lexsort((totals, query))]
    sizes = np.bincount(query, minlength=len(keys.query))
    starts = np.cumsum(sizes) - sizes
    low, high = (ordered[starts + np.ceil(share * sizes).astype(np.int64) - 1] for share in (0.1, 0.9))
    return sizes > 1, low, high
