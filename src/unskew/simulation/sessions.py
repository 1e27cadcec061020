"""Sessions of a simulated log: what each shows, in which order, and what is clicked in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._options import LoggingPolicy, ShockScope
from unskew._segments import IntArray, offsets_of, positions_in, segment_blocks, segment_mean
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.simulation.chance import Chance
from unskew.simulation.clicks import draw_clicks, examination, perceived_relevance
from unskew.simulation.policy import rank_lists, shuffle_lists, swap_landmarks
from unskew.simulation.production import Floats

# Rows taken at once: whole queries, few enough that all passes over them stay in the processor's cache.
_ROWS = 8192


@dataclass(frozen=True)
class Behaviour:
    """How lists are made and how people click; the settings of :func:`unskew.simulation.log.simulate`."""

    eta: float
    noise: float
    passes: int
    landmarks: tuple[int, ...]
    policy: LoggingPolicy
    shock: float
    shock_moves_clicks: bool
    shock_per: ShockScope
    shock_share: float
    seed: int


@dataclass(frozen=True, eq=False)
class Judged:
    """Items of some queries: what the ranker thinks of them and what people do.

    score, grade : (rows,) float64; offsets : (queries + 1,); max_grade : the largest grade there can be.
    score_unit, grade_unit : standard deviations inside queries, over the whole collection.
    """

    score: Floats
    grade: Floats
    offsets: IntArray
    max_grade: int
    score_unit: float
    grade_unit: float

    def part(self, first: int, last: int) -> Judged:
        """Queries first … last − 1."""
        rows = slice(int(self.offsets[first]), int(self.offsets[last]))
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        return Judged(self.score[rows], self.grade[rows], offsets, self.max_grade, self.score_unit, self.grade_unit)


def log_sessions(data: RankingData, score: Floats, behaviour: Behaviour) -> ClickLog:
    """A log of `passes` sessions of every query; score : (rows,) what the production ranker thinks of each item."""
    passes, offsets, total = behaviour.passes, data.offsets, behaviour.passes * data.n_rows
    judged, chance = _judged(data, score), Chance(behaviour.seed)
    curve = examination(int(data.sizes.max()), eta=behaviour.eta)
    row, logged = np.empty(total, np.int64), np.empty(total, np.float32)
    position, click = np.empty(total, np.int32), np.empty(total, np.int32)
    for first, last in pairwise(segment_blocks(offsets, _ROWS)):
        block, start = judged.part(first, last), int(offsets[first])
        sizes, place = np.diff(block.offsets), positions_in(block.offsets).astype(np.int32)
        look, step = curve[place - 1], np.repeat(sizes, sizes)
        # Sessions of a query follow each other: pass p of query q starts at passes · offset(q) + p · size(q).
        target = np.arange(len(place)) + np.repeat(passes * start + (passes - 1) * block.offsets[:-1], sizes)
        for number, (shown, seen, relevance) in enumerate(_lists(block, behaviour, chance)):
            row[target], logged[target], position[target] = shown + start, seen, place
            click[target] = draw_clicks(look * relevance, chance("clicks", number)).astype(np.int32)
            target += step
    return ClickLog(
        data=data,
        row=row,
        session_offsets=offsets_of(np.repeat(data.sizes, passes)),
        position=position,
        click=click,
        session_ids=pl.Series("session_id", np.arange(data.n_queries * passes)),
        logging_score=logged,
    )


def _judged(data: RankingData, score: Floats) -> Judged:
    grade = data.require_grades("Simulating clicks").astype(np.float64)
    units = [_spread_within(values, data.offsets) for values in (score, grade)]
    return Judged(score, grade, data.offsets, data.max_grade or 1, *units)


def _spread_within(values: Floats, offsets: IntArray) -> float:
    """Standard deviation around the mean of the own query, over all rows."""
    within = values - np.repeat(segment_mean(values, offsets), np.diff(offsets))
    return float(np.sqrt(np.mean(within**2)))


def _lists(
    block: Judged, behaviour: Behaviour, chance: Chance
) -> Iterator[tuple[IntArray, npt.NDArray[np.float32], Floats]]:
    """For every pass: the rows in the order shown, what the ranker thought of them, and how relevant they look."""
    ties = chance("ties").random(len(block.score))
    for number in range(behaviour.passes):
        anew = number == 0 or (behaviour.shock > 0 and behaviour.shock_per == "session")
        if anew:
            exact, liked = _shocked(block, behaviour, chance("shock", number))
            seen = exact.astype(np.float32)  # as logged, so that the log's scores explain its order
            relevance = perceived_relevance(liked, noise=behaviour.noise, max_grade=block.max_grade)
            ranked = rank_lists(seen, block.offsets, ties)
        if anew or behaviour.policy == "random" or behaviour.landmarks:
            shown = _moved(ranked, block.offsets, behaviour, chance, number)
            session = shown, seen[shown], relevance[shown]
        yield session


def _moved(ranked: IntArray, offsets: IntArray, behaviour: Behaviour, chance: Chance, number: int) -> IntArray:
    """The lists of one pass, after what the policy leaves to chance."""
    if behaviour.policy == "random":
        ranked = shuffle_lists(ranked, offsets, chance("shuffle", number))
    if behaviour.landmarks:
        ranked = swap_landmarks(ranked, offsets, behaviour.landmarks, chance("swaps", number))
    return ranked


def _shocked(block: Judged, behaviour: Behaviour, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Production scores and grades, both moved by the personalisation shock where there is one."""
    if behaviour.shock == 0:
        return block.score, block.grade
    taste = behaviour.shock * rng.standard_normal(len(block.score))
    if behaviour.shock_share < 1:
        taste *= rng.random(len(taste)) < behaviour.shock_share
    seen = block.score + taste * block.score_unit
    if not behaviour.shock_moves_clicks:
        return seen, block.grade
    return seen, np.clip(block.grade + taste * block.grade_unit, 0.0, block.max_grade)
