"""What stage one can be fitted with: ridge, fractional logit, linear SVR, XGBoost, any scikit-learn regressor."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.special import expit
from sklearn.base import clone

from unskew._segments import FloatArray, IntArray
from unskew.control.statistics import GramStatistics, chunks, gram_statistics
from unskew.errors import SettingError, require_extra

if TYPE_CHECKING:
    from unskew.control.stage_one import RowTargets

Features = npt.NDArray[np.float32]


class Learner(Protocol):
    """Fits m(x) to the mean target of every row; `flexible` ones are cross-fitted by default."""

    @property
    def name(self) -> str: ...

    @property
    def flexible(self) -> bool: ...

    def fit(self, features: Features, rows: RowTargets) -> Any: ...

    def cross_fit(self, features: Features, rows: RowTargets, fold: IntArray) -> tuple[Any, list[Any]]: ...


def make_learner(learner: Any, *, rank_target: str, random_state: int, n_jobs: int | None) -> Learner:
    """A learner by name (`ridge`, `logistic`, `svm`, `xgboost`) or around a scikit-learn regressor."""
    if learner == "ridge":
        return Ridge()
    if learner == "logistic":
        if rank_target == "raw":
            raise SettingError("stage_one='logistic' needs a target below 1: use rank_target='global' or 'per_list'.")
        return FractionalLogit()
    if learner == "svm":
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import LinearSVR

        svr = LinearSVR(loss="squared_epsilon_insensitive", dual=False, random_state=random_state)
        return Regressor("svm", make_pipeline(StandardScaler(), svr), flexible=False)
    if learner == "xgboost":
        xgboost = require_extra("xgboost", "xgboost", "stage_one='xgboost'")
        trees = xgboost.XGBRegressor(n_estimators=100, max_depth=6, random_state=random_state, n_jobs=n_jobs)
        return Regressor("xgboost", trees, flexible=True)
    if hasattr(learner, "fit") and hasattr(learner, "predict"):
        return Regressor(type(learner).__name__, learner, flexible=True)
    raise SettingError(
        "stage_one must be 'ridge', 'logistic', 'svm', 'xgboost' or a scikit-learn regressor, "
        f"but {learner!r} was given."
    )


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """m(x) = intercept + coefficients · x, on the features as they come.

    mean, sd : (d,) of the training features; standardised coefficients are coefficients * sd.
    """

    intercept: float
    coefficients: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]
    sd: npt.NDArray[np.float64]

    def predict(self, features: Features) -> FloatArray:
        out = features @ self.coefficients
        lost = np.flatnonzero(np.isnan(out))
        if lost.size:  # a missing value counts as the feature's mean
            some = features[lost]
            out[lost] = np.where(np.isnan(some), self.mean, some) @ self.coefficients
        return out + self.intercept

    def facts(self) -> dict[str, Any]:
        """For the manifest: standardised coefficients, largest first by position in the feature list."""
        return {"standardised_coefficients": (self.coefficients * self.sd).tolist(), "intercept": self.intercept}


@dataclass(frozen=True)
class Ridge:
    """Ridge on standardised features from merged Gram statistics: (Z'Z + αI) β = Z't with α = 1, intercept free.

    α counts per placement, so that showing the log twice changes nothing.
    """

    alpha: float = 1.0
    name: str = "ridge"
    flexible: bool = False

    def fit(self, features: Features, rows: RowTargets) -> RidgeFit:
        return self.solve(_gram(features, rows))

    def cross_fit(self, features: Features, rows: RowTargets, fold: IntArray) -> tuple[RidgeFit, list[RidgeFit]]:
        parts = [_gram(features, rows, fold == number) for number in range(int(fold.max()) + 1)]
        whole = _merged(parts)
        others = [_merged(parts[:i] + parts[i + 1 :]) for i in range(len(parts))]
        return self.solve(whole), [self.solve(part) for part in others]

    def solve(self, statistics: GramStatistics) -> RidgeFit:
        """Coefficients from statistics; constant features get 0."""
        d = len(statistics.mean) - 1
        variance = np.diag(statistics.scatter)[:d] / statistics.weight
        mean = statistics.mean[:d]
        # Rounding leaves a constant feature a variance of about eps × mean²; below that it is constant.
        varies = variance > 1e-12 * np.maximum(mean**2, np.finfo(float).tiny)
        sd = np.sqrt(np.where(varies, variance, 1.0))
        gram = statistics.scatter[:d, :d] / np.outer(sd, sd)
        right = np.where(varies, statistics.scatter[:d, d] / sd, 0.0)
        gram[~varies, :] = 0
        gram[:, ~varies] = 0
        gram[np.diag_indices(d)] += self.alpha * statistics.weight / max(statistics.entries, 1)
        standardised = linalg.solve(gram, right, assume_a="pos")
        coefficients = np.where(varies, standardised / sd, 0.0)
        intercept = float(statistics.mean[d] - coefficients @ mean)
        return RidgeFit(intercept, coefficients, mean, np.where(varies, sd, 0.0))


def _gram(features: Features, rows: RowTargets, keep: npt.NDArray[np.bool_] | None = None) -> GramStatistics:
    if keep is None:
        every = len(rows.rows) == len(features)
        chosen = None if every else rows.rows
        return gram_statistics(features, chosen, rows.mean, rows.weight, rows.within, rows.entries)
    # Inside-row scatter moves no coefficient, and placements are shared out by rows: close enough for a penalty of 1.
    share = float(keep.mean())
    return gram_statistics(
        features, rows.rows[keep], rows.mean[keep], rows.weight[keep], rows.within * share, rows.entries * share
    )


def _merged(parts: list[GramStatistics]) -> GramStatistics:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merge(part)
    return whole


@dataclass(frozen=True, eq=False)
class LogitFit:
    """m(x) = 1 / (1 + exp(−(intercept + coefficients · x)))."""

    linear: RidgeFit

    def predict(self, features: Features) -> FloatArray:
        return expit(self.linear.predict(features))


@dataclass(frozen=True)
class FractionalLogit:
    """Logit of a target in (0, 1), ridge-penalised, by Newton steps of one pass each.

    A rank is not a class; the target r / r_max, moved half a rank into the open interval, is a fraction.
    """

    alpha: float = 1.0
    steps: int = 25
    name: str = "logistic"
    flexible: bool = False

    def fit(self, features: Features, rows: RowTargets) -> LogitFit:
        return self._newton(features, rows, np.arange(len(rows.rows)))

    def cross_fit(self, features: Features, rows: RowTargets, fold: IntArray) -> tuple[LogitFit, list[LogitFit]]:
        folds = range(int(fold.max()) + 1)
        return self.fit(features, rows), [self._newton(features, rows, np.flatnonzero(fold != k)) for k in folds]

    def _newton(self, features: Features, rows: RowTargets, keep: IntArray) -> LogitFit:
        start = Ridge().solve(
            gram_statistics(features, rows.rows[keep], rows.mean[keep], rows.weight[keep], 0.0, len(keep))
        )
        varies = start.sd > 0
        scale = np.where(varies, start.sd, 1.0)
        weight = rows.weight[keep] / rows.weight[keep].mean()
        middle = float(np.average(rows.mean[keep], weights=weight))
        beta = np.r_[np.zeros(len(scale)), np.log(middle / (1 - middle))]
        penalty = np.r_[np.full(len(scale), self.alpha), 1e-9]
        for _ in range(self.steps):
            gradient, hessian = penalty * beta, np.diag(penalty + np.r_[~varies, False])
            for part in chunks(len(keep)):
                x = np.nan_to_num((features[rows.rows[keep[part]]] - start.mean) / scale * varies, nan=0.0)
                x = np.column_stack([x, np.ones(len(x))])
                p = expit(x @ beta)
                gradient -= x.T @ (weight[part] * (rows.mean[keep[part]] - p))
                hessian += (x * (weight[part] * p * (1 - p))[:, None]).T @ x
            step = linalg.solve(hessian, gradient, assume_a="pos")
            beta -= step
            if np.abs(step).max() < 1e-8:
                break
        coefficients = np.where(varies, beta[:-1] / scale, 0.0)
        intercept = float(beta[-1] - coefficients @ start.mean)
        return LogitFit(RidgeFit(intercept, coefficients, start.mean, start.sd))


@dataclass(frozen=True)
class Regressor:
    """Any scikit-learn regressor, fitted to the mean target of every row, weighted by its impressions if it can be."""

    name: str
    estimator: Any
    flexible: bool

    def fit(self, features: Features, rows: RowTargets) -> Any:
        return self._fit(features, rows, np.arange(len(rows.rows)))

    def cross_fit(self, features: Features, rows: RowTargets, fold: IntArray) -> tuple[Any, list[Any]]:
        folds = range(int(fold.max()) + 1)
        return self.fit(features, rows), [self._fit(features, rows, np.flatnonzero(fold != k)) for k in folds]

    def _fit(self, features: Features, rows: RowTargets, keep: IntArray) -> Any:
        chosen = rows.rows[keep]
        matrix = features if len(chosen) == len(features) else features[chosen]
        model = clone(self.estimator)
        weight = rows.weight[keep] / rows.weight[keep].mean()
        if "sample_weight" in inspect.signature(model.fit).parameters and not np.allclose(weight, 1):
            return model.fit(matrix, rows.mean[keep], sample_weight=weight)
        return model.fit(matrix, rows.mean[keep])
