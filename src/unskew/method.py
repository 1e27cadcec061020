"""What every method has in common: a click log in, a model over plain features out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from unskew._segments import IntArray
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix, FixedTerms
from unskew.data.fingerprint import fingerprint
from unskew.data.inputs import as_matrix
from unskew.data.ranking import RankingData
from unskew.data.soundness import warn_about
from unskew.errors import ExportError, FeatureError, LogError, NotFittedError
from unskew.rankers.base import Judge, RankerState

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PositionCurve:
    """What a method believes about examination: one value a position, 1 at the top.

    position : (k,) positions, ascending from 1.
    value : (k,) examination relative to position 1.
    low, high : (k,) bounds of the interval at `confidence`, where the method knows them.
    """

    position: IntArray
    value: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64] | None = None
    high: npt.NDArray[np.float64] | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Candidate:
    """One setting that was tried: what it was, and how the judge saw it."""

    setting: dict[str, Any]
    score: float | None
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What a method's `_learn` hands back.

    ranker : the fitted ranker behind the scores (has .predict(design) and .state(columns)).
    state : the ranker's own format, control terms not yet folded away.
    bias : the position curve the method estimated, if it does.
    candidates : what was tried.
    fixed : (terms,) the values the extra terms take at inference; None means zero, the paper's choice.
    extra : small JSON-able facts for the manifest (what stage one learnt, the share of gain of the terms, …).
    """

    ranker: Any
    state: RankerState
    bias: PositionCurve | None = None
    candidates: Sequence[Candidate] = ()
    fixed: npt.NDArray[np.float64] | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class Method(BaseEstimator):
    """Base of every method: checks at the door, `fit`, `predict`, `save`.

    A subclass stores its keyword-only settings unchanged in __init__ (scikit-learn's convention) and writes `_learn`.
    """

    name: ClassVar[str]
    needs_grades: ClassVar[bool] = False
    needs_clicks: ClassVar[bool] = True
    # Whether validation data helps to choose settings; methods that choose by cross-fitting need none.
    chooses: ClassVar[bool] = True
    # Whether clicks are debiased before they choose, where there are no grades.
    debiases: ClassVar[bool] = False

    def fit(self, log: ClickLog, y: None = None, *, validation: ClickLog | RankingData | None = None) -> Self:
        """Learn from a click log; `validation` (a log, or judged data) chooses among the settings."""
        if hasattr(log, "fit_into"):  # a log that is not in memory brings its own way (unskew.scale)
            return log.fit_into(self, validation)
        if not isinstance(log, ClickLog):
            raise LogError(
                f"fit takes a ClickLog, but got {type(log).__name__}. "
                "Make one with unskew.ClickLog.from_frame(frame, ...) or ClickLog.read(path)."
            )
        validation = _aligned(validation, log.data.feature_names)
        self._check(log, validation)
        warn_about(log, clicks=self.needs_clicks)
        outcome = self._learn(log, validation)
        self.outcome_ = outcome
        self.bias_ = outcome.bias
        self.fingerprint_ = fingerprint(log)
        self.candidates_ = list(outcome.candidates)
        self.n_features_in_ = log.data.n_features
        self.feature_names_in_ = np.asarray(log.data.feature_names, dtype=object)
        self.__dict__.pop("_model", None)
        return self

    @abstractmethod
    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome: ...

    def predict(self, features: Any) -> Scores:
        """(n,) scores of plain features: an array, a frame (matched by name) or RankingData; larger is better."""
        if hasattr(self, "outcome_") and self.outcome_.state.kind == "memory":
            return self._predict_in_memory(features)
        return self.to_model().predict(features)

    def _predict_in_memory(self, features: Any) -> Scores:
        """Scores by the ranker itself, its terms fixed as inference has them."""
        state, fixed = self.outcome_.state, self.outcome_.fixed
        plain, terms = state.columns[: state.n_plain], state.columns[state.n_plain :]
        values = np.zeros(len(terms)) if fixed is None else fixed
        extra = FixedTerms(terms, values) if terms else None
        return self.outcome_.ranker.predict(DesignMatrix(as_matrix(features, plain), terms=extra))

    def to_model(self) -> Any:
        """The fitted ranker with its control terms folded away: a Model over plain features."""
        if not hasattr(self, "outcome_"):
            raise NotFittedError(f"{type(self).__name__} is not fitted yet. Call fit(log) first.")
        if self.outcome_.state.kind == "memory":
            ranker = self.outcome_.state.info.get("estimator", "This ranker")
            raise ExportError(
                f"{ranker} has no open format that unskew knows, so it can score but not be saved. "
                "Rankers that can be saved: lambdamart, dnn, xgboost, and linear regressors."
            )
        if "_model" not in self.__dict__:
            from unskew.deploy.model import Model

            self._model = Model.from_method(self)
        return self._model

    def save(self, path: Any) -> None:
        """Write the folded model as a folder: a manifest and the ranker's own open format."""
        self.to_model().save(path)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_model", None)
        return state

    def _check(self, log: ClickLog, validation: ClickLog | RankingData | None) -> None:
        if self.needs_grades:
            log.data.require_grades(f"The method '{self.name}'")


def _aligned(validation: ClickLog | RankingData | None, names: tuple[str, ...]) -> ClickLog | RankingData | None:
    """The validation data with its features in the order of the log's."""
    if validation is None:
        return None
    data = validation.data if isinstance(validation, ClickLog) else validation
    if data.feature_names == names:
        return validation
    if set(data.feature_names) != set(names):
        lacking = [name for name in names if name not in data.feature_names]
        added = [name for name in data.feature_names if name not in names]
        first = f"it lacks '{lacking[0]}'" if lacking else f"'{added[0]}' is new"
        raise FeatureError(f"The validation data has other features than the log: {first}.")
    place = {name: number for number, name in enumerate(data.feature_names)}
    ordered = data.with_features(data.features[:, [place[name] for name in names]], names)
    return validation.with_data(ordered) if isinstance(validation, ClickLog) else ordered


__all__ = ["Candidate", "Judge", "Method", "Outcome", "PositionCurve", "Scores", "as_matrix"]
