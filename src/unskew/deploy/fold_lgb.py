"""Folding LightGBM texts: splits on fixed columns are answered as LightGBM would, skipped, and the rest renumbered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.deploy.fold_summary import FoldSummary, summarise
from unskew.deploy.lightgbm_text import (
    DEFAULT_LEFT,
    MISSING_NAN,
    MISSING_ZERO,
    ZERO,
    TextModel,
    Words,
    read_text,
    write_text,
)
from unskew.deploy.prune import Pruned, prune, sum_leaves
from unskew.errors import ModelFileError, SettingError

# Parameters that name columns or files of the training, which a folded model no longer has.
_STALE = {
    "monotone_constraints",
    "feature_contri",
    "max_bin_by_feature",
    "interaction_constraints",
    "categorical_feature",
    "ignore_column",
    "cegb_penalty_feature_lazy",
    "cegb_penalty_feature_coupled",
    "data",
    "valid",
    "forcedsplits_filename",
    "forcedbins_filename",
    "label_column",
    "weight_column",
    "group_column",
    "parser_config_file",
    "machine_list_filename",
    "machines",
}


def fold_lightgbm(
    text: bytes | str, fixed: Mapping[int, float], columns: Sequence[str] | None = None
) -> tuple[bytes, FoldSummary]:
    """Fix some columns of a LightGBM text at values: an equal text over the other columns.

    fixed : column → value. columns : names of all columns; without it the text's own.

    LightGBM adds the trees one after the other, and float addition is not associative. So trees that become
    one leaf are merged where that changes no bit: zero ones go, those at the front go into the first split tree;
    another one in the middle stays, as a tree of one leaf. A random forest keeps them all (it divides by their number).
    """
    model = read_text(text)
    names = _safe_names(model.names if columns is None else columns)
    if len(names) != len(model.names):
        raise ModelFileError(f"The model takes {len(model.names)} columns, but {len(names)} were named.")
    value = np.full(len(names), np.nan)
    value[list(fixed)] = list(fixed.values())
    plain = np.isnan(value)
    if not plain.any():
        raise SettingError("Folding must leave at least one column, but all were fixed.")
    answer = np.where(plain[model.feature], -1, decide(model, value[model.feature]))
    folded = _absorb_constants(_rebuild(replace(model, names=tuple(names)), answer, plain))
    return write_text(folded), _summary(model, folded, plain, model.names if columns is None else columns)


def decide(model: TextModel, value: npt.NDArray[np.float64]) -> IntArray:
    """(nodes,) 1 where a row with `value` (nodes,) at the node's feature goes left, 0 where right, as LightGBM does."""
    missing = (model.decision >> 2) & 3
    # LightGBM hands on what is within ZERO of zero as zero.
    seen = np.where((np.isnan(value) & (missing != MISSING_NAN)) | (np.abs(value) <= ZERO), 0.0, value)
    absent = ((missing == MISSING_ZERO) & (np.abs(seen) <= ZERO)) | ((missing == MISSING_NAN) & np.isnan(seen))
    left = np.where(absent, (model.decision & DEFAULT_LEFT) != 0, seen <= model.threshold)
    category = model.category_of_node
    for node in np.flatnonzero((category >= 0) & ~np.isnan(value)).tolist():
        left[node] = value[node] < 2**31 and int(value[node]) in model.categories(int(category[node]))
    return (left & ~((category >= 0) & np.isnan(value))).astype(np.int64)


def _rebuild(model: TextModel, answer: IntArray, plain: npt.NDArray[np.bool_]) -> TextModel:
    """The model after answered splits were skipped, its parts renumbered and its counts made consistent."""
    n_nodes = len(model.left)
    tree, tree_of_leaf = model.tree_of_node, np.repeat(np.arange(model.n_trees), model.n_leaves)
    left, right = (
        np.where(child >= 0, model.node_offsets[tree] + child, n_nodes + model.leaf_offsets[tree] + ~child)
        for child in (model.left, model.right)
    )
    root = np.where(model.n_leaves > 1, model.node_offsets[:-1], n_nodes + model.leaf_offsets[:-1])
    pruned = prune(left, right, root, answer, n_nodes + len(model.value))
    nodes, leaves = pruned.kept[:n_nodes], pruned.kept[n_nodes:]
    place = np.concatenate([_renumber(nodes, tree, model.n_trees), ~_renumber(leaves, tree_of_leaf, model.n_trees)])
    cat_sizes, cat_lengths, cat_words, threshold = _keep_categories(model, nodes)
    feature = np.cumsum(plain)[model.feature] - 1
    decoded = {
        "split_feature": feature[nodes],
        "left_child": place[pruned.left[nodes]],
        "right_child": place[pruned.right[nodes]],
    }
    words = {**model.node, "threshold": threshold, **_recount(model, pruned)}
    return replace(
        model,
        head={**model.head, "max_feature_idx": str(int(plain.sum()) - 1)},
        names=tuple(np.array(model.names, dtype=object)[plain]),
        infos=tuple(np.array(model.infos, dtype=object)[plain]),
        monotone=None if model.monotone is None else tuple(np.array(model.monotone, dtype=object)[plain]),
        n_leaves=np.bincount(tree_of_leaf[leaves], minlength=model.n_trees),
        node={name: word[nodes] for name, word in words.items()}
        | {name: whole_words(value) for name, value in decoded.items()},
        leaf={name: word[leaves] for name, word in model.leaf.items()},
        feature=decoded["split_feature"],
        threshold=np.array(threshold[nodes].tolist(), dtype=np.float64),
        decision=model.decision[nodes],
        left=decoded["left_child"],
        right=decoded["right_child"],
        value=model.value[leaves],
        cat_sizes=cat_sizes,
        cat_lengths=cat_lengths,
        cat_words=cat_words,
        parameters=tuple(_without_stale(model.parameters)),
    )


def _renumber(kept: npt.NDArray[np.bool_], tree: IntArray, n_trees: int) -> IntArray:
    """The new place inside its tree of every kept part."""
    before = np.concatenate([[0], np.cumsum(np.bincount(tree[kept], minlength=n_trees))])
    return np.cumsum(kept) - 1 - before[tree]


def _keep_categories(model: TextModel, nodes: npt.NDArray[np.bool_]) -> tuple[IntArray, IntArray, IntArray, Words]:
    """Category sets that kept splits still use, and the thresholds (set numbers, for such splits) renamed to match."""
    threshold = model.node.get("threshold", np.empty(0, dtype=object))
    category = model.category_of_node
    used = np.zeros(len(model.cat_lengths), dtype=bool)
    used[category[nodes & (category >= 0)]] = True
    owner = np.repeat(np.arange(model.n_trees), model.cat_sizes)
    place = _renumber(used, owner, model.n_trees)
    renamed = threshold.copy()
    splits = nodes & (category >= 0)
    renamed[splits] = whole_words(place[category[splits]])
    words = model.cat_words[np.repeat(used, model.cat_lengths)]
    return np.bincount(owner[used], minlength=model.n_trees), model.cat_lengths[used], words, renamed


def _recount(model: TextModel, pruned: Pruned) -> dict[str, Words]:
    """Counts, weights and values of nodes below which leaves went: the sums and means of the leaves that stay.

    Contributions (SHAP values) add up to the score only if a node counts exactly its leaves.
    """
    if not {"leaf_count", "internal_count"} <= {*model.leaf, *model.node}:
        return {}
    old = as_numbers(model.node["internal_count"])
    count = sum_leaves(pruned, as_numbers(model.leaf["leaf_count"]))
    changed = np.flatnonzero((count != old) & pruned.kept[: len(old)])
    fields = {"internal_count": model.node["internal_count"].copy()}
    fields["internal_count"][changed] = whole_words(count[changed].astype(np.int64))
    if {"leaf_weight", "internal_weight", "internal_value"} <= {*model.leaf, *model.node}:
        leaf_weight = as_numbers(model.leaf["leaf_weight"])
        weight = sum_leaves(pruned, leaf_weight)[changed]
        total = sum_leaves(pruned, leaf_weight * model.value)[changed]
        mean = np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)
        for name, values in (("internal_weight", weight), ("internal_value", mean)):
            fields[name] = model.node[name].copy()
            fields[name][changed] = real_words(values, "%g")
    return fields


def _absorb_constants(model: TextModel) -> TextModel:
    """Merge trees of one leaf where the sum stays the same to the last bit."""
    constant = model.n_leaves == 1
    if model.average or not constant.any():
        return model
    first = int(np.argmin(constant)) if not constant.all() else model.n_trees - 1
    front = 0.0
    for value in model.value[model.leaf_offsets[:first]].tolist():
        front += value  # one after the other, as LightGBM does
    keep = np.ones(model.n_trees, dtype=bool)
    keep[:first] = False
    keep[first + 1 :] = ~(constant & (model.value[model.leaf_offsets[:-1]] == 0))[first + 1 :]
    if front:
        start, end = model.leaf_offsets[first], model.leaf_offsets[first + 1]
        value, words = model.value.copy(), model.leaf["leaf_value"].copy()
        value[start:end] += front
        words[start:end] = real_words(value[start:end], "%.17g")
        model = replace(model, value=value, leaf={**model.leaf, "leaf_value": words})
    return _take_trees(model, keep)


def _take_trees(model: TextModel, keep: npt.NDArray[np.bool_]) -> TextModel:
    nodes, leaves = np.repeat(keep, model.n_leaves - 1), np.repeat(keep, model.n_leaves)
    cats = np.repeat(keep, model.cat_sizes)
    return replace(
        model,
        n_leaves=model.n_leaves[keep],
        node={name: words[nodes] for name, words in model.node.items()},
        leaf={name: words[leaves] for name, words in model.leaf.items()},
        feature=model.feature[nodes],
        threshold=model.threshold[nodes],
        decision=model.decision[nodes],
        left=model.left[nodes],
        right=model.right[nodes],
        value=model.value[leaves],
        cat_sizes=model.cat_sizes[keep],
        cat_lengths=model.cat_lengths[cats],
        cat_words=model.cat_words[np.repeat(cats, model.cat_lengths)],
        shrinkage=tuple(np.array(model.shrinkage, dtype=object)[keep]),
    )


def _summary(model: TextModel, folded: TextModel, plain: npt.NDArray[np.bool_], names: Sequence[str]) -> FoldSummary:
    gain = as_numbers(model.node["split_gain"]) if "split_gain" in model.node else np.empty(0)
    return summarise(
        feature=model.feature,
        gain=np.where(np.isfinite(gain), gain, 0) if len(gain) else None,
        plain=plain,
        names=names,
        trees=(model.n_trees, folded.n_trees),
        folded_splits=len(folded.left),
    )


def _without_stale(parameters: Sequence[str]) -> list[str]:
    kept = []
    for line in parameters:
        key = line[1:].partition(":")[0]
        kept.append(f"[{key}: ]" if key in _STALE else line)
    return kept


def _safe_names(names: Sequence[str]) -> list[str]:
    """Names as LightGBM's text can hold them: no spaces, nothing invisible, none of JSON's characters, no two alike."""
    safe: list[str] = []
    taken: set[str] = set()
    for name in names:
        word = re.sub(r'[\s",:\[\]{}=]', "_", str(name)) or "_"
        word = "".join(letter if letter.isprintable() else "_" for letter in word)
        while word in taken:
            word += "_"
        taken.add(word)
        safe.append(word)
    return safe


def as_numbers(words: Words) -> npt.NDArray[np.float64]:
    return np.array(words.tolist(), dtype=np.float64) if len(words) else np.empty(0)


def whole_words(values: IntArray) -> Words:
    return np.array([b"%d" % value for value in values.tolist()], dtype=object)


def real_words(values: npt.NDArray[np.float64], pattern: str) -> Words:
    return np.array([(pattern % value).encode() for value in values.tolist()], dtype=object)
