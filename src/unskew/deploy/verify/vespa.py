"""Reads LightGBM's JSON dump as Vespa turns it into a rank expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.deploy.strict_json import read_json
from unskew.deploy.verify.tables import Rows, Table, build, number
from unskew.errors import ModelFileError


def score(content: bytes, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    """Scores by Vespa's rule: `x < t`, or `!(x >= t)` where missing goes left; float32 limits, a float64 sum."""
    document = read_json(content, "The export")
    if not isinstance(document, dict) or not isinstance(document.get("tree_info"), list) or not document["tree_info"]:
        raise ModelFileError("Vespa recognises a LightGBM model by its 'tree_info', a list of trees.")
    if document.get("objective") not in ("lambdarank", "rank_xendcg", "regression"):
        raise ModelFileError("The objective must be one that Vespa adds up without a transformation.")
    listed, place = document.get("feature_names"), {name: i for i, name in enumerate(names)}
    if not isinstance(listed, list) or any(not isinstance(name, str) or name not in place for name in listed):
        raise ModelFileError("'feature_names' must name features that the parity file has.")
    if not isinstance(document.get("pandas_categorical"), list):
        raise ModelFileError("Vespa needs 'pandas_categorical', if only as an empty list.")
    columns = [place[name] for name in listed]
    table = Table()
    for tree in document["tree_info"]:
        structure = tree.get("tree_structure") if isinstance(tree, dict) else None
        build(table, structure, lambda node: _node(table, node, columns))
    total = np.zeros(len(rows))
    for output in table.outputs(rows, _rule):
        total += output
    return total


def _rule(value: npt.NDArray, limit: npt.NDArray, missing_left: npt.NDArray) -> npt.NDArray[np.bool_]:
    return np.where(missing_left, ~(value >= limit), value < limit)


def _node(table: Table, node: Any, columns: list[int]) -> tuple[int, tuple[Any, Any] | None]:
    if not isinstance(node, dict):
        raise ModelFileError("A node of a tree is not an object.")
    if "leaf_value" in node:
        return table.leaf(number(node["leaf_value"], "leaf_value")), None
    feature, default = node.get("split_feature"), node.get("default_left")
    if type(feature) is not int or not 0 <= feature < len(columns) or not isinstance(default, bool):
        raise ModelFileError("A split needs a 'split_feature' among the features and a 'default_left'.")
    if node.get("decision_type") != "<=" or "left_child" not in node or "right_child" not in node:
        raise ModelFileError("A split needs the decision type '<=' and two children.")
    limit = number(node.get("threshold"), "threshold")
    return table.split(columns[feature], limit, default), (node["left_child"], node["right_child"])
