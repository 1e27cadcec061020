"""Where control terms come from: the residuals of stage one, as the paper has it, or those of the expected place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from unskew._segments import segment_mean
from unskew.control.aggregate import Exposures
from unskew.control.stage_one import StageOne, fit_stage_one
from unskew.control.term_columns import BentTerm, ProductTerms, SeveralTerms, TermColumns
from unskew.control.terms import control_terms
from unskew.control.transformations import fit_transformation
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix

TermsName = Literal["T", "phi", "shift", "moves"]
Floats = npt.NDArray[np.float64]
# Makes the control columns of a table's rows, given m(x) of those rows.
TermMaker = Callable[[Exposures, Floats], TermColumns]

# Where h bends. T spreads over its range; what moves a few items far shows in the tails of the shift.
_OF_T = tuple(np.linspace(0, 1, 9).tolist())
_OF_SHIFT = (0, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 1)


@dataclass(frozen=True)
class TermSource:
    """Makes the control terms of a log's rows.

    "T" : the transformed residual of stage one; "phi" : its products with the features, T less T(0): an item that
        stands where its features make one expect it has none, or h would hold relevance that f then lacks.
    "shift" : how far above the place that its features and its rivals make one expect an item usually stood. Inside a
        query and on the logarithmic scale of the position effect far more of the place is explained than by stage one,
        whose target is the rank over all queries; so what the ranker did for other reasons stands out. Swaps by chance
        have no reasons, and are averaged out.
    "moves" : besides the shift, how far above its usual place an item stood each time, as in lists made to each
        person's taste. Where chance moved items it says nothing that the examination does not.
    """

    log: ClickLog
    seed: int = 0
    n_jobs: int | None = None

    @cached_property
    def stage_one(self) -> StageOne:
        return fit_stage_one(self.log, random_state=self.seed, n_jobs=self.n_jobs)

    def maker(self, kind: TermsName, transformation: str = "minmax", *, permuted: int | None = None) -> TermMaker:
        """For the terms of that name; `permuted` is the seed of a placebo whose residuals belong to other rows."""

        def mixed(value: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
            return value if permuted is None else np.random.default_rng(permuted).permutation(value)

        def columns(table: Exposures, expected: Floats) -> TermColumns:
            if kind in ("shift", "moves"):
                usual, here = usual_place(table)
                values = (shift(table, usual, expected), here - usual)[: 1 + (kind == "moves")]
                return SeveralTerms(tuple(BentTerm.at_quantiles(mixed(value), _OF_SHIFT) for value in values))
            residual = self.stage_one.residual(self.log, table.row, table.position)
            transform = fit_transformation(transformation, self.stage_one.statistics)
            if kind == "T":
                return BentTerm.at_quantiles(mixed(transform(residual)), _OF_T)
            terms = control_terms(self.log.data, "interaction", mixed(transform.centred()(residual)))
            return ProductTerms.of(DesignMatrix(self.log.data.features, table.row, terms))

        return columns


def usual_place(table: Exposures) -> tuple[Floats, Floats]:
    """(n,) −log k of every row's item as a mean over its impressions, and (n,) that of the row itself.

    >>> moved = Exposures(np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0, 3]), np.array([0]),
    ...                   np.array([3.0, 1.0, 4.0]), np.ones(3))
    >>> usual_place(moved)[0].round(3)
    array([-0.173, -0.173, -0.693])
    """
    here = -np.log(table.position.astype(np.float64))
    _, item = np.unique(table.row if table.item is None else table.item, return_inverse=True)
    if int(item.max()) + 1 == len(item):  # every item stood at one place: as it is, to the last bit
        return here, here
    mean = np.bincount(item, weights=table.shown * here) / np.bincount(item, weights=table.shown)
    return mean[item], here


def shift(table: Exposures, place: Floats, expected: Floats) -> Floats:
    """(n,) the place less its projection on m(x), both inside queries: positive where it is higher than expected.

    >>> from unskew._segments import offsets_of
    >>> position = np.array([1, 2, 3])
    >>> once = np.ones(3)
    >>> one_query = Exposures(np.arange(3), position, offsets_of(np.array([3])), np.array([0]), once, once)
    >>> shift(one_query, -np.log(position), -2 * np.log(position)).round(9) + 0.0
    array([0., 0., 0.])
    """
    place, known = (values - segment_mean(values, table.offsets)[table.segment] for values in (place, expected))
    return place - (place @ known) / max(float(known @ known), 1e-12) * known
