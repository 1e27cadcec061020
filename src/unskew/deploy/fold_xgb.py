"""Folding XGBoost models: splits on fixed columns are answered and skipped, as for LightGBM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unskew.deploy.fold_summary import FoldSummary, summarise
from unskew.deploy.prune import prune, sum_leaves
from unskew.deploy.xgboost_json import XGBoostModel, read_xgboost, write_xgboost
from unskew.errors import ModelFileError, SettingError


def fold_xgboost(content: bytes | str, fixed: Mapping[int, float], columns: Sequence[str]) -> tuple[bytes, FoldSummary]:
    """Fix some columns of an XGBoost JSON model at values: an equal model over the other columns.

    fixed : column → value. XGBoost goes left iff value < threshold in float32; a missing value follows its default.
    XGBoost adds its trees in float32 one after the other, so trees that become one leaf stay (but for zeros): merging
    them would change the last bit.
    """
    model = read_xgboost(content)
    if len(columns) != model.n_features:
        raise ModelFileError(f"The model takes {model.n_features} columns, but {len(columns)} were named.")
    value = np.full(model.n_features, np.nan)
    value[list(fixed)] = list(fixed.values())
    plain = np.isnan(value)
    if not plain.any():
        raise SettingError("Folding must leave at least one column, but all were fixed.")
    seen = value[np.where(model.left >= 0, model.feature, 0)].astype(np.float32)
    answer = np.where(np.isnan(seen) | (model.left < 0), -1, seen < model.condition)
    folded = _drop_zeros(_rebuild(model, answer, plain))
    summary = summarise(
        feature=model.feature[model.left >= 0],
        gain=model.words["loss_changes"][model.left >= 0].astype(np.float64),
        plain=plain,
        names=columns,
        trees=(model.n_trees, folded.n_trees),
        folded_splits=int((folded.left >= 0).sum()),
    )
    return write_xgboost(folded), summary


def _rebuild(model: XGBoostModel, answer: npt.NDArray, plain: npt.NDArray[np.bool_]) -> XGBoostModel:
    inner, tree, start = model.left >= 0, model.tree_of_node, model.offsets[model.tree_of_node]
    n_inner, n_all = int(inner.sum()), len(inner)
    # Nodes first, then leaves, as `prune` counts them.
    part = np.where(inner, np.cumsum(inner) - 1, n_inner + np.cumsum(~inner) - 1)
    place = np.empty(n_all, dtype=np.int64)
    place[part] = np.arange(n_all)
    left, right = (part[(start + child)[inner]] for child in (model.left, model.right))
    pruned = prune(left, right, part[model.offsets[:-1]], answer[inner], n_all)
    kept = pruned.kept[part]
    n_nodes = np.bincount(tree[kept], minlength=model.n_trees)
    new_place = np.cumsum(kept) - 1 - np.concatenate([[0], np.cumsum(n_nodes)])[tree]
    new_left, new_right = np.full(n_all, -1), np.full(n_all, -1)
    new_left[inner] = new_place[place[pruned.left]]
    new_right[inner] = new_place[place[pruned.right]]
    hessian = model.words["sum_hessian"].copy()
    total = sum_leaves(pruned, hessian[~inner].astype(np.float64))
    changed = np.flatnonzero(inner)[~np.isclose(total, hessian[inner].astype(np.float64), rtol=1e-4, atol=0)]
    hessian[changed] = [f"{value:.8E}" for value in total[part[changed]].tolist()]
    names = np.array(model.feature_names, dtype=object)
    return replace(
        model,
        n_features=int(plain.sum()),
        feature_names=tuple(names[plain]) if len(names) else (),
        n_nodes=n_nodes,
        left=new_left[kept],
        right=new_right[kept],
        feature=np.where(inner, (np.cumsum(plain) - 1)[np.where(inner, model.feature, 0)], 0)[kept],
        default_left=model.default_left[kept],
        condition=model.condition[kept],
        words={name: words[kept] for name, words in {**model.words, "sum_hessian": hessian}.items()},
    )


def _drop_zeros(model: XGBoostModel) -> XGBoostModel:
    """Without trees that are one leaf of zero; at least one tree stays."""
    first = model.offsets[:-1]
    keep = ~((model.n_nodes == 1) & (model.condition[first] == 0))
    keep[0] |= not keep.any()
    nodes = np.repeat(keep, model.n_nodes)
    return replace(
        model,
        n_nodes=model.n_nodes[keep],
        left=model.left[nodes],
        right=model.right[nodes],
        feature=model.feature[nodes],
        default_left=model.default_left[nodes],
        condition=model.condition[nodes],
        words={name: words[nodes] for name, words in model.words.items()},
    )
