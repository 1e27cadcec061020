"""A folded net as an ONNX graph: standardise, clip, multiply; then ELU, normalise, multiply, layer by layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew.deploy.model import Model
from unskew.errors import ExportError
from unskew.rankers.net_scorer import NetScorer

INPUT, OUTPUT = "features", "score"
_PARTS = ("weight", "bias")


def net_graph(model: Model) -> tuple[list[Any], list[Any]]:
    """Nodes and constants: z = clip((u - mean) / scale), u a signed log; a = W z + b, then a = W LN(elu(a)) + b."""
    from onnx import helper, numpy_helper

    net = NetScorer.from_bytes(next(iter(model.files.values())), model.manifest["info"])
    if net.n_terms:
        raise ExportError("This net still has control terms. Fold it first: Model.from_state(state).")
    constants: list[Any] = []

    def constant(name: str, value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    nodes = [
        # sign(x) log(1 + |x| / unit)
        helper.make_node("Abs", [INPUT], ["size"]),
        helper.make_node("Div", ["size", constant("unit", net.scaling.unit)], ["units"]),
        helper.make_node("Add", ["units", constant("one", np.float32(1))], ["more"]),
        helper.make_node("Log", ["more"], ["log"]),
        helper.make_node("Sign", [INPUT], ["sign"]),
        helper.make_node("Mul", ["sign", "log"], ["tamed"]),
        helper.make_node("Sub", ["tamed", constant("mean", net.scaling.mean)], ["centred"]),
        helper.make_node("Div", ["centred", constant("scale", net.scaling.scale)], ["scaled"]),
        helper.make_node(
            "Clip",
            [
                "scaled",
                constant("lowest", np.float32(-net.scaling.clip)),
                constant("highest", np.float32(net.scaling.clip)),
            ],
            ["layer_in_0"],
        ),
    ]
    for layer in range(net.n_layers):
        entering = f"layer_in_{layer}"
        if layer:
            nodes.append(helper.make_node("Elu", [f"layer_out_{layer - 1}"], [entering], alpha=1.0))
            normal = [constant(f"norm{layer}_{part}", net.tensors[f"norm{layer}.{part}"]) for part in _PARTS]
            epsilon = float(net.epsilon)
            inputs, entering = [entering, *normal], f"normal_{layer}"
            nodes.append(helper.make_node("LayerNormalization", inputs, [entering], axis=-1, epsilon=epsilon))
        linear = [constant(f"linear{layer}_{part}", net.tensors[f"linear{layer}.{part}"]) for part in _PARTS]
        nodes.append(helper.make_node("Gemm", [entering, *linear], [f"layer_out_{layer}"], transB=1))
    nodes.append(
        helper.make_node(
            "Reshape", [f"layer_out_{net.n_layers - 1}", constant("one_axis", np.array([-1], dtype=np.int64))], [OUTPUT]
        )
    )
    return nodes, constants
