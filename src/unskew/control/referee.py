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

from unskew._options import Preset
from unskew._segments import IntArray
from unskew.control.aggregate import Exposures
from unskew.control.boosting import TreeSettings
from unskew.control.click_fit import PRESETS, ClickFit, click_table, fit_clicks
from unskew.control.click_model import QueryClicks
from unskew.control.conditional import fit_linear
from unskew.control.interventions import Interventions, MovedItems
from unskew.control.known_examination import Examination, known_examination
from unskew.control.referee_words import Specification, moved_words, position_words, terms_words, use_words
from unskew.control.stack import PRIORS, Stack, cross_stack
from unskew.control.term_columns import TermColumns
from unskew.control.term_source import TermsName, TermSource
from unskew.control.transformations import PAPER_TRANSFORMATIONS
from unskew.data.clicks import ClickLog
from unskew.evaluation.bootstrap import bootstrap_means

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Budget:
    """What the referee may spend, whatever the size of the log.

    queries, rows : the most that it looks at, drawn at random; a row is an item at a position. folds : held-out parts.
    rounds : trees of every model.
    resamples : of the bootstrap; error : the share of logs without control effects in which some are announced.
    """

    queries: int = 2_000
    rows: int = 300_000
    folds: int = 4
    rounds: int = 300
    resamples: int = 2_000
    error: float = 0.05


# Queries with clicks below which nothing is announced.
LEAST = 10
# How strongly control terms are shrunk, times their own penalty; leaving them out altogether is tried as well.
RIDGES = (3_000.0, 300.0, 30.0, 3.0)


@dataclass(frozen=True)
class Verdict:
    """What the referee found, and the method it recommends.

    method, settings : what to fit; text : why, in words.
    specifications : the table; interventions : what moved items say, None if no item was moved.
    severity, severity_error : η of the position effect and its standard error; None where the examination was given.
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
) -> Verdict:
    """Compare the specifications on a log and say what to use.

    examination : by position, where it is known; it then takes the place of the position effect.
    terms : which control terms to try: any of "T", "shift" and "phi".
    transformations : tried for "phi"; h bends, so that "T" needs only one of them.
    placebo : permute the residuals over the rows, so that the terms cannot mean anything.
    """
    budget = Budget() if budget is None else budget
    wanted = PRESETS["default"] if settings is None else settings
    settings = replace(wanted, rounds=min(wanted.rounds, budget.rounds))
    known = known_examination(examination, log.longest_list)
    whole = click_table(log)
    table = _within(whole, budget, seed)
    shared: dict[str, Any] = {}
    fit, plain = (
        fit_clicks(
            log,
            table=table,
            position=position,
            examination=known if position else None,
            folds=budget.folds,
            settings=settings,
            seed=seed,
            threads=threads,
            shared=shared,
        )
        for position in (True, False)
    )
    scores, stacks = _held_out(fit)
    clicks = QueryClicks.of(fit.used)
    by_query = clicks.log_likelihood(scores)
    without = QueryClicks.of(plain.used).log_likelihood(_held_out(plain)[0])
    nothing = Specification("none", float(without.sum()))
    position = _compare("position", by_query - without, nothing, budget, share=budget.error / 2, seed=seed)
    table_of = [nothing, position]
    tried: list[tuple[TermsName, str]] = [(kind, "minmax") for kind in ("T", "shift") if kind in terms]
    if "phi" in terms:
        tried += [("phi", transformation) for transformation in transformations]
    if tried and (fit.basis.size or known is not None):
        table_of.extend(_try_terms(log, fit, tried, position, placebo, budget, seed))
    moved, told = _moved(fit, stacks, budget, seed), None
    if moved is not None and moved.refuted:
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
        )
    same = table is whole and settings == wanted
    return _verdict(fit, tuple(table_of), moved, told, budget, same=same, given=known)


def recommend(
    log: ClickLog,
    *,
    examination: Examination | None = None,
    preset: Preset = "default",
    seed: int = 0,
    n_jobs: int | None = None,
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
    return judge_log(log, examination=examination, settings=PRESETS[preset], seed=seed, threads=threads)


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


def _try_terms(
    log: ClickLog,
    fit: ClickFit,
    tried: Sequence[tuple[TermsName, str]],
    position: Specification,
    placebo: bool,
    budget: Budget,
    seed: int,
) -> list[Specification]:
    """Control terms beside the parts and the position effect, which is estimated anew with them."""
    source, beside = TermSource(log, seed), _Beside.of(fit)
    found = []
    for kind, transformation in tried:
        make = source.maker(kind, transformation, permuted=seed if placebo else None)
        reached = beside.with_terms(make(fit.used, fit.place.held_out[fit.sample.rows]))
        name = f"position + {f'Φ({transformation})' if kind == 'phi' else kind}"
        # Of several that mean nothing one may look good: they share the error.
        share = budget.error / len(tried)
        found.append(_compare(name, reached - beside.likelihood, position, budget, share=share, seed=seed))
    return found


@dataclass(frozen=True, eq=False)
class _Beside:
    """The position effect and the parts of a fit as one linear model, which control terms are put beside.

    columns : (n, p); centre, penalty : (p,) their prior; by_fold : coefficients fitted without the fold's queries.
    likelihood : (queries,) of held-out clicks, without any terms.
    """

    clicks: QueryClicks
    fold: IntArray
    columns: npt.NDArray[np.float32]
    centre: Floats
    penalty: Floats
    by_fold: tuple[Floats, ...]
    likelihood: Floats

    @classmethod
    def of(cls, fit: ClickFit) -> _Beside:
        clicks, fold = QueryClicks.of(fit.used), fit.fold[fit.sample.queries]
        names = [name for name, weight in fit.stack.weights.items() if weight != 0]
        parts = [fit.parts[name][:, None] for name in names]
        columns = np.hstack([fit.basis.columns(fit.used.position), *parts]).astype(np.float32)
        centre = np.r_[np.zeros(fit.basis.size), [PRIORS[name].expected for name in names]]
        penalty = np.r_[fit.basis.penalty(fit.stack.bend), [PRIORS[name].spread ** -2.0 for name in names]]
        by_fold, likelihood = [], np.zeros(len(fold))
        for k in range(int(fold.max()) + 1):
            model = fit_linear(columns, clicks.without(fold == k), penalty=penalty, centre=centre, tolerance=0.05)
            by_fold.append(model.coefficients)
            likelihood[fold == k] = clicks.log_likelihood(columns @ model.coefficients)[fold == k]
        return cls(clicks, fold, columns, centre, penalty, tuple(by_fold), likelihood)

    def with_terms(self, terms: TermColumns) -> Floats:
        """(queries,) held-out log-likelihood; how much h is shrunk is what the queries of other folds would choose."""
        fixed = self.columns.shape[1]
        columns = np.empty((len(self.columns), fixed + terms.size), dtype=np.float32)
        columns[:, :fixed] = self.columns
        terms.fill(columns[:, fixed:], np.arange(len(columns)))
        centre = np.r_[self.centre, np.zeros(terms.size)]
        path = np.zeros((1 + len(RIDGES), len(self.fold)))
        path[0] = self.likelihood
        for k, known in enumerate(self.by_fold):
            training, mine, start = self.clicks.without(self.fold == k), self.fold == k, np.r_[known, centre[fixed:]]
            for i, ridge in enumerate(RIDGES, start=1):
                penalty = np.r_[self.penalty, ridge * terms.penalty(1.0)]
                start = fit_linear(
                    columns, training, penalty=penalty, centre=centre, start=start, tolerance=0.05
                ).coefficients
                path[i, mine] = self.clicks.log_likelihood(columns @ start)[mine]
        return _honest(path, self.fold)


def _honest(path: Floats, fold: npt.NDArray[np.integer]) -> Floats:
    """(queries,) log-likelihood at the setting (first axis) that the queries of the other folds would choose."""
    reached = np.empty(path.shape[1])
    for k in range(int(fold.max()) + 1):
        mine = fold == k
        best = int(np.argmax(path[:, ~mine].sum(axis=1)))
        reached[mine] = path[best, mine]
    return reached


def _compare(
    name: str, gain: Floats, against: Specification, budget: Budget, *, share: float, seed: int
) -> Specification:
    """A line of the table; `gain` is by query, `share` the chance of a lower bound above 0 when nothing is there."""
    low, high = _interval(gain, budget, share, seed)
    total = float(gain.sum())
    return Specification(name, against.log_likelihood + total, against.name, total, low, high)


def _interval(gain: Floats, budget: Budget, share: float, seed: int) -> tuple[float, float]:
    sums = bootstrap_means(gain[:, None], resamples=budget.resamples, seed=seed)[:, 0] * len(gain)
    low, high = np.quantile(sums, [share, 1 - share])
    if len(gain) < LEAST:  # a handful of queries resampled looks surer than it is
        low, high = min(low, 0.0), max(high, 0.0)
    return float(low), float(high)


def _moved(fit: ClickFit, stacks: list[Stack], budget: Budget, seed: int) -> Interventions | None:
    table = fit.used
    moved = MovedItems.of(table)
    if moved is None or fit.basis.size == 0:
        return None
    fold = fit.fold[fit.sample.queries][table.segment]
    effects = np.array([stack.effect for stack in stacks])
    effect = np.einsum("nj,nj->n", fit.basis.columns(table.position), effects[fold])
    gain = moved.gain_by_query(table, effect)
    low, high = _interval(gain, budget, budget.error / 2, seed)
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
) -> Verdict:
    """The findings in words, and what follows from them; `told` is the verdict beside the moved items' examination."""
    _, position, *terms = table
    method = "full-cfc" if position.found or given is not None or told is not None else "naive"
    best = max((one for one in terms if one.found and method != "naive"), key=lambda one: one.gain, default=None)
    settings: dict[str, Any] = {} if best is None else _settings_of(best.name)
    checked = "" if given is not None else moved_words(moved)
    lines = [position_words(fit, position, given=given is not None), terms_words(terms, best), checked]
    if told is not None:
        # Terms that were tried beside a refuted effect mean nothing.
        lines = [lines[0], checked, told.about_terms]
        table = (*table[:2], *(one.beside("moved items") for one in told.specifications[1:]))
        settings = {"examination": told.given, **told.settings}
    lines.append(use_words(method, settings))
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
        about_terms=terms_words(terms, best),
    )


def _settings_of(name: str) -> dict[str, Any]:
    what = name.removeprefix("position + ")
    if what in ("T", "shift"):
        return {"terms": what, "transformation": "minmax"} if what == "T" else {"terms": what}
    return {"terms": "phi", "transformation": what.removeprefix("Φ(").removesuffix(")")}
