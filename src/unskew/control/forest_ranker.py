"""The relevance part of a click model as a ranker."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from unskew._machine import native_threads
from unskew.data.design import DesignMatrix
from unskew.rankers.base import RankerState
from unskew.rankers.binned import BLOCK
from unskew.rankers.lambdamart import named_text


class Forest:
    """A ranker made of a LightGBM text; n_jobs : threads that score, None means all."""

    def __init__(self, text: bytes, n_jobs: int | None = None) -> None:
        self.text = text
        self.threads = native_threads(n_jobs)
        self.booster = lgb.Booster(model_str=text.decode())

    def predict(self, design: DesignMatrix) -> npt.NDArray[np.float64]:
        """(n,) scores, larger is better."""
        blocks = (design[at : at + BLOCK] for at in range(0, len(design), BLOCK))
        scores = [self.booster.predict(block, raw_score=True, num_threads=self.threads) for block in blocks]
        return np.concatenate(scores).astype(np.float64, copy=False) if scores else np.zeros(0)

    def state(self, columns: tuple[str, ...]) -> RankerState:
        text = named_text(self.text.decode(), columns)
        info = {"trees": self.booster.num_trees()}
        return RankerState("lightgbm", {"model.txt": text.encode()}, tuple(columns), len(columns), info)
