"""LightGBM's text format: read strictly, written back byte for byte."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unskew._segments import IntArray, offsets_of
from unskew.deploy.lightgbm_model import (
    CATEGORICAL,
    DEFAULT_LEFT,
    LEAF_FIELDS,
    MAX_BYTES,
    MISSING_NAN,
    MISSING_NONE,
    MISSING_ZERO,
    NODE_FIELDS,
    OPTIONAL,
    TREE_ORDER,
    ZERO,
    TextModel,
    Words,
)
from unskew.deploy.lightgbm_reader import read_text

__all__ = [
    "CATEGORICAL",
    "DEFAULT_LEFT",
    "LEAF_FIELDS",
    "MAX_BYTES",
    "MISSING_NAN",
    "MISSING_NONE",
    "MISSING_ZERO",
    "NODE_FIELDS",
    "TextModel",
    "Words",
    "ZERO",
    "only_scores",
    "read_text",
    "write_text",
]


def write_text(model: TextModel, *, sizes: bool = True) -> bytes:
    """The model as LightGBM writes it; reading it back gives the same model.

    sizes : with the sizes of the trees LightGBM reads them by several threads, without them one after the other.
    """
    blocks = list(_tree_blocks(model))
    lines = ["tree"]
    lines += [f"{key}={value}" for key, value in model.head.items()]
    lines += ["average_output"] if model.average else []
    lines.append("feature_names=" + " ".join(model.names))
    if model.monotone is not None:
        lines.append("monotone_constraints=" + " ".join(model.monotone))
    lines.append("feature_infos=" + " ".join(model.infos))
    if sizes:
        lines.append("tree_sizes=" + " ".join(str(len(block)) for block in blocks))
    tail = ["end of trees", "", "feature_importances:", *_importances(model), "", "parameters:"]
    tail += [*model.parameters, "", "end of parameters", "", "pandas_categorical:null", ""]
    return ("\n".join(lines) + "\n\n").encode() + b"".join(blocks) + "\n".join(tail).encode()


def only_scores(model: TextModel) -> TextModel:
    """The model without what scoring does not need: names, objective, gains, weights, counts and parameters."""
    count = len(model.names)
    plain = {"num_class": "1", "num_tree_per_iteration": "1", "label_index": "0", "max_feature_idx": str(count - 1)}
    return replace(
        model,
        head={"version": model.head["version"], **plain},
        names=tuple(f"f{i}" for i in range(count)),
        infos=("none",) * count,
        monotone=None,
        node={name: words for name, words in model.node.items() if name not in OPTIONAL},
        leaf={"leaf_value": model.leaf["leaf_value"]},
        parameters=(),
    )


def _tree_blocks(model: TextModel) -> list[bytes]:
    nodes, leaves = model.node_offsets.tolist(), model.leaf_offsets.tolist()
    words = {name: field.tolist() for name, field in {**model.node, **model.leaf}.items()}
    cats, word_ends = offsets_of(model.cat_sizes).tolist(), offsets_of(model.cat_lengths)
    blocks = []
    for tree, n_cat in enumerate(model.cat_sizes.tolist()):
        lines = [b"Tree=%d" % tree, b"num_leaves=%d" % (leaves[tree + 1] - leaves[tree]), b"num_cat=%d" % n_cat]
        for name in TREE_ORDER:
            if name in words:
                bounds = nodes if name in NODE_FIELDS else leaves
                mine = words[name][bounds[tree] : bounds[tree + 1]]
                # LightGBM gives no weight to the leaf of a tree that does not split.
                empty = name == "leaf_weight" and len(mine) == 1
                lines.append(name.encode() + b"=" + (b"" if empty else b" ".join(mine)))
        if n_cat:
            edges = word_ends[cats[tree] : cats[tree + 1] + 1]
            lines.append(b"cat_boundaries=" + _join(edges - edges[0]))
            lines.append(b"cat_threshold=" + _join(model.cat_words[edges[0] : edges[-1]]))
        lines += [b"is_linear=0", b"shrinkage=" + model.shrinkage[tree].encode(), b"", b"", b""]
        blocks.append(b"\n".join(lines))
    return blocks


def _importances(model: TextModel) -> list[str]:
    """The lines of feature_importances: how often each feature splits, most often first."""
    gain = "[saved_feature_importance_type: 1]" in model.parameters and "split_gain" in model.node
    weight = model.node["split_gain"].astype(np.float64) if gain else None
    total = np.bincount(model.feature, weights=weight, minlength=len(model.names)).astype(np.int64)
    order = np.argsort(-total, kind="stable")
    return [f"{model.names[i]}={total[i]}" for i in order.tolist() if total[i] > 0]


def _join(values: IntArray) -> bytes:
    return " ".join(map(str, values.tolist())).encode()
