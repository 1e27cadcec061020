"""Control terms were found: how much of the position effect is then taken for examination, and what that brings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unskew._segments import ranks_within
from unskew.control.click_fit import PRESETS, ClickFit, fit_clicks
from unskew.control.confounded import AGAINST, TAKEN, bounded, taken_examination
from unskew.control.full import FullControlFunction
from unskew.control.referee import judge_log, recommend
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.evaluation.metrics import per_query
from unskew.recommended import Recommended
from unskew.registry import make_method
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection

LENGTH = 15


def _split(queries: int, seed: int, **shape: int) -> tuple[RankingData, RankingData]:
    """Queries to learn from and queries to test on."""
    data = synthetic_collection(queries, seed=seed, **shape)
    first = np.arange(data.n_queries) < 0.7 * queries
    return data.take_queries(first), data.take_queries(~first)


def _confounded(data: RankingData, **options: object) -> ClickLog:
    """One item in five was moved far, for a reason that clicks share."""
    return simulate(data, shock=6.0, shock_share=0.2, shock_moves_clicks=True, seed=3, **options)


@pytest.fixture(scope="module")
def fit() -> ClickFit:
    return fit_clicks(
        _confounded(_split(80, 1, longest=LENGTH, typical=10, features=8)[0]), settings=PRESETS["smoke"], threads=1
    )


def test_half_of_the_effect_is_taken_and_it_never_rises(fit: ClickFit) -> None:
    taken = np.array(taken_examination(fit, LENGTH + 3))
    assert len(taken) == LENGTH + 3
    assert taken[0] == 1
    assert (np.diff(taken) <= 1e-6).all()
    effect = fit.basis.table[-1] @ fit.stack.effect
    assert taken[-1] == pytest.approx(np.exp(TAKEN * effect), rel=0.3)


def test_clicks_that_rise_with_position_leave_nothing_to_halve(fit: ClickFit) -> None:
    assert bounded(fit)
    assert not bounded(replace(fit, stack=replace(fit.stack, effect=-fit.stack.effect)))


def test_default_ranks_better_than_naive_and_than_the_whole_effect_would() -> None:
    """The case that control functions are made for: what moved the items is not among the features."""
    train, test = _split(260, 2)
    log = _confounded(train)
    grades = test.require_grades("Testing")

    def ndcg(method: object) -> float:
        scores = method.predict(test)  # type: ignore[attr-defined]
        return float(np.nanmean(per_query(grades, scores, test.offsets, max_grade=4)["ndcg@10"]))

    chosen = Recommended(n_jobs=1).fit(log)
    assert chosen.verdict_.settings["terms"] == "shift"
    assert "half of the position effect" in chosen.verdict_.text
    whole = FullControlFunction(terms="shift", n_jobs=1).fit(log)
    naive = make_method("naive", n_jobs=1).fit(log)
    assert ndcg(chosen) > ndcg(naive) + 0.02
    assert ndcg(chosen) > ndcg(whole) + 0.05


def test_swaps_by_chance_do_not_pass_for_reasons() -> None:
    """Beside the examination that swaps tell, the terms are about the place an item usually had."""
    train, test = _split(260, 2)
    log = _confounded(train, landmarks=(1, 3, 5))
    grades = test.require_grades("Testing")

    def ndcg(terms: str | None) -> float:
        model = FullControlFunction(examination=1 / np.arange(1, log.longest_list + 1), terms=terms, n_jobs=1).fit(log)
        return float(np.nanmean(per_query(grades, model.predict(test), test.offsets, max_grade=4)["ndcg@10"]))

    assert recommend(log, n_jobs=1).settings["terms"] == "shift"
    assert ndcg("shift") > ndcg(None) + 0.01


def test_lists_made_to_taste_are_found_by_their_moves() -> None:
    data = _split(400, 2)[0]
    log = simulate(data, shock=2.0, shock_moves_clicks=True, shock_per="session", seed=3)
    verdict = judge_log(log, terms=("shift",), threads=1)
    assert verdict["position + moves"].found
    assert verdict.settings["terms"] == "moves"


def test_terms_auto_takes_the_examination_with_the_terms() -> None:
    log = _confounded(_split(260, 2)[0])
    model = FullControlFunction(terms="auto", preset="smoke", n_jobs=1).fit(log)
    settings = model.outcome_.extra["referee"]["settings"]
    assert settings["terms"] == "shift"
    np.testing.assert_allclose(model.bias_.value, settings["examination"])


@pytest.mark.parametrize(
    "cause", [{"shock": 4.0, "shock_share": 0.06}, {"shock": 2.0, "shock_per": "session"}], ids=["items", "taste"]
)
def test_relevance_that_runs_against_the_ranker_is_a_sign_of_a_common_cause(cause: dict[str, Any]) -> None:
    """Few items moved far, or lists made to taste and seen often: terms need not be found for the sign to be there."""
    judged = synthetic_collection(100, longest=30, typical=15, seed=1)
    train, test = (judged.take_queries(np.arange(*span)) for span in ((70,), (70, 100)))
    log = simulate(train, passes=30, shock_moves_clicks=True, seed=1, **cause)
    grades = test.require_grades("Testing")

    def ndcg(method: object) -> float:
        scores = method.predict(test)  # type: ignore[attr-defined]
        return float(np.nanmean(per_query(grades, scores, test.offsets, max_grade=4)["ndcg@10"]))

    chosen = Recommended(n_jobs=1).fit(log)
    assert chosen.verdict_.agreement < AGAINST
    assert chosen.verdict_.against
    assert "runs against the production ranker's own order" in chosen.verdict_.text
    whole = FullControlFunction(n_jobs=1).fit(log)
    assert ndcg(whole) < ndcg(chosen) - 0.1
    assert ndcg(chosen) > ndcg(make_method("naive", n_jobs=1).fit(log))


@pytest.mark.parametrize("seed", range(4))
def test_shuffled_lists_have_no_order_to_run_against(seed: int) -> None:
    """What the features say of a shuffled place is noise, whose sign means nothing; η is then known best of all."""
    rng = np.random.default_rng(seed)
    sizes = np.full(80, 8)
    x = rng.normal(size=(sizes.sum(), 1)).astype(np.float32)
    passes, offsets = 8, np.r_[0, np.cumsum(sizes)]
    position = np.concatenate([ranks_within(rng.normal(size=len(x)), offsets) for _ in range(passes)])
    row = np.tile(np.arange(len(x)), passes)
    rate = np.minimum(np.exp(-1.5 + 0.8 * x[row, 0]) / position, 1)
    session = np.repeat(np.arange(passes), len(x)) * 80 + np.tile(np.repeat(np.arange(80), 8), passes)
    data = RankingData.from_arrays(x, sizes=sizes)
    log = ClickLog.from_arrays(data, row=row, session=session, position=position, click=rng.random(len(row)) < rate)
    verdict = recommend(log, n_jobs=1)
    assert verdict.agreement is None
    assert not verdict.against


def test_without_a_common_cause_nothing_runs_against_the_ranker() -> None:
    verdict = recommend(simulate(_split(260, 2)[0], seed=3), n_jobs=1)
    assert verdict.agreement > 0.3
    assert not verdict.against
    assert "runs against" not in verdict.text
