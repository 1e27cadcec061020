"""Examination by position from a file, as an experiment with shuffled results has told it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unskew.data.column_checks import first_text
from unskew.data.tables import open_table
from unskew.errors import ColumnError, SettingError

_COLUMNS = ("position", "examination")


def read_examination(path: str | Path, *, base: int = 1) -> list[float]:
    """The column `examination` of a CSV or Parquet file, by its column `position`: each once, from `base` on."""
    table = open_table(path)
    lacking = [name for name in _COLUMNS if name not in table.schema]
    if lacking:
        raise ColumnError(
            f"{table.source} has no column {' and no column '.join(map(repr, lacking))}. Examination is a table with "
            f"the columns position and examination; this one has: {', '.join(table.schema)}."
        )
    for name in _COLUMNS:
        kind = table.schema[name]
        if table.height and not kind.is_numeric():
            found = f"is of type {kind}{first_text(table, name)}"
            raise ColumnError(f"{table.source}: column '{name}' must hold numbers, but {found}.")
    if table.height == 0:
        raise SettingError(f"{table.source} must have every position once, from {base} on, but is empty.")
    frame = table.take(_COLUMNS).sort("position")
    position = frame["position"].cast(float).fill_null(np.nan).to_numpy()
    odd = np.flatnonzero(position != np.arange(base, len(position) + base))
    if len(odd):
        found = f"has {position[odd[0]]:g} where {odd[0] + base} should be"
        raise SettingError(f"{table.source} must have every position once, from {base} on, but {found}.")
    return [float(value) for value in frame["examination"].cast(float).fill_null(np.nan)]
