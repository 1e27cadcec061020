"""Batches that can be seen at a glance to break no rule of a log: one list a query, all columns plain.

Finding that out costs a few looks at neighbouring rows, a fraction of what numbering every id costs. Whatever is not
seen at a glance goes the careful way, which also names the rule that is broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._options import RankTarget
from unskew._segments import IntArray
from unskew.data.clicks import ClickLog
from unskew.data.column_checks import MAX_POSITION
from unskew.data.columns import LogColumns, is_number, numbers
from unskew.data.feature_columns import as_float32, fill
from unskew.data.keys import NO_SESSION
from unskew.data.ranking import RankingData
from unskew.rankers.trees import MAX_LABEL

# What numpy has too.
_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
_MIX = tuple(np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F))
Matrix = npt.NDArray[np.float64]
Columns = list[npt.NDArray[np.floating]]


@dataclass(frozen=True, eq=False)
class Sound:
    """A batch with one list a query.

    pieces : its features in float32 columns, a row group after another.
    start : (queries,) first row of every query; position : (rows,) from 1; queries : ids; clicks : how many.
    """

    pieces: list[Columns]
    start: IntArray
    position: IntArray
    queries: pl.Series
    clicks: int

    def target(self, kind: RankTarget) -> Matrix:
        """(rows,) the rank, over the length of the list where lists have a scale of their own."""
        rank = self.position.astype(np.float64)
        if kind != "per_list":
            return rank
        lengths = np.diff(np.append(self.start, len(rank)))
        return rank / np.repeat(np.maximum.reduceat(rank, self.start), lengths)


def sound(frame: pl.DataFrame, columns: LogColumns, features: Sequence[str]) -> Sound | None:
    """The batch, if it can be seen at a glance that it breaks no rule; None says nothing but "look closer"."""
    names = _roles(frame, columns)
    if not _are_features(frame, features, names):
        return None
    plain = [frame[name] for name in (*names.values(), *features)]
    if "weight" in names or not frame.height or any(column.null_count() for column in plain):
        return None
    counted = [role for role in ("position", "click", "relevance") if role in names]
    found = {role: _whole(frame[names[role]], role, columns) for role in counted}
    if any(values is None for values in found.values()) or not _finite(frame, names):
        return None
    query, item = _as_numbers(frame[names["query"]]), _as_numbers(frame[names["item"]])
    session = _as_numbers(frame[names["session"]]) if "session" in names else query
    position, click = found["position"], found["click"]
    if query is None or item is None or session is None or position is None or click is None:
        return None
    new = query[1:] != query[:-1]
    start = np.flatnonzero(np.append(True, new))
    one_list = np.array_equal(session[1:] != session[:-1], new)
    if not one_list or not _all_differ(query[start]) or not _all_differ(session[start]):
        return None
    if not _once(item, query, new) or not _positions_once(position, query, new, start):
        return None
    return Sound(
        _pieces(frame, features),
        start,
        position,
        frame[names["query"]].gather(start),
        int(np.count_nonzero(click)),
    )


def sound_log(frame: pl.DataFrame, columns: LogColumns, features: Sequence[str]) -> ClickLog | None:
    """The log that `log_from_frame` makes of a sound batch, at a fraction of its cost; None for any other batch."""
    batch = sound(frame, columns, features)
    if batch is None:
        return None
    names = _roles(frame, columns)
    frame = _canonical(frame, names, batch.start)
    matrix = _matrix(frame, features)
    if not np.isfinite(matrix).all():
        return None
    query = frame[names["query"]]
    position = frame[names["position"]].to_numpy().astype(np.int64) + (1 - columns.position_base)
    segment = query.rle_id().to_numpy().astype(np.int64)
    start = np.flatnonzero(np.append(True, segment[1:] != segment[:-1]))
    shown = segment * (int(position.max()) + 1) + position
    row = np.arange(len(shown)) if (shown[1:] > shown[:-1]).all() else np.argsort(shown)
    notes = () if "session" in names else (NO_SESSION,)
    data = RankingData._trusted(
        features=matrix,
        offsets=np.append(start, len(frame)),
        query_ids=query.gather(start).alias("query_id"),
        feature_names=tuple(features),
        item_ids=frame[names["item"]].alias("item_id"),
        notes=notes,
        **_graded(frame, names, columns),
    )
    score = frame[names["logging_score"]].to_numpy()[row] if "logging_score" in names else None
    return ClickLog._trusted(
        data=data,
        row=row,
        session_offsets=data.offsets,
        position=position[row].astype(np.int32),
        click=frame[names["click"]].to_numpy()[row].astype(np.int32),
        session_ids=frame[names.get("session", names["query"])].gather(start).alias("session_id"),
        logging_score=None if score is None else score.astype(np.float32),
        notes=notes,
    )


def _roles(frame: pl.DataFrame, columns: LogColumns) -> dict[str, str]:
    """Role → column, of those that are there."""
    return {role: name for role, name in columns.parts().items() if name in frame.columns}


def _canonical(frame: pl.DataFrame, names: dict[str, str], start: IntArray) -> pl.DataFrame:
    """The rows ordered by query and item id; start : (queries,) where the queries begin now."""
    query, item = frame[names["query"]], frame[names["item"]]
    if query.dtype in _INTEGERS and item.dtype in _INTEGERS:
        queries, items = query.to_numpy()[start], item.to_numpy()
        ascending = items[1:] > items[:-1]
        ascending[start[1:] - 1] = True  # from a query to the next an item's id may fall
        if ascending.all() and (queries[1:] > queries[:-1]).all():
            return frame
    return frame.sort(names["query"], names["item"])


def _matrix(frame: pl.DataFrame, features: Sequence[str]) -> npt.NDArray[np.float32]:
    out, at = np.empty((len(frame), len(features)), dtype=np.float32), 0
    for piece in _pieces(frame, features):
        fill(out[at : at + len(piece[0])], 0, piece)
        at += len(piece[0])
    return out


def _graded(frame: pl.DataFrame, names: dict[str, str], columns: LogColumns) -> dict[str, Any]:
    if "relevance" not in names:
        return {"grades": None, "max_grade": columns.max_grade}
    grades = frame[names["relevance"]].to_numpy().astype(np.int16)
    return {"grades": grades, "max_grade": columns.max_grade or max(int(grades.max()), 1)}


def _whole(column: pl.Series, role: str, columns: LogColumns) -> IntArray | None:
    """A column of whole numbers in the range that its role allows, positions from 1 up; None where it is not so."""
    if column.dtype not in _INTEGERS or column.dtype == pl.UInt64:
        return None
    values = column.to_numpy()
    low, high = {
        "position": (columns.position_base, MAX_POSITION),
        "click": (0, np.iinfo(np.int32).max if columns.counts else 1),
        "relevance": (0, columns.max_grade or MAX_LABEL),
    }[role]
    if values.min() < low or values.max() > high:
        return None
    return values if role != "position" or columns.position_base == 1 else values.astype(np.int64) + 1


def _pieces(frame: pl.DataFrame, names: Sequence[str]) -> list[Columns]:
    """Feature columns as they lie in memory, a row group after another: putting them together would cost a copy."""
    columns = [frame[name].get_chunks() for name in names]
    sizes = [[len(piece) for piece in column] for column in columns]
    if all(size == sizes[0] for size in sizes):
        return [[_plain(piece) for piece in group] for group in zip(*columns)]
    return [[_plain(frame[name]) for name in names]]


def _plain(column: pl.Series) -> npt.NDArray[np.floating]:
    # A cast of nothing into itself would still wake up all of polars' threads.
    return column.to_numpy() if column.dtype == pl.Float32 else as_float32(column)


def _are_features(frame: pl.DataFrame, features: Sequence[str], names: dict[str, str]) -> bool:
    """Number columns of their own, each named once."""
    known = {name for name in features if name in frame.columns and is_number(frame[name].dtype)}
    return 0 < len(known) == len(features) and known.isdisjoint(names.values())


def _finite(frame: pl.DataFrame, names: dict[str, str]) -> bool:
    if "logging_score" not in names:
        return True
    score = frame[names["logging_score"]]
    return is_number(score.dtype) and bool((np.abs(numbers(score)) <= np.finfo(np.float32).max).all())


def _as_numbers(ids: pl.Series) -> npt.NDArray[np.uint64] | None:
    """Ids as numbers that differ where the ids do; text by a hash of 64 bits."""
    if ids.dtype in _INTEGERS:
        return ids.to_numpy().astype(np.int64, copy=False).view(np.uint64)
    return ids.hash().to_numpy() if ids.dtype == pl.String else None


def _all_differ(values: npt.NDArray) -> bool:
    if len(values) < 2 or (values[1:] > values[:-1]).all():
        return True
    ordered = np.sort(values)
    return not (ordered[1:] == ordered[:-1]).any()


def _once(values: npt.NDArray, query: npt.NDArray[np.uint64], new: npt.NDArray[np.bool_]) -> bool:
    """Whether values occur once in a query. Two pairs may get the same number by chance; then a closer look decides."""
    if ((values[1:] > values[:-1]) | new).all():
        return True
    return _all_differ(values.astype(np.uint64) * _MIX[0] + query * _MIX[1])


def _positions_once(
    position: IntArray, query: npt.NDArray[np.uint64], new: npt.NDArray[np.bool_], start: IntArray
) -> bool:
    if int(position.max()) > 31 or ((position[1:] > position[:-1]) | new).all():
        return _once(position, query, new)
    # A bit a position: a sum of powers of two has as many bits as summands only if these differ.
    bits = np.add.reduceat(np.left_shift(np.uint32(1), position.astype(np.uint32)), start, dtype=np.uint32)
    return bool((np.bitwise_count(bits) == np.diff(np.append(start, len(position)))).all())
