"""The method `default`: what the referee recommends on the log at hand."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

from unskew._options import Preset, TuneOn
from unskew.baselines.base import RankerMethod
from unskew.baselines.naive import Naive
from unskew.control.full import FullControlFunction
from unskew.control.groundwork import Shared
from unskew.control.known_examination import Examination
from unskew.control.referee import recommend
from unskew.control.verdict import Verdict
from unskew.data.clicks import ClickLog
from unskew.data.fingerprint import fingerprint
from unskew.data.holdout import hold_out
from unskew.data.ranking import RankingData
from unskew.errors import UnskewWarning
from unskew.method import Method, Outcome


class Recommended(RankerMethod):
    """Ask the referee, then fit what it says: the full control function, or naive where no correction is needed.

    The referee looks at clicks alone and spends a fixed budget (`unskew.control.referee.Budget`).

    ranker : "lambdamart" or "dnn".
    preset : "default", "paper" or "smoke".
    examination : by position, where it is known; the referee and the full control function then take it as given.
    tune_on : what validation is judged by if naive is recommended; the full control function holds out clicks itself.

    Learnt: verdict_ (what the referee said, and why), method_ (the fitted method), validation_ (what it chose on).

    >>> from unskew.simulation.log import simulate
    >>> from unskew.simulation.synthetic import synthetic_collection
    >>> log = simulate(synthetic_collection(60, longest=15, typical=10, features=8), seed=1)
    >>> Recommended(preset="smoke", n_jobs=1).fit(log).method_.name
    'full-cfc'
    """

    name: ClassVar[str] = "default"
    chooses: ClassVar[bool] = False

    def __init__(
        self,
        *,
        ranker: Any = "lambdamart",
        examination: Examination | None = None,
        preset: Preset = "default",
        tune_on: TuneOn = "auto",
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(ranker=ranker, preset=preset, tune_on=tune_on, random_state=random_state, n_jobs=n_jobs)
        self.examination = examination

    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome:
        self._make(FullControlFunction)._check_settings(log)
        shared: Shared = self.__dict__.pop("_shared", {})
        by_id: bool = self.__dict__.pop("_by_id", False)
        verdict = self.verdict_ = recommend(
            log,
            examination=self.examination,
            preset=self.preset,
            seed=self.random_state,
            n_jobs=self.n_jobs,
            shared=shared,
        )
        method = self.method_ = self._method(log, verdict, shared)
        whole = log
        if validation is None and method.chooses:
            log, validation = hold_out(log, seed=self.random_state, by_id=by_id)
        self.validation_ = validation
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnskewWarning)  # about the log: said before this method began
            method.fit(log, validation=validation)
        if log is not whole:
            method.fingerprint_ = fingerprint(whole)
        outcome = method.outcome_
        method.outcome_ = replace(outcome, extra={**outcome.extra, "referee": verdict.to_dict()})
        return method.outcome_

    def share(self, groundwork: Shared) -> Self:
        """For the next fit: what other fits to the same log have in common with it, as in the full control function."""
        self._shared = groundwork
        return self

    def hold_out_by_id(self) -> Self:
        """For the next fit, to a log that lies in files: hold out the queries that would be held out in memory."""
        self._by_id = True
        return self

    def _method(self, log: ClickLog, verdict: Verdict, shared: Shared) -> Method:
        if verdict.method == "naive":
            return self._make(Naive)
        method = self._make(FullControlFunction).set_params(**verdict.settings)
        return method.reuse(log, verdict.fit).share(shared)

    def _make(self, kind: Any) -> Any:
        known = kind._get_param_names()
        return kind(**{name: value for name, value in self.get_params(deep=False).items() if name in known})
