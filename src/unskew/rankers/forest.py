"""Forests put together: several LightGBM models as one weighted sum, and additive functions as trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.deploy.lightgbm_text import (
    DEFAULT_LEFT,
    LEAF_FIELDS,
    MISSING_NAN,
    MISSING_NONE,
    NODE_FIELDS,
    TextModel,
    Words,
)

Floats = npt.NDArray[np.float64]

# Larger than any feature, and still a number in the single precision of search engines.
_EVERYTHING = 1e37


def merge_forests(models: Sequence[TextModel], weights: Sequence[float]) -> TextModel:
    """One forest whose score is Σ weight · score of the models, which share their features."""
    parts = [_scaled(model, weight) for model, weight in zip(models, weights)]
    first = parts[0]
    shared = [name for name in (*NODE_FIELDS, *LEAF_FIELDS) if all(name in {**p.node, **p.leaf} for p in parts)]

    arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
    return replace(
        first,
        infos=_wider([part.infos for part in parts]),
        node={name: np.concatenate([p.node[name] for p in parts]) for name in shared if name in NODE_FIELDS},
        leaf={name: np.concatenate([p.leaf[name] for p in parts]) for name in shared if name in LEAF_FIELDS},
        **arrays,
        shrinkage=tuple(word for part in parts for word in part.shrinkage),
        parameters=(),
    )


_ARRAYS = (
    "n_leaves",
    "feature",
    "threshold",
    "decision",
    "left",
    "right",
    "value",
    "cat_sizes",
    "cat_lengths",
    "cat_words",
)


def additive_forest(
    names: Sequence[str], edges: Sequence[Floats], values: Sequence[Floats], *, missing: bool = False
) -> TextModel:
    """A tree a feature: values[j][i] between thresholds i − 1 and i of feature j.

    missing : whether features may be missing, which then counts 0; else LightGBM's rule holds, which reads 0 for them.
    Features without thresholds or without values other than 0 get no tree.
    """
    used = [j for j in range(len(names)) if len(edges[j]) and np.any(values[j] != 0)]
    trees = [_step_tree(edges[j], values[j], missing) for j in used] or [_constant()]
    feature = np.concatenate([np.full(len(tree[0]), j) for j, tree in zip(used or [0], trees)]).astype(np.int64)
    threshold, left, right, value = (np.concatenate([tree[i] for tree in trees]) for i in range(4))
    n_leaves = np.array([len(tree[3]) for tree in trees], dtype=np.int64)
    decision = np.full(len(threshold), (MISSING_NAN if missing else MISSING_NONE) << 2 | DEFAULT_LEFT, dtype=np.int64)
    if missing:
        # The root of a tree asks whether the value is missing: everything that is a number goes left.
        decision[_first_nodes(n_leaves)] = MISSING_NAN << 2
    empty = np.zeros(0, dtype=np.int64)
    return TextModel(
        head={
            "version": "v4",
            "num_class": "1",
            "num_tree_per_iteration": "1",
            "label_index": "0",
            "max_feature_idx": str(len(names) - 1),
            "objective": "lambdarank",
        },
        names=tuple(names),
        infos=tuple(_info(edge) for edge in edges),
        monotone=None,
        average=False,
        n_leaves=n_leaves,
        node={
            "split_feature": _words(feature),
            "threshold": _words(threshold),
            "decision_type": _words(decision),
            "left_child": _words(left),
            "right_child": _words(right),
        },
        leaf={"leaf_value": _words(value)},
        feature=feature,
        threshold=threshold,
        decision=decision,
        left=left.astype(np.int64),
        right=right.astype(np.int64),
        value=value,
        cat_sizes=np.zeros(len(trees), dtype=np.int64),
        cat_lengths=empty,
        cat_words=empty,
        shrinkage=("1",) * len(trees),
        parameters=(),
    )


def _scaled(model: TextModel, weight: float) -> TextModel:
    value = model.value * weight
    leaf = {**model.leaf, "leaf_value": _words(value)}
    node = {name: words for name, words in model.node.items() if name != "internal_value"}
    return replace(model, value=value, leaf=leaf, node=node)


def _step_tree(edges: Floats, values: Floats, missing: bool) -> tuple[Floats, IntArray, IntArray, Floats]:
    """Thresholds, children and leaf values of a balanced tree; parents are numbered before their children."""
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    if missing:  # the root sends numbers left, and what is missing to the last leaf
        threshold, left, right = [_EVERYTHING], [1], [~len(values)]

    def grow(low: int, high: int) -> int:
        """The subtree over bins low … high: a leaf, or a node at the middle threshold."""
        if low == high:
            return ~low
        middle = (low + high) // 2
        node = len(threshold)
        threshold.append(float(edges[middle]))
        left.append(0)
        right.append(0)
        left[node] = grow(low, middle)
        right[node] = grow(middle + 1, high)
        return node

    grow(0, len(values) - 1)
    leaves = np.r_[values, 0.0] if missing else np.asarray(values)
    return np.array(threshold), np.array(left), np.array(right), leaves.astype(np.float64)


def _constant() -> tuple[Floats, IntArray, IntArray, Floats]:
    return np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(1)


def _first_nodes(n_leaves: IntArray) -> IntArray:
    nodes = n_leaves - 1
    return (np.cumsum(nodes) - nodes)[nodes > 0]


def _info(edges: Floats) -> str:
    """LightGBM's note on the range of a feature; it decides nothing about where a row goes."""
    return f"[{edges[0]:.17g}:{edges[-1]:.17g}]" if len(edges) else "none"


def _wider(infos: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(next((info for info in column if info != "none"), "none") for column in zip(*infos))


def _words(values: npt.NDArray) -> Words:
    text = map(repr, values.tolist())
    return np.array([word.encode() for word in text], dtype=object)
