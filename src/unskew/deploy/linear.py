"""A linear score as a small JSON document: {"coefficients": [...], "intercept": number}."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew.deploy.strict_json import read_json
from unskew.errors import ModelFileError, SettingError


@dataclass(frozen=True)
class LinearScorer:
    """score = coefficients · x + intercept, computed in float64.

    >>> LinearScorer(np.array([1.0, 2.0]), 0.5).predict(np.array([[1, 1]], dtype=np.float32)).tolist()
    [3.5]
    """

    coefficients: npt.NDArray[np.float64]
    intercept: float
    takes_missing = False

    def predict(self, matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        # One row at a time inside einsum: the same row scores the same in any batch.
        return np.einsum("ij,j->i", matrix, self.coefficients, dtype=np.float64) + self.intercept

    def to_json(self) -> bytes:
        document = {"coefficients": self.coefficients.tolist(), "intercept": self.intercept}
        return json.dumps(document, allow_nan=False).encode()


def read_linear(content: bytes) -> LinearScorer:
    """Read and check the document."""
    document = read_json(content, "The linear model")
    if not isinstance(document, dict) or set(document) != {"coefficients", "intercept"}:
        raise ModelFileError("The linear model must hold exactly 'coefficients' and 'intercept'.")
    values, intercept = document["coefficients"], document["intercept"]
    numbers = [intercept, *values] if isinstance(values, list) else [None]
    if not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers):
        raise ModelFileError("The linear model's coefficients must be a list of numbers, its intercept a number.")
    try:
        coefficients = np.array(values, dtype=np.float64)
        constant = float(intercept)
    except OverflowError:
        raise ModelFileError("The linear model's numbers must be finite.") from None
    if not (np.isfinite(coefficients).all() and np.isfinite(constant)):
        raise ModelFileError("The linear model's numbers must be finite.")
    return LinearScorer(coefficients, constant)


def fold_linear(content: bytes, fixed: npt.NDArray[np.float64]) -> bytes:
    """The last coefficients, times the values their columns are fixed at, go into the intercept."""
    scorer = read_linear(content)
    n_plain = len(scorer.coefficients) - len(fixed)
    if n_plain < 1:
        raise SettingError("Folding must leave at least one column, but all were fixed.")
    constant = scorer.intercept + float(scorer.coefficients[n_plain:] @ fixed)
    return LinearScorer(scorer.coefficients[:n_plain], constant).to_json()
