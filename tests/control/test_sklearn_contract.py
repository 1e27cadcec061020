"""scikit-learn's checks where its contract applies.

It applies to settings: construction, get_params and set_params, cloning, printing. It does not apply to data: `fit`
takes a ClickLog, which no array of shape (samples, features) can stand for, so the checks that fit on such arrays
are out of place.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_checks as checks

from unskew.control.estimator import ControlFunctionRanker
from unskew.rankers.lambdamart import LambdaMART
from unskew.registry import methods

SETTINGS_CHECKS: list[Callable[[str, BaseEstimator], None]] = [
    checks.check_no_attributes_set_in_init,
    checks.check_get_params_invariance,
    checks.check_set_params,
    checks.check_estimator_cloneable,
    checks.check_estimator_repr,
    checks.check_parameters_default_constructible,
]


@pytest.mark.parametrize("check", SETTINGS_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("estimator", [ControlFunctionRanker(), LambdaMART()], ids=lambda e: type(e).__name__)
def test_settings_follow_scikit_learn(check: Callable[[str, BaseEstimator], None], estimator: BaseEstimator) -> None:
    check(type(estimator).__name__, estimator)


@pytest.mark.parametrize("name", [info.name for info in methods()])
def test_every_method_can_be_cloned(name: str) -> None:
    from sklearn.base import clone

    from unskew.registry import make_method

    try:
        method = make_method(name, preset="smoke", random_state=3)
    except ImportError as missing:
        pytest.skip(str(missing))
    assert clone(method).get_params() == method.get_params()
    checks.check_no_attributes_set_in_init(name, method)
