"""ClickLog: what was shown where, and what was clicked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._segments import IntArray, gather_segments, segment_of, segment_sum
from unskew._words import percent
from unskew.data.ranking import RankingData, as_indices
from unskew.errors import LogError


@dataclass(frozen=True, eq=False)
class ClickLog:
    """Impressions that point at rows of a RankingData. Immutable; whatever gets past the constructor is sound.

    Impressions of a session are contiguous and ordered by position; sessions are ordered by query.

    data : the features, stored once; ten sessions over a list are ten lists of row numbers.
    row : (impressions,) int64, the row of `data` that was shown.
    session_offsets : (sessions + 1,) int64.
    position : (impressions,) int32, 1 = top; distinct inside a session.
    click : (impressions,) int32, 0 or 1 (larger where counts were allowed).
    session_ids : polars Series (sessions,).
    weight : (impressions,) float32 or None.
    logging_score : (impressions,) float32 or None: what the production ranker thought of the item.

    >>> data = RankingData.from_arrays([[0.1], [0.7], [0.4]], sizes=[3])
    >>> log = ClickLog.from_arrays(data, row=[1, 2, 0], session=[0, 0, 0], position=[1, 2, 3], click=[0, 1, 0])
    >>> log.n_sessions, log.n_clicks, log.longest_list
    (1, 1, 3)
    """

    data: RankingData
    row: IntArray
    session_offsets: IntArray
    position: IntArray
    click: IntArray
    session_ids: pl.Series
    weight: npt.NDArray[np.float32] | None = None
    logging_score: npt.NDArray[np.float32] | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        _check_log(self)
        for array in (self.row, self.session_offsets, self.position, self.click, self.weight, self.logging_score):
            if array is not None:
                array.flags.writeable = False

    @classmethod
    def from_arrays(
        cls,
        data: RankingData,
        *,
        row: npt.ArrayLike,
        session: npt.ArrayLike,
        position: npt.ArrayLike,
        click: npt.ArrayLike,
        session_ids: Sequence[Any] | pl.Series | None = None,
        weight: npt.ArrayLike | None = None,
        logging_score: npt.ArrayLike | None = None,
        notes: tuple[str, ...] = (),
    ) -> ClickLog:
        """Build from one entry per impression, in any order; `session` numbers the sessions from 0."""
        rows, numbers = np.asarray(row, dtype=np.int64), np.asarray(session, dtype=np.int64)
        places = np.asarray(position)
        if rows.size and (rows.min() < 0 or rows.max() >= data.n_rows):
            raise LogError(f"Rows must lie between 0 and {data.n_rows - 1}, but found {rows.min()} to {rows.max()}.")
        query = data.query_of_row[rows]
        _check_one_query(numbers, query, data)
        order = _canonical_order(query, numbers, places)
        numbers = numbers[order]
        starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]]) if numbers.size else np.zeros(0, np.int64)
        names = pl.Series("session_id", np.asarray(numbers[starts]))
        if session_ids is not None:
            given = session_ids if isinstance(session_ids, pl.Series) else pl.Series(list(session_ids))
            names = given[names.to_numpy()].rename("session_id")
        return cls(
            data=data,
            row=rows[order],
            session_offsets=np.r_[starts, len(numbers)].astype(np.int64),
            position=places[order].astype(np.int32),
            click=_whole(click)[order],
            session_ids=names,
            weight=None if weight is None else np.asarray(weight, dtype=np.float32)[order],
            logging_score=None if logging_score is None else np.asarray(logging_score, dtype=np.float32)[order],
            notes=notes,
        )

    @classmethod
    def _trusted(cls, **parts: Any) -> ClickLog:
        """Build without the checks at the door, from parts the package has checked before."""
        log = object.__new__(cls)
        for name in cls.__dataclass_fields__:
            object.__setattr__(log, name, parts.get(name, () if name == "notes" else None))
        for array in (log.row, log.session_offsets, log.position, log.click, log.weight, log.logging_score):
            if array is not None:
                array.flags.writeable = False
        return log

    @classmethod
    def from_frame(cls, frame: Any, **options: Any) -> ClickLog:
        """Read a polars, pandas or Arrow frame; options as in :func:`unskew.data.frames.log_from_frame`."""
        from unskew.data.frames import log_from_frame

        return log_from_frame(frame, **options)

    @classmethod
    def read(cls, path: Any, **options: Any) -> ClickLog:
        """Read a Parquet or CSV file; options as in :func:`unskew.data.frames.log_from_frame`."""
        from unskew.data.frames import read_log

        return read_log(path, **options)

    def to_frame(self, *, features: bool = True) -> pl.DataFrame:
        """One row per impression, with the features inline unless they are to stay in a table of their own."""
        from unskew.data.frames import log_to_frame

        return log_to_frame(self, features=features)

    def write(self, path: Any, *, features: Any = None) -> None:
        """Write as Parquet or CSV; `features` names a second file that takes the features, stored once."""
        from unskew.data.frames import write_log

        write_log(self, path, features=features)

    @property
    def n_impressions(self) -> int:
        return len(self.row)

    @property
    def n_sessions(self) -> int:
        return len(self.session_offsets) - 1

    @property
    def n_clicks(self) -> int:
        return int(self.click.sum())

    @property
    def n_counted_clicks(self) -> int:
        """Clicks less those of impressions that have weight 0, which count for nothing."""
        return self.n_clicks if self.weight is None else int(self.click[self.weight > 0].sum())

    @property
    def clicked_positions(self) -> IntArray:
        """The positions of clicks that count, ascending."""
        counted = self.click > 0 if self.weight is None else (self.click > 0) & (self.weight > 0)
        return np.unique(self.position[counted])

    @property
    def n_counted_sessions(self) -> int:
        """Sessions less those whose impressions all have weight 0."""
        return self.n_sessions if self.weight is None else len(np.unique(self.session_of[self.weight > 0]))

    @property
    def longest_list(self) -> int:
        """The lowest position anything was shown at (the largest number)."""
        return int(self.position.max())

    @cached_property
    def session_of(self) -> IntArray:
        """(impressions,) the session of every impression."""
        return segment_of(self.session_offsets)

    @cached_property
    def session_query(self) -> IntArray:
        """(sessions,) the query of every session."""
        return self.data.query_of_row[self.row[self.session_offsets[:-1]]]

    @cached_property
    def query_of(self) -> IntArray:
        """(impressions,) the query of every impression."""
        return self.data.query_of_row[self.row]

    @cached_property
    def session_clicks(self) -> IntArray:
        """(sessions,) clicks in every session."""
        return segment_sum(self.click, self.session_offsets)

    @cached_property
    def queries(self) -> IntArray:
        """The queries that were asked at least once, ascending."""
        return np.unique(self.session_query)

    @cached_property
    def rows_shown(self) -> IntArray:
        """The rows that were shown at least once, ascending."""
        return np.flatnonzero(np.bincount(self.row, minlength=self.data.n_rows))

    @cached_property
    def fixed_positions(self) -> bool:
        """Whether every item was always shown at the same position (a deterministic policy)."""
        low = np.full(self.data.n_rows, np.iinfo(np.int32).max, dtype=np.int32)
        high = np.zeros(self.data.n_rows, dtype=np.int32)
        np.minimum.at(low, self.row, self.position)
        np.maximum.at(high, self.row, self.position)
        return bool((low[self.rows_shown] == high[self.rows_shown]).all())

    def take_sessions(self, wanted: npt.ArrayLike) -> ClickLog:
        """The named sessions (a mask or indices) over the same data."""
        chosen = np.sort(as_indices(wanted, self.n_sessions))
        rows, offsets = gather_segments(self.session_offsets, chosen)
        return replace(
            self,
            row=self.row[rows],
            session_offsets=offsets,
            position=self.position[rows],
            click=self.click[rows],
            session_ids=self.session_ids[chosen],
            weight=None if self.weight is None else self.weight[rows],
            logging_score=None if self.logging_score is None else self.logging_score[rows],
        )

    def take_queries(self, wanted: npt.ArrayLike) -> ClickLog:
        """The sessions of the named queries (a mask or indices into data's queries), over the same data."""
        keep = np.zeros(self.data.n_queries, dtype=bool)
        keep[as_indices(wanted, self.data.n_queries)] = True
        return self.take_sessions(keep[self.session_query])

    def with_data(self, data: RankingData) -> ClickLog:
        """The same impressions over other features of the same rows."""
        return replace(self, data=data)

    def __repr__(self) -> str:
        rate = (
            f" = {percent(self.n_clicks / max(self.n_impressions, 1), 2)}"
            if self.click.max(initial=0) <= 1
            else ", counted"
        )
        return (
            f"ClickLog({self.n_sessions:,} sessions of {len(self.queries):,} queries, {self.n_impressions:,} "
            f"impressions, {self.n_clicks:,} clicks{rate})"
        )


def _whole(click: npt.ArrayLike) -> IntArray:
    """Clicks as int32, where nothing gets lost by it."""
    given = np.asarray(click)
    with np.errstate(invalid="ignore"):
        whole = given.astype(np.int32)
    wrong = np.flatnonzero(whole != given)
    if wrong.size:
        raise LogError(
            f"click must be 0 or 1, or a whole count below 2^31, but {wrong.size:,} are not "
            f"(first: {given[wrong[0]]}, entry {wrong[0]})."
        )
    return whole


def _canonical_order(query: IntArray, session: IntArray, position: npt.NDArray) -> IntArray:
    """Order by query, session, position; the same log gives the same bytes whatever order it came in."""
    if len(query) == 0:
        return np.zeros(0, dtype=np.int64)
    key_up = np.diff(query) > 0
    same_query = np.diff(query) == 0
    session_up, same_session = np.diff(session) > 0, np.diff(session) == 0
    sorted_already = key_up | (same_query & (session_up | (same_session & (np.diff(position) > 0))))
    if sorted_already.all():
        return np.arange(len(query))
    return np.lexsort((position, session, query))


def _check_one_query(session: IntArray, query: IntArray, data: RankingData) -> None:
    if len(session) == 0:
        return
    total = int(session.max()) + 1
    low = np.full(total, np.iinfo(np.int64).max)
    high = np.full(total, -1)
    np.minimum.at(low, session, query)
    np.maximum.at(high, session, query)
    split = np.flatnonzero((high > low) & (high >= 0))
    if split.size:
        first = split[0]
        raise LogError(
            f"A session must belong to one query, but {split.size:,} sessions span several (first: session {first}, "
            f"queries '{data.query_ids[int(low[first])]}' and '{data.query_ids[int(high[first])]}')."
        )


def _check_log(log: ClickLog) -> None:
    n = len(log.row)
    if n == 0:
        raise LogError("A click log needs impressions, but this one is empty.")
    for name in ("position", "click", "weight", "logging_score"):
        array = getattr(log, name)
        if array is not None and len(array) != n:
            raise LogError(f"{n:,} impressions, but {len(array):,} values of {name}.")
    if len(log.session_ids) != log.n_sessions or log.session_offsets[-1] != n:
        raise LogError(f"{log.n_sessions:,} sessions, but {len(log.session_ids):,} session ids.")
    if log.position.min() < 1:
        bad = log.position < 1
        raise LogError(
            f"position must be 1 or greater, but {int(bad.sum()):,} impressions have {int(log.position.min())} "
            f"(first: {_where(log, int(np.flatnonzero(bad)[0]))}).\n"
            "If your positions start at 0, pass position_base=0."
        )
    if log.click.min() < 0:
        raise LogError("click must be 0 or 1, but some are negative.")
    inside = log.session_of[1:] == log.session_of[:-1]
    repeated = inside & (log.position[1:] == log.position[:-1])
    if repeated.any():
        raise LogError(
            f"A position must be taken once in a session, but {int(repeated.sum()):,} are taken twice "
            f"(first: {_where(log, int(np.flatnonzero(repeated)[0]) + 1)})."
        )
    if log.weight is not None and not (np.isfinite(log.weight).all() and (log.weight >= 0).all()):
        raise LogError("weight must be finite and not negative.")


def _where(log: ClickLog, impression: int) -> str:
    query = log.data.query_ids[int(log.query_of[impression])]
    item = "" if log.data.item_ids is None else f", item '{log.data.item_ids[int(log.row[impression])]}'"
    return f"query '{query}', session '{log.session_ids[int(log.session_of[impression])]}'{item}"
