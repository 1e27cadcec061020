"""Rankers by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sklearn.base import clone

from unskew._options import Preset
from unskew.errors import SettingError, check_choice, require_extra

# name → (where it lives, the module it needs, the extra that brings it)
RANKERS: dict[str, tuple[str, str | None, str | None]] = {
    "lambdamart": ("unskew.rankers.lambdamart:LambdaMART", None, None),
    "dnn": ("unskew.rankers.neural:NeuralRanker", "torch", "neural"),
    "xgboost": ("unskew.rankers.xgb:XGBoostRanker", "xgboost", "xgboost"),
}


def make_ranker(
    ranker: Any, *, preset: Preset = "default", random_state: int = 0, n_jobs: int | None = None, **settings: Any
) -> Any:
    """A fresh ranker: by name, or a copy of the one handed over (scikit-learn rankers are wrapped).

    >>> make_ranker("lambdamart", preset="smoke", random_state=7)
    LambdaMART(preset='smoke', random_state=7)
    """
    if isinstance(ranker, str):
        check_choice("ranker", ranker, RANKERS)
        home, module, extra = RANKERS[ranker]
        if module is not None and extra is not None:
            require_extra(module, extra, f"The ranker '{ranker}'")
        path, _, name = home.partition(":")
        build = getattr(import_module(path), name)
        return build(preset=preset, random_state=random_state, n_jobs=n_jobs, **settings)
    if hasattr(ranker, "grid") and hasattr(ranker, "fit"):
        return clone(ranker)
    if hasattr(ranker, "fit") and hasattr(ranker, "predict"):
        from unskew.rankers.adapter import SklearnRanker

        return SklearnRanker(clone(ranker))
    raise SettingError(
        f"ranker must be one of {', '.join(map(repr, RANKERS))} or an estimator with fit and predict, "
        f"but {ranker!r} was given."
    )
