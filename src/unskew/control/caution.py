"""Caution: where relevance and the production ranker's order are nearly one, less of the position effect is corrected.

A strong ranker that shows the same list every time leaves little that tells relevance from position: only the sum of
the two slopes along the expected place m(x) is well known. Taking too little for position then hardly changes how
items are ranked, because f follows m anyhow; taking too much turns f against m, and ranks worse than no correction.
So where f follows m, even at the lower end of the effect's interval, a share of the effect is left to relevance; less
of it where clicks are on items that were seen at several positions, which tell the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unskew._segments import segment_mean
from unskew.control.aggregate import Exposures
from unskew.control.click_model import QueryClicks
from unskew.control.position_effect import PositionBasis
from unskew.control.stack import Stack, fit_stack

Floats = npt.NDArray[np.float64]

# Standard errors of η to the lower end of its interval.
LOWER = 2.0
# The agreement at which caution begins, and at which it is whole. Chosen on MQ2008 and the development half of MQ2007:
# a ranker trained on 1 % of the queries has 0.2 to 0.8 there, one trained on all of them 0.9 to 0.98.
BEGINS, WHOLE = 0.75, 0.9
# The share of the position effect that is then left to relevance.
LEFT = 0.2
# A smaller share changes nothing that anybody would see.
WORTH_SAYING = 0.05


@dataclass(frozen=True)
class Caution:
    """How much of the position effect is left to relevance, and why.

    agreement : correlation, inside queries, of f with the expected place, at the lower end of the effect's interval.
    left : the share of the effect that is left to relevance, 0 to LEFT.
    weights : part → weight, fitted beside the rest of the effect.
    """

    agreement: float
    left: float
    weights: dict[str, float]


def be_cautious(basis: PositionBasis, table: Exposures, parts: Mapping[str, Floats], stack: Stack) -> Caution:
    """Look how far relevance and the expected place agree; parts are (n,) held-out scores of the table's rows."""
    effect = basis.columns(table.position) @ stack.effect
    lower = effect + LOWER * stack.severity_error * np.log(table.position)
    agreement = _agreement(_weights(table, parts, lower), table, parts)
    left = 0.0
    if stack.severity > 0:
        left = LEFT * float(np.clip((agreement - BEGINS) / (WHOLE - BEGINS), 0.0, 1.0)) * _never_moved(table)
    weights = _weights(table, parts, (1.0 - left) * effect) if left else stack.weights
    return Caution(agreement, left, weights)


def _never_moved(table: Exposures) -> float:
    """The share of clicks on items that were seen at one position only."""
    _, item, places = np.unique(table.row, return_inverse=True, return_counts=True)
    return float(table.clicks[places[item] == 1].sum() / table.clicks.sum())


def _weights(table: Exposures, parts: Mapping[str, Floats], effect: Floats) -> dict[str, float]:
    """The weights of the parts beside a position effect (n,) that is held fixed."""
    clicks = QueryClicks.of(table)
    fixed = replace(clicks, log_shown=clicks.log_shown + effect)
    return fit_stack(PositionBasis.up_to(1), table.position, fixed, parts).weights


def _agreement(weights: Mapping[str, float], table: Exposures, parts: Mapping[str, Floats]) -> float:
    """The correlation of f with the expected place inside queries; 0 where one of them says nothing."""
    f = sum((weights[name] * part for name, part in parts.items() if name != "terms"), np.zeros(len(table)))
    f, place = (values - segment_mean(values, table.offsets)[table.segment] for values in (f, parts["place"]))
    size = float(np.sqrt((f @ f) * (place @ place)))
    return float(f @ place) / size if size > 0 else 0.0
