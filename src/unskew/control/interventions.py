"""Items that were shown at several positions: what a click log knows about position without any model of relevance.

Given an item's clicks over all its positions, how they divide among the positions depends on examination alone:
n_k e^{b_k} / Σ n e^b. Swaps, repeated queries and changes of the production ranker all leave such traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, segment_sum
from unskew.control.aggregate import Exposures
from unskew.control.click_model import QueryClicks
from unskew.control.conditional import fit_linear, robust_covariance

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interventions:
    """What moved items say.

    items, clicks : items with clicks that were shown at several positions, and their clicks.
    severity, severity_error : η from them alone.
    gain, low, high : held-out log-likelihood that the model's position effect adds to none, with its interval.
    """

    items: int
    clicks: float
    severity: float
    severity_error: float
    gain: float
    low: float
    high: float

    @property
    def confirmed(self) -> bool:
        """Whether the model predicts how clicks change when an item moves."""
        return self.low > 0

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "confirmed": self.confirmed}


@dataclass(frozen=True, eq=False)
class MovedItems:
    """Rows of items that were shown at several positions and clicked: rows : (n,) of the table, grouped by item."""

    rows: IntArray
    clicks: QueryClicks

    @classmethod
    def of(cls, table: Exposures) -> MovedItems | None:
        """The moved items of a table; None if there are none."""
        starts = np.flatnonzero(np.r_[True, np.diff(table.row) != 0])
        offsets = np.r_[starts, len(table)]
        sizes = np.diff(offsets)
        wanted = (sizes > 1) & (segment_sum(table.clicks, offsets) > 0)
        if not wanted.any():
            return None
        rows = np.flatnonzero(np.repeat(wanted, sizes))
        bounds = np.r_[0, np.cumsum(sizes[wanted])]
        return cls(rows, QueryClicks.of_counts(bounds, table.clicks[rows], table.shown[rows]))

    def severity(self, table: Exposures) -> tuple[float, float]:
        """η of a power law and its standard error, from these items alone."""
        columns = -np.log(table.position[self.rows].astype(np.float64))[:, None]
        # A weak pull towards no effect keeps a handful of clicks from saying "infinitely steep".
        fit = fit_linear(columns, self.clicks, penalty=np.array([0.1]))
        covariance = robust_covariance(fit, columns, self.clicks)
        return float(fit.coefficients[0]), float(np.sqrt(covariance[0, 0]))

    def gain_by_query(self, table: Exposures, effect: Floats) -> Floats:
        """(queries,) log-likelihood that a position effect (n rows of the table) adds to none."""
        by_item = self.clicks.log_likelihood(effect[self.rows]) - self.clicks.log_likelihood(np.zeros(len(self.rows)))
        query = table.segment[self.rows[self.clicks.offsets[:-1]]]
        return np.bincount(query, weights=by_item, minlength=table.n_queries).astype(np.float64)
