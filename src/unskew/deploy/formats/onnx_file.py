"""ONNX: trees, nets and linear scores, for onnxruntime and everything that embeds it.

How it compares: BRANCH_LEQ is left iff value <= threshold; NaN follows nodes_missing_value_tracks_true. The graph takes
float32 features and computes trees in float64 (one Cast in front), so only the result is rounded to float32.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from unskew.deploy.forest import Forest
from unskew.deploy.formats.base import Request, Written, exact_trees, finite
from unskew.deploy.formats.base import local_numbers as numbers_in_tree
from unskew.deploy.linear import read_linear
from unskew.errors import require_extra

INPUT, OUTPUT = "features", "score"
_OPSET, _ML_OPSET, _IR_VERSION = 17, 3, 8


def write(request: Request) -> Written:
    require_extra("onnx", "onnx", "Exporting to ONNX")
    if request.model.kind == "net":
        from unskew.deploy.formats.onnx_net import net_graph

        nodes, constants = net_graph(request.model)
    elif request.model.kind == "linear":
        nodes, constants = _linear_graph(request)
    else:
        nodes, constants = tree_graph(exact_trees(request))
    return Written(content=_model(request, nodes, constants), notes=(_note(request),))


def tree_graph(forest: Forest) -> tuple[list[Any], list[Any]]:
    """Cast and TreeEnsembleRegressor in float64; the base is part of the ensemble."""
    from onnx import TensorProto, helper

    cast = helper.make_node("Cast", [INPUT], ["wide"], to=TensorProto.DOUBLE)
    trees = helper.make_node(
        "TreeEnsembleRegressor", ["wide"], ["column"], domain="ai.onnx.ml", **_tree_attributes(forest)
    )
    flat = helper.make_node("Reshape", ["column", "one_axis"], [OUTPUT])
    return [cast, trees, flat], [helper.make_tensor("one_axis", TensorProto.INT64, [1], [-1])]


def _tree_attributes(forest: Forest) -> dict[str, Any]:
    from onnx import TensorProto, helper

    number, _ = numbers_in_tree(forest)
    n_parts = forest.n_nodes + len(forest.value)
    owner = np.full(n_parts, -1)
    level, tree = forest.root, np.arange(forest.n_trees)
    while level.size:
        owner[level] = tree
        inner = level < forest.n_nodes
        level, tree = level[inner], tree[inner]
        level, tree = np.concatenate([forest.left[level], forest.right[level]]), np.concatenate([tree, tree])
    parts = np.flatnonzero(owner >= 0)
    parts = parts[np.lexsort((number[parts], owner[parts]))]
    node = parts < forest.n_nodes
    inner_part = np.where(node, parts, 0)

    def of_nodes(values: np.ndarray, other: Any) -> np.ndarray:
        return np.where(node, values[inner_part], other) if forest.n_nodes else np.full(len(parts), other)

    leaf = parts[~node]
    thresholds = of_nodes(finite(forest.threshold).astype(np.float64), 0.0)
    if not forest.n_trees:  # an ensemble needs a tree
        return _constant_attributes(forest.base)
    return {
        "n_targets": 1,
        "aggregate_function": "SUM",
        "post_transform": "NONE",
        "base_values_as_tensor": helper.make_tensor("base", TensorProto.DOUBLE, [1], [forest.base]),
        "nodes_treeids": owner[parts].tolist(),
        "nodes_nodeids": number[parts].tolist(),
        "nodes_featureids": of_nodes(forest.feature, 0).tolist(),
        "nodes_modes": ["BRANCH_LEQ" if inner else "LEAF" for inner in node.tolist()],
        "nodes_values_as_tensor": helper.make_tensor("values", TensorProto.DOUBLE, [len(parts)], thresholds),
        "nodes_truenodeids": of_nodes(number[forest.left], 0).tolist(),
        "nodes_falsenodeids": of_nodes(number[forest.right], 0).tolist(),
        "nodes_missing_value_tracks_true": of_nodes(forest.missing_left.astype(np.int64), 0).tolist(),
        "target_treeids": owner[leaf].tolist(),
        "target_nodeids": number[leaf].tolist(),
        "target_ids": [0] * len(leaf),
        "target_weights_as_tensor": helper.make_tensor(
            "weights", TensorProto.DOUBLE, [len(leaf)], forest.value[leaf - forest.n_nodes]
        ),
    }


def _constant_attributes(base: float) -> dict[str, Any]:
    from onnx import TensorProto, helper

    return {
        "n_targets": 1,
        "nodes_treeids": [0],
        "nodes_nodeids": [0],
        "nodes_featureids": [0],
        "nodes_modes": ["LEAF"],
        "nodes_values_as_tensor": helper.make_tensor("values", TensorProto.DOUBLE, [1], [0.0]),
        "nodes_truenodeids": [0],
        "nodes_falsenodeids": [0],
        "target_treeids": [0],
        "target_nodeids": [0],
        "target_ids": [0],
        "target_weights_as_tensor": helper.make_tensor("weights", TensorProto.DOUBLE, [1], [base]),
    }


def _linear_graph(request: Request) -> tuple[list[Any], list[Any]]:
    from onnx import TensorProto, helper

    scorer = read_linear(next(iter(request.model.files.values())))
    size = len(scorer.coefficients)
    nodes = [
        helper.make_node("Cast", [INPUT], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("MatMul", ["wide", "coefficients"], ["sum"]),
        helper.make_node("Add", ["sum", "intercept"], ["score_wide"]),
        helper.make_node("Cast", ["score_wide"], [OUTPUT], to=TensorProto.FLOAT),
    ]
    constants = [
        helper.make_tensor("coefficients", TensorProto.DOUBLE, [size], scorer.coefficients),
        helper.make_tensor("intercept", TensorProto.DOUBLE, [1], [scorer.intercept]),
    ]
    return nodes, constants


def _model(request: Request, nodes: list[Any], constants: list[Any]) -> bytes:
    from onnx import TensorProto, checker, helper

    size = len(request.model.feature_names)
    graph = helper.make_graph(
        nodes,
        "ranker",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["items", size])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["items"])],
        initializer=constants,
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="unskew")
    names = model.metadata_props.add()
    names.key = "feature_names"
    names.value = json.dumps({"names": list(request.model.feature_names)}, ensure_ascii=False)
    checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _note(request: Request) -> str:
    return (
        f"Input '{INPUT}' (float32, items × {len(request.model.feature_names)}), output '{OUTPUT}' (float32, items); "
        "the order of the features is in the model's metadata under 'feature_names'."
    )
