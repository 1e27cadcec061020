"""Columns of the control terms for the rows of a table of counts: what h is linear in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from unskew._options import ControlForm
from unskew._segments import IntArray
from unskew.control.aggregate import Exposures
from unskew.control.stage_one import StageOne, fit_stage_one
from unskew.control.terms import control_terms
from unskew.control.transformations import fit_transformation
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix

TermsName = Literal["T", "phi"]
Floats = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float32]

# Bends of h(T), at quantiles of T; and how large Φ may get, in standard deviations.
_KNOTS = 9
_LARGEST = 5.0
_BLOCK = 65_536
# h(T) moves log clicks by about half a unit; the weights of Φ are shrunk like those of the features.
_T_PENALTY = 4.0


@dataclass(frozen=True, eq=False)
class TermSource:
    """Stage one of a log, from which the control terms of its rows are made."""

    log: ClickLog
    stage_one: StageOne

    @classmethod
    def of(cls, log: ClickLog, *, seed: int = 0, n_jobs: int | None = None) -> TermSource:
        return cls(log, fit_stage_one(log, random_state=seed, n_jobs=n_jobs))

    def columns(
        self, table: Exposures, kind: TermsName, transformation: str = "minmax", *, permuted: int | None = None
    ) -> TermColumns:
        """T or Φ of the table's rows; `permuted` is the seed of a placebo whose T belong to other rows."""
        residual = self.stage_one.residual(self.log, table.row, table.position)
        value = fit_transformation(transformation, self.stage_one.statistics)(residual)
        if permuted is not None:
            value = np.random.default_rng(permuted).permutation(value)
        if kind == "T":
            knots = np.unique(np.quantile(value, np.linspace(0, 1, _KNOTS)))
            return BentTerm(value, knots)
        terms = control_terms(self.log.data, form_of(kind), value)
        design = DesignMatrix(self.log.data.features, table.row, terms)
        sample = design.extra(np.arange(0, len(table), -(-len(table) // _BLOCK)))
        spread = sample.std(axis=0)
        return ProductTerms(design, np.where(spread > 0, spread, 1).astype(np.float32))


class TermColumns:
    """What h is a weighted sum of."""

    @property
    def size(self) -> int:
        """How many columns."""
        raise NotImplementedError

    def penalty(self, ridge: float) -> Floats:
        """(size,) penalties of the weights, where those of the features are `ridge`."""
        raise NotImplementedError

    def fill(self, out: Matrix, rows: IntArray) -> None:
        """Write the columns of some rows of the table."""
        raise NotImplementedError

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
    """h(T), linear between the knots: one column a knot but the first."""

    value: npt.NDArray[np.float32]
    knots: npt.NDArray[np.floating]

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
class ProductTerms(TermColumns):
    """Φ = (x − x̄) ⊙ T, each column in standard deviations: one column a feature."""

    design: DesignMatrix
    spread: npt.NDArray[np.float32]

    @property
    def size(self) -> int:
        return self.design.n_terms

    def penalty(self, ridge: float) -> Floats:
        return np.full(self.size, ridge)

    def fill(self, out: Matrix, rows: IntArray) -> None:
        np.divide(self.design.extra(rows), self.spread, out=out)
        np.clip(out, -_LARGEST, _LARGEST, out=out)


def form_of(kind: str) -> ControlForm:
    """The paper's name of the terms: T is the residual form, Φ the interaction."""
    return "residual" if kind == "T" else "interaction"
