"""XGBoost's JSON format: read strictly, its numbers kept as the words they were written as."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, offsets_of
from unskew.deploy.strict_json import read_json
from unskew.errors import ModelFileError

WORD_FIELDS: Final = ("split_conditions", "base_weights", "loss_changes", "sum_hessian")
WHOLE_FIELDS: Final = ("left_children", "right_children", "split_indices", "default_left", "split_type")
MAX_BYTES = 1 << 30
_BASE = re.compile(r"\[?([-+0-9.eE]{1,40})\]?")
_OBJECTIVE = re.compile(r"(rank|reg|binary|count):[a-z:]{1,40}")
# Objectives whose base score is not a margin but a probability or a mean.
_LINKED = ("binary:logistic", "reg:logistic", "count:", "reg:gamma", "reg:tweedie")


@dataclass(frozen=True, eq=False)
class XGBoostModel:
    """The trees of an XGBoost model, all fields laid end to end.

    n_nodes : (trees,) nodes of every tree, leaves included.
    left, right : (nodes,) children inside their tree, -1 at leaves.
    feature, default_left : (nodes,) meaningless at leaves.
    condition : (nodes,) float32: the threshold of a split, the value of a leaf.
    words : the float fields as they were written.
    base : the constant every sum begins with, a margin unless the objective has a link.
    """

    n_features: int
    feature_names: tuple[str, ...]
    objective: Mapping[str, Any]
    base: str
    version: tuple[int, ...]
    n_nodes: IntArray
    left: IntArray
    right: IntArray
    feature: IntArray
    default_left: IntArray
    condition: npt.NDArray[np.float32]
    words: Mapping[str, npt.NDArray[np.object_]]

    @property
    def n_trees(self) -> int:
        return len(self.n_nodes)

    @property
    def offsets(self) -> IntArray:
        return offsets_of(self.n_nodes)

    @property
    def tree_of_node(self) -> IntArray:
        return np.repeat(np.arange(self.n_trees), self.n_nodes)

    @property
    def margin(self) -> float | None:
        """The base score as a margin, or None if the objective has a link function."""
        return None if str(self.objective["name"]).startswith(_LINKED) else float(np.float32(self.base))


def read_xgboost(content: bytes | str) -> XGBoostModel:
    """Parse and check an XGBoost JSON model of trees; a ModelFileError says what is wrong with it."""
    if len(content) > MAX_BYTES:
        raise _wrong(f"it has more than the {MAX_BYTES >> 30} GiB that are read")
    document = read_json(content, "The XGBoost model", parse_float=str)
    learner = _entry(document, "learner", dict)
    booster = _entry(learner, "gradient_booster", dict)
    if booster.get("name") != "gbtree":
        raise _wrong(f"its booster is {str(booster.get('name'))[:40]!r}. Train with booster='gbtree'")
    model = _entry(booster, "model", dict)
    trees = _entry(model, "trees", list)
    parameters = _entry(learner, "learner_model_param", dict)
    n_features = _whole_word(parameters, "num_feature")
    if _whole_word(parameters, "num_class") > 1 or parameters.get("num_target", "1") != "1":
        raise _wrong("it has several outputs, and a ranker has one")
    if not trees:
        raise _wrong("it holds no tree")
    fields = {name: [_tree_list(tree, name, i) for i, tree in enumerate(trees)] for name in WORD_FIELDS + WHOLE_FIELDS}
    n_nodes = np.array([len(nodes) for nodes in fields["left_children"]])
    _same_lengths(fields, n_nodes)
    words = {name: _words(fields[name], name) for name in WORD_FIELDS}
    whole = {name: _integers(fields[name], name) for name in WHOLE_FIELDS}
    if whole["split_type"].any():
        raise _wrong("it has categorical splits. Give such features to LightGBM, or encode them as numbers")
    found = XGBoostModel(
        n_features=n_features,
        feature_names=_names(learner, n_features),
        objective=_objective(learner),
        base=_base(parameters),
        version=_version(document),
        n_nodes=n_nodes,
        left=whole["left_children"],
        right=whole["right_children"],
        feature=whole["split_indices"],
        default_left=whole["default_left"],
        condition=_floats(words["split_conditions"]),
        words=words,
    )
    _check_trees(found)
    return found


def write_xgboost(model: XGBoostModel) -> bytes:
    """The model as XGBoost's JSON; reading it back gives the same model."""
    offsets = model.offsets.tolist()
    columns = {name: words.tolist() for name, words in model.words.items()}
    columns |= {
        name: values.astype(str).tolist()
        for name, values in {
            "left_children": model.left,
            "right_children": model.right,
            "split_indices": model.feature,
            "default_left": model.default_left,
            "split_type": np.zeros_like(model.left),
            "parents": _parents(model),
        }.items()
    }
    trees = []
    for tree in range(model.n_trees):
        start, end = offsets[tree], offsets[tree + 1]
        lists = ",".join(f'"{name}":[{",".join(words[start:end])}]' for name, words in columns.items())
        trees.append(
            f'{{{lists},"categories":[],"categories_nodes":[],"categories_segments":[],"categories_sizes":[],"id":{tree},'
            f'"tree_param":{{"num_deleted":"0","num_feature":"{model.n_features}","num_nodes":"{end - start}",'
            '"size_leaf_vector":"1"}}'
        )
    order, info = json.dumps(list(range(model.n_trees + 1))), json.dumps([0] * model.n_trees)
    gbtree = (
        f'{{"gbtree_model_param":{{"num_parallel_tree":"1","num_trees":"{model.n_trees}"}},'
        f'"iteration_indptr":{order},"tree_info":{info},'
        f'"trees":[{",".join(trees)}]}}'
    )
    boost = '"boost_from_average":"1","num_class":"0"'
    return (
        f'{{"learner":{{"attributes":{{}},"feature_names":{json.dumps(model.feature_names)},"feature_types":[],'
        f'"gradient_booster":{{"model":{gbtree},"name":"gbtree"}},'
        f'"learner_model_param":{{"base_score":"{model.base}",{boost},"num_feature":"{model.n_features}",'
        f'"num_target":"1"}},"objective":{json.dumps(model.objective)}}},"version":{json.dumps(model.version)}}}'
    ).encode()


def _parents(model: XGBoostModel) -> IntArray:
    parents = np.full(len(model.left), 2**31 - 1)
    start = model.offsets[model.tree_of_node]
    place = np.arange(len(model.left)) - start
    inner = model.left >= 0
    for child in (model.left, model.right):
        parents[(start + child)[inner]] = place[inner]
    return parents


def _check_trees(model: XGBoostModel) -> None:
    tree, place = model.tree_of_node, np.arange(len(model.left)) - model.offsets[model.tree_of_node]
    inner = model.left >= 0

    def refuse(bad: npt.NDArray[np.bool_], what: str) -> None:
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            raise _wrong(f"node {place[first]} of tree {tree[first]} {what}")

    refuse((model.right >= 0) != inner, "has one child")
    for child in (model.left, model.right):
        refuse((child >= model.n_nodes[tree]) | (child < -1), "points outside its tree")
        # XGBoost numbers a node after its parent, so this alone rules out circles.
        refuse(inner & (child <= place), "points back at itself or at a node before it")
    children = np.concatenate([(model.offsets[tree] + child)[inner] for child in (model.left, model.right)])
    refuse(np.bincount(children, minlength=len(tree)) > 1, "has more than one parent")
    outside = (model.feature < 0) | (model.feature >= model.n_features)
    refuse(inner & outside, f"splits on a feature that is not among {model.n_features}")
    refuse((model.default_left < 0) | (model.default_left > 1), "has no sound default direction")


def _entry(document: Any, key: str, kind: type) -> Any:
    if not isinstance(document, dict) or not isinstance(document.get(key), kind):
        raise _wrong(f"it has no sound '{key}'")
    return document[key]


def _whole_word(document: Mapping[str, Any], key: str) -> int:
    word = document.get(key)
    if not isinstance(word, str) or not re.fullmatch(r"[0-9]{1,9}", word):
        raise _wrong(f"'{key}' is not a whole number")
    return int(word)


def _tree_list(tree: Any, name: str, number: int) -> list[Any]:
    if not isinstance(tree, dict) or not isinstance(tree.get(name), list):
        raise _wrong(f"tree {number} has no '{name}'")
    return tree[name]


def _same_lengths(fields: Mapping[str, Sequence[list[Any]]], n_nodes: IntArray) -> None:
    if (n_nodes < 1).any():
        raise _wrong(f"tree {int(np.argmin(n_nodes))} has no node")
    for name, lists in fields.items():
        lengths = np.array([len(entries) for entries in lists])
        if not np.array_equal(lengths, n_nodes):
            wrong = int(np.flatnonzero(lengths != n_nodes)[0])
            raise _wrong(f"tree {wrong} should have {n_nodes[wrong]} entries of '{name}', but has {lengths[wrong]}")


def _words(lists: Sequence[list[Any]], name: str) -> npt.NDArray[np.object_]:
    # Floats arrive as text (parse_float=str); whole numbers as int. Text in quotes is told apart by its letters.
    # XGBoost takes a word for a float only if it looks like one.
    words = [entry if type(entry) is str else f"{entry}E0" for entries in lists for entry in entries]
    if max(map(len, words)) > 40 or "".join(words).translate(_DIGITS):
        raise _wrong(f"'{name}' holds something that is not a number")
    return np.array(words, dtype=object)


_DIGITS = {ord(letter): None for letter in "+-0123456789.eE"}


def _floats(words: npt.NDArray[np.object_]) -> npt.NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            values = np.array(words.tolist(), dtype=np.float32)
    except ValueError:
        raise _wrong("a number cannot be read") from None
    if not np.isfinite(values).all():
        raise _wrong("a threshold or leaf is not finite")
    return values


def _integers(lists: Sequence[list[Any]], name: str) -> IntArray:
    flat = [entry for entries in lists for entry in entries]
    if not all(type(entry) in (int, bool) for entry in flat) or any(abs(entry) >= 2**31 for entry in flat):
        raise _wrong(f"'{name}' holds something that is not a whole number")
    return np.array(flat, dtype=np.int64)


def _names(learner: Mapping[str, Any], n_features: int) -> tuple[str, ...]:
    names = learner.get("feature_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _wrong("its feature names are not texts")
    if names and len(names) != n_features:
        raise _wrong(f"it has {n_features} features, but {len(names)} names")
    return tuple(names)


def _objective(learner: Mapping[str, Any]) -> dict[str, Any]:
    """The objective's name and its text settings; what it had learnt about positions is not needed for scoring."""
    objective = _entry(learner, "objective", dict)
    name = objective.get("name")
    if not isinstance(name, str) or not _OBJECTIVE.fullmatch(name):
        raise _wrong(f"its objective is {str(name)[:40]!r}, which is not for ranking or for one value")
    kept: dict[str, Any] = {"name": name}
    for key, value in objective.items():
        if isinstance(value, dict) and all(isinstance(word, str) and len(word) < 40 for word in value.values()):
            kept[key] = {word: "0" if word == "lambdarank_unbiased" else value[word] for word in value}
    return kept


def _base(parameters: Mapping[str, Any]) -> str:
    found = _BASE.fullmatch(str(parameters.get("base_score", "")))
    try:
        if found is None or not np.isfinite(np.float32(found[1])):
            raise ValueError
    except ValueError:
        raise _wrong("its base_score is not one number") from None
    return found[1]


def _version(document: Mapping[str, Any]) -> tuple[int, ...]:
    version = _entry(document, "version", list)
    if len(version) != 3 or not all(type(part) is int and 0 <= part < 1000 for part in version):
        raise _wrong("its version is not three numbers")
    return tuple(version)


def _wrong(what: str) -> ModelFileError:
    return ModelFileError(f"This is not an XGBoost model that can be used: {what}.")
