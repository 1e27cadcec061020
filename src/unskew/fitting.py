"""Fitting a method by name to a log, with something to choose its settings on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unskew._options import Preset
from unskew.data.clicks import ClickLog
from unskew.data.holdout import HOLDOUT_SHARE, hold_out
from unskew.data.ranking import RankingData
from unskew.errors import SettingError
from unskew.method import Method
from unskew.registry import MethodInfo, make_method, resolve


@dataclass(frozen=True)
class Fitted:
    """A fitted method and how it came about; `chosen_on` says in words what its settings were chosen on."""

    method: Method
    info: MethodInfo
    ranker: str
    chosen_on: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-able summary for the command line and the manifest."""
        bias = self.method.bias_
        return {
            "method": self.info.name,
            "ranker": self.ranker,
            "chosen_on": self.chosen_on,
            "seconds": round(self.seconds, 3),
            "candidates": [
                {"setting": c.setting, "score": c.score, "seconds": round(c.seconds, 3)}
                for c in self.method.candidates_
            ],
            "learnt": self.method.outcome_.extra,
            "position_curve": None
            if bias is None
            else {
                "position": bias.position,
                "value": bias.value,
                "low": bias.low,
                "high": bias.high,
                "confidence": bias.confidence,
            },
        }


def fit_method(
    log: ClickLog,
    *,
    method: str = "default",
    ranker: str | None = None,
    preset: Preset = "default",
    validation: ClickLog | RankingData | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[..., None] | None = None,
    prepare: Callable[[Method], None] | None = None,
    **settings: Any,
) -> Fitted:
    """Fit the named method; without validation data a fifth of the queries is held out to choose its settings on.

    prepare : may hand the method what it need not work out itself; its settings are put back after the fit.
    """
    info = resolve(method)
    model = make_method(info.name, ranker=ranker, preset=preset, random_state=seed, n_jobs=n_jobs, **settings)
    if "progress" in model.get_params(deep=False):
        model.set_params(progress=progress)
    chosen_on = _describe(validation)
    if validation is None and model.chooses:
        log, validation = hold_out(log, seed=seed)
        if validation is not None:
            chosen_on = f"{HOLDOUT_SHARE:.0%} of the log's queries, held out: {_describe(validation)}"
    started = time.perf_counter()
    given = model.get_params(deep=False)
    if prepare is not None:
        prepare(model)
    model.fit(log, validation=validation)
    model.set_params(**given)
    return Fitted(model, info, ranker or info.rankers[0], chosen_on, time.perf_counter() - started)


def _describe(validation: ClickLog | RankingData | None) -> str:
    if validation is None:
        return "nothing: the preset's last stage was taken"
    data = validation.data if isinstance(validation, ClickLog) else validation
    queries = len(validation.queries) if isinstance(validation, ClickLog) else data.n_queries
    if data.grades is not None:
        return f"human grades of {queries:,} queries"
    if isinstance(validation, ClickLog):
        return f"clicks of {queries:,} queries"
    raise SettingError("Judged data must have grades to choose settings on. Add a 'relevance' column.")
