"""`--examination FILE`: what is wrong with it is said before the work, in the positions of the user's own log."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

from unskew.errors import SettingError


def read_known(path: Path | None, *, base: int) -> list[float] | None:
    """The examination in a file whose positions begin at `base`, if one was named."""
    if path is None:
        return None
    from unskew.data.examination import read_examination

    values = read_examination(path, base=base)
    wrong = next((i for i, value in enumerate(values) if not (isfinite(value) and value > 0)), None)
    if wrong is not None:
        hint = " What nobody looks at cannot be learnt from: leave those impressions out of the log."
        raise SettingError(
            f"{path}: examination must be positive and finite, but it is {values[wrong]:g} at position {wrong + base}."
            + (hint if values[wrong] == 0 else "")
        )
    return values


def check_reach(path: Path | None, values: list[float] | None, longest: int, *, base: int) -> None:
    """Refuse an examination that ends above the last position of the log; longest : of its lists."""
    if values is not None and len(values) < longest:
        raise SettingError(
            f"{path}: examination must have a value for every position, {base} to {longest - 1 + base} in this log, "
            f"but it ends at {len(values) - 1 + base}."
        )
