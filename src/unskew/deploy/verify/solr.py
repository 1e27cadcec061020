"""Reads Solr's MultipleAdditiveTreesModel and LinearModel as Solr's reference guide describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.deploy.strict_json import read_json
from unskew.deploy.verify.tables import Rows, Table, build, number
from unskew.errors import ModelFileError

_PACKAGE = "org.apache.solr.ltr.model."


def score(content: bytes, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    """Scores by Solr's rule: left iff value <= threshold + 1e-6 in float32; missing is 0, or follows `missing`."""
    document = read_json(content, "The export")
    params = document.get("params") if isinstance(document, dict) else None
    if not isinstance(params, dict):
        raise ModelFileError("A Solr model must have 'class', 'name', 'features' and 'params'.")
    listed = _features(document)
    if set(listed) - set(names):
        raise ModelFileError("The model lists features that the parity file does not have.")
    if document.get("class") == _PACKAGE + "LinearModel":
        return _linear(params, names, rows)
    if document.get("class") != _PACKAGE + "MultipleAdditiveTreesModel" or not isinstance(params.get("trees"), list):
        raise ModelFileError(f"The class {str(document.get('class'))[:80]!r} is not a model of trees.")
    null_is_zero = params.get("isNullSameAsZero", True)
    if not isinstance(null_is_zero, bool):
        raise ModelFileError("isNullSameAsZero must be true or false.")
    known = set(listed)
    place = {name: i for i, name in enumerate(names) if name in known}
    table, weights = Table(), []
    for tree in params["trees"]:
        if not isinstance(tree, dict) or set(tree) != {"weight", "root"}:
            raise ModelFileError("A tree must have 'weight' and 'root'.")
        weights.append(np.float32(_float(tree["weight"], "weight")))
        build(table, tree["root"], lambda node: _node(table, node, place, null_is_zero))
    if not weights:
        raise ModelFileError("The model has no trees.")
    seen = np.where(np.isnan(rows), np.float32(0), rows) if null_is_zero else rows
    total = np.zeros(len(rows), dtype=np.float32)
    for weight, output in zip(weights, table.outputs(seen, _rule)):
        total += weight * output
    return total.astype(np.float64)


def _rule(value: npt.NDArray, threshold: npt.NDArray, missing_left: npt.NDArray) -> npt.NDArray[np.bool_]:
    return np.where(np.isnan(value), missing_left, value <= threshold)


def _features(document: dict[str, Any]) -> list[str]:
    listed = document.get("features")
    if not isinstance(listed, list) or not all(isinstance(f, dict) and isinstance(f.get("name"), str) for f in listed):
        raise ModelFileError("'features' must be a list of objects with a 'name'.")
    return [feature["name"] for feature in listed]


def _node(table: Table, node: Any, place: dict[str, int], null_is_zero: bool) -> tuple[int, tuple[Any, Any] | None]:
    if isinstance(node, dict) and set(node) == {"value"}:
        return table.leaf(_float(node["value"], "value")), None
    if not isinstance(node, dict) or set(node) - {"missing"} != {"feature", "threshold", "left", "right"}:
        raise ModelFileError("A node must have 'value', or 'feature', 'threshold', 'left' and 'right'.")
    if not isinstance(node["feature"], str) or node["feature"] not in place:
        raise ModelFileError(f"A split asks for the unlisted feature {str(node['feature'])[:60]!r}.")
    way = node.get("missing", "right")
    if way not in ("left", "right") or (not null_is_zero and "missing" not in node):
        raise ModelFileError("'missing' must be 'left' or 'right'.")
    threshold = np.float32(_float(node["threshold"], "threshold")) + np.float32(1e-6)
    return table.split(place[node["feature"]], float(threshold), way == "left"), (node["left"], node["right"])


def _float(word: Any, what: str) -> float:
    """Solr takes numbers, or texts that hold one."""
    if isinstance(word, str):
        try:
            word = float(word) if len(word) < 60 and "_" not in word else None
        except ValueError:
            word = None
    value = number(word, what)
    if not np.isfinite(np.float32(value)):
        raise ModelFileError(f"{what} is not a float32.")
    return value


def _linear(params: dict[str, Any], names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    weights = params.get("weights")
    if not isinstance(weights, dict) or not set(weights) <= set(names):
        raise ModelFileError("'weights' must give a number to known features.")
    factors = np.array([_float(weights.get(name, 0.0), "weight") for name in names], dtype=np.float32)
    total = np.zeros(len(rows), dtype=np.float32)
    for column, factor in enumerate(factors):
        total += factor * rows[:, column]
    return total.astype(np.float64)
