"""Any scikit-learn-style estimator as a ranker: XGBRanker, LGBMRanker, CatBoostRanker, a pointwise regressor."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone

from unskew._segments import IntArray, offsets_of, segment_mean, segment_of
from unskew.data.design import DesignMatrix
from unskew.errors import NotFittedError, SettingError, check_choice
from unskew.rankers.base import Judge, RankerState

GroupArgument = Literal["auto", "group", "qid", "group_id", "none"]

BLOCK = 65_536


class SklearnRanker(BaseEstimator):
    """A ranker around an estimator with fit(X, y, …) and predict(X).

    group_argument : how its `fit` wants to know the lists: "group" (their sizes, LGBMRanker), "qid" or "group_id" (a
        number a row, XGBRanker and CatBoostRanker), "none" (a pointwise regressor). "auto" looks at its signature.

    The estimator gets the whole matrix at once, terms included: it must fit into memory.

    >>> from sklearn.linear_model import Ridge
    >>> x = np.arange(6, dtype=np.float32).reshape(3, 2)
    >>> ranker = SklearnRanker(Ridge()).fit(DesignMatrix(x), np.array([0, 0, 1]), np.array([3]))
    >>> bool((np.diff(ranker.predict(DesignMatrix(x))) > 0).all()), ranker.state(["a", "b"]).kind
    (True, 'linear')
    """

    def __init__(self, estimator: Any, *, group_argument: GroupArgument = "auto") -> None:
        self.estimator = estimator
        self.group_argument = group_argument

    @property
    def takes_missing(self) -> bool:
        """Whether the estimator says that it understands NaN."""
        try:
            return bool(self.estimator.__sklearn_tags__().input_tags.allow_nan)
        except AttributeError:
            return False

    def grid(self) -> list[Self]:
        return [clone(self)]

    def fit(
        self,
        design: DesignMatrix,
        labels: npt.NDArray,
        sizes: IntArray,
        *,
        weight: npt.NDArray[np.float32] | None = None,
        position: IntArray | None = None,
        judge: Judge | None = None,
        cache: dict[Any, Any] | None = None,
    ) -> Self:
        """Train a copy of the estimator; one stage, judged if there is a judge."""
        if position is not None:
            raise SettingError(f"{type(self.estimator).__name__} cannot be told positions.")
        lists = self._group(sizes)
        options: dict[str, Any] = dict(lists)
        if weight is not None and not (weight == 1).all():
            options["sample_weight"] = self._weight(weight, sizes)
        self.estimator_ = clone(self.estimator).fit(design[:], np.asarray(labels), **options)
        self.n_plain_, self.n_terms_, self.stage_ = design.n_plain, design.n_terms, 1
        self.judged_ = None if judge is None else float(judge(self.predict(judge.features)))
        return self

    def predict(self, design: DesignMatrix) -> npt.NDArray[np.float64]:
        """(n,) scores, larger is better; of a classifier, the probability of its last class."""
        if not hasattr(self, "estimator_"):
            raise NotFittedError("SklearnRanker is not fitted yet. Call fit(design, labels, sizes) first.")
        blocks = (design[at : at + BLOCK] for at in range(0, len(design), BLOCK))
        return np.concatenate([self._raw(block) for block in blocks]).astype(np.float64)

    def state(self, columns: Sequence[str]) -> RankerState:
        """LightGBM, XGBoost and linear estimators in their open formats; others live in memory only."""
        info = {"estimator": type(self.estimator_).__name__}
        kind, files = _open_format(self.estimator_, columns)
        return RankerState(kind, files, tuple(columns), self.n_plain_, info)

    def _raw(self, block: npt.NDArray[np.float32]) -> npt.NDArray:
        if hasattr(self.estimator_, "predict_proba"):
            return self.estimator_.predict_proba(block)[:, -1]
        return np.asarray(self.estimator_.predict(block)).reshape(len(block))

    def _group(self, sizes: IntArray) -> dict[str, IntArray]:
        check_choice("group_argument", self.group_argument, ("auto", "group", "qid", "group_id", "none"))
        name = self.group_argument
        if name == "auto":
            known = inspect.signature(self.estimator.fit).parameters
            name = next((option for option in ("qid", "group_id", "group") if option in known), "none")
        if name == "none":
            return {}
        return {name: np.asarray(sizes) if name == "group" else segment_of(offsets_of(sizes))}

    def _weight(self, weight: npt.NDArray[np.float32], sizes: IntArray) -> npt.NDArray:
        known = inspect.signature(self.estimator.fit).parameters
        if "sample_weight" not in known and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            raise SettingError(
                f"Identical sessions are merged and weighted, but {type(self.estimator).__name__}.fit takes no "
                "sample_weight. Use an estimator that does."
            )
        # XGBoost's rankers want a weight a list, everybody else a weight a row.
        by_list = type(self.estimator).__module__.startswith("xgboost") and "qid" in known
        return segment_mean(weight, offsets_of(sizes)) if by_list else weight


def _open_format(estimator: Any, columns: Sequence[str]) -> tuple[Any, dict[str, bytes]]:
    home = type(estimator).__module__
    if home.startswith("lightgbm"):
        from unskew.rankers.lambdamart import named_text

        return "lightgbm", {"model.txt": named_text(estimator.booster_.model_to_string(), columns).encode()}
    if home.startswith("xgboost"):
        return "xgboost", {"model.json": bytes(estimator.get_booster().save_raw("json"))}
    slope = np.asarray(getattr(estimator, "coef_", ()), dtype=np.float64)
    if slope.size == len(columns) and not hasattr(estimator, "predict_proba"):
        intercept = float(np.asarray(getattr(estimator, "intercept_", 0.0)).reshape(-1)[0])
        document = {"coefficients": slope.reshape(-1).tolist(), "intercept": intercept}
        return "linear", {"model.json": json.dumps(document).encode()}
    return "memory", {}
