"""Sessions of a simulated log: what each shows, in which order, and what is clicked in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._segments import IntArray, offsets_of, order_within, positions_in, segment_mean
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.simulation.clicks import draw_clicks, examination, perceived_relevance
from unskew.simulation.policy import shuffle_lists, swap_landmarks
from unskew.simulation.production import Floats

# Every kind of chance has a stream of its own: a change of one setting leaves the draws of the others as they were,
# and more passes leave the first ones as they were.
_STREAMS = ("sample", "ties", "swaps", "shuffle", "shock", "clicks")


def stream(seed: int, name: str, *index: int) -> np.random.SeedSequence:
    """The seed of one kind of chance, and inside it of one session of every query."""
    return np.random.SeedSequence(seed, spawn_key=(_STREAMS.index(name), *index))


@dataclass(frozen=True)
class Behaviour:
    """How lists are made and how people click; see :func:`unskew.simulation.log.simulate_detailed`."""

    eta: float
    noise: float
    passes: int
    landmarks: tuple[int, ...]
    shuffled: bool
    shock: float
    shock_moves_clicks: bool
    shock_per_session: bool
    seed: int


def log_sessions(data: RankingData, score: Floats, behaviour: Behaviour) -> ClickLog:
    """A log of `passes` sessions of every query; score : (rows,) what the production ranker thinks of each item."""
    passes, sizes, offsets = behaviour.passes, data.sizes, data.offsets
    position = positions_in(offsets).astype(np.int32)
    look = examination(int(sizes.max()), eta=behaviour.eta)[position - 1]
    total = passes * data.n_rows
    row, click, logged = np.empty(total, np.int64), np.empty(total, np.int32), np.empty(total, np.float32)
    # Sessions of a query follow each other: pass p of query q starts at passes · offset(q) + p · size(q).
    place = np.arange(data.n_rows) + np.repeat((passes - 1) * offsets[:-1], sizes)
    step = np.repeat(sizes, sizes)
    for number, (shown, shown_score, relevance) in enumerate(_lists(data, score, behaviour)):
        row[place], logged[place] = shown, shown_score
        rng = np.random.default_rng(stream(behaviour.seed, "clicks", number))
        click[place] = draw_clicks(look, relevance, rng)
        place += step
    session_sizes = np.repeat(sizes, passes)
    session_offsets = offsets_of(session_sizes)
    return ClickLog(
        data=data,
        row=row,
        session_offsets=session_offsets,
        position=positions_in(session_offsets).astype(np.int32),
        click=click,
        session_ids=pl.Series("session_id", np.arange(len(session_sizes))),
        logging_score=logged,
    )


def _lists(
    data: RankingData, score: Floats, behaviour: Behaviour
) -> Iterator[tuple[IntArray, npt.NDArray[np.float32], Floats]]:
    """For every pass: the rows in the order shown, what the ranker thought of them, and how relevant they look."""
    ties = np.random.default_rng(stream(behaviour.seed, "ties")).random(data.n_rows)
    anew = behaviour.shock > 0 and behaviour.shock_per_session
    for number in range(behaviour.passes):
        if number == 0 or anew:
            exact, liked = _shocked(data, score, behaviour, number)
            seen = exact.astype(np.float32)  # as logged, so that the log's scores explain its order
            ranked = order_within(seen, data.offsets, ties=ties)
            relevance = perceived_relevance(liked, noise=behaviour.noise, max_grade=data.max_grade or 1)
        shown = ranked
        if behaviour.shuffled:
            shown = shuffle_lists(shown, data.offsets, np.random.default_rng(stream(behaviour.seed, "shuffle", number)))
        if behaviour.landmarks:
            chance = np.random.default_rng(stream(behaviour.seed, "swaps", number))
            shown = swap_landmarks(shown, data.offsets, behaviour.landmarks, chance)
        yield shown, seen[shown], relevance[shown]


def _shocked(data: RankingData, score: Floats, behaviour: Behaviour, number: int) -> tuple[Floats, Floats]:
    """Production scores and grades, both moved by the personalisation shock where there is one."""
    grades = data.require_grades("Simulating clicks").astype(np.float64)
    if behaviour.shock == 0:
        return score, grades
    chance = np.random.default_rng(stream(behaviour.seed, "shock", number)).standard_normal(data.n_rows)
    taste = behaviour.shock * chance
    seen = score + taste * _spread_within(score, data.offsets)
    if not behaviour.shock_moves_clicks:
        return seen, grades
    liked = grades + taste * _spread_within(grades, data.offsets)
    return seen, np.clip(liked, 0.0, data.max_grade)


def _spread_within(values: Floats, offsets: IntArray) -> float:
    """Standard deviation around the mean of the own query, over all rows."""
    within = values - np.repeat(segment_mean(values, offsets), np.diff(offsets))
    return float(np.sqrt(np.mean(within**2)))
