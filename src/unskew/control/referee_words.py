"""What the referee compares, and its findings in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unskew.control.click_fit import ClickFit
from unskew.control.interventions import Interventions


@dataclass(frozen=True)
class Specification:
    """A specification and what it adds to the one it is compared with.

    log_likelihood : of held-out clicks; gain, low, high : what it adds to `against`, with its interval.
    """

    name: str
    log_likelihood: float
    against: str | None = None
    gain: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @property
    def found(self) -> bool:
        """Whether it predicts held-out clicks better, beyond chance."""
        return self.low > 0


def position_words(fit: ClickFit, position: Specification) -> str:
    """Whether position matters, how much it explains, and how steep it is."""
    stack, clicks = fit.stack, float(fit.used.totals.sum())
    if fit.basis.size == 0:
        return "Everything was shown at one position, so there is no position effect to correct."
    steep = f"η = {stack.severity:.2f} ± {1.645 * stack.severity_error:.2f}"
    per_click = f"{position.gain / clicks:+.3f} a click ({position.low / clicks:+.3f} to {position.high / clicks:+.3f})"
    if not position.found:
        return (
            f"A position effect does not help to predict held-out clicks ({per_click} in log-likelihood; {steep}): "
            "no correction is needed here, or the log is too small to tell."
        )
    rising = " Clicks rise with position: is 1 really the top?" if stack.severity < 0 else ""
    at = min(5, fit.basis.knots[-1])
    share = float(np.exp(fit.basis.table[at - 1] @ stack.effect))
    return (
        f"The position effect explains held-out clicks ({per_click} in log-likelihood; {steep}): "
        f"position {at} is examined {share:.0%} as often as the top.{rising}"
    )


def terms_words(terms: Sequence[Specification], best: Specification | None) -> str:
    """What the control terms add."""
    if not terms:
        return ""
    if best is None:
        top = max(terms, key=lambda one: one.gain)
        return f"The control terms add nothing here (at best {top.gain:+.1f}, {top.low:+.1f} to {top.high:+.1f})."
    name = best.name.removeprefix("position + ")
    return (
        f"The control terms {name} add {best.gain:+.1f} ({best.low:+.1f} to {best.high:+.1f}): the production ranker "
        "used something that the features do not show."
    )


def moved_words(moved: Interventions | None) -> str:
    """What items say that were seen at several positions."""
    if moved is None:
        return "No item was shown at several positions, so nothing can check this by itself."
    said = f"{moved.items:,} items were moved: their clicks alone say η = {moved.severity:.2f} ± "
    said += f"{1.645 * moved.severity_error:.2f}"
    if moved.confirmed:
        return said + ", and the model predicts how they change."
    return said + "; too little to confirm or refute the model."
