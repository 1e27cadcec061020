"""When something moved items and clicks alike: how much of the position effect is examination?

Control terms that predict clicks say that items were put where they stood for reasons which clicks share and the
features do not show. The same reasons then steepen the position effect: a position is an expected place and a shift,
and h(shift) can be told from b by its bends alone, so that the linear part of h passes for position. If rankers raise
what people click, what was estimated is an upper bound of the examination, and "none" is a lower one. The middle is
never off by more than half of it, and h, with the position effect held there, is free to take the rest.

Terms are not always found. But an effect that is far too steep leaves its mark on relevance: f then runs against the
order that the ranker makes of the features, as if it had put the worst on top. Rankers seldom do; common causes do it
wherever they are strong.

Items moved by chance can tell more: they then say less than the model, and overrule it. If they say as much, or if f
runs against the ranker beside what they say, they were hardly moved by chance (lists made to each person's taste),
since the same reasons steepen what they say.
"""

from __future__ import annotations

import numpy as np

from unskew.control.caution import along_place
from unskew.control.click_fit import ClickFit
from unskew.control.position_effect import falling

# The share of the position effect that is taken for examination.
TAKEN = 0.5
# The agreement of f with the expected place below which it runs against the ranker. Of 150 simulated logs without a
# common cause (MQ2007's development half, MQ2008, 200 synthetic queries; rankers that saw a handful of queries) none
# was below −0.17.
AGAINST = -0.2
# The share of the placements' variance that the features must explain before there is an order of the ranker's to run
# against, beside what chance explains: d features explain d / n of n rows on average, and seldom (3 d + 10) / n.
LEAST_EXPLAINED = 0.01


def bounded(fit: ClickFit) -> bool:
    """Whether clicks fall with position, so that the examination lies between none and the estimate."""
    return fit.basis.size > 0 and fit.stack.severity > 0


def agreement(fit: ClickFit) -> float | None:
    """Correlation of f with the expected place inside queries, as large as it may well be where η is estimated.

    None where the features explain no more of the placements than chance would.
    """
    by_chance = (3 * len(fit.place.weights) + 10) / len(fit.table)
    if fit.place.r2 < LEAST_EXPLAINED + by_chance:
        return None
    if fit.caution is not None:
        return fit.caution.agreement
    return along_place(fit.weights, fit.used, fit.parts)[1]


def runs_against(agreed: float | None) -> bool:
    """Whether so little agreement says that f runs against the ranker's own order."""
    return agreed is not None and agreed < AGAINST


def against_words(agreed: float | None) -> str:
    """What it means that f runs against the ranker; nothing where it does not.

    >>> against_words(0.4)
    ''
    """
    if agreed is None or not runs_against(agreed):
        return ""
    return (
        f"What is left as relevance runs against the production ranker's own order (correlation {agreed:.2f}), as "
        "happens where something else moved items and clicks alike, which steepens the position effect."
    ).replace("-", "−")


def whole_effect_words(agreed: float | None) -> str:
    """A warning where the whole effect is corrected although f then runs against the ranker; else nothing."""
    said = against_words(agreed)
    return f"{said} `default` would take half of it, or what moved items tell; or give the examination." if said else ""


def taken_examination(fit: ClickFit, longest: int) -> tuple[float, ...]:
    """(longest,) examination relative to the top if a share of the position effect is it; it never rises."""
    effect = fit.basis.columns(np.arange(1, longest + 1)) @ fit.stack.effect
    taken = falling(np.minimum(TAKEN * effect, 0.0))
    return tuple(np.exp(taken).round(6).clip(1e-6).tolist())
