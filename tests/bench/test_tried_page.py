"""The page of what was tried: its arithmetic has known answers, and the whole way runs."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unskew.control.aggregate import Exposures
from unskew.control.click_fit import click_table, fit_clicks
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection

_SPEC = importlib.util.spec_from_file_location("tried_script", Path(__file__).parents[2] / "benchmarks" / "tried.py")
tried = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = tried  # dataclasses look their module up
_SPEC.loader.exec_module(tried)


@pytest.mark.parametrize("alpha", [0.5, 4.0])
def test_shape_of_a_gamma_poisson_mixture_is_found(alpha):
    rng = np.random.default_rng(1)
    expected = rng.uniform(0.5, 3.0, 20_000)
    clicks = rng.poisson(expected * rng.gamma(alpha, 1 / alpha, len(expected))).astype(float)
    assert tried.likeliest_shape(clicks, expected) == pytest.approx(alpha, rel=0.08)


def test_clicks_that_a_poisson_explains_leave_gains_to_the_model():
    rng = np.random.default_rng(2)
    expected = rng.uniform(0.5, 3.0, 5_000)
    assert tried.likeliest_shape(rng.poisson(expected).astype(float), expected) > 50


def test_gains_rise_with_clicks_and_agree_with_the_model_where_clicks_do():
    log = simulate(synthetic_collection(40, longest=15, typical=10, features=8), seed=1)
    fit = fit_clicks(log, seed=0, threads=1)
    table, gain = tried.posterior_gains(fit)
    assert (gain > 0).all()
    more = tried.posterior_gains(_with_more_clicks_at(fit, 0))[1]
    others = np.flatnonzero(table.segment != table.segment[0])
    assert more[0] > gain[0]
    np.testing.assert_allclose(more[others] / gain[others], np.ones(len(others)), rtol=0.5)


def _with_more_clicks_at(fit, row):
    clicks = fit.used.clicks.copy()
    clicks[row] += 3
    return replace(fit, sample=replace(fit.sample, table=replace(fit.used, clicks=clicks)))


def test_every_change_changes_the_scores():
    judged = synthetic_collection(60, longest=15, typical=10, features=8)
    log = simulate(judged, seed=1)
    table = click_table(log)
    world = tried.World(log, table, np.arange(table.n_queries) % 2 == 0, judged, 0, "smoke")
    plain = tried.as_it_is(world)
    # Caution is at work on few logs only.
    alike = [n for n, change in tried.CHANGES.items() if np.array_equal(change(world), plain)]
    assert set(alike) <= {tried.AS_IT_IS, "without caution"}


def test_two_logs_are_joined_query_by_query():
    def table(queries, clicks):
        n = 2 * len(queries)
        return Exposures(
            row=np.repeat(np.asarray(queries) * 2, 2) + np.tile([0, 1], len(queries)),
            position=np.tile([1, 2], len(queries)),
            offsets=np.arange(0, n + 1, 2),
            query=np.asarray(queries),
            shown=np.full(n, 10.0),
            clicks=np.full(n, float(clicks)),
        )

    both = tried.joined(table([0, 3], 1), table([1, 2], 7))
    assert both.query.tolist() == [0, 1, 2, 3]
    assert both.row.tolist() == list(range(8))
    assert both.clicks.tolist() == [1, 1, 7, 7, 7, 7, 1, 1]


def test_a_difference_is_bold_beyond_two_standard_errors():
    values = [{tried.AS_IT_IS: 0.5, "better": 0.51 + 0.001 * k, "same": 0.5 + 0.01 * (-1) ** k} for k in range(4)]
    assert tried.difference(values, "better") == "**+11.5 ± 0.6**"
    assert tried.difference(values, "same") == "+0.0 ± 5.8"
    assert tried.difference(values, tried.AS_IT_IS) == "0.5000"
    assert tried.difference(values[:1], "better") == "+10.0"
    assert tried.difference([], "better") == "–"


def test_the_page_has_every_change_and_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(tried, "MODELS", 1)
    monkeypatch.setattr(tried, "CELLS", {name: tried.CELLS[name] for name in ("base", "two classes")})
    out, work = tmp_path / "tried.md", tmp_path / "work"
    arguments = ["synthetic:30", "--folds", "1", "--seeds", "1", "--preset", "smoke", "--jobs", "0"]
    arguments += ["--work", str(work), "--out", str(out)]
    assert tried.main(arguments) == 0
    text = out.read_text()
    assert all(f"| {name} |" in text for name in tried.CHANGES)
    kept = sorted(work.iterdir())
    assert len(kept) == len(tried.CELLS)
    known = json.loads(kept[0].read_text())
    known["ndcg"][tried.AS_IT_IS] = 0.123  # what is kept is not done again
    kept[0].write_text(json.dumps(known))
    assert tried.main(arguments) == 0
    assert "| as it is | 0.1230 |" in out.read_text()
