"""Which unit next, and how long it will still take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from unskew.bench.experiments import CONTROL
from unskew.bench.scales import TRANSFORMATIONS
from unskew.bench.units import Unit

# Rough seconds of one fit, relative to a naive LambdaMART; only the order and the first guess depend on them.
_COST: Mapping[str, float] = {
    "full-cfc": 0.6,
    "pijd-linear": 0.5,
    "paird": 1.3,
    "oracle": 0.7,
    "upe": 3.0,
    "multr": 2.5,
}
_RANKER = {"dnn": 2.4, "linear": 0.3, "none": 0.3}


def cost(unit: Unit) -> float:
    """How long a unit takes beside others, before any was timed."""
    if unit.kind != "ranking":
        return 0.5
    options = dict(unit.options)
    fits = max(len(unit.rates), 1) * unit.average * len(options.get("cutoffs", (0,)))
    if unit.method in CONTROL:
        fits *= 1 if "transformation" in options else TRANSFORMATIONS
    # Where lists change from pass to pass, equal sessions cannot be merged.
    lists = max(unit.cell.passes / 2, 1) if unit.cell.landmarks or unit.cell.shock_per == "session" else 1.0
    return fits * _COST.get(unit.method, 1.0) * _RANKER.get(unit.ranker, 1.0) * lists


class Schedule:
    """Hands out units: those of a group one after another to the same worker, long ones first.

    A worker that finds no group unbegun helps with the one that has most left, and makes its log again: that costs
    little beside an idle core.
    """

    def __init__(self, units: Iterable[Unit]) -> None:
        self._left: dict[Any, list[Unit]] = defaultdict(list)
        for unit in units:
            self._left[unit.group].append(unit)
        for waiting in self._left.values():
            waiting.sort(key=cost)  # taken from the end
        self._begun: set[Any] = set()
        self._at: dict[int, Any] = {}

    def __len__(self) -> int:
        return sum(len(units) for units in self._left.values())

    def next(self, worker: int) -> Unit | None:
        """The next unit for a worker; None when nothing is left."""
        group = self._at.get(worker)
        if not self._left.get(group):
            waiting = {name: sum(map(cost, units)) for name, units in self._left.items() if units}
            if not waiting:
                return None
            fresh = {name: total for name, total in waiting.items() if name not in self._begun}
            group = max(fresh or waiting, key=(fresh or waiting).__getitem__)
        self._begun.add(group)
        self._at[worker] = group
        return self._left[group].pop()

    def waiting(self) -> list[Unit]:
        """What is left."""
        return [unit for units in self._left.values() for unit in units]


class Clock:
    """Remaining time from what this run has timed: by kind of unit where one was timed, else by its expected cost."""

    def __init__(self) -> None:
        self._kinds: dict[Any, list[float]] = defaultdict(list)
        self._seconds = self._expected = 0.0

    def saw(self, unit: Unit, seconds: float) -> None:
        self._kinds[_kind(unit)].append(seconds)
        self._seconds += seconds
        self._expected += cost(unit)

    def expects(self, unit: Unit) -> float | None:
        """Seconds a unit will take; None before anything was timed."""
        seen = self._kinds.get(_kind(unit))
        if seen:
            return sum(seen) / len(seen)
        return cost(unit) * self._seconds / self._expected if self._expected else None

    def left(self, waiting: Iterable[Unit], running: Iterable[tuple[Unit, float]], workers: int) -> float | None:
        """Seconds until the last unit is done; `running` are units and the seconds they have had.

        >>> Clock().left([], [], 1) is None
        True
        """
        if not self._expected:
            return None
        ahead = [self.expects(unit) or 0.0 for unit in waiting]
        rest = [max((self.expects(unit) or 0.0) - had, 0.0) for unit, had in running]
        return max([sum(ahead + rest) / max(workers, 1), *ahead, *rest])


def _kind(unit: Unit) -> tuple[Any, ...]:
    return unit.method, unit.ranker, unit.options, len(unit.rates), unit.average, bool(unit.cell.landmarks)
