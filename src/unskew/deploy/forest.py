"""Forest: the trees of a model as arrays, whichever library grew them; what every exporter starts from.

Features are float32 everywhere in unskew, and for a float32 value both libraries' rules are one rule:
left iff x <= threshold, with the threshold rounded down to float32. (XGBoost's x < t is x <= the float32 before t.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.deploy.lightgbm_text import (
    CATEGORICAL,
    DEFAULT_LEFT,
    MISSING_NAN,
    MISSING_ZERO,
    ZERO,
    TextModel,
    read_text,
)
from unskew.deploy.model import Model
from unskew.deploy.xgboost_json import XGBoostModel, read_xgboost
from unskew.errors import ExportError

# Rows walked together: rows × trees places are held at once.
_BLOCK = 1 << 22
# Splits on a way down: far beyond any tree that was trained, and a bound on the work with one that was made up.
MAX_DEPTH = 10_000


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees that split, laid end to end; trees of one leaf are part of `base`.

    Parts are numbered through all trees: nodes 0 … n - 1 first, then leaves n … n + m - 1.

    names : the features.
    root : (trees,) the node each tree begins with, in the order of boosting.
    feature, threshold, missing_left, left, right : (n,) a node's rule: left iff x <= threshold (float32);
        NaN goes left iff missing_left; children are parts.
    zero_left : (n,) where a zero goes if not where its threshold sends it: 1 left, 0 right, -1 as the threshold says.
    categories : node → the categories that go left (such a node has no threshold).
    value : (m,) leaf values; the score is base + their sum.
    """

    names: tuple[str, ...]
    root: IntArray
    feature: IntArray
    threshold: npt.NDArray[np.float32]
    missing_left: npt.NDArray[np.bool_]
    left: IntArray
    right: IntArray
    value: npt.NDArray[np.float64]
    base: float
    zero_left: IntArray
    categories: Mapping[int, IntArray] = field(default_factory=dict)

    @property
    def n_trees(self) -> int:
        return len(self.root)

    @property
    def n_nodes(self) -> int:
        return len(self.feature)

    @cached_property
    def depth(self) -> int:
        """The longest way from a root to a leaf, in splits; counted up to MAX_DEPTH and one more."""
        depth, level = 0, self.root
        while level.size and depth <= MAX_DEPTH:
            depth += 1
            level = np.concatenate([self.left[level], self.right[level]])
            level = level[level < self.n_nodes]
        return depth

    def leaves(self, rows: npt.NDArray[np.float32]) -> IntArray:
        """(rows, trees) the leaf (0 … m - 1) that each row reaches in each tree."""
        out = np.empty((len(rows), self.n_trees), dtype=np.int64)
        step = max(1, _BLOCK // max(1, self.n_trees))
        for start in range(0, len(rows), step):
            out[start : start + step] = self._walk(rows[start : start + step])
        return out - self.n_nodes

    def _walk(self, rows: npt.NDArray[np.float32]) -> IntArray:
        place = np.tile(self.root, (len(rows), 1))
        row = np.broadcast_to(np.arange(len(rows))[:, None], place.shape)
        while (inner := place < self.n_nodes).any():
            node = place[inner]
            left = self.goes_left(node, rows[row[inner], self.feature[node]])
            place[inner] = np.where(left, self.left[node], self.right[node])
        return place

    def goes_left(self, node: IntArray, x: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Whether values x go left at their nodes."""
        left = np.where(np.isnan(x), self.missing_left[node], x <= self.threshold[node])
        special = (self.zero_left[node] >= 0) & (np.abs(x) <= np.float32(ZERO))
        left = np.where(special, self.zero_left[node] == 1, left)
        for number, members in self.categories.items():
            mine = node == number
            if mine.any():
                left[mine] = _is_member(x[mine], members)
        return left


def _is_member(x: npt.NDArray[np.float32], members: IntArray) -> npt.NDArray[np.bool_]:
    usable = (x > -1) & (x < 2**31)
    return usable & np.isin(np.where(usable, x, 0).astype(np.int64), members)


def forest_of(model: Model) -> Forest:
    """The trees of a model, or an ExportError if it has none."""
    content = next(iter(model.files.values()))
    if model.kind == "lightgbm":
        forest = from_lightgbm(read_text(content), model.feature_names)
    elif model.kind == "xgboost":
        forest = from_xgboost(read_xgboost(content), model.feature_names)
    else:
        raise ExportError(f"A model of kind '{model.kind}' has no trees. Export it to onnx.")
    if forest.depth > MAX_DEPTH:
        raise ExportError(f"A tree of this model is more than {MAX_DEPTH:,} splits deep. Train with max_depth.")
    return forest


def from_lightgbm(model: TextModel, names: tuple[str, ...]) -> Forest:
    """Rules and leaves of a checked LightGBM text; a random forest's leaves are divided by its number of trees."""
    tree, n_nodes = model.tree_of_node, len(model.left)
    leaf_start = n_nodes + model.leaf_offsets
    left, right = (
        np.where(child >= 0, model.node_offsets[tree] + child, leaf_start[tree] + ~child)
        for child in (model.left, model.right)
    )
    splits = model.n_leaves > 1
    value = model.value / model.n_trees if model.average else model.value
    missing = (model.decision >> 2) & 3
    default = (model.decision & DEFAULT_LEFT) != 0
    threshold = _around_zero(round_down(model.threshold))
    # Without a missing type of its own, LightGBM takes a missing value for 0.
    as_zero = np.where(missing == MISSING_ZERO, default, model.threshold >= 0)
    categorical = (model.decision & CATEGORICAL) != 0
    zero_here = (missing == MISSING_ZERO) & ~categorical
    agrees = np.where(default, threshold >= np.float32(ZERO), threshold < -np.float32(ZERO))
    category = model.category_of_node
    return Forest(
        names=tuple(names),
        root=model.node_offsets[:-1][splits],
        feature=model.feature,
        threshold=threshold,
        missing_left=np.where(missing == MISSING_NAN, default, as_zero) & ~categorical,
        left=left,
        right=right,
        value=value,
        base=_running_sum(value[model.leaf_offsets[:-1][~splits]]),
        zero_left=np.where(zero_here & ~agrees, default.astype(np.int64), -1),
        categories={int(n): model.categories(int(category[n])) for n in np.flatnonzero(categorical)},
    )


def from_xgboost(model: XGBoostModel, names: tuple[str, ...]) -> Forest:
    """Rules and leaves of a checked XGBoost model."""
    inner, start = model.left >= 0, model.offsets[model.tree_of_node]
    n_nodes = int(inner.sum())
    part = np.where(inner, np.cumsum(inner) - 1, n_nodes + np.cumsum(~inner) - 1)
    first = model.offsets[:-1]
    splits = inner[first]
    return Forest(
        names=tuple(names),
        root=part[first[splits]],
        feature=model.feature[inner],
        threshold=np.nextafter(model.condition[inner], np.float32(-np.inf)),
        missing_left=model.default_left[inner] == 1,
        left=part[(start + model.left)[inner]],
        right=part[(start + model.right)[inner]],
        value=model.condition[~inner].astype(np.float64),
        base=_xgboost_base(model) + _running_sum(model.condition[first[~splits]].astype(np.float64)),
        zero_left=np.full(n_nodes, -1),
    )


def round_down(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """The largest float32 that is not above each value.

    >>> round_down(np.array([0.1, 0.5])).astype(float).tolist()
    [0.09999999403953552, 0.5]
    """
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
        return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)


def _around_zero(threshold: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Thresholds within ZERO of zero moved to its edge: LightGBM takes what lies between there for zero itself."""
    edge = np.float32(ZERO)
    threshold = np.where((threshold >= 0) & (threshold < edge), edge, threshold)
    return np.where((threshold < 0) & (threshold >= -edge), np.nextafter(-edge, np.float32(-np.inf)), threshold)


def _xgboost_base(model: XGBoostModel) -> float:
    if model.margin is not None:
        return model.margin
    share = float(model.base)
    if str(model.objective["name"]) in ("binary:logistic", "reg:logistic") and 0 < share < 1:
        return float(np.log(share / (1 - share)))
    raise ExportError(
        f"XGBoost's objective '{model.objective['name']}' transforms its base score in a way that is not exported. "
        "Train with a ranking objective."
    )


def _running_sum(values: npt.NDArray[np.float64]) -> float:
    return float(np.add.reduce(values)) if len(values) else 0.0
