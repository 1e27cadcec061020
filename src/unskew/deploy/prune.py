"""Pruning trees whose splits on some columns have one answer: arrays in, arrays out, all trees at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray


@dataclass(frozen=True)
class Pruned:
    """What is left of a forest whose parts (nodes, then leaves) are numbered through all trees.

    root : (trees,) the part each tree now begins with.
    left, right : (nodes,) children after the answered splits were skipped.
    kept : (parts,) whether a part can still be reached.
    levels : the reachable nodes, one array a depth, from the roots down.
    """

    root: IntArray
    left: IntArray
    right: IntArray
    kept: npt.NDArray[np.bool_]
    levels: tuple[IntArray, ...]


def prune(left: IntArray, right: IntArray, root: IntArray, answer: IntArray, n_parts: int) -> Pruned:
    """Skip answered splits and drop what no row can reach any more.

    left, right : (nodes,) children as parts; a part below `nodes` is a node, the others are leaves.
    answer : (nodes,) 1 if the split always goes left, 0 if it always goes right, -1 if it depends on the row.

    >>> tree = prune(np.array([1, 2]), np.array([4, 3]), np.array([0]), np.array([1, -1]), 5)
    >>> tree.root.tolist(), tree.kept.tolist()
    ([1], [False, True, True, True, False])
    """
    n_nodes = len(left)
    target = np.arange(n_parts)
    target[:n_nodes] = np.where(answer < 0, target[:n_nodes], np.where(answer == 1, left, right))
    while True:  # chains of answered splits halve at every step
        further = target[target]
        if np.array_equal(further, target):
            break
        target = further
    left, right, root = target[left], target[right], target[root]
    kept = np.zeros(n_parts, dtype=bool)
    levels = []
    frontier = root
    while frontier.size:
        kept[frontier] = True
        inner = frontier[frontier < n_nodes]
        if inner.size:
            levels.append(inner)
        frontier = np.concatenate([left[inner], right[inner]])
    return Pruned(root=root, left=left, right=right, kept=kept, levels=tuple(levels))


def sum_leaves(pruned: Pruned, leaf_values: npt.NDArray) -> npt.NDArray:
    """(nodes,) the sum over the leaves below every reachable node."""
    n_nodes = len(pruned.left)
    total = np.zeros(len(pruned.kept), dtype=leaf_values.dtype)
    total[n_nodes:] = leaf_values
    for level in reversed(pruned.levels):
        total[level] = total[pruned.left[level]] + total[pruned.right[level]]
    return total[:n_nodes]
