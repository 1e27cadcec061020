"""Binned training data for LightGBM, built block by block; the wide matrix never exists."""

from __future__ import annotations

import warnings
from typing import Any

import lightgbm as lgb
import numpy as np

from unskew._segments import IntArray
from unskew.data.design import DesignMatrix, FloatMatrix

BLOCK = 16_384
# LightGBM's own default: more rows than this do not move the quantiles that bins are cut at.
SAMPLE = 200_000
# What decides the bins. Everything else belongs to training, so one data set serves many trainings.
BIN_SETTINGS = {"feature_pre_filter": False, "data_random_seed": 1, "verbosity": -1}


def histograms(threads: int) -> dict[str, bool]:
    """How LightGBM adds up its histograms, to the same bits either way: one thread is quicker feature by feature."""
    return {"force_col_wise" if threads == 1 else "force_row_wise": True}


def binned(
    design: DesignMatrix, *, positions: bool = False, threads: int = 0, cache: dict[Any, Any] | None = None
) -> lgb.Dataset:
    """The design as LightGBM trains on it: plain columns first, terms after them.

    Bins are cut from distinct rows, so that a log with merged sessions gets the bins of the log it stands for.
    With a `cache`, the plain columns are binned once for all designs over the same rows, and the joined data set
    is kept for as long as the same design comes back (another learning rate). `positions` says whether it will be
    given positions: LightGBM cannot take them out of a data set again.
    """
    cache = {} if cache is None else cache
    key = ("lightgbm", id(design.features), id(design.row), id(design.terms), positions)
    held = cache.get("lightgbm joined")
    if held is not None and held[0] == key:
        return held[1]
    cache.pop("lightgbm joined", None)
    data = _join(_plain(design, threads, cache), design, threads)
    # Holding the design keeps its arrays alive, so that no other array can take over their ids.
    cache["lightgbm joined"] = (key, data, design)
    return data


def _plain(design: DesignMatrix, threads: int, cache: dict[Any, Any]) -> lgb.Dataset:
    key = ("lightgbm plain", id(design.features), id(design.row))
    if key not in cache:
        bare = DesignMatrix(design.features, design.row)
        cache[key] = (_bin(_Blocks(bare, extra=False), _distinct(design), threads), bare)
    return cache[key][0]


def _join(plain: lgb.Dataset, design: DesignMatrix, threads: int) -> lgb.Dataset:
    # Joining changes the left data set, and training writes labels into it: both need a copy of their own.
    joined = plain.subset(np.arange(len(design), dtype=np.int32)).construct()  # type: ignore[arg-type]
    if design.n_terms:
        terms = _bin(_Blocks(design, extra=True), _distinct(design), threads)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that raw data and categories are gone, which nobody here needs
            joined.add_features_from(terms)
    return joined


def _bin(blocks: _Blocks, sample: IntArray, threads: int) -> lgb.Dataset:
    params = {**BIN_SETTINGS, "num_threads": threads}
    cuts = lgb.Dataset(blocks.take(sample), params=params).construct()
    return lgb.Dataset(blocks, reference=cuts, params=params).construct()


def _distinct(design: DesignMatrix) -> IntArray:
    """An entry of every distinct row, ascending, or of a fixed random choice of them if there are very many."""
    if design.row is None:
        entries = np.arange(len(design))
    else:
        first = np.full(design.features.shape[0], -1, dtype=np.int64)
        first[design.row[::-1]] = np.arange(len(design) - 1, -1, -1)
        entries = np.sort(first[first >= 0])
    if len(entries) > SAMPLE:
        entries = np.sort(np.random.default_rng(0).choice(entries, SAMPLE, replace=False))
    return entries


class _Blocks(lgb.Sequence):
    """The plain columns, or the terms, of a design as LightGBM reads them: a block at a time."""

    batch_size = BLOCK

    def __init__(self, design: DesignMatrix, *, extra: bool) -> None:
        self._design, self._extra = design, extra

    def take(self, wanted: slice | IntArray) -> FloatMatrix:
        return self._design.extra(wanted) if self._extra else self._design.plain(wanted)

    def __getitem__(self, wanted: Any) -> FloatMatrix:
        return self.take(wanted)

    def __len__(self) -> int:
        return len(self._design)
