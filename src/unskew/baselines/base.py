"""What the methods share that train any ranker on lists: settings, judge, search, outcome."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unskew._options import Preset, TuneOn
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import FeatureError
from unskew.method import Method, Outcome, PositionCurve
from unskew.rankers.base import Judge
from unskew.rankers.make import make_ranker
from unskew.rankers.search import Trial, search


class RankerMethod(Method):
    """A method around a ranker.

    ranker : "lambdamart", "dnn", "xgboost", or a ranker of your own.
    preset : "default", "paper" or "smoke"; the ranker's settings.
    tune_on : what validation is judged by: "grades", "clicks", "debiased", or "auto" (grades where there are any).
    """

    def __init__(
        self,
        *,
        ranker: Any = "lambdamart",
        preset: Preset = "default",
        tune_on: TuneOn = "auto",
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.ranker = ranker
        self.preset = preset
        self.tune_on = tune_on
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check(self, log: ClickLog, validation: ClickLog | RankingData | None) -> None:
        super()._check(log, validation)
        ranker = self._ranker()
        if log.data.has_missing and not ranker.takes_missing:
            raise FeatureError(
                f"The log has missing features, which {type(ranker).__name__} cannot take. "
                "Fill them in, or use a ranker of trees (lambdamart, xgboost)."
            )

    def _ranker(self, **settings: Any) -> Any:
        return make_ranker(
            self.ranker, preset=self.preset, random_state=self.random_state, n_jobs=self.n_jobs, **settings
        )

    def _judge(self, validation: ClickLog | RankingData | None, *, terms: Any = None) -> Judge | None:
        if validation is None:
            return None
        from unskew.evaluation.judge import make_judge

        return make_judge(validation, tune_on=self.tune_on, terms=terms)

    def _outcome(
        self,
        log: ClickLog,
        trials: Iterable[Trial],
        judge: Judge | None,
        *,
        bias: PositionCurve | None = None,
        extra: dict[str, Any] | None = None,
    ) -> Outcome:
        """Search, and pack up the winner."""
        ranker, trial, candidates = search(trials, judge, cache={})
        return pack(ranker, trial, candidates, log, bias=bias, extra=extra)


def pack(
    ranker: Any,
    trial: Trial,
    candidates: Any,
    log: ClickLog,
    *,
    bias: PositionCurve | None = None,
    extra: dict[str, Any] | None = None,
) -> Outcome:
    """The outcome of a search: the winner in its own format, its columns named."""
    terms = () if trial.design.terms is None else trial.design.terms.names
    state = ranker.state((*log.data.feature_names, *terms))
    return Outcome(ranker=ranker, state=state, bias=bias, candidates=candidates, extra=extra or {})
