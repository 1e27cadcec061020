"""The referee's findings in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unskew._words import percent
from unskew.control.click_fit import ClickFit
from unskew.control.evidence import Specification
from unskew.control.interventions import FAR, Interventions
from unskew.control.stack import Stack

# Standard errors of half a 95 % interval.
HALF = 1.96
# Half an interval that is narrow enough to say of η that it is about 0.
NARROW = 0.25
# Why moved items do not count.
MOVED_TO_TASTE = (
    "Beside what moved items say, relevance would run against the production ranker's own order: chance did not move "
    "them."
)
# What is done where the position effect is an upper bound of the examination.
MIDDLE = (
    "Examination lies between none and all of it, and the middle is taken. Have a few results shuffled, if you can."
)


def position_words(
    fit: ClickFit, position: Specification, *, beside: Stack | None = None, overruled: bool = False
) -> str:
    """Whether position matters, how much it explains, and how steep it is; intervals are 95 %.

    beside : the position effect that is left beside the examination, where that was given;
    overruled : moved items tell of a position effect, whatever held-out clicks say.
    """
    stack, clicks = fit.stack, float(fit.used.totals.sum())
    per_click = f"{position.gain / clicks:+.3f} a click ({position.low / clicks:+.3f} to {position.high / clicks:+.3f})"
    if beside is not None:
        return _about_given(beside, position, per_click)
    if fit.basis.size == 0:
        return "Everything was shown at one position, so there is no position effect to correct."
    steep = f"η = {stack.severity:.2f} ± {HALF * stack.severity_error:.2f}"
    if position.found:
        rising = " Clicks rise with position: is 1 really the top?" if stack.severity < 0 else ""
        return (
            f"The position effect explains held-out clicks ({per_click} in log-likelihood; {steep}): "
            f"{_examined(fit)}.{rising}"
        )
    said = f"A position effect does not help to predict held-out clicks ({per_click} in log-likelihood; {steep})"
    if overruled:
        return f"{said}."
    if position.high >= 0 and abs(stack.severity) > HALF * stack.severity_error:
        return f"{said}: the log is too small to tell whether a correction is needed, so none is made."
    return f"{said}: no correction is needed here{'' if position.high < 0 else ', or the log is too small to tell'}."


def _about_given(beside: Stack, position: Specification, per_click: str) -> str:
    said = f"({per_click} in log-likelihood)"
    left = _left_over(beside)
    if position.found:
        return f"The examination that was given explains held-out clicks {said}.{left}"
    if not left and position.low < position.high:
        left = " Is it that of this log?" if position.high < 0 else " The log may be too small to tell."
    return f"The examination that was given does not help to predict held-out clicks {said}.{left}"


def _left_over(beside: Stack) -> str:
    """A warning where clicks go with position beyond the examination that was given."""
    if abs(beside.severity) <= FAR * beside.severity_error:
        return ""
    way = "fall" if beside.severity > 0 else "rise"
    power = f"{_power(beside.severity)} ± {HALF * beside.severity_error:.2f}"
    return f" Beside it clicks still {way} with position, as {power} does: is it that of this log?"


def _power(severity: float) -> str:
    """Examination that falls with this severity.

    >>> _power(0.5), _power(-0.5)
    ('k^−0.50', 'k^0.50')
    """
    return f"k^{-severity:.2f}".replace("^-", "^−")


def _examined(fit: ClickFit) -> str:
    """A lower position beside the highest that anything was shown at."""
    first, last = int(fit.used.position.min()), fit.basis.knots[-1]
    at = min(first + 4, last)
    share = float(np.exp((fit.basis.table[at - 1] - fit.basis.table[first - 1]) @ fit.stack.effect))
    top = "the top" if first == 1 else f"position {first}"
    if share > 2:
        return (
            f"position {at} is examined {min(share, 99):.0f} times as often as {top}{' or more' if share > 99 else ''}"
        )
    return f"position {at} is examined {percent(share)} as often as {top}"


def use_words(method: str, settings: Mapping[str, Any], *, of_moved: bool) -> str:
    """What to do; `of_moved` where the examination is that of the moved items."""
    told = "the examination of the moved items" if of_moved else "half of the position effect"
    parts = [told] if "examination" in settings else []
    parts += [f"terms={settings['terms']!r}"] if "terms" in settings else []
    return f"Use {method}{' with ' if parts else ''}{' and '.join(parts)}."


def terms_words(
    terms: Sequence[Specification], *, used: bool, sure: bool, shuffle: bool = True, given: bool = False
) -> str:
    """What the control terms add.

    used : whether there is a correction that they can be part of; sure : something else than the model says what
    examination is; shuffle : nothing in the log speaks against the model's position effect as an upper bound;
    given : the examination was given, and may be wrong.
    """
    if not terms:
        return ""
    top = max(terms, key=lambda one: (one.found, one.gain))
    interval = f"{top.low:+.1f} to {top.high:+.1f}"
    if top.unused:
        return "The control terms add nothing: held-out clicks would rather do without any."
    if not top.found:
        return f"The control terms add nothing beyond chance (at best {top.gain:+.1f}, {interval})."
    doubt = ", or that examination is not that of this log" if given else ""
    said = (
        f"The control terms {top.name.removeprefix('position + ')} add {top.gain:+.1f} ({interval}): the production "
        f"ranker used something that the features do not show, or the model has not learnt all that they do{doubt}."
    )
    if not used:
        return f"{said} Without a position effect there is nothing to correct with them."
    if sure:
        return said
    if not shuffle:
        return f"{said} The same may have steepened the position effect, so that half of it is taken for examination."
    return f"{said} The same may have steepened the position effect, and nothing here tells by how much. {MIDDLE}"


def moved_words(moved: Interventions | None, *, by_chance: bool) -> str:
    """What items say that were seen at several positions; not `by_chance` where terms were found beside the effect."""
    if moved is None:
        return "No item was shown at several positions, so nothing can check this by itself."
    said = f"{moved.items:,} items were moved: if by chance, their clicks alone say η = {moved.severity:.2f} ± "
    said += f"{HALF * moved.severity_error:.2f}"
    if not by_chance and moved.overrules:
        return f"{said}, less than the model's {moved.of_model:.2f}."
    if not by_chance and moved.refuted:
        return (
            f"{said}, more than the model's {moved.of_model:.2f}. Lists made to each person's taste look so; if you "
            f"shuffled them yourself, give that as the examination, {_power(moved.severity)}."
        )
    if not by_chance:
        return (
            f"{said}; no less than the model beyond chance, so that it cannot be relied upon that chance moved them. "
            f"If you shuffled them yourself, give that as the examination, {_power(moved.severity)}."
        )
    if moved.refuted:
        why = "clicks fall faster with position than it says"
        if moved.overrules:
            why = "what put items at the top also got them clicks, beyond what the features show"
        return f"{said}. The model says {moved.of_model:.2f} of them, and is refuted: {why}."
    if moved.confirmed:
        return said + ", and the model predicts how they change."
    near = moved.enough and HALF * moved.severity_error < NARROW and abs(moved.severity) <= HALF * moved.severity_error
    if near and abs(moved.of_model) < NARROW:
        return said + ": where an item stands hardly matters, as the model says too."
    return said + "; too little to confirm or refute the model."
