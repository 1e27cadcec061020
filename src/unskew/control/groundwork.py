"""Groundwork: what click models of one log have in common, whatever their specification; made once for all of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import blake2b

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.control.additive_stage import Sample
from unskew.control.aggregate import Exposures
from unskew.control.expected_place import ExpectedPlace, fit_expected_place
from unskew.data.design import DesignMatrix
from unskew.rankers.binned import binned


@dataclass(frozen=True, eq=False)
class Groundwork:
    """What click models of one log have in common, whatever their specification; seconds : what it took.

    features : what it was made from; data : those of the table's items, binned; place : m(x).
    """

    features: npt.NDArray[np.float32]
    data: lgb.Dataset
    place: ExpectedPlace
    seconds: float


# Groundwork that fits leave for each other, by the placements, the folds and the seed that it was made with.
Shared = dict[tuple[bytes, int, int], Groundwork]


def groundwork(
    features: npt.NDArray[np.float32],
    table: Exposures,
    fold: IntArray,
    sample: Sample,
    *,
    seed: int,
    threads: int,
    shared: Shared | None,
) -> Groundwork:
    """Bin the features and fit m(x), or take what an earlier fit to the same placements left."""
    shared = {} if shared is None else shared
    placements = blake2b()
    for part in (table.offsets, table.row, table.position, table.shown):
        placements.update(np.ascontiguousarray(part).data)
    key = placements.digest(), int(fold.max()), seed
    if key not in shared or shared[key].features is not features:
        started = time.perf_counter()
        data = binned(DesignMatrix(features, table.row[table.starts]), threads=threads)
        place = fit_expected_place(features, table, fold, sample, data, seed=seed, threads=threads)
        shared[key] = Groundwork(features, data, place, time.perf_counter() - started)
    return shared[key]
