"""What a ranker is: features and labels in, scores out. Nothing about bias lives here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.data.design import DesignMatrix

# "memory": a ranker without an open format; it scores as long as it lives, and cannot be saved.
RankerKind = Literal["lightgbm", "xgboost", "net", "linear", "memory"]


@dataclass(frozen=True)
class RankerState:
    """A fitted ranker in its own open format.

    kind : which reader understands it.
    files : file name → content: "model.txt" (lightgbm text), "model.json" (xgboost, linear) or
        "model.safetensors" (net).
    columns : names of all input columns, plain ones first.
    n_plain : how many of them are plain features; the rest are terms, zero at inference.
    info : small JSON-able facts for the manifest (architecture, number of trees, …).
    """

    kind: RankerKind
    files: Mapping[str, bytes]
    columns: tuple[str, ...]
    n_plain: int
    info: Mapping[str, Any] = field(default_factory=dict)


class Judge(Protocol):
    """Says how good scores for the validation items are; larger is better.

    n_lists : lists that its verdict is a mean over.
    """

    n_lists: int

    @property
    def features(self) -> DesignMatrix:
        """The validation items as a model sees them at inference."""
        ...

    def __call__(self, scores: npt.NDArray[np.floating]) -> float: ...


class Ranker(Protocol):
    """Anything that learns to order the items of a list.

    `fit` trains once and, given a judge, keeps the best of its stages (numbers of trees, checkpoints):
    `stage_` says which and `judged_` how good it was. `grid` lists the settings worth trying.
    """

    takes_missing: bool

    def grid(self) -> Sequence[Self]: ...

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
        """Train; `cache` lets a ranker keep work (binned columns) between fits on the same rows."""
        ...

    def predict(self, design: DesignMatrix) -> npt.NDArray[np.float64]: ...

    def state(self, columns: Sequence[str]) -> RankerState:
        """The fitted ranker in its own open format, its inputs named."""
        ...
