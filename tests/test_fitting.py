"""Fitting by name: what a log is told off for, and what the settings were really chosen on."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from unskew.data.clicks import ClickLog
from unskew.data.fingerprint import fingerprint
from unskew.data.ranking import RankingData
from unskew.data.soundness import copies_of_position, weaknesses
from unskew.errors import FeatureError, LogError, UnskewWarning
from unskew.fitting import Fitted, fit_method
from unskew.report.model_page import gather
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection

METHODS = ["naive", "position", "cfc", "pijd", "paird"]


@cache
def log_of(queries: int, *, seed: int = 0, grades: bool = True) -> ClickLog:
    log = simulate(synthetic_collection(queries=queries, features=8, seed=seed), passes=3, noise=0.1, seed=seed)
    if grades:
        return log
    data = RankingData.from_arrays(
        log.data.features, offsets=log.data.offsets, feature_names=list(log.data.feature_names)
    )
    return log.with_data(data)


def fit(log: ClickLog, method: str, **settings: Any) -> Fitted:
    return fit_method(log, method=method, preset="smoke", n_jobs=1, **settings)


def changed(log: ClickLog, features: np.ndarray) -> ClickLog:
    return log.with_data(log.data.with_features(features.astype(np.float32), log.data.feature_names))


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        ("naive", {}, "human grades of 20 queries"),
        ("naive", {"tune_on": "clicks"}, "clicks of 20 queries"),
        ("cfc", {"tune_on": "debiased"}, "debiased clicks of 20 queries"),
        ("cfc-bc", {}, "clicks of 20 queries"),
    ],
)
def test_chosen_on(method: str, settings: dict[str, Any], said: str) -> None:
    valid = log_of(25, seed=1)
    assert len(valid.queries) == 20
    assert fit(log_of(30), method, validation=valid, **settings).chosen_on == said


@pytest.mark.parametrize(("method", "holds_out"), [("naive", True), ("cfc", True), ("full-cfc", False)])
def test_the_fingerprint_is_that_of_the_log_that_was_given(method: str, holds_out: bool) -> None:
    """Whoever opens the model's page with this log must not be told that it is another one."""
    log = log_of(80)
    fitted = fit(log, method)
    assert ("held out: " in fitted.chosen_on) is holds_out
    assert fitted.method.fingerprint_ == fingerprint(log)
    model = fitted.method.to_model()
    assert gather(model, log).same_log is True
    assert gather(model, log.take_sessions(np.arange(50))).same_log is False


def test_chosen_on_without_grades() -> None:
    log, valid = log_of(30, grades=False), log_of(25, seed=1, grades=False)
    assert fit(log, "cfc", validation=valid).chosen_on == "debiased clicks of 20 queries"
    assert fit(log, "naive", validation=valid).chosen_on == "clicks of 20 queries"


def test_chosen_on_nothing_names_what_was_taken() -> None:
    said = fit(log_of(30), "cfc").chosen_on
    assert said.startswith("nothing, for the log is too small")
    assert "transformation minmax" in said


@pytest.mark.parametrize("method", METHODS)
def test_every_method_names_weak_spots(method: str) -> None:
    log = log_of(30)
    features = log.data.features.copy()
    features[:, 1] = 7
    with pytest.warns(UnskewWarning, match="is constant"):
        fit(changed(log, features), method)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_refuses_what_has_nothing_to_learn_from(method: str) -> None:
    log = log_of(30)
    with pytest.raises(LogError, match="Every feature is constant"):
        fit(changed(log, np.ones_like(log.data.features)), method)
    unheard = ClickLog.from_arrays(
        log.data,
        row=log.row,
        session=log.session_of,
        position=log.position,
        click=log.click,
        weight=np.zeros(log.n_impressions),
    )
    with pytest.raises(LogError, match="No click has a weight above 0"):
        fit(unheard, method)


def test_a_feature_that_is_the_position_is_told_of() -> None:
    log = log_of(30)
    spread = ClickLog.from_arrays(  # a row of features for every impression
        RankingData.from_arrays(log.data.features[log.row], sizes=np.diff(log.session_offsets)),
        row=np.arange(log.n_impressions),
        session=log.session_of,
        position=log.position,
        click=log.click,
    )
    assert not copies_of_position(spread)
    features = spread.data.features.copy()
    features[:, 3] = log.position - 1  # as positions from 0
    features[:, 5] = np.where(np.arange(len(features)) == len(features) // 2, 99, log.position)
    assert copies_of_position(changed(spread, features)) == [spread.data.feature_names[3]]
    with pytest.warns(UnskewWarning, match=rf"'{spread.data.feature_names[3]}' is the same as position in every row"):
        fit(changed(spread, features), "naive")


def test_the_position_is_looked_for_in_a_sample() -> None:
    position = np.tile(np.arange(1, 11), 30_000)
    features = np.column_stack([position, np.random.default_rng(0).random(len(position))])
    data = RankingData.from_arrays(features, sizes=[10] * 30_000, feature_names=["place", "other"])
    rows = np.arange(len(position))
    log = ClickLog.from_arrays(data, row=rows, session=rows // 10, position=position, click=rows % 7 == 0)
    assert copies_of_position(log) == ["place"]


def weighed(log: ClickLog, queries: int) -> ClickLog:
    """The log with weights of 0 for all but the first queries."""
    return replace(log, weight=np.isin(log.query_of, log.queries[:queries]).astype(np.float32))


@pytest.mark.filterwarnings("ignore:There are fewer sessions")
@pytest.mark.parametrize("method", ["naive", "cfc"])
def test_queries_without_weight_cannot_choose_settings(method: str) -> None:
    log = weighed(log_of(80, grades=False), 2)
    seen = int(log.click[log.weight > 0].sum())
    assert 0 < seen == log.n_counted_clicks < log.n_clicks
    fitted = fit(log, method)
    assert fitted.chosen_on.startswith("nothing, for the log is too small")
    assert fitted.method.fingerprint_["clicks"] == seen


def test_sessions_without_weight_are_not_counted() -> None:
    log = weighed(log_of(30), 2)
    assert f"There are fewer sessions ({log.n_counted_sessions}) than features (8)" in " ".join(weaknesses(log))
    assert log.n_counted_sessions == len({int(s) for s in log.session_of[log.weight > 0]}) < 8 < log.n_sessions


def test_a_validation_log_whose_clicks_have_no_weight_is_told_off() -> None:
    valid = log_of(25, seed=1, grades=False)
    with pytest.raises(LogError, match="no click whose weight is above 0"):
        fit(log_of(30, grades=False), "naive", validation=replace(valid, weight=(valid.click == 0).astype(np.float32)))


def test_validation_features_are_matched_by_name() -> None:
    log, valid = log_of(30), log_of(25, seed=1)
    names = valid.data.feature_names
    turned = valid.with_data(valid.data.with_features(valid.data.features[:, ::-1].copy(), names[::-1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (fit(log, "naive", validation=given).method for given in (valid, turned))
    assert [c.score for c in one.candidates_] == [c.score for c in other.candidates_]
    less = valid.with_data(valid.data.with_features(valid.data.features[:, 1:].copy(), names[1:]))
    with pytest.raises(FeatureError, match=f"it lacks '{names[0]}'"):
        fit(log, "naive", validation=less)
