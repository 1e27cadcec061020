"""Columns of the control terms for the rows of a table of counts: what h is linear in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.data.design import DesignMatrix

Floats = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float32]

# How large Φ may get, in standard deviations.
_LARGEST = 5.0
_BLOCK = 65_536
# h(T) moves log clicks by about half a unit; the weights of Φ are shrunk like those of the features.
_T_PENALTY = 4.0


class TermColumns(ABC):
    """What h is a weighted sum of."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many columns."""

    @abstractmethod
    def penalty(self, ridge: float) -> Floats:
        """(size,) penalties of the weights, where those of the features are `ridge`."""

    @abstractmethod
    def fill(self, out: Matrix, rows: IntArray) -> None:
        """Write the columns of some rows of the table."""

    def scores(self, weights: Floats, n: int) -> Floats:
        """(models, n) h of all rows by every model's weights (models, size), a block at a time."""
        out = np.empty((len(weights), n))
        block = np.empty((min(_BLOCK, n), self.size), dtype=np.float32)
        for start in range(0, n, _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, n))
            self.fill(block[: len(rows)], rows)
            out[:, rows] = (block[: len(rows)] @ weights.T.astype(np.float32)).T
        return out


@dataclass(frozen=True, eq=False)
class BentTerm(TermColumns):
    """h of one value, linear between the knots: one column a knot but the first."""

    value: npt.NDArray[np.float32]
    knots: npt.NDArray[np.floating]

    @classmethod
    def at_quantiles(cls, value: npt.NDArray[np.floating], shares: Sequence[float]) -> BentTerm:
        """Knots at these quantiles of the values."""
        single = value.astype(np.float32)
        return cls(single, np.unique(np.quantile(single, shares)))

    @property
    def size(self) -> int:
        return len(self.knots) - 1

    def penalty(self, ridge: float) -> Floats:
        return np.full(self.size, _T_PENALTY)

    def fill(self, out: Matrix, rows: IntArray) -> None:
        value = self.value[rows]
        for j, hat in enumerate(np.eye(len(self.knots))[1:]):
            out[:, j] = np.interp(value, self.knots, hat)


@dataclass(frozen=True, eq=False)
class SeveralTerms(TermColumns):
    """The columns of several terms side by side: h is the sum of theirs."""

    parts: tuple[TermColumns, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def penalty(self, ridge: float) -> Floats:
        return np.concatenate([part.penalty(ridge) for part in self.parts])

    def fill(self, out: Matrix, rows: IntArray) -> None:
        start = 0
        for part in self.parts:
            part.fill(out[:, start : start + part.size], rows)
            start += part.size


@dataclass(frozen=True, eq=False)
class ProductTerms(TermColumns):
    """Φ = (x − x̄) ⊙ T, each column in standard deviations: one column a feature."""

    design: DesignMatrix
    spread: npt.NDArray[np.float32]

    @classmethod
    def of(cls, design: DesignMatrix) -> ProductTerms:
        """The terms of a design, their spread from a part of its rows."""
        sample = design.extra(np.arange(0, len(design), -(-len(design) // _BLOCK)))
        spread = sample.std(axis=0)
        return cls(design, np.where(spread > 0, spread, 1).astype(np.float32))

    @property
    def size(self) -> int:
        return self.design.n_terms

    def penalty(self, ridge: float) -> Floats:
        return np.full(self.size, ridge)

    def fill(self, out: Matrix, rows: IntArray) -> None:
        np.divide(self.design.extra(rows), self.spread, out=out)
        np.clip(out, -_LARGEST, _LARGEST, out=out)
