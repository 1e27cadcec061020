"""Looks that hold a method against a standard: a gap closed, never clearly worse, clearly better often enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unskew._words import percent
from unskew.bench.looks import METRIC, Case, Look, Verdict, numbers, rankers_of, versus
from unskew.bench.outcomes import Outcome
from unskew.bench.tables import ALPHA, RESAMPLES
from unskew.errors import DataError
from unskew.evaluation.gap import gap_closed
from unskew.evaluation.significance import Comparison

# Standard errors of a 95 % interval, from end to end.
_WIDTH = 2 * 1.96


def closes_gap(method: str, setting: str, *, at_least: float) -> Look:
    """The share of the way from naive to oracle; told where its interval lies on one side of the standard."""

    def look(outcome: Outcome) -> Iterator[Case]:
        if setting not in outcome.plan.settings:
            return
        samples = outcome.setting(setting)
        for ranker in rankers_of(outcome, setting):
            there = [samples.get((ranker, name)) for name in (method, "naive", "oracle")]
            if any(sample is None for sample in there):
                continue
            try:
                parts = [sample.per_query[METRIC] for sample in there if sample is not None]
                found = gap_closed(*parts, resamples=RESAMPLES)
            except DataError:  # no query that all have
                continue
            if found.value is None or found.low is None or found.high is None:
                yield Case(f"{ranker}, {setting}: {found.note}", ranker=ranker)
                continue
            verdict: Verdict = "cannot be told"
            if found.low >= at_least or found.high < at_least:
                verdict = "holds" if found.low >= at_least else "does not hold"
            interval = f"95 % interval {percent(found.low)} to {percent(found.high)}"
            text = f"{ranker}, {setting}: {method} closes {percent(found.value)} of the gap ({interval})"
            yield Case(text, verdict=verdict, ranker=ranker)

    return look


def never_below(method: str, other: str, settings: Sequence[str]) -> Look:
    """In none of these settings worse than another by more than a standard error; told only if all were run."""

    def look(outcome: Outcome) -> Iterator[Case]:
        told = set()
        there = [name for name in settings if name in outcome.plan.settings]
        for setting, ranker, found in _cells(outcome, method, other, there):
            told.add(setting)
            error = (found.high - found.low) / _WIDTH
            verdict: Verdict = "holds" if found.difference >= -error else "does not hold"
            yield Case(f"{ranker}, {setting}: {numbers(method, other, found)}", verdict=verdict, ranker=ranker)
        lacking = [setting for setting in settings if setting not in told]
        if told and lacking:
            yield Case(f"not run: {', '.join(lacking)}", verdict="cannot be told")

    return look


def often_above(method: str, other: str, settings: Sequence[str], *, at_least: int) -> Look:
    """Better than another, beyond chance, in so many of these settings."""

    def look(outcome: Outcome) -> Iterator[Case]:
        there = [name for name in settings if name in outcome.plan.settings]
        found = list(_cells(outcome, method, other, there))
        for ranker in dict.fromkeys(ranker for _, ranker, _ in found):
            mine = [(setting, one) for setting, whose, one in found if whose == ranker]
            won = [setting for setting, one in mine if one.difference > 0 and one.p < ALPHA]
            lacking = len(mine) < len(settings) and len(won) < at_least
            verdict: Verdict = "holds" if len(won) >= at_least else "does not hold"
            text = f"{ranker}: above {other} with p < {ALPHA:g} in {len(won)} of {len(mine)}"
            text += f" ({'; '.join(won)})" if won else ""
            yield Case(text, verdict="cannot be told" if lacking else verdict, ranker=ranker)

    return look


def _cells(outcome: Outcome, method: str, other: str, settings: Sequence[str]) -> Iterator[tuple[str, str, Comparison]]:
    for setting in settings:
        for ranker in rankers_of(outcome, setting):
            found = versus(outcome, (setting, (ranker, method)), (setting, (ranker, other)))
            if found is not None:
                yield setting, ranker, found
