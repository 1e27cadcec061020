"""Reads treelite checkpoints through their JSON dump; and runs treelite's own predictor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.deploy.verify.tables import Rows
from unskew.errors import ModelFileError, require_extra


def score(content: bytes, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    """Scores by the dump: left iff value <= threshold, categories by membership, NaN by default_left, in float64."""
    document = json.loads(_parse(content).dump_as_json(pretty_print=False))
    total = np.full(len(rows), float(document["base_scores"][0]))
    for tree in document["trees"]:
        total += _tree(tree, rows.astype(np.float64))
    return total


def run(content: bytes, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    """Scores by treelite's reference predictor (GTIL)."""
    model = _parse(content)
    gtil = require_extra("treelite.gtil", "treelite", "Running a treelite model")
    return np.asarray(gtil.predict(model, rows.astype(np.float64), pred_margin=True)).ravel()


def _parse(content: bytes) -> Any:
    treelite = require_extra("treelite", "treelite", "Reading a treelite model")
    try:
        return treelite.Model.deserialize_bytes(content)
    except Exception as error:
        raise ModelFileError(f"Treelite refused the model: {str(error)[:200]}") from None


def _tree(tree: dict[str, Any], rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    nodes = {node["node_id"]: node for node in tree["nodes"]}
    out = np.empty(len(rows))
    todo = [(0, np.arange(len(rows)))]
    while todo:
        number, mine = todo.pop()
        node = nodes.pop(number, None)
        if node is None:
            raise ModelFileError("A node of the model does not exist, or has two parents.")
        if "leaf_value" in node:
            out[mine] = node["leaf_value"]
            continue
        x = rows[mine, node["split_feature_id"]]
        if node.get("node_type") == "categorical_test_node":
            usable = (x > -1) & (x < 2**31)
            member = usable & np.isin(np.where(usable, x, 0).astype(np.int64), node["category_list"])
            left = member != node["category_list_right_child"]
        else:
            if node["comparison_op"] != "<=":
                raise ModelFileError(f"The comparison {node['comparison_op']!r} is not the one that was written.")
            left = x <= node["threshold"]
        left = np.where(np.isnan(x), node["default_left"], left).astype(bool)
        todo += [(node["right_child"], mine[~left]), (node["left_child"], mine[left])]
    return out
