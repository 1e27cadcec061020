"""Control terms for the rows of a table of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from unskew._options import ControlForm
from unskew.control.aggregate import Exposures
from unskew.control.stage_one import StageOne, fit_stage_one
from unskew.control.terms import InteractionTerms, ResidualTerm, control_terms
from unskew.control.transformations import fit_transformation
from unskew.data.clicks import ClickLog

TermsName = Literal["T", "phi"]


@dataclass(frozen=True, eq=False)
class TermSource:
    """Stage one of a log, from which the terms of any rows of it are made."""

    log: ClickLog
    stage_one: StageOne

    @classmethod
    def of(cls, log: ClickLog, *, seed: int = 0, n_jobs: int | None = None) -> TermSource:
        return cls(log, fit_stage_one(log, random_state=seed, n_jobs=n_jobs))

    def terms(
        self,
        table: Exposures,
        kind: TermsName,
        transformation: str = "minmax",
        *,
        permuted: int | None = None,
    ) -> InteractionTerms | ResidualTerm:
        """T(ε̂) or Φ of the table's rows; `permuted` is the seed of a placebo whose T belong to other rows."""
        residual = self.stage_one.residual(self.log, table.row, table.position)
        value: npt.NDArray[np.float32] = fit_transformation(transformation, self.stage_one.statistics)(residual)
        if permuted is not None:
            value = np.random.default_rng(permuted).permutation(value)
        return control_terms(self.log.data, form_of(kind), value)


def form_of(kind: str) -> ControlForm:
    """The paper's name of the terms: T is the residual form, Φ the interaction."""
    return "residual" if kind == "T" else "interaction"
