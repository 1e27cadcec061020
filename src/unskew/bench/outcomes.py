"""What a run came to: the values of every test query, gathered from the units, by place in the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.bench.plan import Entry, Plan
from unskew.bench.store import Failure, Store

Values = npt.NDArray[np.float64]
# ranker, method
Column = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Sample:
    """A method's results in one setting.

    per_query : metric → (seeds, queries), NaN where a query has no relevant item or its unit is missing.
    by_unit : metric → (units,) one number a fold and seed.
    planned : how many units there should be.
    """

    per_query: Mapping[str, Values]
    by_unit: Mapping[str, Values]
    planned: int

    @property
    def n(self) -> int:
        """Units there are."""
        return len(next(iter(self.by_unit.values()), ()))

    def queries(self, metric: str) -> Values:
        """(queries,) averaged over seeds; NaN where any seed lacks a value."""
        return self.per_query[metric].mean(axis=0)

    def mean(self, metric: str) -> float:
        """Over test queries and seeds; over units for what is not measured by query."""
        values = self.per_query.get(metric, self.by_unit[metric])
        return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")

    def sd(self, metric: str) -> float | None:
        """Spread over folds and seeds; None for a single unit."""
        values = self.by_unit[metric]
        values = values[~np.isnan(values)]  # what a unit had no number for
        return float(values.std(ddof=1)) if len(values) > 1 else None


class Outcome:
    """The results of one plan, read from a store when first asked for."""

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan = plan
        self.store = store

    def setting(self, name: str) -> dict[Column, Sample]:
        """Every method of a setting that has results, in the order of the table."""
        return self._samples[name]

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics there are, in the order they were measured."""
        samples = [sample for of in self._samples.values() for sample in of.values()]
        return list(dict.fromkeys(metric for sample in samples for metric in sample.by_unit))

    @cached_property
    def failures(self) -> list[Failure]:
        units = [unit for unit in self.plan.units if not self.store.is_done(unit)]
        return [failure for unit in units if (failure := self.store.failure(unit)) is not None]

    @property
    def missing(self) -> int:
        """Units that are not there (failed, or not done yet)."""
        return sum(not self.store.is_done(unit) for unit in self.plan.units)

    def records(self, setting: str) -> dict[Column, list[dict[str, Any]]]:
        """What was written beside the metrics of a setting's units: curves, times, chosen candidates, facts."""
        found: dict[Column, list[dict[str, Any]]] = defaultdict(list)
        for entry in self.plan.entries:
            if entry.setting == setting and self.store.is_done(entry.unit):
                found[entry.ranker, entry.method].append(self.store.record(entry.unit))
        return dict(found)

    @cached_property
    def _samples(self) -> dict[str, dict[Column, Sample]]:
        by_setting: dict[str, dict[Column, list[Entry]]] = {name: defaultdict(list) for name in self.plan.settings}
        for entry in self.plan.entries:
            by_setting[entry.setting][entry.ranker, entry.method].append(entry)
        gather = self._by_query if self.plan.kind == "ranking" else _by_value
        return {
            setting: {
                column: sample for column, entries in columns.items() if (sample := gather(entries, self.store)).n
            }
            for setting, columns in by_setting.items()
        }

    def _by_query(self, entries: list[Entry], store: Store) -> Sample:
        metrics = [name for name in next(iter(self._frames.values()), {}) if name != "query_id"]
        sizes = self._sizes
        per_query = {metric: np.full((len(self.plan.seeds), sum(sizes.values())), np.nan) for metric in metrics}
        by_unit: dict[str, list[float]] = {metric: [] for metric in metrics}
        starts = dict(zip(sizes, np.cumsum([0, *sizes.values()])))
        for entry in entries:
            frame = self._frames.get(entry.unit.key)
            if frame is None:
                continue
            place = slice(starts[entry.unit.fold], starts[entry.unit.fold] + sizes[entry.unit.fold])
            for metric in metrics:
                per_query[metric][self.plan.seeds.index(entry.unit.seed), place] = frame[metric]
                by_unit[metric].append(float(np.nanmean(frame[metric])))
        return Sample(per_query, {metric: np.array(values) for metric, values in by_unit.items()}, len(entries))

    @cached_property
    def _frames(self) -> dict[str, dict[str, Values]]:
        """Unit → metric → (queries,)."""
        return {
            unit.key: {
                name: column.to_numpy()
                for name, column in self.store.per_query(unit).to_dict().items()
                if name != "query_id"
            }
            for unit in self.plan.units
            if unit.kind == "ranking" and self.store.is_done(unit)
        }

    @cached_property
    def _sizes(self) -> dict[int, int]:
        """Fold → test queries."""
        found = {
            unit.fold: len(next(iter(self._frames[unit.key].values())))
            for unit in self.plan.units
            if unit.key in self._frames
        }
        return dict(sorted(found.items()))


def _by_value(entries: list[Entry], store: Store) -> Sample:
    found: dict[str, list[float]] = defaultdict(list)
    for entry in entries:
        if store.is_done(entry.unit):
            for name, value in store.record(entry.unit)["values"].items():
                found[name].append(float("nan") if value is None else value)
    return Sample({}, {name: np.array(values) for name, values in found.items()}, len(entries))


def open_run(folder: Any) -> list[Outcome]:
    """Every experiment of a run's folder.

    The way from here: outcome.plan says what was asked, unskew.bench.tables.rows(outcome) gives the table,
    outcome.records(setting) the curves, times and facts behind it.
    """
    store = Store.open(folder)
    return [Outcome(plan, store) for plan in store.plans()]
