"""The trees of a LightGBM text as arrays: numbers as the words they were written as, and decoded where they decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, offsets_of
from unskew.errors import ModelFileError

Words = npt.NDArray[np.object_]  # of bytes

NODE_FIELDS: Final = (
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "internal_value",
    "internal_weight",
    "internal_count",
)
LEAF_FIELDS: Final = ("leaf_value", "leaf_weight", "leaf_count")
# The order in which LightGBM writes the lines of a tree.
TREE_ORDER: Final = (*NODE_FIELDS[:6], *LEAF_FIELDS, *NODE_FIELDS[6:])
OPTIONAL: Final = frozenset({"split_gain", "internal_value", "internal_weight", "internal_count", *LEAF_FIELDS[1:]})
CATEGORICAL, DEFAULT_LEFT = 1, 2
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2

MAX_BYTES = 1 << 30

# LightGBM takes a value for zero when it is within this of zero (a float32 constant of its own).
ZERO = float(np.float32(1e-35))


@dataclass(frozen=True, eq=False)
class TextModel:
    """The trees of a LightGBM text, all fields laid end to end.

    head : the scalar lines of the head (version, label_index, objective), in order.
    names, infos, monotone : one word a feature (monotone may be None).
    n_leaves : (trees,) leaves of every tree; a tree of k leaves has k - 1 nodes.
    node, leaf : field → words, all trees end to end.
    feature, threshold, decision, left, right : the node fields decoded; children count inside their tree, leaf l is ~l.
    value : (leaves,) leaf values.
    cat_sizes : (trees,) categorical splits of every tree.
    cat_lengths, cat_words : how many 32-bit words each categorical split has, and the words, end to end.
    """

    head: Mapping[str, str]
    names: tuple[str, ...]
    infos: tuple[str, ...]
    monotone: tuple[str, ...] | None
    average: bool
    n_leaves: IntArray
    node: Mapping[str, Words]
    leaf: Mapping[str, Words]
    feature: IntArray
    threshold: npt.NDArray[np.float64]
    decision: IntArray
    left: IntArray
    right: IntArray
    value: npt.NDArray[np.float64]
    cat_sizes: IntArray
    cat_lengths: IntArray
    cat_words: IntArray
    shrinkage: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def n_trees(self) -> int:
        return len(self.n_leaves)

    @property
    def node_offsets(self) -> IntArray:
        return offsets_of(self.n_leaves - 1)

    @property
    def leaf_offsets(self) -> IntArray:
        return offsets_of(self.n_leaves)

    @property
    def tree_of_node(self) -> IntArray:
        return np.repeat(np.arange(self.n_trees), self.n_leaves - 1)

    @property
    def category_of_node(self) -> IntArray:
        """(nodes,) which entry of cat_lengths a categorical split uses; -1 for the others."""
        categorical = (self.decision & CATEGORICAL) != 0
        first = offsets_of(self.cat_sizes)[self.tree_of_node]
        return np.where(categorical, first + np.where(categorical, self.threshold, 0).astype(np.int64), -1)

    def categories(self, index: int) -> IntArray:
        """The categories that go left at entry `index` of cat_lengths."""
        start = int(self.cat_lengths[:index].sum())
        words = self.cat_words[start : start + int(self.cat_lengths[index])]
        return np.flatnonzero((words[:, None] >> np.arange(32)) & 1)


def unusable(what: str) -> ModelFileError:
    return ModelFileError(f"This is not a LightGBM model that can be used: {what}.")
