"""The referee: what a log's own clicks say about the correction, without any human grade.

Specifications of the click model are compared by how well they predict the clicks of queries they did not see: no
position effect, a position effect, and control terms beside it. Intervals come from resampling queries. The budget is
fixed and part of the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from unskew._machine import native_threads
from unskew._options import Preset
from unskew.control.aggregate import Exposures
from unskew.control.boosting import TreeSettings
from unskew.control.click_fit import PRESETS, ClickFit, TooFewQueriesError, click_table, fit_clicks
from unskew.control.click_model import QueryClicks
from unskew.control.confounded import agreement, bounded, runs_against
from unskew.control.evidence import Budget, Specification, compare, interval
from unskew.control.groundwork import Shared
from unskew.control.interventions import Interventions, MovedItems
from unskew.control.known_examination import Examination, known_examination
from unskew.control.stack import Stack, cross_stack
from unskew.control.term_source import TermsName
from unskew.control.term_trials import try_terms
from unskew.control.transformations import PAPER_TRANSFORMATIONS
from unskew.control.verdict import Findings, Verdict, nothing_told, verdict_of
from unskew.data.clicks import ClickLog

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Trial:
    """What stays the same when a log is judged again beside the examination that its moved items tell.

    plain : models without a position effect, by the size of their trees; they do not depend on any examination.
    """

    log: ClickLog
    terms: Sequence[str]
    transformations: Sequence[str]
    placebo: bool
    budget: Budget
    settings: TreeSettings
    seed: int
    threads: int
    shared: Shared
    plain: dict[TreeSettings, ClickFit] = field(default_factory=dict)

    def fit(self, table: Exposures, **options: Any) -> ClickFit:
        """A click model of the log, on the counts that are looked at."""
        alike: dict[str, Any] = {"folds": self.budget.folds, "seed": self.seed, "threads": self.threads}
        return fit_clicks(self.log, table=table, shared=self.shared, **alike, **options)

    def without_position(self, table: Exposures, size: TreeSettings) -> ClickFit:
        """Relevance alone, its trees of one size with those it is compared with."""
        if size not in self.plain:
            self.plain[size] = self.fit(table, position=False, settings=replace(size, larger=None))
        return self.plain[size]

    def specifications(self, of_place: TermsName) -> list[tuple[TermsName, str]]:
        """Control terms to try, each with its T; h of one value bends, so that it needs only one of them."""
        tried: list[tuple[TermsName, str]] = [("T", "minmax")] if "T" in self.terms else []
        tried += [(of_place, "minmax")] if "shift" in self.terms else []
        return tried + [("phi", transformation) for transformation in self.transformations if "phi" in self.terms]


def judge_log(
    log: ClickLog,
    *,
    examination: Examination | None = None,
    terms: Sequence[str] = ("T", "shift", "phi"),
    transformations: Sequence[str] = PAPER_TRANSFORMATIONS,
    placebo: bool = False,
    budget: Budget | None = None,
    settings: TreeSettings | None = None,
    seed: int = 0,
    threads: int = 0,
    shared: Shared | None = None,
) -> Verdict:
    """Compare the specifications on a log and say what to use.

    examination : by position, where it is known; it then takes the place of the position effect.
    terms : which control terms to try: any of "T", "shift" (with the moves where items moved) and "phi".
    transformations : tried for "phi".
    placebo : permute the residuals over the rows, so that the terms cannot mean anything.
    shared : the groundwork of this log, where other fits to it have left some.
    """
    budget = Budget() if budget is None else budget
    wanted = PRESETS["default"] if settings is None else settings
    trial = _Trial(
        log, terms, transformations, placebo, budget, wanted, seed, threads, {} if shared is None else shared
    )
    table, known = click_table(log), known_examination(examination, log.longest_list)
    clicked = table.position[table.clicks > 0]
    if known is None and clicked.min() == clicked.max() and table.position.min() < table.position.max():
        why = f"All clicks are at position {clicked[0]}, so that nothing tells relevance from position."
        return nothing_told(float(log.n_counted_clicks), why)
    return _judge(trial, table, known)


def _judge(trial: _Trial, whole: Exposures, known: Floats | None) -> Verdict:
    """The verdict beside an examination that is known, or beside the position effect."""
    budget, seed = trial.budget, trial.seed
    table = _within(whole, budget, seed)
    settings = replace(trial.settings, rounds=min(trial.settings.rounds, budget.rounds))
    fit = trial.fit(table, examination=known, settings=settings)
    plain = trial.without_position(table, fit.size)
    scores, stacks = _held_out(fit)
    without = QueryClicks.of(plain.used).log_likelihood(_held_out(plain)[0])
    gain = QueryClicks.of(fit.used).log_likelihood(scores) - without
    nothing = Specification("none", float(without.sum()))
    position = compare("position", gain, nothing, budget, share=budget.error / 2, seed=seed)
    moved = _moved(fit, stacks, budget, seed)
    if moved is not None and moved.refuted:
        # Terms may be tried twice, beside the model's effect and beside the moved items': they share the error.
        trial = replace(trial, budget=replace(budget, error=budget.error / 2))
    findings = _findings(trial, whole, table, fit, position, moved)
    same = table is whole and settings == trial.settings
    return verdict_of(findings, nothing, budget, same=same, longest=trial.log.longest_list)


def _findings(
    trial: _Trial,
    whole: Exposures,
    table: Exposures,
    fit: ClickFit,
    position: Specification,
    moved: Interventions | None,
) -> Findings:
    """What control terms add, what moved items say if that counts, and whether f runs against the ranker.

    Moved items that refute the model count, unless they say more than it and terms or f tell why, or f would run
    against the ranker beside what they say. Terms beside a refuted effect mean nothing.
    """
    against = fit.examination is None and bounded(fit) and runs_against(agreement(fit))
    overrules = moved is not None and moved.overrules
    told = _beside_moved(trial, whole, fit) if overrules else None
    terms = [] if told is not None else _try_terms(trial, table, fit, position, moved)
    explained = bounded(fit) and (against or any(one.found for one in terms))
    asked = overrules
    if moved is not None and moved.refuted and not overrules and not explained:
        told, asked = _beside_moved(trial, whole, fit), True
        terms = [] if told is not None else terms
    vetoed = asked and told is None
    against = against or (vetoed and bounded(fit))
    return Findings(fit, position, terms, moved, told, fit.examination, against, vetoed)


def _beside_moved(trial: _Trial, whole: Exposures, fit: ClickFit) -> Verdict | None:
    """The verdict beside the moved items' examination; None where it would have f run against the ranker."""
    moved = MovedItems.of(fit.used)
    assert moved is not None
    longest = trial.log.longest_list
    told = _judge(trial, whole, known_examination(moved.examination(fit.used, longest), longest))
    return None if runs_against(told.agreement) else told


def _try_terms(
    trial: _Trial, table: Exposures, fit: ClickFit, position: Specification, moved: Interventions | None
) -> list[Specification]:
    """What control terms add to a fit."""
    # With the examination given, moves by chance have nothing to say; without it, they may have been to people's taste.
    tried = trial.specifications("shift" if moved is None else "moves")
    if not tried or (fit.basis.size == 0 and fit.examination is None):
        return []
    return try_terms(trial.log, table, fit, tried, position, trial.placebo, trial.budget, trial.seed)


def recommend(
    log: ClickLog,
    *,
    examination: Examination | None = None,
    preset: Preset = "default",
    seed: int = 0,
    n_jobs: int | None = None,
    shared: Shared | None = None,
) -> Verdict:
    """The method to use on this log: `full-cfc`, with control terms if they add something, or `naive`.

    examination : by position, where it is known; `full-cfc` is then recommended in any case.

    >>> from unskew.simulation.log import simulate
    >>> from unskew.simulation.synthetic import synthetic_collection
    >>> log = simulate(synthetic_collection(60, longest=15, typical=10, features=8), seed=1)
    >>> recommend(log, preset="smoke", n_jobs=1).method
    'full-cfc'
    """
    alike: dict[str, Any] = {"settings": PRESETS[preset], "seed": seed, "threads": native_threads(n_jobs)}
    try:
        with threadpool_limits(1, user_api="blas"):  # as in full-cfc
            return judge_log(log, examination=examination, shared=shared, **alike)
    except TooFewQueriesError as error:
        if examination is not None:
            raise
        return nothing_told(float(log.n_counted_clicks), str(error))


def _within(table: Exposures, budget: Budget, seed: int) -> Exposures:
    """The table, or as many of its queries, drawn at random, as the budget allows; two at the least."""
    if table.n_queries <= budget.queries and len(table) <= budget.rows:
        return table
    order = np.random.default_rng(seed).permutation(table.n_queries)[: budget.queries]
    affordable = int(np.searchsorted(np.cumsum(np.diff(table.offsets)[order]), budget.rows, side="right"))
    return table.take(np.sort(order[: max(affordable, 2)]))


def _held_out(fit: ClickFit) -> tuple[Floats, list[Stack]]:
    clicks, fold = QueryClicks.of(fit.used), fit.fold[fit.sample.queries]
    return cross_stack(fit.basis, fit.used.position, clicks, fit.parts, fold)


def _moved(fit: ClickFit, stacks: list[Stack], budget: Budget, seed: int) -> Interventions | None:
    table = fit.used
    moved = MovedItems.of(table)
    if moved is None or fit.basis.size == 0:
        return None
    fold = fit.fold[fit.sample.queries][table.segment]
    effects = np.array([stack.effect for stack in stacks])
    effect = np.einsum("nj,nj->n", fit.basis.columns(table.position), effects[fold])
    gain = moved.gain_by_query(table, effect)
    low, high = interval(gain, budget, budget.error / 2, seed)
    severity, error = moved.severity(table)
    of_model = moved.severity_of(table, fit.basis.columns(table.position) @ fit.stack.effect)
    return Interventions(
        items=len(moved.clicks.totals),
        clicks=float(moved.clicks.totals.sum()),
        severity=severity,
        severity_error=error,
        of_model=of_model,
        model_error=fit.stack.severity_error,
        gain=float(gain.sum()),
        low=low,
        high=high,
        queries=moved.queries(table),
    )
