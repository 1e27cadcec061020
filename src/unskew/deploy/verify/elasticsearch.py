"""Reads `model/xgboost+json` and `model/linear` as the Elasticsearch and OpenSearch plugins document them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.deploy.strict_json import read_json
from unskew.deploy.verify.tables import Rows, Table, add_float32, build, number
from unskew.errors import ModelFileError

_SPLIT = {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children"}


def score(content: bytes, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    """Scores by the plugin's rule: float32, yes iff split_condition > value, NaN to `missing`, a float32 sum."""
    kind, definition = _definition(read_json(content, "The export"))
    if kind == "model/linear":
        return _linear(definition, names, rows)
    if isinstance(definition, dict):
        definition = definition.get("splits")
    if not isinstance(definition, list) or not definition:
        raise ModelFileError("The definition must be a list of at least one tree.")
    place = {name: i for i, name in enumerate(names)}
    table = Table()
    for tree in definition:
        build(table, tree, lambda node: _node(table, node, place))
    return add_float32(table.outputs(rows, _rule), len(rows))


def _rule(value: npt.NDArray, condition: npt.NDArray, missing_yes: npt.NDArray) -> npt.NDArray[np.bool_]:
    return np.where(np.isnan(value), missing_yes, condition > value)


def _definition(document: Any) -> tuple[str, Any]:
    """The type and the definition, whether the file is a body, or a bare definition."""
    if not isinstance(document, dict) or "model" not in document:
        return "model/xgboost+json", document
    model = document["model"]
    inner = model.get("model") if isinstance(model, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("type"), str) or "definition" not in inner:
        raise ModelFileError('The body must be {"model": {"name": ..., "model": {"type": ..., "definition": ...}}}.')
    if inner["type"] not in ("model/xgboost+json", "model/linear"):
        raise ModelFileError(f"The type {inner['type'][:40]!r} is not one of model/xgboost+json, model/linear.")
    definition = inner["definition"]
    if isinstance(definition, str):
        definition = read_json(definition, "The definition")
    return inner["type"], definition


def _node(table: Table, node: Any, place: dict[str, int]) -> tuple[int, tuple[Any, Any] | None]:
    if not isinstance(node, dict):
        raise ModelFileError("A node of a tree is not an object.")
    if "leaf" in node:
        if set(node) - {"nodeid", "leaf", "depth"} or "nodeid" not in node:
            raise ModelFileError("A leaf must have 'nodeid' and 'leaf' and nothing else.")
        return table.leaf(number(node["leaf"], "leaf")), None
    if set(node) != _SPLIT:
        odd = sorted(set(node) ^ _SPLIT)[0]
        raise ModelFileError(f"A split must have exactly {', '.join(sorted(_SPLIT))}; '{odd[:40]}' is wrong.")
    children = node["children"]
    pair = isinstance(children, list) and len(children) == 2 and all(isinstance(child, dict) for child in children)
    if not pair or [child.get("nodeid") for child in children] != [node["yes"], node["no"]]:
        raise ModelFileError("The children of a split must be 'yes' and 'no', in this order.")
    if node["missing"] not in (node["yes"], node["no"]) or node["yes"] == node["no"]:
        raise ModelFileError("'missing' must be one of two different children.")
    if not isinstance(node["split"], str) or node["split"] not in place:
        raise ModelFileError(f"Unknown feature {str(node['split'])[:60]!r}.")
    condition = number(node["split_condition"], "split_condition")
    entry = table.split(place[node["split"]], condition, node["missing"] == node["yes"])
    return entry, (children[0], children[1])


def _linear(definition: Any, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    if not isinstance(definition, dict) or not set(definition) <= set(names):
        raise ModelFileError("A linear definition must give weights to known features.")
    weights = np.array([number(definition.get(name, 0.0), "weight") for name in names], dtype=np.float32)
    total = np.zeros(len(rows), dtype=np.float32)
    for column, weight in enumerate(weights):
        total += weight * rows[:, column]
    return total.astype(np.float64)
