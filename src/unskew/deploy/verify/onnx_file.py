"""Reads ONNX graphs by the operators' definitions; and runs onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.deploy.verify.tables import Rows, Table
from unskew.errors import ModelFileError, require_extra

# What our graphs are made of. Others could loop, call out of the file or ask for any amount of memory.
_OPERATORS = {
    *("Cast", "TreeEnsembleRegressor", "Reshape", "MatMul", "Add", "Sub", "Mul", "Div", "Abs", "Log", "Sign", "Clip"),
    *("Elu", "LayerNormalization", "Gemm"),
}


def score(content: bytes, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    """Scores by the operators' definitions: a tree ensemble walked here, anything else by ONNX's reference in numpy."""
    model = _parse(content)
    ensembles = [node for node in model.graph.node if node.op_type == "TreeEnsembleRegressor"]
    if not ensembles:
        from onnx.reference import ReferenceEvaluator

        try:
            answers: Any = ReferenceEvaluator(model).run(None, {model.graph.input[0].name: rows})
            return np.asarray(answers[0], dtype=np.float64).ravel()
        except Exception as error:
            raise ModelFileError(f"The ONNX graph does not fit together: {str(error)[:200]}") from None
    return _ensemble(ensembles[0], rows, len(names)).astype(np.float32).astype(np.float64)


def run(content: bytes, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    """Scores by onnxruntime."""
    runtime = require_extra("onnxruntime", "onnx", "Running an ONNX model")
    _parse(content)
    try:
        session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
        answer = session.run(None, {session.get_inputs()[0].name: rows})[0]
    except Exception as error:
        raise ModelFileError(f"onnxruntime refused the model: {str(error)[:200]}") from None
    return np.asarray(answer, dtype=np.float64).ravel()


def _parse(content: bytes) -> Any:
    onnx = require_extra("onnx", "onnx", "Reading an ONNX model")
    try:
        model = onnx.load_from_string(content)
        onnx.checker.check_model(model)
    except Exception as error:
        raise ModelFileError(f"This is not a sound ONNX model: {str(error)[:200]}") from None
    if any(tensor.data_location for tensor in model.graph.initializer):
        raise ModelFileError("The ONNX model keeps its numbers in other files, which is not read.")
    foreign = sorted({node.op_type for node in model.graph.node} - _OPERATORS)
    if foreign or model.functions:
        raise ModelFileError(f"The ONNX model uses what no export has: {foreign[0] if foreign else 'functions'}.")
    return model


def _ensemble(node: Any, rows: Rows, n_features: int) -> npt.NDArray[np.float64]:
    from onnx import helper, numpy_helper

    known = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    try:
        table = _table(known, n_features)
    except ModelFileError:
        raise
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise ModelFileError(f"The ensemble does not fit together: {type(error).__name__} {error}.") from None
    base = known.get("base_values_as_tensor")
    total = np.full(len(rows), float(numpy_helper.to_array(base)[0]) if base is not None else 0.0)
    for part in table.outputs(rows, _rule, np.float64):
        total += part
    return total


def _table(known: dict[str, Any], n_features: int) -> Table:
    """The ensemble's nodes, each with one parent at most: then no way down leads in a circle."""
    from onnx import numpy_helper

    thresholds = numpy_helper.to_array(known["nodes_values_as_tensor"])
    weights = numpy_helper.to_array(known["target_weights_as_tensor"])
    keys = list(zip(known["nodes_treeids"], known["nodes_nodeids"]))
    entry = {key: i for i, key in enumerate(keys)}
    output = dict(zip(zip(known["target_treeids"], known["target_nodeids"]), weights.tolist()))
    tracks = known.get("nodes_missing_value_tracks_true") or [0] * len(keys)
    table, children = Table(), []
    for i, (key, mode) in enumerate(zip(keys, known["nodes_modes"], strict=True)):
        if mode == b"LEAF":
            table.leaf(output[key])
            continue
        if mode != b"BRANCH_LEQ" or not 0 <= known["nodes_featureids"][i] < n_features:
            raise ModelFileError(f"A node of the ensemble has the mode {mode!r} or an unknown feature.")
        table.split(known["nodes_featureids"][i], float(thresholds[i]), bool(tracks[i]))
        table.first[i] = entry[key[0], known["nodes_truenodeids"][i]]
        table.second[i] = entry[key[0], known["nodes_falsenodeids"][i]]
        children += [table.first[i], table.second[i]]
    if len(set(children)) != len(children) or len(entry) != len(keys):
        raise ModelFileError("A node of the ensemble is there twice, or has two parents.")
    below = set(children)
    table.roots = [i for i in range(len(keys)) if i not in below]
    todo, met = list(table.roots), 0
    while todo:
        part, met = todo.pop(), met + 1
        todo += [way for way in (table.first[part], table.second[part]) if way >= 0]
    if met != len(keys) or len(table.roots) != len(set(known["nodes_treeids"])):
        raise ModelFileError("The trees of the ensemble need exactly one root each, from which all nodes are reached.")
    return table


def _rule(value: npt.NDArray, limit: npt.NDArray, missing_true: npt.NDArray) -> npt.NDArray[np.bool_]:
    return np.where(np.isnan(value), missing_true, value <= limit)
