"""Features from whatever a user hands over: an array, a frame, RankingData."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import FeatureError


def as_matrix(features: Any, names: Sequence[str]) -> npt.NDArray[np.float32]:
    """(n, d) float32 in the order of `names`: frames are matched by name, arrays by their number of columns.

    >>> as_matrix([[1, 2]], ["a", "b"])
    array([[1., 2.]], dtype=float32)
    """
    if hasattr(features, "feature_names") and hasattr(features, "features"):  # RankingData
        return _pick(features.features, list(features.feature_names), names)
    # An Arrow table has columns too, but they are not names.
    columns = getattr(features, "column_names", None) or getattr(features, "columns", None)
    if columns is not None:
        return _from_frame(features, [str(column) for column in columns], names)
    matrix = np.asarray(features)
    if matrix.dtype.kind not in "iufb":
        raise FeatureError(f"Features must be numbers, but the array is of type {matrix.dtype}.")
    matrix = np.atleast_2d(matrix)
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise FeatureError(
            f"The model takes {len(names)} features, but the array has shape {matrix.shape}. "
            "Pass a frame to match features by name."
        )
    return np.ascontiguousarray(matrix, dtype=np.float32)


def _pick(matrix: npt.NDArray[np.float32], have: list[str], names: Sequence[str]) -> npt.NDArray[np.float32]:
    if have == list(names):
        return matrix
    _refuse_missing(have, names)
    place = {name: i for i, name in enumerate(have)}
    return np.ascontiguousarray(matrix[:, [place[name] for name in names]])


def _from_frame(frame: Any, have: list[str], names: Sequence[str]) -> npt.NDArray[np.float32]:
    _refuse_missing(have, names)
    import polars as pl

    if not isinstance(frame, pl.DataFrame):
        selected = frame.select(list(names)) if hasattr(frame, "column_names") else frame[list(names)]
        if type(frame).__module__.startswith("pandas"):
            try:
                return np.ascontiguousarray(selected.to_numpy(dtype=np.float32, na_value=np.nan))
            except (TypeError, ValueError) as error:
                raise FeatureError(f"Features must be numbers, but a column of the frame is not: {error}.") from error
        frame = pl.DataFrame(selected)
    text = [name for name in names if not (frame[name].dtype.is_numeric() or frame[name].dtype == pl.Boolean)]
    if text:
        raise FeatureError(f"Features must be numbers, but column '{text[0]}' is of type {frame[text[0]].dtype}.")
    return np.ascontiguousarray(frame.select(pl.col(list(names)).cast(pl.Float32).fill_null(float("nan"))).to_numpy())


def _refuse_missing(have: list[str], names: Sequence[str]) -> None:
    known = set(have)
    lacking = [name for name in names if name not in known]
    if lacking:
        shown = ", ".join(f"'{name}'" for name in lacking[:5]) + (" …" if len(lacking) > 5 else "")
        raise FeatureError(f"The model needs {len(names)} features, but {len(lacking)} are missing: {shown}.")
