"""The position-based click model: an item is clicked when it is looked at and looks relevant."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def examination(longest: int, *, eta: float) -> Floats:
    """(longest,) the probability that a position is looked at, (1/k)^η for k = 1, 2, …

    >>> examination(4, eta=1.0)
    array([1.        , 0.5       , 0.33333333, 0.25      ])
    """
    return np.arange(1, longest + 1, dtype=np.float64) ** -eta


def perceived_relevance(grades: npt.ArrayLike, *, noise: float, max_grade: int) -> Floats:
    """The probability that an item looks relevant: ε + (1 − ε)(2^grade − 1)/(2^max − 1); grades may be fractional.

    >>> perceived_relevance([0, 1, 2], noise=0.1, max_grade=2)
    array([0.1, 0.4, 1. ])
    """
    share = (np.exp2(np.asarray(grades, dtype=np.float64)) - 1.0) / (2.0**max_grade - 1.0)
    return noise + (1.0 - noise) * share


def draw_clicks(probability: Floats, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Independent clicks, one for every impression; probability : (n,) examination · perceived relevance.

    >>> draw_clicks(np.array([1.0, 0.0]), np.random.default_rng(0))
    array([ True, False])
    """
    return rng.random(len(probability)) < probability
