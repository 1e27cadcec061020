"""When control terms are found: how much of the position effect is examination?

Control terms that predict clicks say that items were put where they stood for reasons which clicks share and the
features do not show. The same reasons then steepen the position effect: a position is an expected place and a shift,
and h(shift) can be told from b by its bends alone, so that the linear part of h passes for position. If rankers raise
what people click, what was estimated is an upper bound of the examination, and "none" is a lower one. The middle is
never off by more than half of it, and h, with the position effect held there, is free to take the rest.

Items moved by chance can tell more: they then say less than the model, and overrule it. If they say as much, they were
hardly moved by chance (lists made to each person's taste), since the same reasons steepen what they say.
"""

from __future__ import annotations

import numpy as np

from unskew.control.click_fit import ClickFit
from unskew.control.position_effect import falling

# The share of the position effect that is taken for examination.
TAKEN = 0.5


def bounded(fit: ClickFit) -> bool:
    """Whether clicks fall with position, so that the examination lies between none and the estimate."""
    return fit.basis.size > 0 and fit.stack.severity > 0


def taken_examination(fit: ClickFit, longest: int) -> tuple[float, ...]:
    """(longest,) examination relative to the top if a share of the position effect is it; it never rises."""
    effect = fit.basis.columns(np.arange(1, longest + 1)) @ fit.stack.effect
    taken = falling(np.minimum(TAKEN * effect, 0.0))
    return tuple(np.exp(taken).round(6).clip(1e-6).tolist())
