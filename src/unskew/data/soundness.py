"""What a user should be told about a log before a model is fitted to it."""

from __future__ import annotations

import warnings

import numpy as np

from unskew.data.clicks import ClickLog
from unskew.data.column_checks import COUNTS_TIMES_WEIGHTS
from unskew.data.feature_columns import copy_words, is_copy
from unskew.errors import LogError, UnskewWarning

# So many impressions tell whether a feature is the position, and so few whether it may be.
LOOKED_AT, GLANCE = 20_000, 50


def warn_about(log: ClickLog, *, clicks: bool = True) -> None:
    """Named warnings for what weakens a fit without making it wrong; an error for what leaves nothing to fit.

    clicks : whether it is clicks that are learnt from.
    """
    for text in weaknesses(log, clicks=clicks):
        warnings.warn(text, UnskewWarning, stacklevel=3)


def weaknesses(log: ClickLog, *, clicks: bool = True) -> list[str]:
    """Plain sentences about a log's weak spots."""
    if clicks and log.n_clicks == 0:
        raise LogError(
            "This log has no click at all, so there is nothing to learn from. "
            "Is the click column the right one, and does 1 mean clicked?"
        )
    if log.weight is not None and not (log.weight[log.click > 0] if clicks else log.weight).any():
        what = "click" if clicks else "impression"
        raise LogError(
            f"No {what} has a weight above 0, so there is nothing to learn from. Is the weight column right?"
        )
    found = []
    names = np.asarray(log.data.feature_names)
    low = np.fmin.reduce(log.data.features, axis=0)
    high = np.fmax.reduce(log.data.features, axis=0)
    empty, constant = np.isnan(low), low == high
    if (empty | constant).all():
        raise LogError("Every feature is constant or missing, so there is nothing to rank by.")
    if empty.any():
        found.append(_useless(names[empty], "missing in every row"))
    if constant.any():
        found.append(_useless(names[constant], "constant"))
    found += [
        f"{copy_words(name, 'position')} Leave it out (features=[...], --feature-columns)."
        for name in copies_of_position(log)
    ]
    if (sessions := log.n_counted_sessions) < log.data.n_features:
        found.append(
            f"There are fewer sessions ({sessions}) than features ({log.data.n_features}): "
            "treat the result as a trial run."
        )
    if log.n_sessions == log.n_impressions:
        found.append("Every session shows a single item: there is nothing to rank in this log.")
    if clicks and log.weight is not None and log.click.max() > 1 and log.weight.min() < log.weight.max():
        advice = "If the weights are numbers of impressions, leave the column out (weight=None, --weight none)."
        found.append(f"{COUNTS_TIMES_WEIGHTS} {advice}")
    clicked = log.clicked_positions
    if clicks and len(clicked) == 1:
        found.append(
            f"All clicks are at position {clicked[0]}: relevance and position cannot be told apart in this log."
        )
    return found


def copies_of_position(log: ClickLog) -> list[str]:
    """Features that equal the position, but for a constant, wherever a sample of the impressions looks."""
    looked_at = np.arange(log.n_impressions)
    if len(looked_at) > LOOKED_AT:
        looked_at = np.sort(np.random.default_rng(0).choice(log.n_impressions, LOOKED_AT, replace=False))
    row, position = log.row[looked_at], log.position[looked_at].astype(np.float32)
    if position.min() == position.max():
        return []
    glance = np.linspace(0, len(row) - 1, GLANCE).astype(np.int64)  # leaves few columns to be looked at closely
    shifts = log.data.features[row[glance]] - position[glance, None]
    candidates = np.flatnonzero((shifts == shifts[0]).all(axis=0))
    names = log.data.feature_names
    return [names[number] for number in candidates if is_copy(log.data.features[row, number], position)]


def _useless(names: np.ndarray, what: str) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:3]) + (" …" if len(names) > 3 else "")
    if len(names) == 1:
        return f"The feature {shown} is {what} and carries nothing."
    return f"{len(names)} features are {what} and carry nothing: {shown}."
