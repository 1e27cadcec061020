"""Giving up candidates that cannot be expected to win any more, so that a search costs less than its candidates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_KEY = "race"


@dataclass(frozen=True)
class Finish:
    """A candidate that was trained to its end.

    pace : its learning rate; best : its value; path : the best value seen up to every stage that was looked at.
    """

    pace: float
    best: float
    path: dict[int, float]

    def rise_after(self, stage: int) -> float:
        """How much better it became after that many trees."""
        known = [seen for at, seen in self.path.items() if at <= stage]
        return max(self.best - (known[-1] if known else min(self.path.values())), 0.0)


@dataclass
class Race:
    """What a search knows about the candidates so far.

    A candidate is given up when it would lose even if it rose from here as much as any before it did, and what chance
    moves a mean over so many validation lists more. Only candidates of its own pace or slower count as "before it":
    what learns faster has less left to learn. They are looked at every `every` trees, nobody before `earliest`. This
    is a rule of thumb; benchmarks/bench_control.py checks that the choice is that of the whole search.

    noise : by how much two similar rankings of one list differ; a mean over n lists moves by noise / √n.

    >>> race = Race(finished=[Finish(0.1, 0.52, {100: 0.50, 300: 0.52})])
    >>> race.hopeless(0.1, 100, 0.49, lists=400), race.hopeless(0.1, 100, 0.51, lists=400)
    (True, False)
    """

    noise: float = 0.08
    earliest: int = 100
    every: int = 50
    finished: list[Finish] = field(default_factory=list)

    def looks(self, last: int) -> range:
        """The numbers of trees at which a candidate of so many trees is looked at."""
        return range(self.earliest, last, self.every)

    def hopeless(self, pace: float, stage: int, best: float, *, lists: int) -> bool:
        """Whether a candidate whose best was `best` up to so many trees, on so many lists, may be given up."""
        before = [one.rise_after(stage) for one in self.finished if one.pace <= pace]
        if stage < self.earliest or not before:
            return False
        leader = max(one.best for one in self.finished)
        # NDCG is at most 1; sums of debiased clicks have a scale of their own.
        room = self.noise / max(lists, 1) ** 0.5 * max(1.0, abs(leader))
        return best + max(before) + room < leader


def start_race(cache: dict[Any, Any]) -> None:
    """Let the fits that share this cache compete."""
    cache[_KEY] = Race()


def race_of(cache: dict[Any, Any] | None) -> Race | None:
    """The race of a search, if the fit is part of one."""
    return None if cache is None else cache.get(_KEY)
