"""A checked log on disk, as the arrays that work needs: written batch by batch, mapped into memory, never held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import OutputError

_TYPES: dict[str, Any] = {
    "features": np.float32,
    "sizes": np.int64,
    "grades": np.int16,
    "row": np.int64,
    "lengths": np.int64,
    "position": np.int32,
    "click": np.int32,
    "weight": np.float32,
    "logging_score": np.float32,
}


@contextmanager
def scratch_room(folder: Path) -> Iterator[None]:
    """What is said when the scratch folder has no room left."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"Cannot write to {folder}: {error.strerror or error}. The log is copied there. "
            "Set TMPDIR to a folder with more room."
        ) from error


@dataclass(frozen=True, eq=False)
class SpooledLog:
    """A log whose arrays lie in files.

    log : all of it, its arrays mapped. ends : (batches + 1, 4) rows, queries, sessions, impressions before a batch.
    """

    log: ClickLog
    ends: npt.NDArray[np.int64]

    def batches(self) -> Iterator[ClickLog]:
        """The log a batch of whole queries at a time, without copies."""
        whole, data = self.log, self.log.data
        for before, after in zip(self.ends[:-1], self.ends[1:]):
            row, query, session, shown = (slice(a, b) for a, b in zip(before.tolist(), after.tolist()))
            part = RankingData._trusted(
                features=data.features[row],
                offsets=data.offsets[query.start : query.stop + 1] - row.start,
                query_ids=data.query_ids[query],
                feature_names=data.feature_names,
                grades=None if data.grades is None else data.grades[row],
                max_grade=data.max_grade,
            )
            yield ClickLog._trusted(
                data=part,
                row=whole.row[shown] - row.start,
                session_offsets=whole.session_offsets[session.start : session.stop + 1] - shown.start,
                position=whole.position[shown],
                click=whole.click[shown],
                session_ids=whole.session_ids[session],
                weight=None if whole.weight is None else whole.weight[shown],
                logging_score=None if whole.logging_score is None else whole.logging_score[shown],
            )


class Spool:
    """Appends logs to files in a folder.

    >>> import tempfile
    >>> data = RankingData.from_arrays([[0.1], [0.7]], sizes=[2])
    >>> log = ClickLog.from_arrays(data, row=[1, 0], session=[0, 0], position=[1, 2], click=[0, 1])
    >>> spool = Spool(Path(tempfile.mkdtemp()))
    >>> spool.append(log), spool.append(log)
    (None, None)
    >>> spool.finish().log.row.tolist(), [part.row.tolist() for part in spool.finish().batches()]
    ([1, 0, 3, 2], [[1, 0], [1, 0]])
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._ends = [(0, 0, 0, 0)]
        self._queries: list[pl.Series] = []
        self._first: ClickLog | None = None
        self._notes: dict[str, None] = {}
        self._max_grade = 0

    @property
    def empty(self) -> bool:
        return self._first is None

    def append(self, log: ClickLog) -> None:
        """Write a batch of whole queries behind what is there."""
        data, (rows, queries, sessions, shown) = log.data, self._ends[-1]
        self._first = self._first or _without_arrays(log)
        self._queries.append(data.query_ids)
        self._notes |= dict.fromkeys(log.notes)
        self._max_grade = max(self._max_grade, data.max_grade or 0)
        arrays = {
            "features": data.features,
            "sizes": data.sizes,
            "grades": data.grades,
            "row": log.row + rows,
            "lengths": np.diff(log.session_offsets),
            "position": log.position,
            "click": log.click,
            "weight": log.weight,
            "logging_score": log.logging_score,
        }
        for name, values in arrays.items():
            if values is not None:
                with scratch_room(self.folder), (self.folder / name).open("ab") as file:
                    np.ascontiguousarray(values, dtype=_TYPES[name]).tofile(file)
        self._ends.append(
            (rows + data.n_rows, queries + data.n_queries, sessions + log.n_sessions, shown + log.n_impressions)
        )

    def finish(self) -> SpooledLog:
        """The log, its arrays mapped from the files."""
        assert self._first is not None
        rows, _, sessions, _ = self._ends[-1]
        first = self._first.data
        data = RankingData._trusted(
            features=self._map("features").reshape(rows, first.n_features),
            offsets=np.concatenate([[0], np.cumsum(self._map("sizes"))]),
            query_ids=pl.concat(self._queries),
            feature_names=first.feature_names,
            grades=self._map("grades") if first.grades is not None else None,
            max_grade=self._max_grade or None,
            notes=tuple(self._notes),
        )
        log = ClickLog._trusted(
            data=data,
            row=self._map("row"),
            session_offsets=np.concatenate([[0], np.cumsum(self._map("lengths"))]),
            position=self._map("position"),
            click=self._map("click"),
            session_ids=pl.int_range(sessions, eager=True).alias("session_id"),
            weight=self._map("weight") if self._first.weight is not None else None,
            logging_score=self._map("logging_score") if self._first.logging_score is not None else None,
            notes=tuple(self._notes),
        )
        return SpooledLog(log, np.array(self._ends))

    def _map(self, name: str) -> npt.NDArray:
        # A plain array over the mapping: slices of np.memmap carry bookkeeping that costs time.
        return np.asarray(np.memmap(self.folder / name, dtype=_TYPES[name], mode="r"))


def _without_arrays(log: ClickLog) -> ClickLog:
    """A log of one query, to remember which optional columns there are."""
    return log.take_queries([int(log.queries[0])])
