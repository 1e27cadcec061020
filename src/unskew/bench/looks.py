"""Ways of looking at a run for what a claim says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

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


@dataclass(frozen=True)
class Case:
    """One thing a claim says: the numbers in words, and either a test or a verdict.

    difference : above 0 speaks for the claim; p : of the test.
    """

    text: str
    p: float | None = None
    difference: float = 0.0
    verdict: Verdict = "cannot be told"


Look = Callable[[Outcome], Iterator[Case]]


def cfc_beats_rivals(outcome: Outcome) -> Iterator[Case]:
    """CFC against the best of the paper's rivals with the same ranker, in every setting."""
    for setting in outcome.plan.settings:
        samples = outcome.setting(setting)
        for ranker in _rankers(outcome, setting):
            rivals = [(ranker, name) for name in PAPER_RIVALS if (ranker, name) in samples]
            if (ranker, "cfc") in samples and rivals:
                best = max(rivals, key=lambda column: samples[column].mean(METRIC))
                where = f"{ranker}, {setting}" if len(outcome.plan.settings) > 1 else ranker
                yield from _beats(outcome, (setting, (ranker, "cfc")), (setting, best), where)


def one_beats_other(one: str, other: str, *, setting: str | None = None, against: str | None = None) -> Look:
    """One method against another in every setting; or a method in one setting against itself in another."""

    def look(outcome: Outcome) -> Iterator[Case]:
        settings = outcome.plan.settings
        if any(name not in settings for name in (setting, against) if name is not None):
            return
        for name in settings if setting is None else [setting]:
            for ranker in _rankers(outcome, name):
                where = ranker if setting is not None or len(settings) == 1 else f"{ranker}, {name}"
                yield from _beats(outcome, (name, (ranker, one)), (against or name, (ranker, other)), where)

    return look


def cfc_is_alike(outcome: Outcome) -> Iterator[Case]:
    """CFC in every setting against the first: alike where the difference is small, whatever its sign."""
    first, *others = outcome.plan.settings
    for ranker in _rankers(outcome, first):
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
            yield Case(f"{setting} {found.difference:+.4f} against {first} (p = {found.p:.2g})", verdict=verdict)


def distance_grows(outcome: Outcome) -> Iterator[Case]:
    """The distance from CFC to the oracle in the last setting against the first."""
    first, last = outcome.plan.settings[0], outcome.plan.settings[-1]
    for ranker in _rankers(outcome, first):
        far, near = (_distance(outcome, setting, ranker) for setting in (last, first))
        if far is not None and near is not None:
            found = compare(far, near, draws=DRAWS)
            numbers = f"{found.mean_b:.4f} at {first}, {found.mean_a:.4f} at {last} (p = {found.p:.2g})"
            yield Case(f"{ranker}: {numbers}", found.p, found.difference)


def spread_changes(outcome: Outcome) -> Iterator[Case]:
    """Fligner–Killeen in every unit."""
    for setting in outcome.plan.settings:
        for sample in outcome.setting(setting).values():
            worst = float(sample.by_unit["FK p"].max())
            yield Case(f"{setting}: largest p {worst:.2g}", verdict="holds" if worst < ALPHA else "does not hold")


def residual_shrinks(outcome: Outcome) -> Iterator[Case]:
    """The mean absolute residual in the last setting against the first."""
    first, last = outcome.plan.settings[0], outcome.plan.settings[-1]
    ends = [sample for name in (first, last) for sample in outcome.setting(name).values()]
    if len(ends) == 2:
        weak, strong = (sample.mean("mean |residual|") for sample in ends)
        verdict: Verdict = "holds" if strong < weak else "does not hold"
        yield Case(f"{weak:.4f} at {first}, {strong:.4f} at {last}", verdict=verdict)


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
        a, b = (one[1][1], other[1][1]) if one[1] != other[1] else (one[0], other[0])
        yield Case(
            f"{where}: {a} {found.mean_a:.4f}, {b} {found.mean_b:.4f} (p = {found.p:.2g})", found.p, found.difference
        )


def _distance(outcome: Outcome, setting: str, ranker: str) -> npt.NDArray[np.float64] | None:
    samples = outcome.setting(setting)
    if (ranker, "cfc") not in samples or (ranker, "oracle") not in samples:
        return None
    return samples[ranker, "oracle"].queries(METRIC) - samples[ranker, "cfc"].queries(METRIC)


def _rankers(outcome: Outcome, setting: str) -> list[str]:
    return list(dict.fromkeys(ranker for ranker, _ in outcome.setting(setting)))
