"""From judged data to a click log."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import unskew
from unskew._segments import positions_in
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import DataError, FeatureError, GradeError, SettingError
from unskew.simulation import sessions
from unskew.simulation.log import simulate, simulate_detailed
from unskew.simulation.production import train_production
from unskew.simulation.synthetic import synthetic_collection


@pytest.fixture(scope="module")
def collection() -> RankingData:
    return synthetic_collection(300, features=12, typical=15)


def _bytes(log: ClickLog) -> list[bytes]:
    assert log.logging_score is not None
    arrays = (log.row, log.session_offsets, log.position, log.click, log.logging_score, log.data.features)
    return [array.tobytes() for array in arrays]


def _ranking(log: ClickLog, number: int = 0, passes: int = 10) -> np.ndarray:
    """(rows,) position of every row in one pass."""
    chosen = log.take_sessions(np.arange(number, log.n_sessions, passes))
    out = np.zeros(log.data.n_rows, dtype=int)
    out[chosen.row] = chosen.position
    return out


def test_every_session_shows_the_whole_list_once(collection: RankingData) -> None:
    for settings in ({}, {"landmarks": (1, 3, 5, 10)}, {"policy": "random"}, {"shock": 1.0, "shock_per": "session"}):
        log = simulate(collection, passes=3, **settings)
        assert log.n_sessions == 3 * log.data.n_queries
        np.testing.assert_array_equal(log.position, positions_in(log.session_offsets))
        np.testing.assert_array_equal(log.session_query, np.repeat(np.arange(log.data.n_queries), 3))
        np.testing.assert_array_equal(np.bincount(log.row), 3)
        keys = log.session_of * log.data.n_rows + log.row
        assert len(np.unique(keys)) == log.n_impressions
        assert set(np.unique(log.click)) <= {0, 1}
        assert log.n_clicks > 0


@pytest.mark.parametrize("settings", [{}, {"landmarks": (1, 3)}, {"policy": "random"}, {"shock": 0.5, "noise": 0.1}])
def test_same_seed_same_bytes(collection: RankingData, settings: dict[str, Any]) -> None:
    first, again, other = (simulate(collection, seed=seed, **settings) for seed in (7, 7, 8))
    assert _bytes(first) == _bytes(again)
    assert _bytes(first) != _bytes(other)


@pytest.mark.parametrize("settings", [{}, {"landmarks": (1, 3)}, {"policy": "random"}, {"shock": 1.0}])
def test_blocks_are_not_seen(
    collection: RankingData, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    whole = simulate(collection, **settings)
    monkeypatch.setattr(sessions, "_ROWS", 40)
    assert _bytes(simulate(collection, **settings)) == _bytes(whole)


def test_clicks_do_not_reach_the_ranking(collection: RankingData) -> None:
    base = simulate(collection)
    for settings in ({"eta": 2.0}, {"noise": 0.3}):
        other = simulate(collection, **settings)
        np.testing.assert_array_equal(other.row, base.row)
        assert (other.click != base.click).any()


def test_more_passes_keep_the_first_ones(collection: RankingData) -> None:
    settings: dict[str, Any] = {"landmarks": (1, 3, 5, 10), "noise": 0.1}
    few, many = (simulate(collection, passes=passes, **settings) for passes in (2, 5))
    first = many.take_sessions(np.flatnonzero(np.arange(many.n_sessions) % 5 < 2))
    np.testing.assert_array_equal(first.row, few.row)
    np.testing.assert_array_equal(first.click, few.click)


def test_the_ranking_is_the_production_rankers(collection: RankingData) -> None:
    simulation = simulate_detailed(collection)
    log = simulation.log
    assert log.fixed_positions
    np.testing.assert_array_equal(_ranking(log), simulation.production.rank(log.data))
    scores = simulation.production.score(log.data).astype(np.float32)
    np.testing.assert_array_equal(log.logging_score, scores[log.row])
    inside = log.session_of[1:] == log.session_of[:-1]
    assert (np.diff(log.logging_score)[inside] <= 0).all()


def test_training_queries_are_left_out(collection: RankingData) -> None:
    simulation = simulate_detailed(collection)
    logged = set(simulation.log.data.query_ids.to_list())
    trained = {collection.query_ids[int(i)] for i in simulation.production.trained_on}
    assert logged | trained == set(collection.query_ids.to_list())
    assert not logged & trained


def test_stronger_rankers_log_the_same_queries(collection: RankingData) -> None:
    weak, strong = (simulate_detailed(collection, production=share) for share in (0.01, 1.0))
    assert weak.log.data.query_ids.to_list() == strong.log.data.query_ids.to_list()
    assert len(strong.production.trained_on) == collection.n_queries
    assert strong.production.ndcg > weak.production.ndcg  # type: ignore[operator]
    assert strong.log.n_clicks > weak.log.n_clicks


def test_a_ranker_can_be_handed_over(collection: RankingData) -> None:
    first = simulate_detailed(collection, seed=2)
    again = simulate_detailed(collection, production=train_production(collection, seed=2), seed=2)
    assert _bytes(again.log) == _bytes(first.log)
    validation = synthetic_collection(40, seed=5, features=12, typical=15)
    log = simulate(validation, production=first.production)
    assert log.data is validation


def test_grades_and_the_largest_grade_are_kept(collection: RankingData) -> None:
    log = simulate(collection, max_grade=6)
    kept = collection.take_queries(train_production(collection).unseen(collection))
    np.testing.assert_array_equal(log.data.grades, kept.grades)
    assert log.data.max_grade == 6
    assert simulate(collection).data.max_grade == 4
    # A larger maximum makes every item look less relevant.
    assert log.n_clicks < simulate(collection).n_clicks


@pytest.mark.parametrize(("eta", "noise"), [(1.0, 0.0), (0.5, 0.2), (0.0, 0.0), (2.0, 0.1)])
def test_click_rates_are_the_models(eta: float, noise: float) -> None:
    grades = np.tile([0, 1, 2, 3, 4, 0], 500)
    rng = np.random.default_rng(0)
    data = RankingData.from_arrays(rng.normal(size=(3000, 2)), sizes=[6] * 500, grades=grades, max_grade=4)
    simulation = simulate_detailed(data, eta=eta, noise=noise, passes=40, policy="random")
    log = simulation.log
    np.testing.assert_allclose(simulation.curve, np.arange(1, 7.0) ** -eta)
    shown = log.data.grades[log.row]
    for position in range(1, 7):
        for grade in range(5):
            cell = log.click[(log.position == position) & (shown == grade)]
            chance = position**-eta * (noise + (1 - noise) * (2**grade - 1) / 15)
            assert abs(cell.mean() - chance) <= 5 * np.sqrt(chance * (1 - chance) / len(cell)) + 1e-12


def test_landmarks_move_what_they_should(collection: RankingData) -> None:
    plain, swapped = simulate(collection), simulate(collection, landmarks=(1,))
    assert not swapped.fixed_positions
    before, after = _ranking(plain), _ranking(swapped)
    moved = np.add.reduceat((before != after).astype(int), plain.data.offsets[:-1])
    assert set(moved) == {2}  # one landmark is one swap in every list of two or more
    assert (after[before == 1] > 1).all()
    assert (_ranking(swapped, 1) != after).any()


def test_random_lists_have_nothing_to_do_with_the_scores(collection: RankingData) -> None:
    log = simulate(collection, policy="random")
    assert abs(np.corrcoef(log.logging_score, log.position)[0, 1]) < 0.03


def test_hidden_features_rank_but_are_not_logged(collection: RankingData) -> None:
    plain, hidden = simulate_detailed(collection), simulate_detailed(collection, hidden=3)
    assert hidden.hidden_names == hidden.production.leans_on(3)
    assert not set(hidden.hidden_names) & set(hidden.log.data.feature_names)
    assert hidden.log.data.n_features == 9
    np.testing.assert_array_equal(hidden.log.row, plain.log.row)
    np.testing.assert_array_equal(hidden.log.click, plain.log.click)
    for column, name in enumerate(hidden.log.data.feature_names):
        original = plain.log.data.feature_names.index(name)
        np.testing.assert_array_equal(hidden.log.data.features[:, column], plain.log.data.features[:, original])
    named = simulate_detailed(collection, hidden=hidden.hidden_names)
    assert _bytes(named.log) == _bytes(hidden.log)


def test_a_shock_moves_the_ranking_by_its_size(collection: RankingData) -> None:
    plain, small, large = (simulate(collection, shock=size) for size in (0.0, 0.2, 2.0))
    agreement = [np.corrcoef(_ranking(plain), _ranking(log))[0, 1] for log in (small, large)]
    assert agreement[0] > 0.9 > 0.7 > agreement[1]
    assert small.fixed_positions
    anew = simulate(collection, shock=0.2, shock_per="session")
    assert not anew.fixed_positions
    np.testing.assert_array_equal(_ranking(anew), _ranking(small))


def test_a_shock_is_in_units_of_the_score(collection: RankingData) -> None:
    simulation = simulate_detailed(collection, shock=1.5, passes=1)
    log = simulation.log
    score = simulation.production.score(log.data)
    added = np.zeros(log.data.n_rows)
    added[log.row] = log.logging_score
    added -= score
    within = score - np.repeat(np.add.reduceat(score, log.data.offsets[:-1]) / log.data.sizes, log.data.sizes)
    assert added.std() == pytest.approx(1.5 * within.std(), rel=0.05)


def test_a_shock_moves_clicks_only_when_told(collection: RankingData) -> None:
    still = simulate_detailed(collection, shock=2.0, passes=30, eta=0.0)
    moved = simulate_detailed(collection, shock=2.0, passes=30, eta=0.0, shock_moves_clicks=True)
    np.testing.assert_array_equal(still.log.row, moved.log.row)
    irrelevant = still.log.data.grades[still.log.row] == 0
    assert still.log.click[irrelevant].sum() == 0
    pushed = moved.log.logging_score - moved.production.score(moved.log.data)[moved.log.row]  # type: ignore[operator]
    rates = [moved.log.click[irrelevant & (sign * pushed > 0)].mean() for sign in (1, -1)]
    assert rates[0] > 0.01
    assert rates[1] == 0


def test_a_shock_may_fall_on_a_share_of_the_items(collection: RankingData) -> None:
    simulation = simulate_detailed(collection, shock=3.0, shock_share=0.2, passes=1)
    log = simulation.log
    shocked = log.logging_score != simulation.production.score(log.data).astype(np.float32)[log.row]
    assert shocked.mean() == pytest.approx(0.2, abs=0.03)
    assert _bytes(simulate(collection, shock=3.0, shock_share=1.0)) == _bytes(simulate(collection, shock=3.0))


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"eta": -0.1}, SettingError, "eta must be 0 or greater, but -0.1"),
        ({"eta": float("nan")}, SettingError, "eta"),
        ({"noise": 1.0}, SettingError, "noise must be at least 0 and less than 1"),
        ({"noise": -0.1}, SettingError, "noise"),
        ({"passes": 0}, SettingError, "passes must be a whole number"),
        ({"passes": 1.5}, SettingError, "passes"),
        ({"landmarks": (0,)}, SettingError, "landmarks must be ranks"),
        ({"landmarks": (1.5,)}, SettingError, "landmarks"),
        ({"shock": -1.0}, SettingError, "shock"),
        ({"shock_share": 0.0}, SettingError, "shock_share must be greater than 0 and at most 1"),
        ({"seed": -1}, SettingError, "seed"),
        ({"policy": "greedy"}, SettingError, "'production', 'random'"),
        ({"shock_per": "user"}, SettingError, "'item', 'session'"),
        ({"production": 0.0}, SettingError, "share"),
        ({"production": 1.1}, SettingError, "share"),
        ({"hidden": 12}, SettingError, "hidden must leave at least one of the 12"),
        ({"hidden": -1}, SettingError, "hidden"),
        ({"hidden": ("nowhere",)}, FeatureError, "'nowhere'"),
        ({"max_grade": 3}, GradeError, "between 0 and 3"),
        ({"max_grade": 0}, GradeError, "max_grade must be 1 or greater"),
    ],
)
def test_bad_settings(collection: RankingData, settings: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        simulate(collection, **settings)


def test_data_that_cannot_be_simulated() -> None:
    with pytest.raises(GradeError, match="needs human grades"):
        simulate(RankingData.from_arrays(np.eye(2), sizes=[2]))
    one = RankingData.from_arrays(np.eye(2), sizes=[2], grades=[0, 1])
    with pytest.raises(DataError, match="No query is left"):
        simulate(one)


def test_no_relevant_item_in_the_log_is_no_error() -> None:
    """Clicks can be absent, but only when nothing is relevant: then noise still makes some."""
    grades = np.zeros(400, dtype=int)
    grades[:2] = [1, 2]
    data = RankingData.from_arrays(
        np.random.default_rng(0).normal(size=(400, 2)), sizes=[4] * 100, grades=grades, max_grade=4
    )
    simulation = simulate_detailed(data, noise=0.5)
    assert simulation.production.ndcg is None
    assert simulation.log.n_clicks > 0


def test_settings_make_the_log_again(collection: RankingData) -> None:
    first = simulate_detailed(collection, eta=0.5, hidden=1, landmarks=(1, 3), seed=6)
    assert first.settings["eta"] == 0.5
    assert _bytes(simulate(collection, **first.settings)) == _bytes(first.log)
    assert json.loads(json.dumps(first.settings))["landmarks"] == [1, 3]
    assert unskew.simulate is simulate


def _digest_of_a_log() -> str:
    """Of a log whose production ranker leans on features that nearly repeat each other: a slow descent for a solver."""
    data = synthetic_collection(300, features=20, typical=15)
    twins = data.features + 1e-2 * np.random.default_rng(0).standard_normal(data.features.shape, dtype=np.float32)
    names = [*data.feature_names, *(f"{name}_again" for name in data.feature_names)]
    log = simulate(data.with_features(np.hstack([data.features, twins]), names), production=1.0, seed=1)
    arrays = (data.features, log.row, log.position, log.click)
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


@pytest.mark.parametrize("processor", ["Prescott", "Haswell"])
def test_another_processor_sees_the_same_clicks(processor: str) -> None:
    """OpenBLAS and NumPy can be told to round as an older processor does (elsewhere a log is compared with itself)."""
    code = "from tests.simulation.test_log import _digest_of_a_log; print(_digest_of_a_log())"
    umath = np._core._multiarray_umath  # type: ignore[attr-defined]
    newer = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__[name]]
    environment = {**os.environ, "OPENBLAS_CORETYPE": processor, "NPY_DISABLE_CPU_FEATURES": " ".join(newer)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == _digest_of_a_log()


def test_logs_are_those_of_this_edition() -> None:
    """A change in how logs are drawn moves every number of every study: it begins a new edition (bench/editions.py).

    These are drawn so since the second one.
    """
    assert _digest_of_a_log()[:16] == "bf9a718ed28cc7c0"
