"""A whole LETOR file from its pieces: the matrix, the queries, the items, and what is odd about them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

from unskew._machine import cores
from unskew._segments import IntArray, gather_segments, offsets_of, segment_of
from unskew.data._growing import GrowingMatrix, reorder_rows
from unskew.data._letor_lines import Rules
from unskew.data._letor_rows import Block, check_size, parse_piece
from unskew.data._pieces import Piece, read_pieces
from unskew.data.ranking import REGROUPED, RankingData
from unskew.errors import FeatureError, FileFormatError

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def parse_file(path: Path, rules: Rules) -> RankingData:
    """The whole file, parsed on all cores; memory stays near the size of the matrix."""

    def parse(piece: Piece) -> tuple[Piece, Block | None]:
        return piece, parse_piece(piece, rules)

    gathered = _Gathered(str(path), rules)
    workers = min(cores(), 4)
    with ThreadPoolExecutor(workers) as pool:
        for piece, block in _in_order(pool, parse, read_pieces(path), ahead=workers):
            if block is not None:
                gathered.add(piece, block)
    return gathered.finish()


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[_In], _Out], items: Iterable[_In], *, ahead: int
) -> Iterator[_Out]:
    """Results in the order of the items, with no more than `ahead` of them under way (the pool's map takes all)."""
    pending: deque[Future[_Out]] = deque()
    for item in items:
        pending.append(pool.submit(work, item))
        if len(pending) > ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


class _Gathered:
    """What the blocks of a file add up to."""

    def __init__(self, source: str, rules: Rules) -> None:
        self.source, self.rules = source, rules
        self.matrix = GrowingMatrix()
        self.text_bytes = 0
        self.grades: list[IntArray] = []
        self.run_ids: list[bytes] = []
        self.run_sizes: list[IntArray] = []
        self.item_ids: list[pl.Series] | None = []
        self.full = True
        self.notes: list[str] = []

    def add(self, piece: Piece, block: Block) -> None:
        rows, width = block.features.shape
        full = self.full and block.full and (self.matrix.rows == 0 or width == self.matrix.width)
        if piece.unfinished and not full:
            self._judge_unfinished(piece, block)
        self.full = full
        self.text_bytes += len(piece.text)
        check_size(self.source, self.matrix.rows + rows, max(width, self.matrix.width), self.text_bytes)
        self.matrix.append(block.features)
        self.grades.append(block.grades)
        self.run_ids.extend(block.query_ids)
        self.run_sizes.append(block.query_sizes)
        if self.item_ids is not None and block.item_ids is not None:
            self.item_ids.append(_names("item_id", block.item_ids))
        else:
            self.item_ids = None

    def _judge_unfinished(self, piece: Piece, block: Block) -> None:
        where = f"{self.source}, line {piece.first_line}"
        if self.full and self.matrix.rows:
            raise FileFormatError(
                f"{where}: the last line ends after {block.features.shape[1]} of {self.matrix.width} features and "
                "without a line end: the file seems to be cut short. Copy or download it again."
            )
        self.notes.append(f"{where}: the last line has no line end. If the file was cut short, it lacks features.")

    def finish(self) -> RankingData:
        self._refuse_nothing()
        if self.rules.n_features is not None:
            check_size(self.source, self.matrix.rows, self.rules.n_features, self.text_bytes)
            self.matrix.widen(self.rules.n_features)
        features = self.matrix.finish()
        grades = np.concatenate(self.grades)
        item_ids = None if self.item_ids is None else pl.concat(self.item_ids)
        query_ids, offsets, order = _queries(self.run_ids, np.concatenate(self.run_sizes))
        if order is not None:
            reorder_rows(features, order)
            grades = grades[order]
            item_ids = None if item_ids is None else item_ids[order]
            self.notes.append(
                f"{self.source}: {REGROUPED} ({len(self.run_ids):,} groups of rows for {len(query_ids):,} queries)."
            )
        if item_ids is not None and _repeated(item_ids, offsets):
            item_ids = None
            self.notes.append(
                f"{self.source}: some docids occur twice in a query, so docids were not used as item ids."
            )
        first = self.rules.first_id
        return RankingData._trusted(
            features=features,
            offsets=offsets,
            grades=grades,
            query_ids=query_ids,
            item_ids=item_ids,
            feature_names=tuple(f"f{i}" for i in range(first, first + features.shape[1])),
            max_grade=max(int(grades.max()), 1),
            notes=tuple(self.notes),
        )

    def _refuse_nothing(self) -> None:
        if self.matrix.rows == 0:
            raise FileFormatError(f"{self.source} is empty: it has no row 'grade qid:Q 1:value 2:value …'.")
        if self.matrix.width == 0:
            raise FeatureError(f"{self.source}: no row has any feature (1:value 2:value …).")


def _queries(run_ids: list[bytes], run_sizes: IntArray) -> tuple[pl.Series, IntArray, IntArray | None]:
    """Query ids in order of appearance, offsets, and the order of rows that makes queries contiguous, if needed."""
    runs = np.array(run_ids)
    distinct, first, query = np.unique(runs, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    query = rank[query]
    names = _query_names(distinct[np.argsort(first)])
    sizes = np.bincount(query, weights=run_sizes, minlength=len(distinct)).astype(np.int64)
    if (np.diff(query) >= 0).all():
        return names, offsets_of(sizes), None
    order, _ = gather_segments(offsets_of(run_sizes), np.argsort(query, kind="stable"))
    return names, offsets_of(sizes), order


def _query_names(ids: np.ndarray) -> pl.Series:
    """Integers if they read back as they were written, else text."""
    try:
        numbers = ids.astype(np.int64)
    except (ValueError, OverflowError):
        return _names("query_id", ids.tolist())
    if (numbers.astype(ids.dtype) == ids).all():
        return pl.Series("query_id", numbers)
    return _names("query_id", ids.tolist())


def _names(name: str, ids: list[bytes]) -> pl.Series:
    try:
        return pl.Series(name, ids, dtype=pl.Binary).cast(pl.String)
    except pl.exceptions.PolarsError:  # not UTF-8
        return pl.Series(name, [text.decode("latin-1") for text in ids])


def _repeated(item_ids: pl.Series, offsets: IntArray) -> bool:
    pairs = pl.DataFrame({"query": segment_of(offsets), "item": item_ids})
    return pairs.n_unique() < len(pairs)
