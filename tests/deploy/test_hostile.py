"""Files made to harm: circles, depth, sizes and encodings end in a typed error, in bounded time and memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from unskew.deploy.export import export
from unskew.deploy.forest import MAX_DEPTH
from unskew.deploy.manifest import digest
from unskew.deploy.model import Model, load
from unskew.deploy.parity import Parity, read_parity
from unskew.deploy.scorers import make_scorer
from unskew.deploy.verify import lightgbm_file, onnx_file, ranklib, treelite_file
from unskew.deploy.verify.check import verify_export
from unskew.errors import ExportError, ModelFileError
from unskew.rankers.base import RankerState

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")

ROWS = np.zeros((3, 2), dtype=np.float32)


def chain(depth: int, **lines: str) -> bytes:
    """A LightGBM text of one tree that is as deep as it has splits; `lines` replace lines of the tree."""
    tree = {
        "num_leaves": str(depth + 1),
        "num_cat": "0",
        "split_feature": " ".join(["0"] * depth),
        "threshold": " ".join(str(depth - i) for i in range(depth)),
        "decision_type": " ".join(["2"] * depth),
        "left_child": " ".join([*(str(i + 1) for i in range(depth - 1)), str(~depth)]),
        "right_child": " ".join(str(~i) for i in range(depth)),
        "leaf_value": " ".join(str(i % 7) for i in range(depth + 1)),
        "is_linear": "0",
        "shrinkage": "1",
    } | lines
    head = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=1\n"
    head += "objective=lambdarank\nfeature_names=a b\nfeature_infos=none none\ntree_sizes=1\n\nTree=0\n"
    return (head + "".join(f"{key}={value}\n" for key, value in tree.items()) + "\n\nend of trees\n").encode()


def model_of(text: bytes) -> Model:
    return Model.from_state(RankerState("lightgbm", {"model.txt": text}, ("a", "b"), 2))


def test_a_chain_scores_as_it_should() -> None:
    assert make_scorer("lightgbm", chain(3), 2, {}).predict(ROWS).tolist() == [3.0] * 3
    assert lightgbm_file.score(chain(3), "ab", ROWS).tolist() == [3.0] * 3


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({"left_child": "0 2 -4"}, "points back"),
        ({"left_child": "2 1 -4"}, "points back"),
        ({"left_child": "1 1 -4"}, "points back"),
        ({"left_child": "1 99 -4"}, "outside its tree"),
        ({"left_child": "1 2 -99"}, "outside its tree"),
        ({"left_child": "2 2 -4"}, "exactly one parent"),
        ({"right_child": "-1 -1 -3"}, "exactly one parent"),
        ({"threshold": "nan 1 1"}, "not a number"),
        ({"leaf_value": "1 2 inf 3"}, "not a number"),
        ({"leaf_value": "1 2 nan 3"}, "not a number"),
        ({"num_leaves": "2000000000"}, "should have"),
        ({"num_leaves": "-3"}, "num_leaves"),
        ({"num_cat": "2000000000", "cat_boundaries": "0 1", "cat_threshold": "1"}, "do not fit together"),
        ({"decision_type": "3 3 3"}, "categories that its tree does not have"),
        ({"split_feature": "0 0 7"}, "not among 2"),
        ({"split_feature": "0 0 99999999999999999999999"}, "not a number"),
    ],
)
def test_trees_that_are_none(lines: dict[str, str], message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        make_scorer("lightgbm", chain(3, **lines), 2, {})


@pytest.mark.parametrize("children", ["0 2 -4", "2 1 -4", "1 0 -4"])
def test_the_reader_of_exports_walks_no_circle(children: str) -> None:
    with pytest.raises(ModelFileError, match="points back"):
        lightgbm_file.score(chain(3, left_child=children), "ab", ROWS)


def test_trees_deeper_than_any_that_was_trained(tmp_path: Path) -> None:
    model = model_of(chain(MAX_DEPTH + 1))
    for name in ("lightgbm", "treelite"):
        with pytest.raises(ExportError, match="max_depth"):
            export(model, name, tmp_path / "m")


def test_the_work_on_deep_trees_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unskew.deploy.parity_rows._LEVELS", 600)
    done = export(model_of(chain(1500)), "lightgbm", tmp_path / "deep.txt")
    assert done.leaves_covered is not None
    assert 0 < done.leaves_covered < 1  # not all leaves were aimed at, and it says so
    assert verify_export(done.path, done.parity).ok


def test_a_folder_with_a_deep_tree_still_loads(tmp_path: Path) -> None:
    model_of(chain(MAX_DEPTH + 1)).save(tmp_path / "m")
    assert load(tmp_path / "m").predict(ROWS).tolist() == [(MAX_DEPTH + 1) % 7.0] * 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_entities_do_not_hide_in_another_encoding(encoding: str) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><ensemble>&b;</ensemble>'
    with pytest.raises(ModelFileError, match=r"UTF-8|entities"):
        ranklib.score(bomb.encode(encoding), "ab", ROWS)
    with pytest.raises(ModelFileError, match="declaration"):
        ranklib.score(b'<?xml version="1.0" encoding="cp037"?><ensemble/>', "ab", ROWS)


def _resealed(content: bytes, parity: Parity) -> Parity:
    """A parity file whose maker took care that the checksum fits."""
    return Parity(
        parity.features, parity.rows, parity.lists, parity.expected, {**parity.facts, "sha256": digest(content)}
    )


def _changed(model: object, attribute: str, values: list[int]) -> bytes:
    from onnx import helper

    node = next(node for node in model.graph.node if node.op_type == "TreeEnsembleRegressor")  # type: ignore[attr-defined]
    old = next(entry for entry in node.attribute if entry.name == attribute)
    node.attribute.remove(old)
    node.attribute.append(helper.make_attribute(attribute, values))
    return bytes(model.SerializeToString())  # type: ignore[attr-defined]


def test_an_onnx_ensemble_cannot_walk_in_a_circle(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    done = export(model_of(chain(2)), "onnx", tmp_path / "m.onnx")
    parity = read_parity(done.parity)
    whole = onnx.load(done.path)
    node = next(node for node in whole.graph.node if node.op_type == "TreeEnsembleRegressor")
    known = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    inner = [i for i, mode in enumerate(known["nodes_modes"]) if mode != b"LEAF"]
    for target in (0, known["nodes_nodeids"][inner[-1]], 99):
        true = list(known["nodes_truenodeids"])
        true[inner[-1]] = target
        content = _changed(onnx.load(done.path), "nodes_truenodeids", true)
        done.path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"two parents|one root each|fit together|sound ONNX"):
            onnx_file.score(content, "ab", ROWS)
        export(model_of(chain(2)), "onnx", done.path)
    short = _changed(onnx.load(done.path), "nodes_truenodeids", [1])
    done.path.write_bytes(short)
    with pytest.raises(ModelFileError, match=r"fit together|sound ONNX"):
        verify_export(done.path, _resealed(short, parity))


def test_an_onnx_graph_of_other_operators_is_not_run(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto
    huge = helper.make_tensor("shape", kind.INT64, [1], [1 << 40])
    graph = helper.make_graph(
        [helper.make_node("ConstantOfShape", ["shape"], ["score"])],
        "bomb",
        [helper.make_tensor_value_info("features", kind.FLOAT, ["items", 2])],
        [helper.make_tensor_value_info("score", kind.FLOAT, ["items"])],
        initializer=[huge],
    )
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    with pytest.raises(ModelFileError, match="ConstantOfShape"):
        onnx_file.score(content, "ab", ROWS)
    with pytest.raises(ModelFileError, match="ConstantOfShape"):
        onnx_file.run(content, "ab", ROWS)


def test_a_treelite_dump_cannot_walk_in_a_circle() -> None:
    split = {"split_feature_id": 0, "threshold": 1.0, "comparison_op": "<=", "default_left": True}
    tree = {"nodes": [{"node_id": 0, **split, "left_child": 0, "right_child": 1}, {"node_id": 1, "leaf_value": 1.0}]}
    with pytest.raises(ModelFileError, match="two parents"):
        treelite_file._tree(tree, ROWS.astype(np.float64))


def test_leaves_beyond_float32_are_refused_where_they_cannot_be(tmp_path: Path) -> None:
    model = model_of(chain(3, leaf_value="1 2 3 1e300"))
    for name in ("elasticsearch", "solr", "ranklib", "vespa", "onnx"):
        with pytest.raises(ExportError, match="float32"):
            export(model, name, tmp_path / "m.json")
    for name in ("lightgbm", "treelite"):
        done = export(model, name, tmp_path / "m")
        assert verify_export(done.path, done.parity).ok
    with pytest.raises(ExportError, match="Scores of this model"):  # a sum that even float64 cannot hold
        export(_twice(1.5e308), "lightgbm", tmp_path / "m")


def _twice(leaf: float) -> Model:
    text = chain(1, leaf_value=f"{leaf} {leaf}").decode()
    tree = text.split("Tree=0\n")[1].split("end of trees")[0]
    return model_of(text.replace("end of trees", f"Tree=1\n{tree}end of trees").encode())


@pytest.mark.parametrize("name", ["elasticsearch", "solr", "onnx"])
def test_weights_beyond_float32_are_refused(tmp_path: Path, name: str) -> None:
    content = json.dumps({"coefficients": [1e300, 1.0], "intercept": 0}).encode()
    model = Model.from_state(RankerState("linear", {"model.json": content}, ("a", "b"), 2))
    with pytest.raises(ExportError, match="Scores of this model"):
        export(model, name, tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []
