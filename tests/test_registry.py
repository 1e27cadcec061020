"""The registry and the command that prints it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import unskew
from unskew.cli import app, commands  # noqa: F401
from unskew.errors import SettingError
from unskew.registry import DEFAULT, make_method, methods, resolve

NAMES = [
    *("default", "naive", "oracle", "cfc", "cfc-s", "cfc-bc", "full-cfc", "pijd", "pijd-linear", "paird"),
    *("upe", "multr", "pal", "rem", "dla", "position", "xgb-unbiased"),
]


def test_the_names_of_the_contract() -> None:
    assert [info.name for info in methods()] == NAMES
    assert all(info.citation and info.summary and info.rankers for info in methods())
    assert unskew.methods() == methods()


def test_the_default_is_one_of_them() -> None:
    assert resolve(DEFAULT).name == DEFAULT
    assert [info.name for info in methods() if info.is_default] == [DEFAULT]
    with pytest.raises(SettingError, match="stage_one"):
        make_method("default", stage_one="svm")


def test_names_fix_settings_and_callers_may_add_theirs() -> None:
    residual = make_method("cfc-s", preset="smoke", random_state=7, n_jobs=1, centred=True)
    assert (residual.form, residual.preset, residual.random_state, residual.centred) == ("residual", "smoke", 7, True)
    assert make_method("cfc-bc").tune_on == "clicks"
    assert make_method("paird", bins=20).bins == 20
    assert make_method("pijd", ranker="xgboost").ranker == "xgboost"


def test_a_ranker_of_ones_own_is_taken() -> None:
    from unskew.rankers.lambdamart import LambdaMART

    mine = LambdaMART(leaves=3)
    assert make_method("naive", ranker=mine).ranker is mine
    with pytest.raises(SettingError, match="'dnn'"):
        make_method("dla", ranker="lambdamart")
    with pytest.raises(SettingError, match="brings its own ranker"):
        make_method("dla", ranker=mine)


def test_listing_imports_nothing_heavy() -> None:
    code = (
        "import sys, unskew; unskew.methods(); "
        "print([m for m in ('torch', 'lightgbm', 'xgboost', 'dask') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_command_lists_them_all() -> None:
    result = CliRunner().invoke(app, ["methods"])
    assert result.exit_code == 0
    assert all(f"\n{name} " in result.stdout for name in NAMES)
    assert f"{DEFAULT} *" in result.stdout
    document = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)
    assert document["default"] == DEFAULT
    assert [row["name"] for row in document["methods"]] == NAMES
    assert document["methods"][NAMES.index("dla")]["rankers"] == ["dnn"]
    assert CliRunner().invoke(app, ["methods", "--quiet"]).stdout == ""
