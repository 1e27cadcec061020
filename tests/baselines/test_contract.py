"""The shared check: what every registered method must do, with every ranker it supports."""

from __future__ import annotations

import warnings
from contextlib import nullcontext, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import unskew
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import (
    DataError,
    FeatureError,
    GradeError,
    LogError,
    NotFittedError,
    SettingError,
    UnskewError,
    UnskewWarning,
)
from unskew.evaluation.judge import judge_on_grades
from unskew.method import Method
from unskew.registry import make_method, methods
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection

SEED = 5
NEEDS = {"dnn": "torch", "xgboost": "xgboost"}


def _cases() -> list[Any]:
    cases = []
    for info in methods():
        module = info.factory.partition(":")[0]
        for ranker in info.rankers:
            missing = [name for name in (module, NEEDS.get(ranker)) if name is not None and find_spec(name) is None]
            skip = pytest.mark.skip(reason=f"{missing} is not here")
            cases.append(pytest.param(info.name, ranker, id=f"{info.name}-{ranker}", marks=skip if missing else ()))
    return cases


CASES = _cases()
every_method = pytest.mark.parametrize(("name", "ranker"), CASES)


def _collection(queries: int, seed: int) -> RankingData:
    return synthetic_collection(queries, seed=seed, features=8, shortest=4, longest=12, typical=8)


@cache
def _log() -> ClickLog:
    """A small log without position bias (η = 0): whoever learns anything must beat random on it."""
    return simulate(_collection(60, 1), eta=0.0, passes=4, seed=1)


@cache
def _validation() -> ClickLog:
    return simulate(_collection(20, 2), eta=0.0, passes=4, seed=2)


def _make(name: str, ranker: str) -> Method:
    return make_method(name, ranker=ranker, preset="smoke", random_state=SEED, n_jobs=1)


def _fit(name: str, ranker: str, log: ClickLog, validation: ClickLog | None = None) -> Method:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)
        return _make(name, ranker).fit(log, validation=validation)


@cache
def _fitted(name: str, ranker: str) -> Method:
    return _fit(name, ranker, _log(), _validation())


@every_method
def test_scores_plain_features(name: str, ranker: str) -> None:
    model, data = _fitted(name, ranker), _collection(10, 3)
    scores = model.predict(data.features)
    assert scores.shape == (data.n_rows,)
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    frame = pl.DataFrame(data.features, schema=list(data.feature_names)).select(reversed(data.feature_names))
    np.testing.assert_array_equal(model.predict(frame), scores)
    np.testing.assert_array_equal(model.predict(data), scores)


@every_method
def test_beats_random_without_bias(name: str, ranker: str) -> None:
    data = _collection(150, 4)
    judge = judge_on_grades(data)
    chance = [judge(np.random.default_rng(seed).random(data.n_rows)) for seed in range(200)]
    # Four standard deviations of a random ranking: a false alarm is rarer than one in ten thousand.
    assert judge(_fitted(name, ranker).predict(data)) > np.mean(chance) + 4 * np.std(chance)


@every_method
def test_same_seed_same_scores(name: str, ranker: str) -> None:
    again = _fit(name, ranker, _log(), _validation())
    data = _collection(10, 3)
    np.testing.assert_array_equal(again.predict(data), _fitted(name, ranker).predict(data))


@every_method
def test_order_of_sessions_does_not_matter(name: str, ranker: str) -> None:
    log, data = _log(), _collection(10, 3)
    shuffled = np.random.default_rng(9).permutation(log.n_sessions)
    other = ClickLog.from_arrays(
        log.data,
        row=log.row,
        session=shuffled[log.session_of],
        position=log.position,
        click=log.click,
        logging_score=log.logging_score,
    )
    assert not np.array_equal(other.click, log.click)
    scores = _fit(name, ranker, other, _validation()).predict(data)
    # Sums in another order differ in their last bits; anything more would be chance that follows the order.
    np.testing.assert_allclose(scores, _fitted(name, ranker).predict(data), rtol=1e-4, atol=1e-4)


@every_method
def test_survives_save_and_load(name: str, ranker: str, tmp_path: Path) -> None:
    model, data = _fitted(name, ranker), _collection(10, 3)
    model.save(tmp_path / "model")
    loaded = unskew.load(tmp_path / "model")
    assert tuple(loaded.feature_names) == data.feature_names
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))


@every_method
def test_follows_scikit_learn(name: str, ranker: str) -> None:
    method = _make(name, ranker)
    before = dict(method.get_params())
    copy = clone(method)
    assert copy.get_params() == before
    fitted = _fitted(name, ranker)
    assert {key: value for key, value in fitted.get_params().items() if key in before} == before
    assert fitted.n_features_in_ == 8
    assert fitted.candidates_


@every_method
def test_position_curve_is_sane(name: str, ranker: str) -> None:
    curve = _fitted(name, ranker).bias_
    if curve is None:
        pytest.skip("the method estimates no curve")
    assert curve.position[0] == 1
    assert (np.diff(curve.position) > 0).all()
    assert curve.value[0] == pytest.approx(1)
    assert np.isfinite(curve.value).all()
    assert (curve.value >= 0).all()


@every_method
def test_bad_logs_are_refused(name: str, ranker: str, bad_logs: list[Any]) -> None:
    for bad in bad_logs:
        with pytest.raises((bad.error, GradeError) if name == "oracle" else bad.error):
            _make(name, ranker).fit(ClickLog.from_frame(bad.frame))


@every_method
def test_wrong_use_is_refused(name: str, ranker: str) -> None:
    method, log = _make(name, ranker), _log()
    data = log.data
    with pytest.raises(NotFittedError, match="fit"):
        method.predict(data)
    with pytest.raises(LogError, match="ClickLog"):
        method.fit(log.to_frame())
    with pytest.raises(FeatureError, match="other features"):
        method.fit(log, validation=data.with_features(data.features[:, :3], data.feature_names[:3]))
    if name != "oracle":
        silent = ClickLog.from_arrays(
            data, row=log.row, session=log.session_of, position=log.position, click=np.zeros_like(log.click)
        )
        with pytest.raises(LogError, match="no click"):
            method.fit(silent)
    fitted = _fitted(name, ranker)
    with pytest.raises(FeatureError, match="8 features"):
        fitted.predict(data.features[:, :5])
    with pytest.raises(FeatureError, match="missing"):
        fitted.predict(pl.DataFrame(data.features, schema=list(data.feature_names)).drop(data.feature_names[2]))


def _odd_logs() -> dict[str, ClickLog]:
    """Logs that are sound but hardly worth learning from."""
    rng = np.random.default_rng(0)

    def log(features: Any, lists: list[list[int]], clicks: list[list[int]], sizes: list[int]) -> ClickLog:
        data = RankingData.from_arrays(features, sizes=sizes, grades=(np.arange(len(features)) % 2))
        return ClickLog.from_arrays(
            data,
            row=np.concatenate(lists),
            session=np.repeat(np.arange(len(lists)), [len(rows) for rows in lists]),
            position=np.concatenate([np.arange(1, len(rows) + 1) for rows in lists]),
            click=np.concatenate(clicks),
        )

    x = rng.normal(size=(6, 3))
    return {
        "one session": log(x, [[0, 1, 2, 3, 4, 5]], [[1, 0, 0, 0, 0, 0]], [6]),
        "everything clicked": log(x, [[0, 1, 2], [3, 4, 5]], [[1, 1, 1], [1, 1, 1]], [3, 3]),
        "lists of one": log(x, [[0], [1], [2]], [[1], [0], [1]], [1, 1, 4]),
        "constant features": log(np.ones((6, 3)), [[0, 1, 2], [3, 4, 5]], [[1, 0, 0], [0, 1, 0]], [3, 3]),
    }


@every_method
@pytest.mark.parametrize("odd", _odd_logs())
def test_odd_logs_give_finite_scores_or_a_named_error(name: str, ranker: str, odd: str) -> None:
    log = _odd_logs()[odd]
    with suppress(UnskewError):  # and no other error
        assert np.isfinite(_fit(name, ranker, log).predict(log.data)).all()


@every_method
def test_missing_features_are_taken_or_refused(name: str, ranker: str) -> None:
    log = _log()
    holes = log.data.features.copy()
    holes[::7, 2] = np.nan
    gappy = log.with_data(log.data.with_features(holes, log.data.feature_names))
    refused = nullcontext() if ranker in ("lambdamart", "xgboost") else suppress(FeatureError)
    with refused:
        assert np.isfinite(_fit(name, ranker, gappy).predict(gappy.data)).all()


def test_grades_are_asked_for_by_name() -> None:
    log = _log()
    bare = RankingData.from_arrays(log.data.features, offsets=log.data.offsets)
    with pytest.raises(GradeError, match="oracle"):
        make_method("oracle").fit(log.with_data(bare))


def test_unknown_names_list_what_is_known() -> None:
    with pytest.raises(SettingError, match="'naive', 'oracle'"):
        make_method("nonsense")
    with pytest.raises(SettingError, match=r"'paird' works with 'lambdamart'.*\n.*'dla'"):
        make_method("paird", ranker="dnn")
    with pytest.raises(SettingError, match="no setting 'depth'"):
        make_method("naive", depth=3)
    assert issubclass(SettingError, UnskewError)
    assert issubclass(LogError, DataError)
