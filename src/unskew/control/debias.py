"""Debiased validation clicks (section 4.4, equation 8): clicks less what the residual alone explains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._segments import FloatArray
from unskew.control.stage_one import StageOne
from unskew.control.transformations import Transformation
from unskew.data.clicks import ClickLog


@dataclass(frozen=True)
class ClickOnResidual:
    """D(T) = intercept + slope · T, ridge with α = 1 on training clicks; made of five sums, so halves merge.

    sums : weight, ΣT, ΣT², Σc, ΣcT.
    """

    sums: npt.NDArray[np.float64]
    alpha: float = 1.0

    def merge(self, other: ClickOnResidual) -> ClickOnResidual:
        return ClickOnResidual(self.sums + other.sums, self.alpha)

    @property
    def slope(self) -> float:
        n, t, tt, c, ct = self.sums
        return float((ct - c * t / n) / (tt - t * t / n + self.alpha))

    @property
    def intercept(self) -> float:
        n, t, _, c, _ = self.sums
        return float((c - self.slope * t) / n)

    def predict(self, value: FloatArray) -> npt.NDArray[np.float64]:
        return self.intercept + self.slope * np.asarray(value, dtype=np.float64)


def fit_click_on_residual(log: ClickLog, value: FloatArray) -> ClickOnResidual:
    """D fitted on every impression of the training log; `value` holds T(ε̂) per impression."""
    t, c = np.asarray(value, dtype=np.float64), log.click.astype(np.float64)
    w = np.ones_like(t) if log.weight is None else log.weight.astype(np.float64)
    return ClickOnResidual(np.array([w.sum(), w @ t, w @ t**2, w @ c, w @ (c * t)]))


def debiased_labels(
    validation: ClickLog, *, stage_one: StageOne, transformation: Transformation, model: ClickOnResidual
) -> npt.NDArray[np.float64]:
    """(rows shown,) mean over sessions of c − D(T(ε̂)) for every validation item; real-valued, may be negative.

    m, T and D all come from training (the paper trains D on training data and predicts on validation).
    """
    expected = stage_one.explain(validation.data)
    residual = stage_one.target.values(validation, validation.row, validation.position) - expected[validation.row]
    left = validation.click - model.predict(transformation(residual))
    weight = np.ones(len(left)) if validation.weight is None else validation.weight.astype(np.float64)
    n = validation.data.n_rows
    total = np.bincount(validation.row, weights=weight * left, minlength=n)
    shown = np.bincount(validation.row, weights=weight, minlength=n)
    rows = validation.rows_shown
    return total[rows] / np.maximum(shown[rows], np.finfo(float).tiny)
