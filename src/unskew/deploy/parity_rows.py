"""Rows that matter for a parity check: every split taken both ways, values exactly on thresholds, missing, extremes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.deploy.forest import Forest

Rows = npt.NDArray[np.float32]

_BATCH = 512
# Levels that are climbed and walked down when aiming at leaves: a bound on the work with trees deep beyond measure.
_LEVELS = 50_000
_EXTREME = np.float32(3e38)


@dataclass(frozen=True)
class Drawn:
    """Rows and how much of the model they exercise: the share of its reachable leaves that some row ends in."""

    rows: Rows
    covered: float


def draw_rows(
    forest: Forest,
    *,
    missing: bool = True,
    reached: npt.NDArray[np.float32] | None = None,
    limit: int = 20_000,
    seed: int = 0,
) -> Drawn:
    """Rows of zeros, extremes and missing values, some at random, and more until every leaf is reached that can be.

    A leaf is aimed at through its box: on the way down, "left" is met by the threshold itself and "right" by the next
    float32 above it. `reached` are the thresholds an engine really compares with; no row falls between the two.
    """
    rng = np.random.default_rng(seed)
    below, beyond = _sides(forest, reached)
    choices = _choices(forest, below, beyond, missing)
    parent = _parents(forest)
    kept = [_corner_rows(forest, choices, missing, limit, rng)[:limit]]
    uncovered = np.ones(len(forest.value), dtype=bool)
    uncovered[_seen(forest, kept[0])] = False
    in_trees = parent[forest.n_nodes :] >= 0
    aims = rng.permutation(np.flatnonzero(uncovered & in_trees))
    total, out_of_reach, levels = len(kept[0]), 0, 0
    while aims.size and total < limit and levels <= _LEVELS:
        levels += forest.depth
        batch, aims = aims[:_BATCH], aims[_BATCH:]
        rows = _aimed(forest, batch, parent, (below, beyond), choices, rng, missing)
        chosen = _first_to_reach(forest.leaves(rows), uncovered)
        out_of_reach += int(uncovered[batch].sum())
        kept.append(rows[chosen][: limit - total])
        total += len(kept[-1])
        aims = aims[uncovered[aims]]
    wanted = int(in_trees.sum()) - out_of_reach
    return Drawn(np.concatenate(kept), 1 - (int(uncovered[in_trees].sum()) - out_of_reach) / max(1, wanted))


def _sides(forest: Forest, reached: npt.NDArray[np.float32] | None) -> tuple[Rows, Rows]:
    """(nodes,) the largest value that surely goes left and the smallest that surely goes right."""
    other = forest.threshold if reached is None else reached
    below = np.minimum(forest.threshold, other)
    beyond = np.nextafter(np.maximum(forest.threshold, other), np.float32(np.inf))
    return np.clip(below, -_EXTREME, _EXTREME), beyond


def _choices(forest: Forest, below: Rows, beyond: Rows, missing: bool) -> list[Rows]:
    """For every feature, the values worth trying."""
    choices = []
    for feature in range(len(forest.names)):
        mine = forest.feature == feature
        values = np.concatenate([below[mine], beyond[mine]])
        values = np.unique(values[np.isfinite(values)])
        categories = [members for node, members in forest.categories.items() if mine[node]]
        if categories:
            known = np.unique(np.concatenate(categories))
            values = np.concatenate([known, [known.max() + 1, -1]]).astype(np.float32)
        outside = [values[0] - 1, values[-1] + 1] if values.size else [-1.0, 1.0]
        special = [0.0, *outside] + ([np.nan] if missing else [])
        choices.append(np.concatenate([values, np.array(special, dtype=np.float32)]))
    return choices


def _parents(forest: Forest) -> IntArray:
    """(parts,) the node above every part; -1 above roots and above leaves that are no part of a tree that splits."""
    parent = np.full(forest.n_nodes + len(forest.value), -1)
    parent[forest.left] = parent[forest.right] = np.arange(forest.n_nodes)
    return parent


def _corner_rows(forest: Forest, choices: list[Rows], missing: bool, limit: int, rng: np.random.Generator) -> Rows:
    """All zeros, all extremes, all missing, one missing at a time (half of the limit at most), some at random."""
    width = len(forest.names)
    corners = [np.zeros(width), np.full(width, _EXTREME), np.full(width, -_EXTREME)]
    if missing:
        corners.append(np.full(width, np.nan))
    rows = [np.array(corners, dtype=np.float32), _random_rows(choices, 256, rng)]
    if missing:
        used = np.unique(forest.feature)[: max(1, limit // 2)]
        single = _random_rows(choices, len(used), rng)
        single[np.arange(len(used)), used] = np.nan
        rows.append(single)
    return np.concatenate(rows)


def _random_rows(choices: list[Rows], count: int, rng: np.random.Generator) -> Rows:
    return np.stack([rng.choice(values, count) for values in choices], axis=1).astype(np.float32)


def _aimed(
    forest: Forest,
    leaves: IntArray,
    parent: IntArray,
    sides: tuple[Rows, Rows],
    choices: list[Rows],
    rng: np.random.Generator,
    missing: bool,
) -> Rows:
    """A row for every leaf, random but for the features on its way; where no value can go it, a missing one tries."""
    below, beyond = sides
    rows = _random_rows(choices, len(leaves), rng)
    low = np.full(rows.shape, -np.inf, dtype=np.float32)
    high = np.full(rows.shape, np.inf, dtype=np.float32)
    part = leaves + forest.n_nodes
    while ((up := parent[part]) >= 0).any():
        here = np.flatnonzero(up >= 0)
        node = up[here]
        feature, left = forest.feature[node], forest.left[node] == part[here]
        ordered = ~np.isin(node, list(forest.categories))
        down, over = left & ordered, ~left & ordered
        high[here[down], feature[down]] = np.minimum(high[here[down], feature[down]], below[node[down]])
        low[here[over], feature[over]] = np.maximum(low[here[over], feature[over]], beyond[node[over]])
        for place in np.flatnonzero(~ordered):
            members = forest.categories[int(node[place])]
            rows[here[place], feature[place]] = rng.choice(members) if left[place] else members.max() + 1
        part = np.where(up >= 0, up, part)
    takes_low = (rng.random(rows.shape) < 0.5) & np.isfinite(low) | ~np.isfinite(high)
    bound = np.isfinite(low) | np.isfinite(high)
    rows = np.where(bound, np.where(takes_low, low, high), rows)
    return np.where((low > high) | (low == np.inf), np.float32(np.nan if missing else 0), rows)


def _seen(forest: Forest, rows: Rows) -> IntArray:
    return np.unique(forest.leaves(rows))


def _first_to_reach(ends: IntArray, uncovered: npt.NDArray[np.bool_]) -> IntArray:
    """The rows that are the first to end in some leaf; marks those leaves as covered."""
    leaves, first = np.unique(ends.ravel(), return_index=True)
    new = uncovered[leaves]
    uncovered[leaves] = False
    return np.unique(first[new] // ends.shape[1]) if ends.size else np.empty(0, dtype=np.int64)
