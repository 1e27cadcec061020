"""From judged data to a click log, as in the paper's experimental set-up."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np

from unskew._options import LoggingPolicy, ShockScope
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData, check_grades, check_max_grade
from unskew.errors import DataError, FeatureError, GradeError, SettingError, UnskewWarning, check_choice
from unskew.simulation.clicks import Floats, examination
from unskew.simulation.production import BASE_SHARE, ProductionRanker, train_production
from unskew.simulation.sessions import Behaviour, log_sessions


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulated log and what made it.

    log : the click log; its data keeps the grades.
    production : the ranker behind the lists.
    hidden_names : features the ranker saw and the log does not have.
    curve : (longest list,) the true examination of positions 1, 2, …
    settings : every setting; simulate(data, **settings) makes the log again.
    """

    log: ClickLog
    production: ProductionRanker
    hidden_names: tuple[str, ...]
    curve: Floats
    settings: dict[str, Any]


def simulate(
    data: RankingData,
    *,
    eta: float = 1.0,
    noise: float = 0.0,
    passes: int = 10,
    production: float | ProductionRanker = BASE_SHARE,
    landmarks: Sequence[int] = (),
    policy: LoggingPolicy = "production",
    hidden: int | Sequence[str] = 0,
    shock: float = 0.0,
    shock_moves_clicks: bool = False,
    shock_per: ShockScope = "item",
    shock_share: float = 1.0,
    seed: int = 0,
    max_grade: int | None = None,
) -> ClickLog:
    """Show every query `passes` times as a production ranker would, and draw clicks from the position-based model.

    eta : severity η of position bias; examination of rank k is (1/k)^η.
    noise : click noise ε; an item looks relevant with probability ε + (1 − ε)(2^grade − 1)/(2^max − 1).
    passes : sessions of every query.
    production : the share of queries whose grades train a RankSVM, or a ranker trained before (for validation data).
        Its training queries are left out of the log: all of them up to 1 %, beyond that those of the 1 % sample,
        so that only the ranker's strength varies between shares.
    landmarks : ranks whose item is swapped with a random other one, in every session anew.
    policy : "production", or "random" for lists in random order.
    hidden : withhold the features that the ranker leans on most (a number), or these (names).
    shock : size of a personalisation shock to the production score, in standard deviations of that score inside
        queries. With `shock_moves_clicks` it is a true preference: it moves the perceived grade by as many standard
        deviations of the grade inside queries. `shock_per` draws it once an item, or anew in every session;
        `shock_share` is the share of items it falls on (promotions are rare and large).
    max_grade : the collection's largest grade, if the data does not know it.

    >>> from unskew.simulation.synthetic import synthetic_collection
    >>> log = simulate(synthetic_collection(50), passes=2)
    >>> log.n_sessions, log.fixed_positions
    (90, True)
    """
    return simulate_detailed(
        data,
        eta=eta,
        noise=noise,
        passes=passes,
        production=production,
        landmarks=landmarks,
        policy=policy,
        hidden=hidden,
        shock=shock,
        shock_moves_clicks=shock_moves_clicks,
        shock_per=shock_per,
        shock_share=shock_share,
        seed=seed,
        max_grade=max_grade,
    ).log


def simulate_detailed(
    data: RankingData,
    *,
    eta: float = 1.0,
    noise: float = 0.0,
    passes: int = 10,
    production: float | ProductionRanker = BASE_SHARE,
    landmarks: Sequence[int] = (),
    policy: LoggingPolicy = "production",
    hidden: int | Sequence[str] = 0,
    shock: float = 0.0,
    shock_moves_clicks: bool = False,
    shock_per: ShockScope = "item",
    shock_share: float = 1.0,
    seed: int = 0,
    max_grade: int | None = None,
) -> Simulation:
    """As :func:`simulate`, with the production ranker, the true examination curve and the settings beside the log."""
    data = _judged(data, max_grade)
    _check(eta=eta, noise=noise, passes=passes, landmarks=landmarks, shock=shock, shock_share=shock_share)
    check_choice("policy", policy, get_args(LoggingPolicy))
    check_choice("shock_per", shock_per, get_args(ShockScope))
    if isinstance(production, ProductionRanker):
        ranker = production
    else:
        ranker = train_production(data, share=production, seed=seed)
    names = _hidden(hidden, ranker)
    logged = _logged(data, ranker)
    behaviour = Behaviour(
        eta=eta,
        noise=noise,
        passes=passes,
        landmarks=tuple(landmarks),
        policy=policy,
        shock=shock,
        shock_moves_clicks=shock_moves_clicks,
        shock_per=shock_per,
        shock_share=shock_share,
        seed=seed,
    )
    log = log_sessions(logged, ranker.score(logged), behaviour)
    if log.n_clicks == 0:
        warnings.warn(
            "The simulated log has no click at all: too little of what is shown is relevant. "
            "Use more passes, more queries or some noise.",
            UnskewWarning,
            stacklevel=2,
        )
    return Simulation(
        log=log.with_data(without_features(logged, names)),
        production=ranker,
        hidden_names=names,
        curve=examination(int(logged.sizes.max()), eta=eta),
        settings={**asdict(behaviour), "production": ranker.share, "hidden": names, "max_grade": data.max_grade},
    )


def _judged(data: RankingData, max_grade: int | None) -> RankingData:
    grades = data.require_grades("Simulating clicks")
    if max_grade is None:
        return data
    if max_grade < 1:
        raise GradeError(f"max_grade must be 1 or greater, but {max_grade} was given.")
    check_max_grade(max_grade)
    return replace(data, grades=check_grades(grades, max_grade), max_grade=max_grade)


def _check(
    *, eta: float, noise: float, passes: int, landmarks: Sequence[int], shock: float, shock_share: float
) -> None:
    rules = (
        ("eta", eta, np.isfinite(eta) and eta >= 0, "0 or greater"),
        ("noise", noise, 0 <= noise < 1, "at least 0 and less than 1"),
        ("passes", passes, passes >= 1 and passes == int(passes), "a whole number, 1 or greater"),
        ("landmarks", list(landmarks), all(k >= 1 and k == int(k) for k in landmarks), "ranks, 1 or greater"),
        ("shock", shock, np.isfinite(shock) and shock >= 0, "0 or greater"),
        ("shock_share", shock_share, 0 < shock_share <= 1, "greater than 0 and at most 1"),
    )
    for name, value, holds, expected in rules:
        if not holds:
            raise SettingError(f"{name} must be {expected}, but {value} was given.")


def _logged(data: RankingData, ranker: ProductionRanker) -> RankingData:
    """The queries a log may use: with items, and not among those the ranker learnt from."""
    unseen = ranker.unseen(data)
    kept = unseen[data.sizes[unseen] > 0]
    if kept.size == 0:
        raise DataError(
            f"No query is left for the log: the production ranker was trained on all {data.n_queries} of them. "
            "Use data with more queries, or hand over a ranker that was trained on other data."
        )
    return data if kept.size == data.n_queries else data.take_queries(kept)


def _hidden(hidden: int | Sequence[str], ranker: ProductionRanker) -> tuple[str, ...]:
    if not isinstance(hidden, int):
        return tuple(hidden)
    if not 0 <= hidden < len(ranker.feature_names):
        raise SettingError(
            f"hidden must leave at least one of the {len(ranker.feature_names)} features, but {hidden} was given."
        )
    return ranker.leans_on(hidden)


def without_features(data: RankingData, names: Sequence[str]) -> RankingData:
    """The data without these features."""
    if not names:
        return data
    unknown = set(names) - set(data.feature_names)
    if unknown:
        raise FeatureError(f"Features to hide must be in the data, but {sorted(unknown)[0]!r} is not.")
    kept = [i for i, name in enumerate(data.feature_names) if name not in set(names)]
    if not kept:
        raise SettingError("hidden must leave at least one feature, but it names all of them.")
    return data.with_features(data.features[:, kept], [data.feature_names[i] for i in kept])
