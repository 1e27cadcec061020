"""The method `default`: it fits what the referee recommends, and says so wherever a user looks."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import unskew
from unskew.cli import app, commands  # noqa: F401
from unskew.data.clicks import ClickLog
from unskew.data.fingerprint import fingerprint
from unskew.deploy.manifest import plain
from unskew.errors import UnskewWarning
from unskew.fitting import fit_method
from unskew.method import Method
from unskew.registry import make_method
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection


@cache
def log_with(eta: float) -> ClickLog:
    return simulate(synthetic_collection(100, longest=15, typical=10, features=8, seed=1), eta=eta, seed=1)


@cache
def fitted(eta: float) -> Method:
    return make_method("default", preset="smoke", n_jobs=1).fit(log_with(eta))


def test_a_biased_log_gets_the_full_control_function() -> None:
    model = fitted(1.0)
    same = make_method("full-cfc", preset="smoke", n_jobs=1).fit(log_with(1.0))
    assert model.method_.name == "full-cfc"
    assert model.verdict_.position_found
    np.testing.assert_array_equal(model.predict(log_with(1.0).data), same.predict(log_with(1.0).data))


def test_a_log_without_bias_gets_naive() -> None:
    """η = 0: no correction is needed, and `default` is naive with the same queries held out."""
    model, log = fitted(0.0), log_with(0.0)
    assert model.method_.name == "naive"
    assert "no correction is needed" in model.verdict_.text
    same = fit_method(log, method="naive", preset="smoke", n_jobs=1)
    np.testing.assert_array_equal(model.predict(log.data), same.method.predict(log.data))


@pytest.mark.parametrize("eta", [1.0, 0.0])
def test_the_fingerprint_is_that_of_the_whole_log(eta: float) -> None:
    log, model = log_with(eta), fitted(eta)
    assert model.fingerprint_ == model.method_.fingerprint_ == fingerprint(log)
    assert fit_method(log, preset="smoke", n_jobs=1).method.fingerprint_ == fingerprint(log)


@pytest.mark.parametrize(("eta", "name"), [(1.0, "full-cfc"), (0.0, "naive")])
def test_fit_method_gives_back_what_was_fitted(eta: float, name: str) -> None:
    found = fit_method(log_with(eta), preset="smoke", n_jobs=1)
    assert (found.info.name, found.method.name) == (name, name)
    assert found.verdict is not None
    assert found.verdict.method == name
    held_out = "clicks that the method itself held out" if name == "full-cfc" else "20 % of the log's queries, held out"
    assert held_out in found.chosen_on
    document = json.loads(json.dumps(plain(found.to_dict())))
    assert document["referee"]["method"] == name


def test_warnings_about_the_log_are_given_once() -> None:
    log = log_with(1.0)
    features = np.column_stack([log.data.features, np.ones(len(log.data.features))]).astype(np.float32)
    more = log.with_data(log.data.with_features(features, (*log.data.feature_names, "same")))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make_method("default", preset="smoke", n_jobs=1).fit(more)
    assert [str(one.message) for one in caught if issubclass(one.category, UnskewWarning)] == [
        "The feature 'same' is constant and carries nothing."
    ]


def test_the_verdict_is_shown_and_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    log_with(1.0).write(log)
    told = CliRunner().invoke(app, ["fit", str(log), "--preset", "smoke", "--out", str(tmp_path / "model")])
    assert told.exit_code == 0, told.output
    assert "full-cfc with lambdamart" in told.output
    assert "The referee: The position effect explains held-out clicks" in " ".join(told.output.split())
    manifest = unskew.load(tmp_path / "model").manifest
    assert manifest["method"] == "full-cfc"
    assert "The position effect explains" in json.dumps(manifest, ensure_ascii=False)
    quick = CliRunner().invoke(app, ["diagnose", str(log), "--no-referee", "--json"])
    assert "referee" not in json.loads(quick.stdout)
    shown = CliRunner().invoke(app, ["diagnose", str(log), "--json"])
    assert json.loads(shown.stdout)["referee"]["method"] == "full-cfc"
