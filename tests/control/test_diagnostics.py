"""Diagnostics find what was planted and stay quiet where nothing was."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unskew.cli.common import plain
from unskew.control.diagnostics import diagnose
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import LogError
from unskew.report.log_figures import clicks_panel


def log_with_spread(*, slope: float, queries: int = 600, size: int = 10, seed: int = 0) -> ClickLog:
    """Ranks by feature 0 plus noise whose size rises with feature 1 by `slope`."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(queries * size, 3)).astype(np.float32)
    # One value of feature 1 a query: the noise of all its items has one size, as for a query that is hard.
    x[:, 1] = np.repeat(rng.normal(size=queries), size)
    noise = rng.normal(size=len(x)) * np.exp(slope * x[:, 1])
    data = RankingData.from_arrays(x, sizes=np.full(queries, size))
    score = (x[:, 0] * (slope != 0) + noise).reshape(queries, size)
    order = np.argsort(-score, axis=1) + np.arange(queries)[:, None] * size
    position = np.tile(np.arange(1, size + 1), queries)
    click = rng.random(len(position)) < 0.3 / position
    return ClickLog.from_arrays(
        data, row=order.ravel(), session=np.repeat(np.arange(queries), size), position=position, click=click
    )


def test_planted_spread_is_found() -> None:
    found = diagnose(log_with_spread(slope=1.0))
    assert found.spread.found
    assert found.spread.largest_feature in ("f1", "f2")
    assert next(f for f in found.findings if f.about == "identification").level == "fine"


def test_random_positions_raise_no_alarm() -> None:
    """Ten seeds, level 0.05 over all features each: more than four alarms are rarer than one in ten thousand runs."""
    alarms = [diagnose(log_with_spread(slope=0.0, queries=300, seed=seed)).spread.found for seed in range(10)]
    assert sum(alarms) <= 4
    quiet = diagnose(log_with_spread(slope=0.0, seed=int(np.argmin(alarms))))
    assert quiet.r2 < 0.02


def test_numbers_and_words() -> None:
    log = log_with_spread(slope=0.5)
    found = diagnose(log)
    first = log.take_sessions([0])
    from scipy.stats import spearmanr

    from unskew.control.stage_one import fit_stage_one

    stage_one = fit_stage_one(log)
    by_query = [
        spearmanr(stage_one.expected[part.row], part.position).statistic
        for part in (log.take_sessions([s]) for s in range(log.n_sessions))
    ]
    assert found.rank_correlation == pytest.approx(np.mean(by_query), abs=1e-9)
    assert first.n_sessions == 1
    assert found.moved_share == 0
    rate = log.click[log.position == 3].mean()
    assert found.clicks.rate[2] == pytest.approx(rate)
    document = plain(found.to_dict())
    assert json.loads(json.dumps(document, allow_nan=False))["verdict"] == found.verdict
    assert {finding.about for finding in found.findings} >= {"stage one", "identification", "clicks by position"}


def test_too_few_queries_are_not_called_a_verdict() -> None:
    found = next(f for f in diagnose(log_with_spread(slope=1.0, queries=20)).findings if f.about == "identification")
    assert found.level == "weak"
    assert "could not be tested: one item per query makes 20" in found.text


def test_what_was_not_tested_has_no_figure() -> None:
    spread = diagnose(log_with_spread(slope=1.0, queries=20)).to_dict()["heteroskedasticity"]
    assert spread["overall"] == {"statistic": None, "p": None}
    assert spread["tested"] == 0
    tested = diagnose(log_with_spread(slope=1.0)).to_dict()["heteroskedasticity"]
    assert all(tested[name]["p"] is not None for name in ("overall", "pooled", "breusch_pagan"))


def test_a_log_with_nothing_to_rank_by() -> None:
    log = log_with_spread(slope=1.0, queries=20)
    flat = log.data.with_features(np.ones_like(log.data.features), log.data.feature_names)
    with pytest.raises(LogError, match="Every feature is constant"):
        diagnose(log.with_data(flat))


def test_counts_of_clicks_are_not_called_a_rate() -> None:
    log = log_with_spread(slope=0.5)
    counts = ClickLog.from_arrays(
        log.data, row=log.row, session=log.session_of, position=log.position, click=40 // log.position
    )
    text = next(f.text for f in diagnose(counts).findings if f.about == "clicks by position")
    assert text == "The number of clicks on an item falls from 40 at position 1 to 4 at 10 and halves by position 2."
    chart = clicks_panel(diagnose(counts).clicks).chart.to_dict()
    assert chart["layer"][0]["encoding"]["y"]["title"] == "clicks on an item"
