"""FullControlFunction: relevance, position effect and control terms, told apart in one conditional click model.

The textbook control function has the endogenous regressor (here: the position) in its second stage, and the residual
of the first stage beside it. So has this one:

    clicks ~ query effect + f(x) + b_position + h(control terms),

and f alone is the ranking model. f is a mixture of boosted trees, of an additive model with trees on top of it, and of
the place that stage one expects, weighed by clicks on queries that each of them did not see.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from unskew._machine import native_threads
from unskew._options import Preset, TuneOn
from unskew.control.aggregate import Exposures
from unskew.control.click_fit import PRESETS, ClickFit, fit_clicks
from unskew.control.click_model import QueryClicks
from unskew.control.confounded import agreement, bounded
from unskew.control.forest_ranker import Forest
from unskew.control.groundwork import Shared
from unskew.control.known_examination import Examination, known_examination
from unskew.control.position_effect import PositionBasis, position_curve
from unskew.control.stack import Stack, fit_stack
from unskew.control.term_source import TermMaker, TermsName, TermSource
from unskew.control.transformations import PAPER_TRANSFORMATIONS
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import FeatureError, SettingError, check_choice, require_extra
from unskew.method import Candidate, Method, Outcome, PositionCurve

Floats = npt.NDArray[np.float64]


class FullControlFunction(Method):
    """The full control function: a click model whose relevance part is the ranker.

    ranker : "lambdamart" (trees) or "dnn" (a neural ranker).
    terms : None, "T" (the transformed residual), "phi" (Φ, residual by feature), "shift" (how far above the expected
        place an item usually stood), "moves" (that, and how far above its usual place it stood each time) or "auto":
        those that the referee finds, and the examination it then takes.
    transformation : T of the terms; with terms="auto" the referee chooses it too.
    examination : the chance of being looked at by position, 1 first, if an experiment has told; else it is estimated.
        Without it control terms are told from the position effect by the shape of h alone, which may fail.
    folds : queries are held out in so many parts; every part's model goes into the mixture.
    confidence : of the curve's intervals.
    preset : "default", "paper" (its tree sizes) or "smoke".
    tune_on : accepted like everywhere; settings are chosen by held-out clicks, and validation data only adds a figure.

    Learnt: clicks_ (the fitted parts), bias_ (the position curve with intervals), outcome_.extra (all in numbers).

    >>> from unskew.simulation.log import simulate
    >>> from unskew.simulation.synthetic import synthetic_collection
    >>> log = simulate(synthetic_collection(40, longest=15, typical=10, features=8), seed=1)
    >>> model = FullControlFunction(preset="smoke", n_jobs=1).fit(log)
    >>> sorted(model.outcome_.extra["weights"]), model.bias_.confidence
    (['boosted', 'place', 'trees'], 0.9)
    """

    name: ClassVar[str] = "full-cfc"
    chooses: ClassVar[bool] = False

    def __init__(
        self,
        *,
        ranker: Any = "lambdamart",
        terms: TermsName | Literal["auto"] | None = None,
        transformation: str = "minmax",
        examination: Examination | None = None,
        folds: int = 4,
        confidence: float = 0.9,
        preset: Preset = "default",
        tune_on: TuneOn = "auto",
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.ranker = ranker
        self.terms = terms
        self.transformation = transformation
        self.examination = examination
        self.folds = folds
        self.confidence = confidence
        self.preset = preset
        self.tune_on = tune_on
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome:
        self._check_settings(log)
        log_of, ready = self.__dict__.pop("_ready", (None, None))
        shared: Shared = self.__dict__.pop("_shared", {})
        terms, known, found = self._what_is_known(log, shared)
        started = time.perf_counter()
        fit_to = partial(self._fit_clicks, log, terms, known, shared)
        usable = ready is not None and log_of is log and terms is None and _alike(ready.examination, known)
        fit = self.clicks_ = ready if usable else fit_to()
        seconds = time.perf_counter() - started
        names = log.data.feature_names
        ranker: Any
        if self.ranker == "dnn":
            ranker, candidates = self._net(log, fit, fit_to)
            found["taught_by"] = candidates[0].setting["taught_by"]
        else:
            ranker = Forest(fit.forest(names), self.n_jobs)
            candidates = [Candidate({"terms": self._terms_used() or "none", "trees": fit.n_trees}, None, seconds)]
        candidates[0] = replace(candidates[0], score=self._judged(ranker, validation))
        return Outcome(
            ranker=ranker,
            state=ranker.state(names),
            bias=self._curve(fit.basis, fit.stack, log, known),
            candidates=candidates,
            extra={**facts(fit), **found},
        )

    def reuse(self, log: ClickLog, fit: ClickFit | None) -> Self:
        """Take a click model that the referee fitted to this log, instead of fitting it again.

        It has no control terms; where they are asked for, or another examination, it is left aside.
        """
        self._ready = log, fit
        return self

    def share(self, groundwork: Shared) -> Self:
        """For the next fit: take what other fits to the same log have in common with it, and leave the rest there."""
        self._shared = groundwork
        return self

    def _net(self, log: ClickLog, fit: ClickFit, fit_to: Any) -> tuple[Any, list[Candidate]]:
        from unskew.control.neural_clicks import fit_net_clicks

        net = fit_net_clicks(
            log, fit, fit_to, preset=self.preset, folds=self.folds, seed=self.random_state, n_jobs=self.n_jobs
        )
        return net.ranker, net.candidates

    def _curve(self, basis: PositionBasis, stack: Stack, log: ClickLog, known: Floats | None) -> PositionCurve:
        if known is not None:
            return PositionCurve(np.arange(1, len(known) + 1), known)
        return position_curve(
            basis,
            stack.effect,
            stack.covariance,
            confidence=self.confidence,
            first=int(log.position.min()),
        )

    def _fit_clicks(
        self,
        log: ClickLog,
        terms: TermMaker | None,
        known: Floats | None,
        shared: Shared,
        table: Exposures | None = None,
    ) -> ClickFit:
        # Its products are small: threads of BLAS would only spin where trees could grow.
        with threadpool_limits(1, user_api="blas"):
            return fit_clicks(
                log,
                table=table,
                examination=known,
                terms=terms,
                folds=self.folds,
                settings=PRESETS[self.preset],
                seed=self.random_state,
                threads=native_threads(self.n_jobs),
                shared=shared if table is None else None,
            )

    def _what_is_known(self, log: ClickLog, shared: Shared) -> tuple[TermMaker | None, Floats | None, dict[str, Any]]:
        """What makes the control columns, the examination, and what the referee said, where it was asked for them."""
        self.__dict__.pop("verdict_", None)
        asked, found = {name: getattr(self, name) for name in ("terms", "transformation", "examination")}, {}
        if self.terms == "auto":
            from unskew.control.referee import recommend

            verdict = recommend(
                log,
                examination=self.examination,
                preset=self.preset,
                seed=self.random_state,
                n_jobs=self.n_jobs,
                shared=shared,
            )
            self.verdict_ = verdict
            found = {"referee": verdict.to_dict()}
            asked |= {"terms": None, **verdict.settings}
        known = known_examination(asked["examination"], log.longest_list)
        if asked["terms"] is None:
            return None, known, found
        source = TermSource(log, self.random_state, self.n_jobs)
        return source.maker(asked["terms"], asked["transformation"]), known, found

    def _terms_used(self) -> str | None:
        return self.verdict_.settings.get("terms") if self.terms == "auto" else self.terms

    def _judged(self, ranker: Any, validation: ClickLog | RankingData | None) -> float | None:
        if validation is None:
            return None
        from unskew.evaluation.judge import make_judge

        judge = make_judge(validation, tune_on="auto" if self.tune_on == "debiased" else self.tune_on)
        return None if judge is None else judge(ranker.predict(judge.features))

    def _check_settings(self, log: ClickLog | None = None) -> None:
        check_choice("ranker", self.ranker, ("lambdamart", "dnn"))
        check_choice("preset", self.preset, PRESETS)
        check_choice("terms", self.terms, (None, *get_args(TermsName), "auto"))
        check_choice("transformation", self.transformation, PAPER_TRANSFORMATIONS)
        check_choice("tune_on", self.tune_on, get_args(TuneOn))
        if not (isinstance(self.folds, Integral) and self.folds >= 2):
            raise SettingError(f"folds must be a whole number, 2 or greater, but {self.folds!r} was given.")
        if not (isinstance(self.confidence, Real) and 0 < self.confidence < 1):
            raise SettingError(f"confidence must lie between 0 and 1, but {self.confidence!r} was given.")
        if not (isinstance(self.random_state, Integral) and self.random_state >= 0):
            raise SettingError(f"random_state must be a whole number from 0 on, but {self.random_state!r} was given.")
        if self.ranker == "dnn" and log is not None:
            require_extra("torch", "neural", "The ranker 'dnn'")
            if log.data.has_missing:
                raise FeatureError(
                    "The log has missing features, which the neural ranker cannot take. Fill them in, or use "
                    "'lambdamart'."
                )


def _alike(one: Floats | None, other: Floats | None) -> bool:
    return other is None if one is None else other is not None and np.array_equal(one, other)


def _of_position(basis: PositionBasis, stack: Stack) -> dict[str, float | None]:
    """η, its standard error and τ; None where no position effect was estimated."""
    there = basis.size > 0
    return {
        "severity": stack.severity if there else None,
        "severity_error": stack.severity_error if there else None,
        "bend": stack.bend if there else None,
    }


def facts(fit: ClickFit) -> dict[str, Any]:
    """The click model in numbers, JSON-able: position effect, weights of the parts, log-likelihoods.

    The scores of the parts are those of held-out queries; their weights and the position effect are fitted to the same
    clicks, so that the figures are a little higher than the referee's.
    """
    clicks = QueryClicks.of(fit.used)
    total = float(clicks.totals.sum())
    effect = fit.basis.columns(fit.used.position) @ fit.stack.effect
    likelihood = {
        "no model": clicks.log_likelihood(np.zeros(len(fit.used))).sum(),
        "position only": clicks.log_likelihood(effect).sum(),
        "additive": fit.additive.likelihood.sum(),
        **{name: clicks.log_likelihood(fit.parts[name] + effect).sum() for name in ("trees", "boosted")},
        "all": fit.stack.likelihood.sum(),
    }
    known: dict[str, Any] = {
        **_of_position(fit.basis, fit.stack),
        "weights": fit.weights,
        "agreement": None if fit.caution is None else fit.caution.agreement,
        "with_ranker": agreement(fit) if fit.caution is not None and bounded(fit) else None,
        "left_to_relevance": None if fit.caution is None else fit.caution.left,
        "trees": {
            "alone": fit.trees.rounds,
            "on the additive part": fit.boosted.rounds,
            "folds": len(fit.trees.boosters),
        },
        "shrinkage": fit.additive.penalty,
        "place_explained": fit.place.r2,
        "queries": fit.table.n_queries,
        "queries_in_stack": fit.used.n_queries,
        "clicks": float(fit.table.totals.sum()),
        "log_likelihood_per_click": {name: float(value) / total for name, value in likelihood.items()},
    }
    if "terms" in fit.stack.weights:
        without = {name: values for name, values in fit.parts.items() if name != "terms"}
        less = fit_stack(fit.basis, fit.used.position, clicks, without)
        known["terms_gain"] = float(fit.stack.likelihood.sum() - less.likelihood.sum())
    return known
