"""Ways of looking at a run for what a claim says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from unskew._words import percent
from unskew.bench.outcomes import Column, Outcome
from unskew.bench.tables import ALPHA, DRAWS
from unskew.errors import DataError
from unskew.evaluation.significance import Comparison, compare

Verdict = Literal["holds", "does not hold", "cannot be told"]
METRIC = "ndcg@10"
# What the paper compared with; what this project added is judged apart.
PAPER_RIVALS = ("pijd", "paird", "upe", "multr", "pal", "rem", "dla", "naive")
# Differences in NDCG@10 that nobody would notice.
SMALL = 0.01
# Logs from which on a share of them is held against a bound of one in twenty.
ENOUGH_LOGS = 20


@dataclass(frozen=True)
class Case:
    """One thing a claim says: the numbers in words, and either a test or a verdict.

    difference : above 0 speaks for the claim; p : of the test; ranker : whose case it is, if a ranker's.
    """

    text: str
    p: float | None = None
    difference: float = 0.0
    verdict: Verdict = "cannot be told"
    ranker: str = ""


Look = Callable[[Outcome], Iterator[Case]]


def beats_best(method: str, rivals: Sequence[str]) -> Look:
    """A method against the best of these rivals with the same ranker, in every setting."""

    def look(outcome: Outcome) -> Iterator[Case]:
        for setting in outcome.plan.settings:
            samples = outcome.setting(setting)
            for ranker in rankers_of(outcome, setting):
                there = [(ranker, name) for name in rivals if (ranker, name) in samples]
                if (ranker, method) in samples and there:
                    best = max(there, key=lambda column: samples[column].mean(METRIC))
                    yield from _beats(outcome, (setting, (ranker, method)), (setting, best), _where(outcome, setting))

    return look


cfc_beats_rivals = beats_best("cfc", PAPER_RIVALS)


def one_beats_other(one: str, other: str, *, setting: str | None = None, against: str | None = None) -> Look:
    """One method against another in every setting; or a method in one setting against itself in another."""

    def look(outcome: Outcome) -> Iterator[Case]:
        settings = outcome.plan.settings
        if any(name not in settings for name in (setting, against) if name is not None):
            return
        for name in settings if setting is None else [setting]:
            for ranker in rankers_of(outcome, name):
                where = "" if against is not None else _where(outcome, name)
                yield from _beats(outcome, (name, (ranker, one)), (against or name, (ranker, other)), where)

    return look


def does_no_harm(method: str, reference: str, setting: str) -> Look:
    """A method in one setting against a reference: no harm where it cannot be noticeably worse."""

    def look(outcome: Outcome) -> Iterator[Case]:
        if setting not in outcome.plan.settings:
            return
        for ranker in rankers_of(outcome, setting):
            found = versus(outcome, (setting, (ranker, method)), (setting, (ranker, reference)))
            if found is None:
                continue
            verdict: Verdict = "holds" if found.low > -SMALL else "cannot be told"
            if found.difference < 0 and found.p < ALPHA:
                verdict = "does not hold"
            yield Case(f"{ranker}: {numbers(method, reference, found)}", verdict=verdict, ranker=ranker)

    return look


def cfc_is_alike(outcome: Outcome) -> Iterator[Case]:
    """CFC in every setting against the first: alike where the difference is small, whatever its sign."""
    first, *others = outcome.plan.settings
    for ranker in rankers_of(outcome, first):
        column = (ranker, "cfc")
        for setting in others:
            found = versus(outcome, (setting, column), (first, column))
            if found is None:
                continue
            verdict: Verdict = "cannot be told"
            if max(abs(found.low), abs(found.high)) < 2 * SMALL:
                verdict = "holds"
            if found.p < ALPHA and abs(found.difference) > SMALL:
                verdict = "does not hold"
            yield Case(f"{ranker}: {numbers(setting, first, found)}", verdict=verdict, ranker=ranker)


def distance_grows(outcome: Outcome) -> Iterator[Case]:
    """The distance from CFC to the oracle in the last setting against the first."""
    first, last = outcome.plan.settings[0], outcome.plan.settings[-1]
    for ranker in rankers_of(outcome, first):
        far, near = (_distance(outcome, setting, ranker) for setting in (last, first))
        if far is not None and near is not None:
            found = compare(far, near, draws=DRAWS)
            numbers = f"{found.mean_b:.4f} at {first}, {found.mean_a:.4f} at {last} {_sure(found)}"
            yield Case(f"{ranker}: {numbers}", found.p, found.difference, ranker=ranker)


def spread_changes(outcome: Outcome) -> Iterator[Case]:
    """Fligner–Killeen in every unit."""
    for setting in outcome.plan.settings:
        for sample in outcome.setting(setting).values():
            if "FK p" in sample.by_unit:
                worst = float(sample.by_unit["FK p"].max())
                yield Case(f"{setting}: largest p {worst:.2g}", verdict="holds" if worst < ALPHA else "does not hold")


def value_falls(name: str) -> Look:
    """A number that was measured once a unit, in the last setting against the first."""

    def look(outcome: Outcome) -> Iterator[Case]:
        first, last = outcome.plan.settings[0], outcome.plan.settings[-1]
        ends = [sample for setting in (first, last) for sample in outcome.setting(setting).values()]
        if len(ends) == 2 and first != last and all(name in sample.by_unit for sample in ends):
            before, after = (sample.mean(name) for sample in ends)
            verdict: Verdict = "holds" if after < before else "does not hold"
            yield Case(f"{name} {before:.4g} at {first}, {after:.4g} at {last}", verdict=verdict)

    return look


def share_is(name: str, setting: str, *, at_least: float = 0.0, at_most: float = 1.0) -> Look:
    """How often something was found in a setting's logs (a number of 0 or 1 a unit), against what it should be.

    From twenty logs on the share itself decides, and its interval is shown beside it; fewer can only refute.
    """

    def look(outcome: Outcome) -> Iterator[Case]:
        for sample in outcome.setting(setting).values() if setting in outcome.plan.settings else ():
            found = sample.by_unit.get(name, np.array([]))
            found = found[~np.isnan(found)]
            if len(found) == 0:
                continue
            interval = binomtest(int(found.sum()), len(found)).proportion_ci(0.95)
            verdict: Verdict = "cannot be told"
            if interval.high < at_least or interval.low > at_most:
                verdict = "does not hold"
            elif len(found) >= ENOUGH_LOGS:
                verdict = "holds" if at_least <= found.mean() <= at_most else "does not hold"
            sure = f"95 % interval {percent(interval.low)} to {percent(interval.high)}"
            share = f"{percent(found.mean())} of {len(found)} logs ({sure})"
            yield Case(f"{setting}: {name} in {share}", verdict=verdict)

    return look


def several(*looks: Look) -> Look:
    """The cases of several looks."""

    def look(outcome: Outcome) -> Iterator[Case]:
        for one in looks:
            yield from one(outcome)

    return look


def versus(outcome: Outcome, one: tuple[str, Column], other: tuple[str, Column]) -> Comparison | None:
    """Two places of a table, (setting, (ranker, method)) each, on the same test queries; None where one is missing."""
    a, b = (outcome.setting(setting).get(column) for setting, column in (one, other))
    if a is None or b is None:
        return None
    try:
        return compare(a.per_query[METRIC], b.per_query[METRIC], draws=DRAWS, resamples=500)
    except DataError:  # no query that both have
        return None


def _beats(outcome: Outcome, one: tuple[str, Column], other: tuple[str, Column], where: str) -> Iterator[Case]:
    found = versus(outcome, one, other)
    if found is not None:
        ranker = one[1][0]
        names = (one[1][1], other[1][1]) if one[1] != other[1] else (one[0], other[0])
        yield Case(f"{ranker}{where}: {numbers(*names, found)}", found.p, found.difference, ranker=ranker)


def _where(outcome: Outcome, setting: str) -> str:
    return f", {setting}" if len(outcome.plan.settings) > 1 else ""


def numbers(one: str, other: str, found: Comparison) -> str:
    return f"{one} {found.mean_a:.4f}, {other} {found.mean_b:.4f} {_sure(found)}"


def _sure(found: Comparison) -> str:
    interval = f"95 % interval {found.low:+.4f} to {found.high:+.4f}"
    return f"({found.difference:+.4f}, {interval}, p = {found.p:.2g})".replace("-", "−")


def _distance(outcome: Outcome, setting: str, ranker: str) -> npt.NDArray[np.float64] | None:
    samples = outcome.setting(setting)
    if (ranker, "cfc") not in samples or (ranker, "oracle") not in samples:
        return None
    return samples[ranker, "oracle"].queries(METRIC) - samples[ranker, "cfc"].queries(METRIC)


def rankers_of(outcome: Outcome, setting: str) -> list[str]:
    return list(dict.fromkeys(ranker for ranker, _ in outcome.setting(setting)))
