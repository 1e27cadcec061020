"""The control terms Φ (equations 6 and 7), built block by block straight into the ranker's buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._options import ControlForm
from unskew._segments import IntArray
from unskew.data.design import FloatMatrix
from unskew.data.ranking import RankingData


@dataclass(frozen=True, eq=False)
class InteractionTerms:
    """Φ = (x − x̄_q) ⊙ T(ε̂), one column a feature; x̄_q is the mean over the query's items.

    means : (queries, d) float32; query_of_row : (rows,); value : (entries,) T of every entry, or one T for all.
    A missing feature counts as the query's mean, so its term is 0.
    """

    names: tuple[str, ...]
    means: FloatMatrix
    query_of_row: IntArray
    value: npt.NDArray[np.float32] | float
    missing: bool = False

    def fill(self, out: FloatMatrix, x: FloatMatrix, row: IntArray, entry: IntArray) -> None:
        np.subtract(x, self.means[self.query_of_row[row]], out=out)
        out *= self.value if isinstance(self.value, float) else self.value[entry, None]
        if self.missing:
            out[np.isnan(out)] = 0


@dataclass(frozen=True, eq=False)
class ResidualTerm:
    """T(ε̂) alone, the residual-only form (CFC-S)."""

    names: tuple[str, ...]
    value: npt.NDArray[np.float32] | float

    def fill(self, out: FloatMatrix, x: FloatMatrix, row: IntArray, entry: IntArray) -> None:
        out[:, 0] = self.value if isinstance(self.value, float) else self.value[entry]


def term_names(form: ControlForm, features: Sequence[str]) -> tuple[str, ...]:
    """Names of the control columns.

    >>> term_names("interaction", ["bm25", "age"])
    ('control:bm25', 'control:age')
    """
    return tuple(f"control:{name}" for name in features) if form == "interaction" else ("control:residual",)


def control_terms(
    data: RankingData, form: ControlForm, value: npt.NDArray[np.float32] | float
) -> InteractionTerms | ResidualTerm:
    """Control columns over rows of `data`, whose entries have the transformed residuals `value`."""
    names = term_names(form, data.feature_names)
    if form == "residual":
        return ResidualTerm(names, value)
    return InteractionTerms(names, data.query_means, data.query_of_row, value, data.has_missing)
