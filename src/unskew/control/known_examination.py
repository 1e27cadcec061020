"""Examination that is known, from an experiment with shuffled results or another log, instead of estimated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from unskew.errors import SettingError
from unskew.method import PositionCurve

Floats = npt.NDArray[np.float64]
Examination = Sequence[float] | npt.NDArray[np.floating] | PositionCurve

# Beyond such a proportion of two positions there is nothing to learn from the lesser one.
_LARGEST = 1e9


def known_examination(given: Examination | None, longest: int) -> Floats | None:
    """(longest,) chances of a look relative to the top, or None where none are given.

    >>> known_examination([0.8, 0.4, 0.2, 0.1], longest=3)
    array([1.  , 0.5 , 0.25])
    """
    if given is None:
        return None
    values = _numbers(given)
    if values.ndim != 1 or len(values) < longest:
        raise SettingError(
            f"examination must have a value for every position, 1 to {longest} in this log, but it has "
            f"{len(values) if values.ndim == 1 else f'the shape {values.shape}'}."
        )
    wrong = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if len(wrong):
        hint = " What nobody looks at cannot be learnt from: leave those impressions out of the log."
        raise SettingError(
            f"examination must be positive and finite, but it is {values[wrong[0]]} at position {wrong[0] + 1}."
            + (hint if values[wrong[0]] == 0 else "")
        )
    values = values[:longest]
    if values.max() / values.min() > _LARGEST:
        at = int(np.argmin(values)) + 1
        raise SettingError(
            f"examination differs by more than a factor of {_LARGEST:g} (position {at} has {values[at - 1]:g}). Give "
            "chances of a look, such as 1, 0.6, 0.4."
        )
    return values / values[0]


def _numbers(given: Examination) -> Floats:
    if isinstance(given, PositionCurve):
        if given.position[0] != 1:
            raise SettingError(f"examination must begin at position 1, but the curve begins at {given.position[0]}.")
        last = int(given.position[-1])
        # Curves of very long lists leave positions out; between two of them examination is a power law.
        between = np.interp(np.log(np.arange(1, last + 1)), np.log(given.position), np.log(given.value))
        given = given.value if last == len(given.value) else np.exp(between)
    try:
        values = np.asarray(given)
    except ValueError:  # lists of different lengths
        values = np.array(None)
    if values.dtype.kind not in "iuf":
        raise SettingError(
            f"examination must be numbers, one a position (or the position curve of a model), but {given!r} was given."
        )
    return values.astype(np.float64)
