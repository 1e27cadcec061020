"""Items that were shown at several positions: what a click log knows about position without any model of relevance.

Given an item's clicks over all its positions, how they divide among the positions depends on examination alone,
n_k e^{b_k} / Σ n e^b, if it was moved by chance: then who looks at it, and why, does not go with where it stood. Swaps,
repeated queries and changes of the production ranker all leave such traces; lists made to each person's taste do too,
and there the taste counts as examination.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, segment_sum
from unskew.control.aggregate import Exposures
from unskew.control.click_model import QueryClicks
from unskew.control.conditional import fit_linear, robust_covariance
from unskew.control.evidence import LEAST
from unskew.control.position_effect import PositionBasis, choose_bend, falling

Floats = npt.NDArray[np.float64]

# Standard errors between two severities that are hardly chance: the moved items then overrule the model. Where both
# are right that costs little (MQ2008: 0.003 of NDCG@10), where the model is not it brings a lot.
FAR = 2.5
# With very many clicks any bend of the curve is beyond chance; differences of η below this one are nobody's concern.
LEAST_DIFFERENCE = 0.1


@dataclass(frozen=True)
class Interventions:
    """What moved items say.

    items, clicks : items with clicks that were shown at several positions, and their clicks.
    queries : how many queries they are of.
    severity, severity_error : η from them alone.
    of_model, model_error : η that the model's position effect means for the same items.
    gain, low, high : held-out log-likelihood that the model's position effect adds to none, with its interval.
    """

    items: int
    clicks: float
    severity: float
    severity_error: float
    of_model: float
    model_error: float
    gain: float
    low: float
    high: float
    queries: int

    @property
    def enough(self) -> bool:
        """Whether they are of enough queries to say anything."""
        return self.queries >= LEAST

    @property
    def confirmed(self) -> bool:
        """Whether the model predicts how clicks change when an item moves."""
        return self.enough and self.low > 0 and not self.refuted

    @property
    def refuted(self) -> bool:
        """Whether the model's η and theirs differ by more than chance explains."""
        error = math.hypot(self.severity_error, self.model_error)
        return self.enough and abs(self.of_model - self.severity) > max(FAR * error, LEAST_DIFFERENCE)

    @property
    def overrules(self) -> bool:
        """Whether they refute the model and say less than it, as items moved by chance do where a ranker knew more."""
        return self.refuted and self.severity < self.of_model

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "confirmed": self.confirmed, "refuted": self.refuted}


@dataclass(frozen=True, eq=False)
class MovedItems:
    """Rows of items that were shown at several positions and clicked: rows : (n,) of the table, grouped by item."""

    rows: IntArray
    clicks: QueryClicks

    @classmethod
    def of(cls, table: Exposures) -> MovedItems | None:
        """The moved items of a table; None if there are none."""
        item = table.row if table.item is None else table.item
        order = np.argsort(item, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(item[order]) != 0])
        offsets, place = np.r_[starts, len(table)], table.position[order]
        sizes = np.diff(offsets)
        several = np.minimum.reduceat(place, starts) < np.maximum.reduceat(place, starts)
        wanted = several & (segment_sum(table.clicks[order], offsets) > 0)
        if not wanted.any():
            return None
        rows = order[np.repeat(wanted, sizes)]
        bounds = np.r_[0, np.cumsum(sizes[wanted])]
        return cls(rows, QueryClicks.of_counts(bounds, table.clicks[rows], table.shown[rows]))

    def severity(self, table: Exposures) -> tuple[float, float]:
        """η of a power law and its standard error, from these items alone."""
        columns = -np.log(table.position[self.rows].astype(np.float64))[:, None]
        # A weak pull towards no effect keeps a handful of clicks from saying "infinitely steep".
        fit = fit_linear(columns, self.clicks, penalty=np.array([0.1]))
        variance = float(robust_covariance(fit, columns, self.clicks)[0, 0])
        if len(self.clicks.totals) < LEAST:  # so few hardly differ among themselves, which looks like certainty
            variance = max(variance, 1.0 / float(fit.curvature[0, 0]))
        return float(fit.coefficients[0]), math.sqrt(variance)

    def examination(self, table: Exposures, longest: int) -> list[float]:
        """(longest,) examination relative to the top, from these items alone: a power law, bent where they insist."""
        basis = PositionBasis.up_to(longest)
        _, fit = choose_bend(basis, self.clicks, basis.columns(table.position[self.rows]), penalty=np.zeros(0))
        effect = falling(np.minimum(basis.table @ fit.coefficients, 0.0))
        return np.exp(effect).round(6).clip(1e-6).tolist()

    def severity_of(self, table: Exposures, effect: Floats) -> float:
        """η of the power law nearest to a position effect (n rows of the table) on these items' own moves."""
        clicks, weight = self.clicks, table.shown[self.rows]
        total = segment_sum(weight, clicks.offsets)

        def inside(values: Floats) -> Floats:
            return values - (segment_sum(weight * values, clicks.offsets) / total)[clicks.segment]

        place, said = inside(-np.log(table.position[self.rows].astype(np.float64))), inside(effect[self.rows])
        return float((weight * place) @ said / max(float((weight * place) @ place), 1e-12))

    def queries(self, table: Exposures) -> int:
        """How many queries they are of."""
        return len(np.unique(table.segment[self.rows[self.clicks.offsets[:-1]]]))

    def gain_by_query(self, table: Exposures, effect: Floats) -> Floats:
        """(queries,) log-likelihood that a position effect (n rows of the table) adds to none."""
        by_item = self.clicks.log_likelihood(effect[self.rows]) - self.clicks.log_likelihood(np.zeros(len(self.rows)))
        query = table.segment[self.rows[self.clicks.offsets[:-1]]]
        return np.bincount(query, weights=by_item, minlength=table.n_queries).astype(np.float64)
