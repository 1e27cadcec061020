from __future__ import annotations

import json
from itertools import product

import numpy as np
import polars as pl
import pytest

from unskew._segments import offsets_of, ranks_within, segment_of
from unskew.control.aggregate import aggregate
from unskew.control.boosting import TreeSettings
from unskew.control.click_fit import ClickFit, fit_clicks
from unskew.control.evidence import Specification, compare
from unskew.control.full import FullControlFunction
from unskew.control.interventions import MovedItems
from unskew.control.referee import Budget, judge_log, recommend
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import LogError
from unskew.recommended import Recommended

QUICK = TreeSettings(rate=0.15, rounds=40, patience=8, min_rows=30)


def _world(seed: int, *, eta: float = 1.0, hidden: float = 0.0, moving: bool = False, queries: int = 150) -> ClickLog:
    """Clicks by position and relevance; `hidden`: what only the ranker sees makes the items it pushes up attractive."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 13, queries)
    offsets = offsets_of(sizes)
    n, passes = int(offsets[-1]), 10
    x = rng.normal(size=(n, 5)).astype(np.float32)
    unseen = rng.normal(size=n)
    score = x[:, 0] + 0.5 * x[:, 2] + 1.2 * unseen * (hidden > 0)
    position = np.concatenate([ranks_within(score + moving * rng.normal(size=n), offsets) for _ in range(passes)])
    row = np.tile(np.arange(n), passes)
    relevance = 0.6 * x[:, 0] + 0.4 * np.tanh(2 * x[:, 1]) + hidden * (unseen > 1)
    rate = np.minimum(np.exp(-1.8 + relevance)[row] * position ** (-1.0 * eta), 1)
    return ClickLog.from_arrays(
        RankingData.from_arrays(x, sizes=sizes),
        row=row,
        session=np.repeat(np.arange(passes), n) * queries + np.tile(segment_of(offsets), passes),
        position=position,
        click=rng.random(len(row)) < rate,
    )


def _judge(log: ClickLog, **options: object):
    return judge_log(log, settings=QUICK, threads=1, **options)


def test_a_planted_position_effect_is_found_and_explained() -> None:
    verdict = _judge(_world(0))
    assert verdict.method == "full-cfc"
    assert verdict.position_found
    assert verdict["position"].against == "none"
    assert verdict["position"].log_likelihood > verdict["none"].log_likelihood
    assert verdict.severity == pytest.approx(1.0, abs=5 * verdict.severity_error)
    assert "The position effect explains" in verdict.text
    assert verdict.text.endswith("Use full-cfc.")
    assert verdict.caution is verdict.fit.caution is not None
    assert verdict.to_dict()["caution"]["agreement"] == verdict.caution.agreement


def test_without_a_position_effect_no_correction_is_needed() -> None:
    verdicts = [_judge(_world(seed, eta=0.0), terms=(), seed=seed) for seed in range(4)]
    # Each is announced wrongly with a chance of 2.5 %: two of four is rarer than one in 250, three one in 15,000.
    assert sum(verdict.position_found for verdict in verdicts) <= 2
    quiet = next(verdict for verdict in verdicts if not verdict.position_found)
    assert quiet.method == "naive"
    assert quiet.caution is quiet.to_dict()["caution"] is None
    assert "no correction is needed" in quiet.text


def test_a_hidden_confounder_is_found_and_a_placebo_is_not() -> None:
    log = _world(1, hidden=1.5, queries=250)
    found = _judge(log, terms=("T",))
    assert found["position + T"].found
    assert found.settings["terms"] == "shift"  # one control variable, in the metric of the position effect
    assert found.caution is None  # the examination is taken to be half of the effect: there is nothing to leave
    placebos = [_judge(log, terms=("T",), placebo=True, seed=seed)["position + T"] for seed in range(2)]
    assert sum(placebo.found for placebo in placebos) <= 1
    assert all(placebo.gain < found["position + T"].gain / 2 for placebo in placebos)


def test_items_moved_by_hand_stand_out_inside_their_query() -> None:
    """Lists of very different lengths, so that the rank over all queries says little about the place in one."""
    rng = np.random.default_rng(5)
    sizes = rng.integers(4, 40, 200)
    offsets = offsets_of(sizes)
    n, passes = int(offsets[-1]), 10
    x = rng.normal(size=(n, 5)).astype(np.float32)
    pinned = rng.random(n) < 0.15
    position = np.tile(ranks_within(x[:, 0] + 0.5 * x[:, 2] + 3.0 * pinned, offsets), passes)
    relevance = 0.6 * x[:, 0] + 0.4 * np.tanh(2 * x[:, 1]) + 2.0 * pinned
    log = ClickLog.from_arrays(
        RankingData.from_arrays(x, sizes=sizes),
        row=np.tile(np.arange(n), passes),
        session=np.repeat(np.arange(passes), n) * len(sizes) + np.tile(segment_of(offsets), passes),
        position=position,
        click=rng.random(n * passes) < np.minimum(np.exp(-1.8 + np.tile(relevance, passes)) / position, 1),
    )
    verdict = _judge(log, terms=("T", "shift"))
    assert verdict["position + shift"].found
    assert verdict.settings["terms"] == "shift"
    assert verdict.settings["examination"][4] == pytest.approx(5 ** (-verdict.severity / 2), rel=0.3)
    assert verdict.text.endswith("Use full-cfc with half of the position effect and terms='shift'.")
    assert verdict["position + shift"].gain > 2 * verdict["position + T"].gain
    assert not _judge(log, terms=("shift",), placebo=True)["position + shift"].found


def test_control_terms_add_nothing_where_nothing_is_hidden() -> None:
    verdict = _judge(_world(2), transformations=("minmax", "inverse_mills"))
    names = [one.name.removeprefix("position + ") for one in verdict.specifications]
    assert names == ["none", "position", "T", "shift", "Φ(minmax)", "Φ(inverse_mills)"]
    assert verdict.settings == {}
    assert "add nothing" in verdict.text


def test_moved_items_check_the_model() -> None:
    verdict = _judge(_world(3, moving=True), terms=())
    moved = verdict.interventions
    assert moved is not None
    assert moved.confirmed
    assert moved.severity == pytest.approx(1.0, abs=4.5 * moved.severity_error)
    assert "items were moved" in verdict.text
    assert _judge(_world(3), terms=()).interventions is None


def test_items_are_seen_to_move_when_a_feature_differs_by_session() -> None:
    """The hour of a session, say: every impression then has a row of features of its own."""
    log = _world(3, moving=True, queries=30)
    names = log.data.feature_names
    frame = pl.DataFrame(
        {
            "query_id": log.data.query_of_row[log.row],
            "session_id": log.session_of,
            "item_id": log.row,
            "position": log.position,
            "click": log.click,
            **{name: log.data.features[log.row, j] for j, name in enumerate(names)},
        }
    )
    hours = ClickLog.from_frame(frame.with_columns(hour=pl.col("session_id") % 24), features=[*names, "hour"])
    still = ClickLog.from_frame(frame, features=list(names))
    assert hours.data.n_rows == len(hours.row) > still.data.n_rows
    tables = [aggregate(one) for one in (still, hours)]
    moved = [MovedItems.of(table) for table in tables]
    assert sorted(moved[0].clicks.totals) == sorted(moved[1].clicks.totals)
    assert moved[1].severity(tables[1]) == pytest.approx(moved[0].severity(tables[0]), rel=1e-6)
    some = tables[1].take(np.array([3, 7])).by_position()
    assert MovedItems.of(some).clicks.totals.sum() <= some.clicks.sum()
    # The same place with other features is no move.
    fixed = frame.with_columns(
        hour=pl.col("session_id") % 24, position=pl.col("item_id").rank("dense").over("session_id")
    )
    assert MovedItems.of(aggregate(ClickLog.from_frame(fixed, features=[*names, "hour"]))) is None


def _known_to_the_ranker(seed: int, *, swaps: float = 0.2, eta: float = 0.0) -> ClickLog:
    """The ranker knew a relevance that the features show only partly; now and then two items of a list are swapped."""
    rng = np.random.default_rng(seed)
    queries, length, passes = 80, 8, 20
    n = queries * length
    relevance = 1.2 * rng.normal(size=n)
    x = np.c_[0.6 * relevance + 0.7 * rng.normal(size=n), rng.normal(size=(n, 3))].astype(np.float32)
    best = np.argsort(-relevance.reshape(queries, length), axis=1) + length * np.arange(queries)[:, None]
    row = np.repeat(best[None], passes, axis=0).reshape(-1, length)
    swapped = np.flatnonzero(rng.random(len(row)) < swaps)
    pairs = np.array([rng.choice(length, 2, replace=False) for _ in swapped])
    row[swapped[:, None], pairs] = row[swapped[:, None], pairs[:, ::-1]]
    position = np.tile(np.arange(1, length + 1), len(row))
    rate = np.minimum(np.exp(-2.5 + relevance[row.ravel()]) * position ** (-eta), 1)
    return ClickLog.from_arrays(
        RankingData.from_arrays(x, sizes=[length] * queries),
        row=row.ravel(),
        session=np.repeat(np.arange(len(row)), length),
        position=position,
        click=rng.random(len(rate)) < rate,
    )


def test_moved_items_overrule_a_model_that_they_refute() -> None:
    verdict = _judge(_known_to_the_ranker(1), terms=())
    moved = verdict.interventions
    assert moved is not None
    assert verdict.severity > 0.5  # what the ranker knew passes for examination
    assert abs(moved.severity) < 4.5 * moved.severity_error
    assert moved.of_model == pytest.approx(verdict.severity, abs=0.4)
    assert moved.refuted
    assert verdict.caution is None
    assert not moved.confirmed
    assert "is refuted" in verdict.text
    assert verdict.text.endswith("Use full-cfc with the examination of the moved items.")
    np.testing.assert_allclose(verdict.settings["examination"], np.ones(8), atol=0.35)
    names = [one.name for one in verdict.specifications]
    assert names == ["none", "position", "moved items"]


def test_default_fits_what_moved_items_say() -> None:
    log = _known_to_the_ranker(2)
    model = Recommended(preset="smoke", n_jobs=1).fit(log)
    assert model.bias_.value[-1] > 0.6
    assert FullControlFunction(preset="smoke", n_jobs=1).fit(log).bias_.value[-1] < 0.4


def test_control_terms_beside_a_known_examination() -> None:
    log = _world(1, hidden=1.5, queries=250)
    known = 1 / np.arange(1, 20)
    verdict = _judge(log, terms=("T",), examination=known)
    assert verdict.severity is None
    assert verdict.method == "full-cfc"
    assert "The examination that was given explains held-out clicks" in verdict.text
    assert verdict["position + T"].found
    # Told apart from the position effect, they explain more.
    assert verdict["position + T"].gain > _judge(log, terms=("T",))["position + T"].gain
    wrong = _judge(_world(0, eta=0.0), terms=(), examination=known)
    assert wrong.method == "full-cfc"
    assert "is it that of this log?" in wrong.text.lower()


def test_an_examination_that_is_too_flat_or_too_steep_is_doubted() -> None:
    log = _world(2)
    true, flat, steep = (_judge(log, terms=(), examination=np.arange(1, 13) ** -eta).text for eta in (1.0, 0.0, 2.0))
    assert "Beside it" not in true
    assert "Beside it clicks still fall with position" in flat
    assert "Beside it clicks still rise with position" in steep


def test_lines_of_the_table_add_up() -> None:
    verdict = _judge(_world(2), transformations=("minmax",))
    for one in verdict.specifications[1:]:
        assert one.log_likelihood == pytest.approx(verdict[one.against].log_likelihood + one.gain)


def test_a_handful_of_queries_announces_nothing() -> None:
    for seed, moving in product(range(4), (False, True)):
        verdict = _judge(_world(seed, queries=8, moving=moving))
        assert not any(one.found for one in verdict.specifications)
        assert verdict.method == "naive"
        assert not moving or "too little to confirm or refute" in verdict.text


def test_several_terms_share_one_error_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = []

    def seen(*args: object, share: float, **options: object) -> Specification:
        shares.append(share)
        return compare(*args, share=share, **options)

    monkeypatch.setattr("unskew.control.term_trials.compare", seen)
    _judge(_world(0, queries=40), transformations=("minmax", "hazard"))
    assert shares == [0.05 / 4] * 4  # T, shift and two Φ


def test_what_the_referee_fitted_is_not_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = []

    def counted(*args: object, **options: object) -> ClickFit:
        fitted.append(1)
        return fit_clicks(*args, **options)

    for module in ("referee", "full"):
        monkeypatch.setattr(f"unskew.control.{module}.fit_clicks", counted)
    log = _world(0)
    known = 1 / np.arange(1, log.longest_list + 1)
    for settings, expected in (({}, 2), ({"examination": known}, 2)):
        fitted.clear()
        Recommended(preset="smoke", n_jobs=1, **settings).fit(log)
        assert len(fitted) == expected
    ruled = _known_to_the_ranker(0)
    fitted.clear()
    verdict = _judge(ruled, terms=())
    assert len(fitted) == 3  # with a position effect, without one, and beside what moved items say
    model = FullControlFunction(n_jobs=1, **verdict.settings).reuse(ruled, verdict.fit).fit(ruled)
    assert model.clicks_ is verdict.fit
    assert len(fitted) == 3


def test_clicks_at_the_top_alone_say_nothing_and_terms_are_not_found_in_rounding() -> None:
    log = _world(0, queries=40)
    top = ClickLog.from_arrays(
        log.data, row=log.row, session=log.session_of, position=log.position, click=log.position == 1
    )
    verdict = _judge(top)
    assert (verdict.method, verdict.settings) == ("naive", {})
    assert "All clicks are at position 1, so that nothing tells relevance from position." in verdict.text
    nearly = log.click * (log.position == 2) + (log.position == 1) > 0
    second = ClickLog.from_arrays(log.data, row=log.row, session=log.session_of, position=log.position, click=nearly)
    assert not any(one.found for one in _judge(second).specifications[2:])


def test_pages_that_begin_lower_are_read_from_their_first_position() -> None:
    log = _world(5)
    lower = ClickLog.from_arrays(
        log.data, row=log.row, session=log.session_of, position=log.position + 10, click=log.click
    )
    assert "position 15 is examined" in (text := _judge(lower, terms=()).text)
    assert "as often as position 11" in text
    curve = FullControlFunction(preset="smoke", n_jobs=1).fit(lower).bias_
    assert curve.position[0] == 11
    assert (curve.value[0], curve.low[0], curve.high[0]) == (1, 1, 1)


def test_the_budget_is_kept_and_stated() -> None:
    log = _world(4)
    verdict = _judge(log, terms=(), budget=Budget(queries=60, folds=2, resamples=200))
    assert verdict.queries == 60
    assert verdict.fit is None  # a part of the log is not the model to keep
    document = json.loads(json.dumps(verdict.to_dict()))
    stated = {"queries": 60, "rows": 300_000, "folds": 2, "rounds": 300, "resamples": 200, "error": 0.05}
    assert document["budget"] == stated
    assert "fit" not in document
    assert _judge(log, terms=()).fit is not None


def test_rows_are_bounded_too() -> None:
    log = _world(4, moving=True)  # an item at many positions is many rows
    verdict = _judge(log, terms=(), budget=Budget(rows=3_000, folds=2, resamples=200))
    rows = aggregate(log).informative()
    assert len(rows) > 3_000
    assert 20 < verdict.queries < rows.n_queries * 3_000 / len(rows) * 1.3
    assert _judge(log, terms=(), budget=Budget(rows=1, folds=2, resamples=200)).queries == 2


def test_one_position_needs_no_correction() -> None:
    data = RankingData.from_arrays(np.random.default_rng(0).normal(size=(60, 2)), sizes=[4] * 15)
    row = np.arange(60)
    log = ClickLog.from_arrays(data, row=row, session=row, position=np.ones(60, dtype=int), click=row % 4 == 0)
    verdict = recommend(log, preset="smoke", n_jobs=1)
    assert verdict.method == "naive"
    assert "one position" in verdict.text


def test_a_log_too_small_to_hold_anything_out_is_left_as_it_is() -> None:
    log = _world(0, queries=6)
    click = np.where(log.query_of == 0, log.click, 0)
    lonely = ClickLog.from_arrays(log.data, row=log.row, session=log.session_of, position=log.position, click=click)
    model = Recommended(preset="smoke", n_jobs=1).fit(lonely)
    assert model.method_.name == "naive"
    assert "only one query has clicks" in model.verdict_.text
    assert model.verdict_.text.endswith("Use naive.")
    json.dumps(model.verdict_.to_dict())
    with pytest.raises(LogError, match="only one query has clicks"):
        Recommended(preset="smoke", n_jobs=1, examination=1 / np.arange(1, 21)).fit(lonely)
