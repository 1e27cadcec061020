"""What the folded columns had learnt, and what folding saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray


@dataclass(frozen=True)
class FoldSummary:
    """What the folded terms had learnt, and what folding saved.

    term_gain, term_splits : shares of the split gain and of the splits that the terms held.
    top_terms : the terms with the largest gain, largest first: name → share of all gain.
    """

    trees: int
    folded_trees: int
    splits: int
    folded_splits: int
    terms: int
    term_splits: float
    term_gain: float | None
    top_terms: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def summarise(
    *,
    feature: IntArray,
    gain: npt.NDArray[np.float64] | None,
    plain: npt.NDArray[np.bool_],
    names: Sequence[str],
    trees: tuple[int, int],
    folded_splits: int,
) -> FoldSummary:
    """What the columns that are not plain held of a model's splits and gain."""
    share: npt.NDArray[np.float64] | None = None
    if gain is not None:
        share = np.bincount(feature, weights=gain, minlength=len(names)).astype(np.float64)
        share /= max(float(share.sum()), np.finfo(float).tiny)
    top = [] if share is None else [i for i in np.argsort(-share, kind="stable").tolist() if not plain[i]][:10]
    return FoldSummary(
        trees=trees[0],
        folded_trees=trees[1],
        splits=len(feature),
        folded_splits=folded_splits,
        terms=int((~plain).sum()),
        term_splits=float((~plain[feature]).mean()) if len(feature) else 0.0,
        term_gain=None if share is None else float(share[~plain].sum()),
        top_terms={} if share is None else {str(names[i]): float(share[i]) for i in top if share[i] > 0},
    )
