"""Fitting a method by name to a log, with something to choose its settings on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unskew._options import Preset
from unskew._words import percent
from unskew.control.verdict import Verdict
from unskew.data.clicks import ClickLog
from unskew.data.fingerprint import fingerprint
from unskew.data.holdout import HOLDOUT_SHARE, hold_out
from unskew.data.ranking import RankingData
from unskew.method import Method
from unskew.recommended import Recommended
from unskew.registry import MethodInfo, make_method, resolve


@dataclass(frozen=True)
class Fitted:
    """A fitted method and how it came about.

    chosen_on : in words, what its settings were chosen on.
    verdict : what the referee said, if the method was left to it.
    """

    method: Method
    info: MethodInfo
    ranker: str
    chosen_on: str
    seconds: float
    verdict: Verdict | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able summary for the command line and the manifest."""
        bias = self.method.bias_
        return {
            "method": self.info.name,
            "ranker": self.ranker,
            "chosen_on": self.chosen_on,
            "referee": None if self.verdict is None else self.verdict.to_dict(),
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

    "default" leaves the choice to the referee; what comes back is the method that it chose.

    prepare : may hand the method what it need not work out itself; its settings are put back after the fit.
    """
    info = resolve(method)
    model = make_method(info.name, ranker=ranker, preset=preset, random_state=seed, n_jobs=n_jobs, **settings)
    if "progress" in model.get_params(deep=False):
        model.set_params(progress=progress)
    was_given, whole = validation is not None, log
    if not was_given and model.chooses:
        log, validation = hold_out(log, seed=seed)
    started = time.perf_counter()
    given = model.get_params(deep=False)
    if prepare is not None:
        prepare(model)
    model.fit(log, validation=validation)
    model.set_params(**given)
    seconds = time.perf_counter() - started
    verdict = getattr(model, "verdict_", None)
    if isinstance(model, Recommended):
        model, validation, info = model.method_, model.validation_, resolve(model.method_.name)
    if log is not whole:
        model.fingerprint_ = fingerprint(whole)
    chosen_on = _chosen_on(model, validation)
    if validation is not None and not was_given:
        chosen_on = f"{percent(HOLDOUT_SHARE)} of the log's queries, held out: {chosen_on}"
    return Fitted(model, info, ranker or info.rankers[0], chosen_on, seconds, verdict)


def _chosen_on(model: Method, validation: ClickLog | RankingData | None) -> str:
    """What the settings of a fitted method were chosen on, in words."""
    if not model.chooses:
        return "clicks that the method itself held out"
    if validation is None:
        taken = ", ".join(f"{name} {value}" for one in model.candidates_ for name, value in one.setting.items())
        return f"nothing, for the log is too small to hold queries out{taken and f': {taken}'}"
    data = validation.data if isinstance(validation, ClickLog) else validation
    queries = len(validation.queries) if isinstance(validation, ClickLog) else data.n_queries
    tune_on = model.get_params(deep=False).get("tune_on", "auto")
    if tune_on == "grades" or (tune_on == "auto" and data.grades is not None):
        return f"human grades of {queries:,} queries"
    debiased = tune_on == "debiased" or (tune_on == "auto" and model.debiases)
    return f"{'debiased clicks' if debiased else 'clicks'} of {queries:,} queries"
