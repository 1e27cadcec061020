"""Tables: one row a method, ranker, setting and metric, with spread, gap closed, significance and published figure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from unskew.bench.experiments import knows_more
from unskew.bench.outcomes import Column, Outcome, Sample
from unskew.bench.published import published_figure
from unskew.errors import DataError
from unskew.evaluation.gap import GapClosed, gap_closed
from unskew.evaluation.significance import randomisation_test

ALPHA = 0.05
DRAWS = 10_000
RESAMPLES = 1_000
Row = dict[str, Any]
_NO_GAP = GapClosed(None, None, None, float("nan"))


def all_rows(outcomes: Iterable[Outcome]) -> list[Row]:
    """The rows of every experiment."""
    return [row for outcome in outcomes for row in rows(outcome)]


def rows(outcome: Outcome) -> list[Row]:
    """The table of an experiment.

    mean : over test queries (and seeds); sd : over the n units, one a fold and seed; queries : how many.
    gap_closed, gap_low, gap_high : of the way from naive to oracle with the same ranker, with its 95 % interval.
    p : Fisher's randomisation test against `rival`, the best of the other methods, whatever its ranker.
    star : the best method of all, significantly better than its rival; the oracle is above the contest, and so
        is what was told the examination.
    place : 1 the best of its ranker, 2 the second best.
    published : the paper's figure, if the data set is one of its own.
    """
    found = []
    for setting in outcome.plan.settings:
        samples = outcome.setting(setting)
        contests = {metric: _Contest(samples, metric) for metric in outcome.metrics}
        p_values = _p_values(contests)
        for metric, contest in contests.items():
            for column, sample in samples.items():
                found.append(_row(outcome, setting, column, sample, contest, p_values.get((metric, column))))
    return found


def _row(outcome: Outcome, setting: str, column: Column, sample: Sample, contest: _Contest, p: float | None) -> Row:
    (ranker, method), plan, metric = column, outcome.plan, contest.metric
    mean = sample.mean(metric)
    gap = contest.gap(column)
    rival = contest.rival(column) if p is not None else None
    figure = published_figure(plan.experiment, plan.dataset, setting, ranker, method, metric)
    return {
        "experiment": plan.experiment,
        "data": plan.data,
        "setting": setting,
        "ranker": ranker,
        "method": method,
        "metric": metric,
        "mean": mean,
        "sd": sample.sd(metric),
        "n": sample.n,
        "gap_closed": gap.value,
        "gap_low": gap.low,
        "gap_high": gap.high,
        "p": p,
        "published": figure,
        "difference": None if figure is None else mean - figure,
        "queries": int((~np.isnan(sample.per_query[metric])).any(axis=0).sum()) if metric in sample.per_query else None,
        "rival": None if rival is None else "/".join(reversed(rival)),
        "star": p is not None and p < ALPHA and contest.best == column,
        "place": contest.place(column),
        "planned": sample.planned,
    }


class _Contest:
    """The methods of a setting on one metric: who is best, who is its rival, how sure that is."""

    def __init__(self, samples: dict[Column, Sample], metric: str) -> None:
        self.metric = metric
        # What is not measured by query (residuals) is no contest.
        self.samples = {column: sample for column, sample in samples.items() if metric in sample.per_query}
        self.means = {
            column: sample.mean(metric) for column, sample in self.samples.items() if not knows_more(column[1])
        }
        self.order = sorted(self.means, key=lambda column: -self.means[column])

    @property
    def best(self) -> Column | None:
        return self.order[0] if self.order else None

    def place(self, column: Column) -> int | None:
        """1 for the best of a ranker, 2 for the second; equals share a place."""
        mine = [other for other in self.order if other[0] == column[0]]
        if column not in mine or len(mine) == 1:
            return None
        place = 1 + sum(self.means[other] > self.means[column] for other in mine)
        return place if place in (1, 2) else None

    def gap(self, column: Column) -> GapClosed:
        ranker, method = column
        naive, oracle = self.samples.get((ranker, "naive")), self.samples.get((ranker, "oracle"))
        if method in ("naive", "oracle") or naive is None or oracle is None or column not in self.samples:
            return _NO_GAP
        parts = [sample.per_query[self.metric] for sample in (self.samples[column], naive, oracle)]
        try:
            return gap_closed(*parts, resamples=RESAMPLES)
        except DataError:  # no query that all three have
            return _NO_GAP

    def rival(self, column: Column) -> Column | None:
        """The best of the other methods, whatever its ranker; what is above the contest has none."""
        if column not in self.order:
            return None
        return next((other for other in self.order if other[1] != column[1]), None)


def _p_values(contests: dict[str, _Contest]) -> dict[tuple[str, Column], float]:
    """(metric, method) → p against its rival; all tests of a setting share the flips."""
    names, differences = [], []
    for metric, contest in contests.items():
        for column in contest.order:
            rival = contest.rival(column)
            if rival is None:
                continue
            d = contest.samples[column].queries(metric) - contest.samples[rival].queries(metric)
            if not np.isnan(d).all():
                names.append((metric, column))
                differences.append(np.nan_to_num(d))  # a query that either lacks is like one without a difference
    if not names:
        return {}
    found = randomisation_test(np.stack(differences, axis=1), draws=DRAWS)
    return {name: float(p) for name, p in zip(names, found)}
