"""Scorers: the ranker's own file in, scores of plain features out. Nothing of the training side is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from unskew.deploy._native import NativeLightGBM, NativeXGBoost
from unskew.deploy.lightgbm_text import only_scores, read_text, write_text
from unskew.errors import ModelFileError

# kind of ranker → the one file it is kept in
MODEL_FILES: Final = {
    "lightgbm": "model.txt",
    "xgboost": "model.json",
    "net": "model.safetensors",
    "linear": "model.json",
}


class Scorer(Protocol):
    """Scores float32 rows; `takes_missing` says whether NaN is a value it understands."""

    @property
    def takes_missing(self) -> bool: ...

    def predict(self, matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]: ...


@dataclass(frozen=True)
class TreeScorer:
    """Trees run by their own library; a random forest's sum is divided by its number of trees."""

    native: NativeLightGBM | NativeXGBoost
    divisor: int = 1
    takes_missing: bool = True

    def predict(self, matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        scores = self.native.predict(matrix)
        return scores / self.divisor if self.divisor != 1 else scores


@dataclass(frozen=True)
class CheckedNet:
    """A net, by numpy alone."""

    net: Any
    takes_missing: bool = False

    def predict(self, matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        return self.net.predict(matrix)


def make_scorer(kind: str, content: bytes, n_features: int, info: Mapping[str, Any]) -> Scorer:
    """Read and check a ranker's file; whatever is wrong with it is a ModelFileError."""
    scorer: Scorer
    if kind == "lightgbm":
        model = read_text(content)
        _same_width(len(model.names), n_features)
        # The library gets our own writing of what was checked, not the bytes that came in. It reads by one thread: in
        # a forked process it would wait for threads that are gone.
        native = NativeLightGBM(write_text(only_scores(model), sizes=False), n_features)
        scorer = TreeScorer(native, divisor=model.n_trees if model.average else 1)
    elif kind == "xgboost":
        from unskew.deploy.xgboost_json import read_xgboost, write_xgboost

        forest = read_xgboost(content)
        _same_width(forest.n_features, n_features)
        scorer = TreeScorer(NativeXGBoost(write_xgboost(forest), n_features))
    elif kind == "linear":
        from unskew.deploy.linear import read_linear

        scorer = read_linear(content)
        _same_width(len(scorer.coefficients), n_features)
    elif kind == "net":
        scorer = _net(content, n_features, info)
    else:
        raise ModelFileError(f"Models of kind {kind!r} are not known. Known are: {', '.join(MODEL_FILES)}.")
    return scorer


def _net(content: bytes, n_features: int, info: Mapping[str, Any]) -> Scorer:
    from unskew.rankers.net_scorer import NetScorer

    try:
        net = NetScorer.from_bytes(content, info)
        _same_width(net.n_plain, n_features)
        # Layers whose shapes do not fit together fail here, not at the first request.
        net.predict(np.zeros((1, n_features), dtype=np.float32))
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(f"The saved net does not fit together: {error}") from error
    return CheckedNet(net)


def _same_width(found: int, n_features: int) -> None:
    if found != n_features:
        raise ModelFileError(f"The model file takes {found} features, but the manifest names {n_features}.")
