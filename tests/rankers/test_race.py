"""Giving candidates up: the rule itself, and that a search still chooses what the whole search chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unskew.data.design import DesignMatrix
from unskew.data.lists import training_lists
from unskew.evaluation.judge import LabelJudge, make_judge
from unskew.rankers import race as racing
from unskew.rankers.lambdamart import LambdaMART
from unskew.rankers.race import Finish, Race
from unskew.rankers.search import search, trials_of
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection


def test_a_rise_is_measured_from_the_last_stage_known() -> None:
    one = Finish(0.1, 0.47, {50: 0.40, 100: 0.45, 300: 0.47})
    assert one.rise_after(50) == pytest.approx(0.07)
    assert one.rise_after(200) == pytest.approx(0.02)
    assert one.rise_after(300) == 0.0
    assert one.rise_after(10) == pytest.approx(0.07)  # nothing is known so early: the whole way
    # A look between the stages may have seen more than any stage has.
    assert Finish(0.1, 0.47, {100: 0.45, 150: 0.48, 300: 0.48}).rise_after(150) == 0.0


def test_nobody_is_given_up_without_reason() -> None:
    assert not Race().hopeless(0.1, 300, -1.0, lists=256)  # the first of all
    race = Race(finished=[Finish(0.1, 0.52, {100: 0.50, 300: 0.52})])
    assert not race.hopeless(0.1, 50, 0.1, lists=256)  # too early to tell
    assert not race.hopeless(0.05, 100, 0.1, lists=256)  # slower than anyone before: it may rise later
    assert not race.hopeless(0.1, 100, 0.496, lists=256)  # 0.496 + 0.02 + 0.08 / 16 > 0.52
    assert race.hopeless(0.1, 100, 0.494, lists=256)
    assert race.hopeless(0.2, 100, 0.494, lists=256)
    assert not race.hopeless(0.1, 100, 0.494, lists=64)  # few lists: the mean moves more


def test_sums_have_more_room() -> None:
    race = Race(finished=[Finish(0.1, 5.02, {100: 5.0, 300: 5.02})])
    assert not race.hopeless(0.1, 100, 4.98, lists=256)
    assert race.hopeless(0.1, 100, 4.97, lists=256)


def test_the_leader_is_the_best_of_all() -> None:
    race = Race(finished=[Finish(0.1, 0.31, {100: 0.3, 300: 0.31}), Finish(0.2, 0.6, {100: 0.6, 300: 0.6})])
    # Only the slower one is a precedent for its rise, but it has to beat them both.
    assert race.hopeless(0.1, 100, 0.58, lists=256)
    assert not race.hopeless(0.1, 100, 0.586, lists=256)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_choice_of_the_whole_search(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten settings, most of them poor: the race gives some up and still finds the best."""
    log = simulate(synthetic_collection(60, features=8, seed=seed), passes=5, seed=seed)
    judge = make_judge(synthetic_collection(30, features=8, seed=seed + 50))
    lists = training_lists(log)
    noise = np.random.default_rng(seed).normal(size=log.data.features.shape).astype(np.float32)

    def trials() -> Any:
        ranker = LambdaMART(preset="smoke", trees=(20, 100, 200), learning_rate=(0.05, 0.1), n_jobs=1)
        # Designs whose features say less and less about relevance.
        for number, share in enumerate((0.0, 0.5, 2.0, 8.0, 100.0)):
            design = DesignMatrix(log.data.features + share * noise, lists.row)
            yield from trials_of(ranker, design, lists.label, lists.sizes, weight=lists.weight, setting={"n": number})

    raced, trial, candidates = search(trials(), judge)
    monkeypatch.setattr(racing.Race, "hopeless", lambda *given, lists: False)
    whole, expected, every = search(trials(), judge)
    assert trial.setting == expected.setting
    assert raced.stage_ == whole.stage_
    assert raced.judged_ == whole.judged_
    assert len(candidates) == len(every)


@pytest.mark.parametrize("stages", [(50, 100, 200), (200,)])
def test_one_that_was_given_up_is_shorter(stages: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulate(synthetic_collection(40, features=8, seed=3), passes=3, seed=3)
    judge = make_judge(synthetic_collection(20, features=8, seed=60))
    lists = training_lists(log)
    monkeypatch.setattr(
        racing.Race, "hopeless", lambda self, pace, stage, best, lists: bool(self.finished) and stage == 150
    )
    ranker = LambdaMART(preset="smoke", trees=stages, learning_rate=(0.1, 0.11), n_jobs=1)
    trials = trials_of(ranker, DesignMatrix(log.data.features, lists.row), lists.label, lists.sizes)
    trained: list[int] = []
    train = LambdaMART._train

    def count(self: LambdaMART, *given: Any) -> Any:
        found = train(self, *given)
        trained.append(self.booster_.current_iteration())
        return found

    monkeypatch.setattr(LambdaMART, "_train", count)
    _, _, candidates = search(trials, judge)
    assert trained == [200, 150]
    assert candidates[1].setting["stage"] in (*stages, 150)
    assert np.isfinite(candidates[1].score or 0.0)


def test_trees_that_run_dry_between_the_stages_may_still_win() -> None:
    """Two values of one feature can be split once; no stage is reached, so what there is has to do."""
    x = np.tile(np.float32([[0], [1]]), (40, 1))
    design, labels, sizes = DesignMatrix(x), np.tile([0, 1], 40), np.full(40, 2)
    judge = LabelJudge(design, labels, np.arange(0, 81, 2))
    ranker = LambdaMART(preset="smoke", trees=(500,), learning_rate=1.0, min_rows=1, l2=0.0, n_jobs=1)
    fitted, _, candidates = search(trials_of(ranker, design, labels, sizes), judge)
    assert 0 < fitted.stage_ < 500
    assert candidates[0].score == fitted.judged_ == 1.0
