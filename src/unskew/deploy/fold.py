"""Folding: a model whose extra terms are fixed becomes an equal, smaller model over plain features.

At inference the control terms are zero (Φ = 0), so every split on one of them has a single answer: the dead
branch goes, and what is left asks only for plain features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.deploy.fold_lgb import fold_lightgbm
from unskew.errors import ExportError, ModelFileError, SettingError
from unskew.rankers.base import RankerState

__all__ = ["fold", "fold_lightgbm"]


def fold(state: RankerState, fixed: npt.ArrayLike | None = None) -> tuple[RankerState, dict[str, Any]]:
    """The state over plain features only, its terms fixed (at zero unless `fixed` says otherwise), and a summary.

    Scores of the folded state equal those of the original at the fixed values: to the last bit for trees.
    """
    n_terms = len(state.columns) - state.n_plain
    # A ranker sees its columns as float32, so that is what the fixed values are rounded to.
    values = np.zeros(n_terms) if fixed is None else np.asarray(fixed, dtype=np.float32).astype(np.float64)
    if values.shape != (n_terms,) or not np.isfinite(values).all():
        raise SettingError(f"fixed must hold one finite value for each of the {n_terms} terms, but got {values!r}.")
    names = state.columns[: state.n_plain]
    if state.kind == "lightgbm":
        text, summary = fold_lightgbm(_only_file(state), dict(enumerate(values, start=state.n_plain)), state.columns)
        return replace(state, files={"model.txt": text}, columns=names), summary.as_dict()
    if state.kind == "xgboost":
        from unskew.deploy.fold_xgb import fold_xgboost

        json, summary = fold_xgboost(_only_file(state), dict(enumerate(values, start=state.n_plain)), state.columns)
        return replace(state, files={"model.json": json}, columns=names), summary.as_dict()
    if state.kind == "linear":
        from unskew.deploy.linear import fold_linear

        return replace(state, files={"model.json": fold_linear(_only_file(state), values)}, columns=names), {}
    if state.kind == "net":
        from unskew.rankers.net_scorer import fold_net

        return fold_net(state, values), _net_summary(state)
    raise ExportError(
        f"A ranker of kind '{state.kind}' has no open format, so it can be neither folded nor saved. "
        "Use LambdaMART, XGBoost, the neural ranker or a linear estimator."
    )


def _net_summary(state: RankerState) -> dict[str, Any]:
    """How much of the first layer's weight the terms held: ‖V‖² / (‖W‖² + ‖V‖²), both for scaled inputs."""
    from unskew.rankers.net_scorer import read_tensors

    tensors = read_tensors(_only_file(state))
    plain, terms = (
        float(np.square(tensors[name], dtype=np.float64).sum()) if name in tensors else 0.0
        for name in ("linear0.weight", "terms.weight")
    )
    share = terms / (plain + terms) if plain + terms else 0.0
    return {"terms": len(state.columns) - state.n_plain, "term_weight": share}


def _only_file(state: RankerState) -> bytes:
    if len(state.files) != 1:
        raise ModelFileError(f"A {state.kind} ranker is one file, but {len(state.files)} were given.")
    return next(iter(state.files.values()))
