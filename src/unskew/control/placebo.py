"""A placebo for a log: does the correction do more with the true residuals than with shuffled ones?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unskew._options import Preset
from unskew.data.clicks import ClickLog
from unskew.data.holdout import hold_out
from unskew.errors import LogError


@dataclass(frozen=True)
class PlaceboResult:
    """Held-out judgement and share of gain of the control terms, with true and with permuted residuals."""

    true_score: float
    permuted_score: float
    true_gain_share: float | None
    permuted_gain_share: float | None

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @property
    def text(self) -> str:
        better = self.true_score - self.permuted_score
        word = "more" if better > 0 else "no more"
        return (
            f"With permuted residuals the held-out score is {self.permuted_score:.4f}, with the true ones "
            f"{self.true_score:.4f}: the residuals carry {word} than chance would."
        )


def placebo(log: ClickLog, *, preset: Preset = "smoke", seed: int = 0, **settings: Any) -> PlaceboResult:
    """Fit the corrected ranker twice on the same split, T as it is and T permuted over rows (min-max, one setting)."""
    from unskew.control.estimator import ControlFunctionRanker

    train, held = hold_out(log, seed=seed)
    if held is None:
        raise LogError("A placebo needs at least 50 queries with clicks, so that a fifth of them can be held out.")
    fits = []
    for kind in (None, "permuted"):
        model = ControlFunctionRanker(
            transformation="minmax", preset=preset, placebo=kind, tune_on="debiased", random_state=seed, **settings
        )
        fits.append(model.fit(train, validation=held))
    scores = [max(candidate.score or 0.0 for candidate in model.candidates_) for model in fits]
    shares = [model.outcome_.extra["control_gain_share"] for model in fits]
    return PlaceboResult(scores[0], scores[1], shares[0], shares[1])
