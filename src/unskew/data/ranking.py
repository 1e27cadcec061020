"""RankingData: the features of query-item pairs, stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._segments import IntArray, gather_segments, segment_blocks, segment_mean, segment_of
from unskew.errors import DataError, FeatureError, GradeError, SettingError

# More than any published collection has; a wrong file must not allocate the machine.
MAX_GRADE_LIMIT = 30
# A note of readers: rows are not in the order of the file.
REGROUPED = "the rows of some queries did not follow each other, so they were regrouped"
_BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class RankingData:
    """Query-item pairs with their features and, where people judged them, grades. Immutable.

    features : (rows, d) float32, C-contiguous, read-only; rows of a query are contiguous.
        NaN means missing (only rankers that can take it will); infinite values are refused.
    offsets : (queries + 1,) int64; query i holds rows offsets[i] … offsets[i + 1] - 1.
    grades : (rows,) int16 or None; 0 … max_grade.
    query_ids : polars Series (queries,), integers or strings, unique.
    item_ids : polars Series (rows,), unique inside a query, or None.
    feature_names : d names, unique.
    max_grade : the collection's largest possible grade, not this slice's.

    >>> data = RankingData.from_arrays(np.eye(3), sizes=[2, 1], grades=[1, 0, 2])
    >>> data.n_queries, data.n_rows, data.n_features, data.max_grade
    (2, 3, 3, 2)
    """

    features: npt.NDArray[np.float32]
    offsets: IntArray
    query_ids: pl.Series
    feature_names: tuple[str, ...]
    grades: IntArray | None = None
    item_ids: pl.Series | None = None
    max_grade: int | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        _check_shapes(self)
        for array in (self.features, self.offsets, self.grades):
            if array is not None:
                array.flags.writeable = False

    @classmethod
    def from_arrays(
        cls,
        features: npt.ArrayLike,
        *,
        sizes: npt.ArrayLike | None = None,
        offsets: npt.ArrayLike | None = None,
        grades: npt.ArrayLike | None = None,
        query_ids: Sequence[Any] | pl.Series | None = None,
        item_ids: Sequence[Any] | pl.Series | None = None,
        feature_names: Sequence[str] | None = None,
        max_grade: int | None = None,
    ) -> RankingData:
        """Build from arrays whose rows are grouped by query already (sizes or offsets of the groups)."""
        matrix = np.array(features, dtype=np.float32, order="C", ndmin=2)
        if (sizes is None) == (offsets is None):
            raise DataError("Give the queries either by sizes (items per query) or by offsets, not both.")
        if offsets is None:
            counts = np.asarray(sizes, dtype=np.int64)
            bounds = np.concatenate([[0], np.cumsum(counts)])
        else:
            bounds = np.array(offsets, dtype=np.int64)
        n_queries = len(bounds) - 1
        whole_grades = None if grades is None else check_grades(np.asarray(grades), max_grade)
        return cls(
            features=matrix,
            offsets=bounds,
            grades=whole_grades,
            query_ids=_series("query_id", range(n_queries) if query_ids is None else query_ids),
            item_ids=None if item_ids is None else _series("item_id", item_ids),
            feature_names=_names(feature_names, matrix.shape[1]),
            max_grade=_max_grade(whole_grades, max_grade),
        )

    @classmethod
    def _trusted(cls, **parts: Any) -> RankingData:
        """Build without the checks at the door, from parts the package has checked (a parsed file, a verified cache).

        The checks read every feature, which would pull a memory-mapped matrix into memory.
        """
        data = object.__new__(cls)
        for name in cls.__dataclass_fields__:
            object.__setattr__(data, name, parts.get(name, () if name == "notes" else None))
        for array in (data.features, data.offsets, data.grades):
            if array is not None:
                array.flags.writeable = False
        return data

    @classmethod
    def from_frame(cls, frame: Any, **options: Any) -> RankingData:
        """Read a polars, pandas or Arrow frame; options as in :func:`unskew.data.frames.ranking_from_frame`."""
        from unskew.data.frames import ranking_from_frame

        return ranking_from_frame(frame, **options)

    def to_frame(self) -> pl.DataFrame:
        """One row per query-item pair: query_id, item_id, relevance (if judged), features."""
        from unskew.data.frames import ranking_to_frame

        return ranking_to_frame(self)

    @property
    def n_rows(self) -> int:
        return self.features.shape[0]

    @property
    def n_features(self) -> int:
        return self.features.shape[1]

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> IntArray:
        """Items per query."""
        return np.diff(self.offsets)

    @cached_property
    def query_of_row(self) -> IntArray:
        """(rows,) the query of every row."""
        return segment_of(self.offsets)

    @cached_property
    def query_means(self) -> npt.NDArray[np.float32]:
        """(queries, d) mean of every feature over the query's items, x̄ of equation 6; missing values left out."""
        means = np.empty((self.n_queries, self.n_features), dtype=np.float32)
        # Sums are taken in float64, a block at a time so that no such copy of all features exists.
        for first, last in pairwise(segment_blocks(self.offsets, _BLOCK)):
            rows = self.features[self.offsets[first] : self.offsets[last]]
            means[first:last] = _present_means(rows, self.offsets[first : last + 1] - self.offsets[first])
        return means

    @cached_property
    def has_missing(self) -> bool:
        """Whether any feature is missing (NaN)."""
        # A sum is NaN as soon as one value is, and needs no matrix-sized mask.
        return bool(np.isnan(self.features.sum(dtype=np.float64))) if self.features.size else False

    @property
    def regrouped(self) -> bool:
        """Whether rows are in another order than in the file they came from."""
        return any(REGROUPED in note for note in self.notes)

    def require_grades(self, purpose: str) -> IntArray:
        """The grades, or an error that says what needed them."""
        if self.grades is None:
            raise GradeError(
                f"{purpose} needs human grades, but this data has none. Add a column 'relevance' or name "
                "the one that holds them (relevance=, --relevance)."
            )
        return self.grades

    def take_queries(self, wanted: npt.ArrayLike) -> RankingData:
        """The named queries (a mask or indices), in the order given."""
        chosen = as_indices(wanted, self.n_queries)
        rows, offsets = gather_segments(self.offsets, chosen)
        return replace(
            self,
            features=self.features[rows],
            offsets=offsets,
            grades=None if self.grades is None else self.grades[rows],
            query_ids=self.query_ids[chosen],
            item_ids=None if self.item_ids is None else self.item_ids[rows],
        )

    def with_features(self, features: npt.NDArray[np.float32], names: Sequence[str]) -> RankingData:
        """The same pairs with other features (scaled, or with some left out)."""
        matrix = np.ascontiguousarray(features, dtype=np.float32)
        return replace(self, features=matrix, feature_names=tuple(names))

    def __repr__(self) -> str:
        judged = f"grades 0–{self.max_grade}" if self.grades is not None else "no grades"
        return f"RankingData({self.n_queries:,} queries, {self.n_rows:,} items, {self.n_features} features, {judged})"


def _present_means(features: npt.NDArray[np.float32], offsets: IntArray) -> npt.NDArray[np.float64]:
    means = segment_mean(features, offsets)
    if not np.isnan(means).any():
        return means
    present = ~np.isnan(features)
    sums = segment_mean(np.where(present, features, np.float32(0)), offsets)
    share = segment_mean(present, offsets)
    return sums / np.where(share > 0, share, 1)


def as_indices(wanted: npt.ArrayLike, total: int) -> IntArray:
    """Indices from a boolean mask or from indices."""
    chosen = np.asarray(wanted)
    if chosen.dtype == bool:
        if len(chosen) != total:
            raise DataError(f"A mask of {len(chosen)} entries cannot choose among {total}.")
        return np.flatnonzero(chosen)
    return chosen.astype(np.int64)


def check_grades(grades: npt.NDArray, max_grade: int | None) -> IntArray:
    """Whole grades from 0 to the maximum, or an error naming the first bad row."""
    values = np.asarray(grades)
    if values.dtype.kind not in "iufb":
        raise GradeError(f"Grades must be whole numbers, but they are of type {values.dtype}.")
    wrong = ~np.isfinite(values) | (values != np.floor(values)) if values.dtype.kind == "f" else values < 0
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise GradeError(
            f"Grades must be whole numbers from 0 up, but {int(wrong.sum()):,} rows are not "
            f"(first: row {first + 1}, grade {values[first]})."
        )
    limit = MAX_GRADE_LIMIT if max_grade is None else max_grade
    beyond = (values < 0) | (values > limit)
    if beyond.any():
        first = int(np.flatnonzero(beyond)[0])
        known = "Pass the collection's maximum as max_grade (--max-grade)."
        hint = known if max_grade is not None else "Is this column a grade?"
        raise GradeError(
            f"Grades must lie between 0 and {limit}, but {int(beyond.sum()):,} rows do not "
            f"(first: row {first + 1}, grade {values[first]}). {hint}"
        )
    return values.astype(np.int16)


def check_max_grade(max_grade: int | None) -> None:
    """Refuse a largest grade that no collection has."""
    if max_grade is not None and not 1 <= max_grade <= MAX_GRADE_LIMIT:
        raise SettingError(f"max_grade must lie between 1 and {MAX_GRADE_LIMIT}, but {max_grade} was given.")


def _max_grade(grades: IntArray | None, given: int | None) -> int | None:
    if grades is None or given is not None:
        return given
    return max(int(grades.max(initial=0)), 1)


def _names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    return tuple(f"f{i + 1}" for i in range(count)) if names is None else tuple(str(name) for name in names)


def _series(name: str, values: Any) -> pl.Series:
    series = values.rename(name) if isinstance(values, pl.Series) else pl.Series(name, list(values))
    if series.null_count():
        raise DataError(f"{name} must not be empty, but {series.null_count():,} entries are.")
    return series


def _check_shapes(data: RankingData) -> None:
    features, offsets = data.features, data.offsets
    if features.ndim != 2 or features.dtype != np.float32 or not features.flags.c_contiguous:
        raise FeatureError("Features must be a C-contiguous float32 matrix (rows × features).")
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(features) or (np.diff(offsets) < 0).any():
        raise DataError(
            f"Query offsets must rise from 0 to the number of rows ({len(features)}), but they end at "
            f"{offsets[-1] if len(offsets) else 'nothing'}."
        )
    if features.shape[0] == 0 or features.shape[1] == 0:
        raise DataError(f"Ranking data needs rows and features, but found {features.shape[0]} × {features.shape[1]}.")
    if len(data.query_ids) != len(offsets) - 1:
        raise DataError(f"{len(offsets) - 1} queries, but {len(data.query_ids)} query ids.")
    if data.query_ids.n_unique() != len(data.query_ids):
        raise DataError("Query ids must be unique: rows of one query must follow each other.")
    if data.item_ids is not None and len(data.item_ids) != len(features):
        raise DataError(f"{len(features)} rows, but {len(data.item_ids)} item ids.")
    if data.grades is not None and len(data.grades) != len(features):
        raise GradeError(f"{len(features)} rows, but {len(data.grades)} grades.")
    if len(data.feature_names) != features.shape[1] or len(set(data.feature_names)) != features.shape[1]:
        raise FeatureError(
            f"{features.shape[1]} features need as many distinct names, but got {len(data.feature_names)} names "
            f"of which {len(set(data.feature_names))} are distinct."
        )
    _refuse_infinite(features, data.feature_names)


def _refuse_infinite(features: npt.NDArray[np.float32], names: Sequence[str]) -> None:
    # min and max of a column are infinite as soon as one value is; NaN-safe, and no matrix-sized mask.
    with np.errstate(all="ignore"):
        low, high = np.fmin.reduce(features, axis=0), np.fmax.reduce(features, axis=0)
    bad = np.flatnonzero(np.isinf(low) | np.isinf(high))
    if bad.size:
        row = int(np.flatnonzero(np.isinf(features[:, bad[0]]))[0])
        raise FeatureError(
            f"Features must be finite, but feature '{names[bad[0]]}' is infinite (first: row {row + 1})"
            + (f", and so are {bad.size - 1} more features" if bad.size > 1 else "")
            + ". Clip such values, or treat them as missing (NaN)."
        )
