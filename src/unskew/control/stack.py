"""The stack: one small conditional click model over cross-fitted parts, with the position effect in full.

Scores of queries that a part did not see enter with weights; the position effect is estimated beside them. A part
that shrank too much is stretched back here, which is why the position curve is read off the stack: given parts that
carry relevance, what is left of position is examination.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.control.click_model import QueryClicks
from unskew.control.conditional import fit_linear, robust_covariance
from unskew.control.position_effect import PositionBasis, choose_bend

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Prior:
    """What is expected of a part's weight, how far it may easily be off, and whether it may be negative."""

    expected: float
    spread: float
    signed: bool = False


# Few clicks cannot tell the two sets of trees apart, and an even mixture varies less than the better looking one. The
# expected place is there to be held fixed while the position effect is estimated, so its weight is nearly free.
PRIORS = {
    "trees": Prior(0.5, 0.25),
    "boosted": Prior(0.5, 0.25),
    "place": Prior(0.0, 1.0, signed=True),
    "terms": Prior(1.0, 0.25),
}


@dataclass(frozen=True, eq=False)
class Stack:
    """A fitted stack.

    weights : part → weight.
    effect : (J,) coefficients of the position basis, effect[0] = η; covariance : (J, J), by query.
    likelihood : (queries,) log-likelihood of every query.
    bend : τ of the position effect.
    """

    weights: dict[str, float]
    effect: Floats
    covariance: Floats
    likelihood: Floats
    bend: float

    @property
    def severity(self) -> float:
        """η of the power law."""
        return float(self.effect[0]) if len(self.effect) else 0.0

    @property
    def severity_error(self) -> float:
        return float(np.sqrt(self.covariance[0, 0])) if len(self.effect) else 0.0


def fit_stack(
    basis: PositionBasis,
    position: IntArray,
    clicks: QueryClicks,
    parts: Mapping[str, Floats],
) -> Stack:
    """Fit the weights of the parts (each (n,)) around their expected values, and the position effect with them."""
    names = [name for name, values in parts.items() if np.ptp(values) > 0]
    bend: float | None = None
    while True:
        columns = np.column_stack([basis.columns(position), *(parts[name] for name in names)])
        priors = [PRIORS[name] for name in names]
        penalty = np.array([prior.spread**-2.0 for prior in priors])
        centre = np.array([prior.expected for prior in priors])
        if bend is None:
            bend, fit = choose_bend(basis, clicks, columns, penalty=penalty, centre=centre)
        else:
            whole = np.r_[basis.penalty(bend), penalty]
            fit = fit_linear(columns, clicks, penalty=whole, centre=np.r_[np.zeros(basis.size), centre])
        weights = fit.coefficients[basis.size :]
        bound = np.where([prior.signed for prior in priors], np.inf, weights)
        if (bound >= 0).all():
            break
        names.pop(int(np.argmin(bound)))
    covariance = robust_covariance(fit, columns, clicks)
    return Stack(
        weights={name: float(dict(zip(names, weights)).get(name, 0.0)) for name in parts},
        effect=fit.coefficients[: basis.size],
        covariance=covariance[: basis.size, : basis.size],
        likelihood=clicks.log_likelihood(columns @ fit.coefficients),
        bend=bend,
    )


def cross_stack(
    basis: PositionBasis, position: IntArray, clicks: QueryClicks, parts: Mapping[str, Floats], fold: IntArray
) -> tuple[Floats, list[Stack]]:
    """(n,) scores of every row, position effect included, by a stack that did not see its query; and the stacks."""
    scores = np.zeros(len(position))
    stacks = []
    columns = basis.columns(position)
    for k in range(int(fold.max()) + 1):
        stack = fit_stack(basis, position, clicks.without(fold == k), parts)
        unseen = (fold == k)[clicks.segment]
        mixture = sum((weight * parts[name] for name, weight in stack.weights.items()), columns @ stack.effect)
        scores[unseen] = mixture[unseen]
        stacks.append(stack)
    return scores, stacks
