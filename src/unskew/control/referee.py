"""The referee: what a log's own clicks say about the correction, without any human grade.

Specifications of the click model are compared by how well they predict the clicks of queries they did not see: no
position effect, a position effect, and control terms beside it. Intervals come from resampling queries. The budget is
fixed and part of the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from unskew._options import Preset
from unskew.control.aggregate import Exposures
from unskew.control.boosting import TreeSettings
from unskew.control.caution import Caution
from unskew.control.click_fit import PRESETS, ClickFit, TooFewQueriesError, click_table, fit_clicks
from unskew.control.click_model import QueryClicks
from unskew.control.confounded import bounded, taken_examination
from unskew.control.evidence import Budget, Specification, compare, interval
from unskew.control.groundwork import Shared
from unskew.control.interventions import Interventions, MovedItems
from unskew.control.known_examination import Examination, known_examination
from unskew.control.position_effect import PositionBasis
from unskew.control.referee_words import moved_words, position_words, terms_words, use_words
from unskew.control.stack import Stack, cross_stack, fit_stack
from unskew.control.term_source import TermsName
from unskew.control.term_trials import try_terms
from unskew.control.transformations import PAPER_TRANSFORMATIONS
from unskew.data.clicks import ClickLog

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """What the referee found, and the method it recommends.

    method, settings : what to fit; text : why, in words.
    specifications : the table; interventions : what moved items say, None if no item was moved.
    severity, severity_error : η of the position effect and its standard error; None where the examination was given.
    caution : what the recommended fit would leave to relevance, seen on the queries that were looked at.
    given : the examination by position, where it was; about_terms : what `text` says of the control terms.
    """

    method: str
    settings: dict[str, Any]
    text: str
    specifications: tuple[Specification, ...]
    severity: float | None
    severity_error: float | None
    interventions: Interventions | None
    queries: int
    clicks: float
    budget: Budget
    fit: ClickFit | None = field(default=None, repr=False, compare=False)
    given: tuple[float, ...] | None = field(default=None, repr=False)
    caution: Caution | None = field(default=None, repr=False)
    about_terms: str = field(default="", repr=False)

    @property
    def position_found(self) -> bool:
        return self["position"].found

    def __getitem__(self, name: str) -> Specification:
        return next(one for one in self.specifications if one.name == name)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, without the fitted parts."""
        known = {name: value for name, value in self.__dict__.items() if name not in ("fit", "about_terms")}
        known["specifications"] = [{**asdict(one), "found": one.found} for one in self.specifications]
        known["interventions"] = None if self.interventions is None else self.interventions.to_dict()
        known["budget"] = asdict(self.budget)
        known["position_found"] = self.position_found
        known["caution"] = None if self.caution is None else asdict(self.caution)
        return known


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
    transformations : tried for "phi"; h bends, so that "T" needs only one of them.
    placebo : permute the residuals over the rows, so that the terms cannot mean anything.
    shared : the groundwork of this log, where other fits to it have left some.
    """
    shared = {} if shared is None else shared
    budget = Budget() if budget is None else budget
    wanted = PRESETS["default"] if settings is None else settings
    settings = replace(wanted, rounds=min(wanted.rounds, budget.rounds))
    known = known_examination(examination, log.longest_list)
    whole = click_table(log)
    table = _within(whole, budget, seed)
    alike: dict[str, Any] = {
        "table": table,
        "folds": budget.folds,
        "seed": seed,
        "threads": threads,
        "shared": shared,
    }
    fit = fit_clicks(log, examination=known, settings=settings, **alike)
    # Trees of one size on either side: what is compared is the position effect.
    plain = fit_clicks(log, position=False, settings=replace(fit.size, larger=None), **alike)
    scores, stacks = _held_out(fit)
    without = QueryClicks.of(plain.used).log_likelihood(_held_out(plain)[0])
    gain = QueryClicks.of(fit.used).log_likelihood(scores) - without
    nothing = Specification("none", float(without.sum()))
    position = compare("position", gain, nothing, budget, share=budget.error / 2, seed=seed)
    moved, told = _moved(fit, stacks, budget, seed), None
    # With the examination given, moves by chance have nothing to say; without it, they may have been to people's taste.
    of_place: TermsName = "shift" if moved is None or known is not None else "moves"
    tried: list[tuple[TermsName, str]] = [("T", "minmax")] if "T" in terms else []
    tried += [(of_place, "minmax")] if "shift" in terms else []
    tried += [("phi", transformation) for transformation in transformations if "phi" in terms]
    found: list[Specification] = []
    if tried and (fit.basis.size or known is not None) and not (moved is not None and moved.overrules):
        found = try_terms(log, table, fit, tried, position, placebo, budget, seed)
    if moved is not None and moved.refuted and not (bounded(fit) and any(one.found for one in found)):
        # Terms beside a refuted effect mean nothing; they are tried beside the moved items' examination.
        found = []
        told = judge_log(
            log,
            examination=_of_moved(fit, log.longest_list),
            terms=terms,
            transformations=transformations,
            placebo=placebo,
            budget=budget,
            settings=wanted,
            seed=seed,
            threads=threads,
            shared=shared,
        )
    same = table is whole and settings == wanted
    return _verdict(
        fit, (nothing, position, *found), moved, told, budget, same=same, given=known, longest=log.longest_list
    )


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
    threads = 0 if n_jobs is None or n_jobs < 1 else n_jobs
    try:
        with threadpool_limits(1, user_api="blas"):  # as in full-cfc
            return judge_log(
                log, examination=examination, settings=PRESETS[preset], seed=seed, threads=threads, shared=shared
            )
    except TooFewQueriesError as error:
        if examination is not None:
            raise
        return _nothing_told(log, str(error))


def _nothing_told(log: ClickLog, why: str) -> Verdict:
    """A log too small to hold anything out is left as it is."""
    nothing = Specification("none", 0.0)
    position = replace(nothing, name="position", against="none")
    return Verdict(
        method="naive",
        settings={},
        text=f"{why} So nothing is corrected here. {use_words('naive', {}, of_moved=False)}",
        specifications=(nothing, position),
        severity=None,
        severity_error=None,
        interventions=None,
        queries=0,
        clicks=float(log.n_clicks),
        budget=Budget(),
    )


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
    )


def _of_moved(fit: ClickFit, longest: int) -> list[float]:
    moved = MovedItems.of(fit.used)
    assert moved is not None
    return moved.examination(fit.used, longest)


def _verdict(
    fit: ClickFit,
    table: tuple[Specification, ...],
    moved: Interventions | None,
    told: Verdict | None,
    budget: Budget,
    *,
    same: bool,
    given: Floats | None,
    longest: int,
) -> Verdict:
    """The findings in words, and what follows from them; `told` is the verdict beside the moved items' examination."""
    _, position, *terms = table
    method = "full-cfc" if position.found or given is not None or told is not None else "naive"
    best = max((one for one in terms if one.found and method != "naive"), key=lambda one: one.gain, default=None)
    settings: dict[str, Any] = {} if best is None else _settings_of(best.name)
    half = best is not None and given is None and bounded(fit)
    checked = "" if given is not None else moved_words(moved, by_chance=not half)
    if half:
        settings = {
            "terms": "shift" if moved is None else "moves",
            "examination": taken_examination(fit, longest),
        }
    bound = moved is None or not moved.refuted
    about_terms = terms_words(terms, used=method != "naive", sure=not half, shuffle=bound, given=given is not None)
    beside = None if given is None else _beside_given(fit)
    about_position = position_words(fit, position, beside=beside, overruled=told is not None)
    lines = [about_position, about_terms, checked]
    if told is not None:
        lines = [lines[0], checked, told.about_terms]
        table = (*table[:2], *(one.beside("moved items") for one in told.specifications[1:]))
        settings = {"examination": told.given, **told.settings}
    lines.append(use_words(method, settings, of_moved=told is not None))
    return Verdict(
        method=method,
        settings=settings,
        text=" ".join(line for line in lines if line),
        specifications=table,
        severity=None if given is not None else fit.stack.severity,
        severity_error=None if given is not None else fit.stack.severity_error,
        interventions=moved,
        queries=fit.table.n_queries,
        clicks=float(fit.table.totals.sum()),
        budget=budget,
        fit=fit if same else None,
        given=None if given is None else tuple(given.tolist()),
        caution=fit.caution if method == "full-cfc" and "examination" not in settings else None,
        about_terms=about_terms,
    )


def _beside_given(fit: ClickFit) -> Stack:
    """The position effect that the clicks still show beside the examination that was given; it should be none."""
    table = fit.used
    return fit_stack(PositionBasis.up_to(table.longest), table.position, QueryClicks.of(table), fit.parts)


def _settings_of(name: str) -> dict[str, Any]:
    what = name.removeprefix("position + ")
    if what in ("T", "shift", "moves"):
        return {"terms": what, "transformation": "minmax"} if what == "T" else {"terms": what}
    return {"terms": "phi", "transformation": what.removeprefix("Φ(").removesuffix(")")}
