"""Caution: where relevance follows the production ranker's own order, less of the position effect is corrected.

A strong ranker that shows the same list every time leaves little that tells relevance from position: along the expected
place m(x) the sum of the two slopes is well known, how it divides is not. Taking too little for position then hardly
changes how items are ranked, because f follows m anyhow; taking too much turns f against m, and ranks worse than no
correction. So where f follows m closely, its slope along m is raised by up to a half, at the expense of the position
effect; less so where items were moved, which tell the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unskew._segments import segment_mean
from unskew._words import percent
from unskew.control.aggregate import Exposures
from unskew.control.click_model import QueryClicks
from unskew.control.interventions import MovedItems
from unskew.control.position_effect import PositionBasis
from unskew.control.stack import Stack, fit_stack

Floats = npt.NDArray[np.float64]

# Standard errors of η to the lower end of its interval, where f follows m more closely than at the estimate.
LOWER = 2.0
# The agreement at which caution begins, and at which it is whole.
BEGINS, WHOLE = 0.75, 0.9
# How far it goes: the share of f's slope along m that is added to it, and the share of the position effect that this
# may take. All four were chosen on MQ2008 and the development half of MQ2007.
RAISED, LEFT = 0.5, 0.2
# A standard error of η, from moved items alone, that leaves half of the caution.
KNOWN = 0.1
# A smaller share changes nothing that anybody would see.
WORTH_SAYING = 0.05


@dataclass(frozen=True)
class Caution:
    """How much of the position effect is left to relevance, and why.

    agreement : correlation, inside queries, of f with the expected place: as large as it may well be, at the lower end
        of the effect's interval or, if that is nearer, where f's slope along m is half as large again.
    left : the share of the effect that is left to relevance, 0 to LEFT.
    weights : part → weight, fitted beside the rest of the effect.
    """

    agreement: float
    left: float
    weights: dict[str, float]

    @property
    def words(self) -> str:
        return caution_words(self.agreement, self.left)


def be_cautious(basis: PositionBasis, table: Exposures, parts: Mapping[str, Floats], stack: Stack) -> Caution:
    """Look how far relevance and the expected place agree; parts are (n,) held-out scores of the table's rows."""
    effect, steep = basis.columns(table.position) @ stack.effect, stack.severity
    slope, agreement = along_place(stack.weights, table, parts)
    more = RAISED * max(slope, 0.0)
    if steep <= 0 or more == 0:
        return Caution(agreement, 0.0, stack.weights)
    back = min(LOWER * stack.severity_error, more)
    _, agreement = along_place(_weights(table, parts, effect + back * np.log(table.position)), table, parts)
    close = float(np.clip((agreement - BEGINS) / (WHOLE - BEGINS), 0.0, 1.0))
    left = close * min(LEFT, more / steep) * _unknown(table)
    return Caution(agreement, left, _weights(table, parts, (1.0 - left) * effect) if left else stack.weights)


def _unknown(table: Exposures) -> float:
    """1 where no item was moved, near 0 where moved items alone tell η: e² / (e² + KNOWN²), e its standard error."""
    moved = MovedItems.of(table)
    if moved is None:
        return 1.0
    _, error = moved.severity(table)
    return error**2 / (error**2 + KNOWN**2)


def _weights(table: Exposures, parts: Mapping[str, Floats], effect: Floats) -> dict[str, float]:
    """The weights of the parts beside a position effect (n,) that is held fixed."""
    clicks = QueryClicks.of(table)
    fixed = replace(clicks, log_shown=clicks.log_shown + effect)
    return fit_stack(PositionBasis.up_to(1), table.position, fixed, parts).weights


def along_place(weights: Mapping[str, float], table: Exposures, parts: Mapping[str, Floats]) -> tuple[float, float]:
    """Slope and correlation of f with the expected place inside queries; 0 where one of them says nothing."""
    f = sum((weights[name] * part for name, part in parts.items() if name != "terms"), np.zeros(len(table)))
    f, place = (values - segment_mean(values, table.offsets)[table.segment] for values in (f, parts["place"]))
    both, of_f, of_place = float(f @ place), float(f @ f), float(place @ place)
    return (both / of_place, both / float(np.sqrt(of_f * of_place))) if of_f > 0 < of_place else (0.0, 0.0)


def caution_words(agreement: float | None, left: float | None) -> str:
    """What is left to relevance and why; nothing where nobody would see it.

    >>> caution_words(0.5, 0.0)
    ''
    """
    if agreement is None or left is None or left < WORTH_SAYING:
        return ""
    return (
        f"Relevance may well follow the production ranker's own order (correlation {agreement:.2f}), so that little "
        "tells it from position. Correcting too much costs more there than too little, and "
        f"{percent(left)} of the position effect is left to relevance. A few shuffled results would tell."
    )
