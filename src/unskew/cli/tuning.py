"""`unskew fit --tune-on`, checked before the work: default and full-cfc would come to it only at their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.errors import SettingError

if TYPE_CHECKING:
    from unskew.data.ranking import RankingData

# They choose their settings on clicks that they hold out, and fit for long before they look at anything else.
LATE = ("default", "full-cfc")


def check_tune_on(method: str, tune_on: str | None, *, judged: bool) -> None:
    """Refuse what cannot be done whatever the log; judged : settings are chosen on judged data."""
    if method not in LATE:
        return
    if tune_on == "debiased":
        fits = "fits full-cfc or naive, which do not" if method == "default" else "does not"
        raise SettingError(
            f"--tune-on debiased is for methods that debias clicks, such as cfc, but {method} {fits}. Leave --tune-on "
            "out, or give clicks, or grades where there are any."
        )
    if tune_on == "clicks" and judged:
        raise SettingError(
            "--tune-on clicks needs a log, but --judged has grades only. Give --valid, or leave one out."
        )


def check_grades(method: str, tune_on: str | None, data: RankingData) -> None:
    """Refuse grades where there are none; data : what settings are chosen on, or the log that it is held out of."""
    if method in LATE and tune_on == "grades" and data.grades is None:
        raise SettingError(
            "--tune-on grades needs human grades, but there are none in what settings are chosen on. Give --judged "
            "DATA, name the column with --relevance, or leave --tune-on out."
        )
