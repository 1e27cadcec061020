from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unskew
from unskew._segments import offsets_of, ranks_within, segment_mean, segment_of
from unskew.control.aggregate import aggregate
from unskew.control.click_fit import fit_clicks
from unskew.control.click_model import QueryClicks
from unskew.control.expected_place import fit_expected_place
from unskew.control.full import FullControlFunction
from unskew.control.known_examination import known_examination
from unskew.control.position_effect import position_curve
from unskew.control.term_source import TermSource
from unskew.control.transformations import fit_transformation
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import LogError, SettingError
from unskew.method import PositionCurve


def make_world(seed: int, *, queries: int = 150, eta: float = 1.0, moving: bool = False, passes: int = 10) -> ClickLog:
    """A log of the model's own kind: P(click) = k^-η e^{f(x)}, f bent and with an interaction, a linear ranker."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 13, queries)
    offsets = offsets_of(sizes)
    query, n = segment_of(offsets), int(offsets[-1])
    x = rng.normal(size=(n, 5)).astype(np.float32)
    f = 0.8 * x[:, 0] + 0.6 * np.tanh(2 * x[:, 1]) + 0.4 * x[:, 0] * x[:, 2]
    score = 0.7 * x[:, 0] + 0.5 * x[:, 3]
    scores = [score + rng.normal(size=n) * moving for _ in range(passes)]
    position = np.concatenate([ranks_within(one, offsets) for one in scores])
    row = np.tile(np.arange(n), passes)
    rate = np.minimum(np.exp(-2.0 + 0.7 * f)[row] * position ** (-1.0 * eta), 1)
    return ClickLog.from_arrays(
        RankingData.from_arrays(x, sizes=sizes),
        row=row,
        session=np.repeat(np.arange(passes), n) * queries + np.tile(query, passes),
        position=position,
        click=rng.random(len(row)) < rate,
    )


@cache
def _log() -> ClickLog:
    return make_world(1)


@cache
def _model() -> FullControlFunction:
    return FullControlFunction(n_jobs=1, random_state=3).fit(_log())


def test_the_planted_curve_is_inside_its_intervals() -> None:
    inside, errors = [], []
    for seed in range(6):
        fit = fit_clicks(make_world(seed), seed=seed, threads=1)
        curve = position_curve(fit.basis, fit.stack.effect, fit.stack.covariance)
        truth = curve.position**-1.0
        inside.append(((curve.low <= truth) & (truth <= curve.high))[1:].mean())
        errors.append((fit.stack.severity - 1.0) / fit.stack.severity_error)
    # Positions of a curve are in or out together: at a true coverage of 85 % fewer than 1 in 10,000 runs of six
    # have a mean below one sixth, and z-scores this far off on average would be four standard errors.
    assert np.mean(inside) > 0.4
    assert abs(np.mean(errors)) < 4 / np.sqrt(6)


def test_relevance_is_learnt_without_the_position() -> None:
    model, other = _model(), make_world(2).data
    x = other.features
    f = 0.8 * x[:, 0] + 0.6 * np.tanh(2 * x[:, 1]) + 0.4 * x[:, 0] * x[:, 2]
    scores = model.predict(other)
    assert np.corrcoef(scores, f)[0, 1] > 0.8
    # x₃ moved items up and means nothing: taken at their word, clicks would reward it.
    assert abs(np.corrcoef(scores, x[:, 3])[0, 1]) < 0.2


def test_a_known_examination_takes_the_place_of_the_estimated_one() -> None:
    log, known = _log(), 3.0 / np.arange(1, 31)
    model = FullControlFunction(n_jobs=1, random_state=3, examination=known).fit(log)
    assert model.outcome_.extra["severity"] is None
    assert model.bias_.low is None
    np.testing.assert_allclose(model.bias_.value, 1 / np.arange(1, log.longest_list + 1))
    # A look at every impression is what a model without a position effect believes.
    even = FullControlFunction(n_jobs=1, random_state=3, examination=np.ones(30)).fit(log)
    plain = fit_clicks(log, position=False, seed=3, threads=1)
    x = log.data.features
    np.testing.assert_array_equal(even.clicks_.stack.likelihood, plain.stack.likelihood)
    f = 0.8 * x[:, 0] + 0.6 * np.tanh(2 * x[:, 1]) + 0.4 * x[:, 0] * x[:, 2]
    assert np.corrcoef(model.predict(x), f)[0, 1] > np.corrcoef(even.predict(x), f)[0, 1] + 0.05
    # Relevance with the true curve is that of the model that had to estimate it, or nearly.
    assert np.corrcoef(model.predict(x), _model().predict(x))[0, 1] > 0.97


@pytest.mark.parametrize(
    ("examination", "says"),
    [
        ([1.0, 0.5], r"every position, 1 to \d+ in this log, but it has 2"),
        ([[1.0] * 30], r"the shape \(1, 30\)"),
        ([1.0, 0.5, 0.0] + [0.1] * 27, "0.0 at position 3"),
        ([1.0, float("nan")] + [0.1] * 28, "nan at position 2"),
        ([1.0, -1.0] + [0.1] * 28, r"-1.0 at position 2\.$"),
        ("planted", "must be numbers, one a position"),
        (["1"] * 30, "must be numbers"),
        ([True] * 30, "must be numbers"),
        ([[1.0], [1.0, 2.0]], "must be numbers"),
        ({1: 1.0}, "must be numbers"),
        ([1.0, 1e-300] + [0.1] * 28, "factor of 1e"),
        (PositionCurve(np.arange(3, 40), np.ones(37)), "begin at position 1"),
    ],
)
def test_an_impossible_examination_is_refused(examination: Any, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        FullControlFunction(preset="smoke", n_jobs=1, examination=examination).fit(_log())


def test_the_curve_of_one_model_can_be_given_to_another(tmp_path: Path) -> None:
    curve = _model().bias_
    told = FullControlFunction(preset="smoke", n_jobs=1, examination=curve).fit(_log())
    np.testing.assert_array_equal(told.bias_.value, curve.value)
    told.save(tmp_path / "model")
    settings = json.loads((tmp_path / "model" / "manifest.json").read_text())["settings"]
    assert settings["examination"]["value"] == pytest.approx(curve.value.tolist())
    np.testing.assert_allclose(unskew.load(tmp_path / "model").predict(_log().data), told.predict(_log().data))


def test_a_position_far_down_does_not_swell_the_curve() -> None:
    log = make_world(1)
    position = log.position.copy()
    position[log.position == 12] = 1_000_000
    model = FullControlFunction(preset="smoke", n_jobs=1).fit(replace(log, position=position))
    curve = model.bias_
    assert len(curve.value) < 2000
    assert (curve.position[:1000] == np.arange(1, 1001)).all()
    assert curve.position[-1] == 1_000_000
    known = known_examination(curve, 1_000_000)
    assert known is not None
    np.testing.assert_allclose(known[curve.position - 1], curve.value)


def test_two_positions_leave_nothing_to_bend() -> None:
    log = make_world(3, queries=200)
    shown = log.position <= 2
    pair = ClickLog.from_arrays(
        log.data,
        row=log.row[shown],
        session=log.session_of[shown],
        position=log.position[shown],
        click=log.click[shown],
    )
    fit = fit_clicks(pair, threads=1)
    assert fit.basis.size == 1
    assert fit.stack.severity_error < 0.4


@pytest.mark.parametrize(
    "settings",
    [
        {"folds": "4"}, {"folds": 2.5}, {"folds": None}, {"confidence": "x"}, {"confidence": None},
        {"random_state": None}, {"random_state": -1}, {"transformation": "nope"}, {"tune_on": "zzz"},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(settings))):
        FullControlFunction(**{"preset": "smoke", "n_jobs": 1, **settings}).fit(_log())


def test_a_model_made_ready_counts_for_its_own_log_only() -> None:
    ready, other = fit_clicks(_log(), seed=0, threads=1), make_world(7)
    fresh = FullControlFunction(n_jobs=1).fit(other)
    for log in (_log(), other):
        model = FullControlFunction(n_jobs=1).reuse(_log(), ready).fit(log)
        assert (model.clicks_ is ready) == (log is _log())
        assert not hasattr(model, "_ready")
    np.testing.assert_array_equal(model.predict(other.data), fresh.predict(other.data))


@pytest.mark.parametrize("settings", [{}, {"terms": "shift"}, {"examination": 1 / np.arange(1, 13)}])
def test_shared_groundwork_is_made_once_a_log_and_changes_nothing(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(*args: Any, **options: Any) -> Any:
        made.append(1)
        return fit_expected_place(*args, **options)

    # The same placements with other features must not be taken for the same log.
    log, alone = _log(), FullControlFunction(n_jobs=1, **settings).fit(_log())
    other = replace(log, data=RankingData.from_arrays(log.data.features[:, ::-1].copy(), sizes=log.data.sizes))
    monkeypatch.setattr("unskew.control.groundwork.fit_expected_place", counted)
    shared: Any = {}
    for one, so_far in ((log, 1), (log, 1), (other, 2)):
        model = FullControlFunction(n_jobs=1, **settings).share(shared).fit(one)
        assert len(made) == so_far
        if one is log:
            np.testing.assert_array_equal(model.predict(log.data), alone.predict(log.data))
    assert not hasattr(model, "_shared")


def test_the_forest_is_the_weighted_mean_of_the_fold_models() -> None:
    model = _model()
    fit, x = model.clicks_, _log().data.features
    weights, sample = fit.weights, fit.sample
    normal = np.empty_like(x)
    sample.scores.fill(normal, x)
    place = normal @ fit.place.weights + fit.place.trees.predict(x)
    additive = normal @ fit.additive.weights.mean(axis=0) + fit.additive.place.mean() * place
    expected = (
        weights["trees"] * fit.trees.predict(x)
        + weights["boosted"] * (additive + fit.boosted.predict(x))
        + weights["place"] * place
    )
    np.testing.assert_allclose(model.predict(x), expected, atol=1e-5)


def test_held_out_scores_come_from_models_that_did_not_see_the_query() -> None:
    fit = _model().clicks_
    x, row = _log().data.features, fit.table.row
    for k, (booster, trees) in enumerate(zip(fit.trees.boosters, fit.trees.trees)):
        mine = fit.fold[fit.table.segment] == k
        expected = booster.predict(x[row[mine]], num_iteration=trees)
        np.testing.assert_allclose(fit.trees.held_out[mine], expected, atol=1e-6)


def test_everything_learnt_can_be_read() -> None:
    extra = _model().outcome_.extra
    assert json.loads(json.dumps(extra)) == extra
    per_click = extra["log_likelihood_per_click"]
    assert per_click["no model"] < per_click["position only"] < per_click["all"]
    assert extra["severity"] == pytest.approx(1.0, abs=5 * extra["severity_error"])
    assert extra["queries"] == extra["queries_in_stack"] == _model().clicks_.table.n_queries


def test_saved_and_loaded_it_scores_the_same(tmp_path: Path) -> None:
    model, x = _model(), _log().data.features
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(unskew.load(tmp_path / "model").predict(x), model.predict(x))
    assert _model().outcome_.state.kind == "lightgbm"


def test_same_seed_same_bytes_whatever_the_threads() -> None:
    one = FullControlFunction(preset="smoke", n_jobs=1).fit(_log()).outcome_.state.files["model.txt"]
    two = FullControlFunction(preset="smoke", n_jobs=2).fit(_log()).outcome_.state.files["model.txt"]
    assert one == two


def test_ten_passes_cost_one() -> None:
    once, ten = make_world(4, passes=1), make_world(4, passes=10)
    assert len(fit_clicks(ten, threads=1).table) <= len(once.row)


@pytest.mark.parametrize(("terms", "size"), [("T", 8), ("phi", 5), ("shift", 10), ("moves", 10)])
def test_control_terms_stay_behind(terms: str, size: int) -> None:
    model = FullControlFunction(preset="smoke", terms=terms, n_jobs=1).fit(_log())
    assert model.clicks_.additive.terms.shape == (4, size)
    assert "terms_gain" in model.outcome_.extra
    assert model.outcome_.state.columns == _log().data.feature_names
    assert np.isfinite(model.predict(_log().data)).all()


def test_phi_has_nothing_of_an_item_that_stands_where_it_is_expected() -> None:
    log = _log()
    table, source = aggregate(log).informative(), TermSource(log)
    columns = source.maker("phi", "normal_pdf")(table, np.zeros(len(table)))
    residual = source.stage_one.residual(log, table.row, table.position)
    transform = fit_transformation("normal_pdf", source.stage_one.statistics)
    x = log.data.features
    centred = x - segment_mean(x, log.data.offsets)[segment_of(log.data.offsets)]
    phi = centred[table.row] * (transform(residual) - transform.at_zero)[:, None]
    out = np.empty(phi.shape, dtype=np.float32)
    columns.fill(out, np.arange(len(table)))
    inside = np.abs(out) < 4.9  # larger ones are clipped
    expected = phi / phi.std(axis=0)
    np.testing.assert_allclose(out[inside], expected[inside], rtol=1e-3, atol=1e-4)


def test_a_sample_may_lack_a_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unskew.control.additive_stage.MAX_CELLS", 2_000)
    model = FullControlFunction(preset="smoke", folds=40, n_jobs=1).fit(_log())
    assert np.isfinite(model.predict(_log().data)).all()


def test_single_moves_have_terms_of_their_own() -> None:
    model = FullControlFunction(preset="smoke", terms="moves", n_jobs=1).fit(make_world(5, moving=True))
    assert model.clicks_.additive.terms.shape == (4, 20)


def test_a_large_log_is_sampled_for_the_linear_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unskew.control.additive_stage.MAX_CELLS", 2_000)
    model = FullControlFunction(preset="smoke", terms="T", n_jobs=1).fit(_log())
    extra = model.outcome_.extra
    assert extra["queries_in_stack"] < extra["queries"]
    assert np.isfinite(model.predict(_log().data)).all()


def test_moving_items_are_counted_by_position() -> None:
    log = make_world(5, moving=True)
    fit = fit_clicks(log, threads=1)
    assert len(fit.table) > len(np.unique(fit.table.row))
    assert fit.stack.severity == pytest.approx(1.0, abs=4.5 * fit.stack.severity_error)
    assert QueryClicks.of(fit.table).totals.sum() == log.n_clicks


def test_a_log_with_one_position_has_a_flat_curve() -> None:
    data = RankingData.from_arrays(np.random.default_rng(0).normal(size=(40, 2)), sizes=[4] * 10)
    row = np.arange(40)
    log = ClickLog.from_arrays(data, row=row, session=row, position=np.ones(40, dtype=int), click=row % 4 == 0)
    model = FullControlFunction(preset="smoke", n_jobs=1).fit(log)
    assert model.bias_.value.tolist() == [1.0]
    assert np.isfinite(model.predict(data)).all()


def test_bad_settings_and_logs_are_named() -> None:
    for settings in ({"terms": "psi"}, {"folds": 1}, {"confidence": 1.0}, {"ranker": "xgboost"}, {"preset": "huge"}):
        with pytest.raises(SettingError, match=next(iter(settings))):
            FullControlFunction(**settings).fit(_log())
    data = RankingData.from_arrays(np.eye(2), sizes=[2])
    log = ClickLog.from_arrays(data, row=[0, 1], session=[0, 0], position=[1, 2], click=[1, 0])
    with pytest.raises(LogError, match="two or more"):
        FullControlFunction(n_jobs=1).fit(log)
