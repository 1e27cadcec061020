"""Scoring a saved neural ranker with numpy alone, and folding its control terms away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from unskew.data.design import FloatMatrix
from unskew.errors import FeatureError, ModelFileError
from unskew.rankers.base import RankerState

Tensors = Mapping[str, npt.NDArray[np.float32]]

MODEL_FILE = "model.safetensors"
SCALING = ("unit", "mean", "scale", "term_unit", "term_scale")
# Items scored together: enough for the matrix products, few enough for the caches.
CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Scaling:
    """What happens to the inputs before the first layer.

    Every column goes through u = sign(x) log(1 + |x| / unit), which is close to linear up to the column's usual size
    and tames heavy tails beyond it. Plain features are then standardised with the training data's mean and deviation
    of u; terms are divided by their deviation WITHOUT centring, so that a term of 0 stays 0. Both are clipped.

    unit, mean, scale : (d,) of the plain features.
    term_unit, term_scale : (t,) of the terms.
    clip : the largest absolute value that enters the net.

    >>> one, none = np.ones(1, np.float32), np.zeros(1, np.float32)
    >>> scaling = Scaling(unit=one, mean=one, scale=one, term_unit=one, term_scale=one, clip=10)
    >>> scaling.plain(np.float32([[np.e - 1], [0], [1e30]])).ravel().tolist()
    [0.0, -1.0, 10.0]
    >>> scaling.terms(np.float32([[0], [np.e - 1], [1 - np.e]])).ravel().tolist()
    [0.0, 1.0, -1.0]
    """

    unit: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    term_unit: npt.NDArray[np.float32]
    term_scale: npt.NDArray[np.float32]
    clip: float

    def plain(self, x: FloatMatrix) -> FloatMatrix:
        """(n, d) standardised features."""
        out = signed_log(x, self.unit)
        out -= self.mean
        out /= self.scale
        return np.clip(out, -self.clip, self.clip, out=out)

    def terms(self, t: FloatMatrix) -> FloatMatrix:
        """(n, t) scaled terms."""
        out = signed_log(t, self.term_unit)
        out /= self.term_scale
        return np.clip(out, -self.clip, self.clip, out=out)


def signed_log(x: npt.NDArray[np.floating], unit: npt.NDArray[np.floating]) -> FloatMatrix:
    """sign(x) log(1 + |x| / unit), column by column.

    >>> signed_log(np.float32([[3.0, -3.0]]), np.float32([1.0, 3.0])).round(3).tolist()
    [[1.3860000371932983, -0.6930000185966492]]
    """
    out = np.abs(x)
    out /= unit
    out += 1
    np.log(out, out=out)
    return np.copysign(out, x, out=out)


@dataclass(frozen=True, eq=False)
class NetScorer:
    """A fitted net as arrays.

    With z the standardised features and t the scaled terms, the first layer is a = W z + V t + b, the next ones
    a = W LN(elu(a)) + b, and the last a is the score. Where the terms have a tower of their own, its output
    W₂ elu(W₁ t + b₁) + b₂ is added to the score instead of V t to the first layer.
    """

    tensors: Tensors
    scaling: Scaling
    n_layers: int
    epsilon: float

    @classmethod
    def from_bytes(cls, data: bytes, info: Mapping[str, Any]) -> Self:
        """Read the content of model.safetensors; `info` is what RankerState.info said."""
        tensors = read_tensors(data)
        try:
            scaling = Scaling(**{part: tensors[f"input.{part}"] for part in SCALING}, clip=float(info["clip"]))
            return cls(tensors, scaling, len(info["layers"]) - 1, float(info["epsilon"]))
        except KeyError as error:
            raise ModelFileError(f"The saved net lacks {error}: the file was cut short or edited.") from error

    @property
    def n_plain(self) -> int:
        return len(self.scaling.mean)

    @property
    def n_terms(self) -> int:
        return len(self.scaling.term_scale)

    def predict(self, matrix: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """(n,) scores of float32 rows: plain columns first, then the terms, if the net still has some."""
        matrix = np.asarray(matrix, dtype=np.float32)
        if matrix.ndim != 2 or matrix.shape[1] != self.n_plain + self.n_terms:
            raise FeatureError(
                f"The net takes {self.n_plain + self.n_terms} columns, but the matrix has shape {matrix.shape}."
            )
        out = np.empty(len(matrix), dtype=np.float64)
        for start in range(0, len(matrix), CHUNK):
            out[start : start + CHUNK] = self._scores(matrix[start : start + CHUNK])
        refuse_missing(out)
        return out

    def _scores(self, matrix: FloatMatrix) -> npt.NDArray[np.float32]:
        d, tensors = self.n_plain, self.tensors
        terms = self.scaling.terms(matrix[:, d:]) if self.n_terms else None
        a = self._linear("linear0", self.scaling.plain(matrix[:, :d]))
        if terms is not None and "terms.weight" in tensors:
            a += terms @ tensors["terms.weight"].T
        for layer in range(1, self.n_layers):
            a = self._linear(f"linear{layer}", self._norm(f"norm{layer}", _elu(a)))
        if terms is not None and "tower0.weight" in tensors:
            a += self.tower(terms)
        return a[:, 0]

    def tower(self, terms: FloatMatrix) -> FloatMatrix:
        """(n, 1) what the tower of the (scaled) terms adds to the score."""
        return self._linear("tower1", _elu(self._linear("tower0", terms)))

    def _linear(self, name: str, x: FloatMatrix) -> FloatMatrix:
        out = x @ self.tensors[f"{name}.weight"].T
        out += self.tensors[f"{name}.bias"]
        return out

    def _norm(self, name: str, x: FloatMatrix) -> FloatMatrix:
        centred = x - x.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", centred, centred) / np.float32(x.shape[1])
        centred *= (1 / np.sqrt(variance + np.float32(self.epsilon)))[:, None]
        centred *= self.tensors[f"{name}.weight"]
        centred += self.tensors[f"{name}.bias"]
        return centred


def fold_net(state: RankerState, fixed: npt.ArrayLike | None = None) -> RankerState:
    """The same net over plain features alone: terms at `fixed` values (zero if None) become part of a bias.

    Exact: with t fixed, V t is a constant of the first layer, and a tower of the terms a constant of the score.
    """
    count = len(state.columns) - state.n_plain
    if count == 0:
        return state
    scorer = NetScorer.from_bytes(state.files[MODEL_FILE], state.info)
    values = np.zeros((1, count), np.float32) if fixed is None else np.asarray(fixed, np.float32).reshape(1, -1)
    if values.shape[1] != count:
        raise FeatureError(f"The net has {count} terms, but {values.shape[1]} fixed values were given.")
    terms = scorer.scaling.terms(values)
    tensors = {name: value for name, value in scorer.tensors.items() if not name.startswith(("terms.", "tower"))}
    tensors["input.term_unit"] = tensors["input.term_scale"] = np.zeros(0, np.float32)
    if "terms.weight" in scorer.tensors:
        tensors["linear0.bias"] = tensors["linear0.bias"] + (terms @ scorer.tensors["terms.weight"].T)[0]
    if "tower0.weight" in scorer.tensors:
        last = f"linear{scorer.n_layers - 1}.bias"
        tensors[last] = tensors[last] + scorer.tower(terms)[0]
    return replace(
        state,
        files={MODEL_FILE: write_tensors(tensors)},
        columns=state.columns[: state.n_plain],
        info={**state.info, "terms": 0, "separate_terms": False},
    )


def read_tensors(data: bytes) -> dict[str, npt.NDArray[np.float32]]:
    """Name → array from the bytes of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(data)
    except SafetensorError as error:
        raise ModelFileError(f"The saved net cannot be read ({error}): the file was cut short or edited.") from error


def write_tensors(tensors: Tensors) -> bytes:
    """The bytes of a safetensors file, the same for the same arrays."""
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(tensors[name], dtype=np.float32) for name in sorted(tensors)})


def refuse_missing(scores: npt.NDArray[np.floating], names: Sequence[str] = ()) -> None:
    """A missing feature makes a score NaN; say so instead of handing it out."""
    bad = np.isnan(scores)
    if bad.any():
        raise FeatureError(
            f"A neural ranker cannot take missing values, but {int(bad.sum()):,} items have some "
            f"(first: item {int(np.flatnonzero(bad)[0]) + 1}). Fill them in, or use the ranker 'lambdamart'."
        )


def _elu(a: FloatMatrix) -> FloatMatrix:
    low = np.exp(np.minimum(a, 0))
    low -= 1
    return np.maximum(a, low, out=low)
