"""Reading LightGBM's text strictly: what gets past `read_text` is a sound set of trees.

LightGBM's own reader trusts its input: a text with one edited child index can make it loop or read foreign memory, and
one word that is no number ends the process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.deploy.lightgbm_model import (
    CATEGORICAL,
    LEAF_FIELDS,
    MAX_BYTES,
    NODE_FIELDS,
    OPTIONAL,
    TextModel,
    Words,
    unusable,
)

# Lines of the head that are written from the model's own fields.
_OWN_LINES: Final = frozenset(
    {"average_output", "feature_names", "monotone_constraints", "feature_infos", "tree_sizes"},
)
HEADER: Final = _OWN_LINES | {
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "objective",
}
_MAX_WORD = 40
_INTEGER, _NUMBER = b"-0123456789 ", b"+-0123456789.eE infa"
_OBJECTIVE = re.compile(r"[A-Za-z0-9_.:+ -]{0,200}")
_PARAMETER = re.compile(rb"\[[a-z_0-9]+: [^\]\x00]*\]")


def read_text(content: bytes | str) -> TextModel:
    """Parse and check a LightGBM text; a ModelFileError says what is wrong with it."""
    content = content.encode() if isinstance(content, str) else content
    if len(content) > MAX_BYTES:
        raise unusable(f"it is {len(content) / 2**30:.1f} GiB, more than the {MAX_BYTES >> 30} GiB that are read")
    lines, trees, parameters = _sections(content)
    head = _readable(lines)
    n_features = _head_features(head)
    if not trees:
        raise unusable("it holds no tree")
    return _decode(head, trees, parameters, n_features)


def _sections(content: bytes) -> tuple[dict[str, bytes], list[dict[str, bytes]], list[bytes]]:
    """The head, one dictionary of lines a tree, and the parameter lines."""
    lines = content.split(b"\n")
    if lines[0].strip() != b"tree":
        raise unusable("it does not begin with the line 'tree'")
    head: dict[str, bytes] = {}
    trees: list[dict[str, bytes]] = []
    target = head
    for number, line in enumerate(lines[1:], start=2):
        line = line.rstrip(b"\r")
        if line == b"end of trees":
            return head, trees, [line for line in lines[number:] if _PARAMETER.fullmatch(line)]
        if not line.strip():
            continue
        key, _, value = line.partition(b"=")
        name = key.decode("ascii", "replace")
        if name == "Tree":
            if value != b"%d" % len(trees):
                raise unusable(f"line {number} should begin tree {len(trees)}, but says {_show(line)}")
            target = {}
            trees.append(target)
            continue
        if name in target:
            raise unusable(f"line {number} gives '{name}' a second time")
        target[name] = value
    raise unusable("the line 'end of trees' is missing: the file was cut short")


def _readable(lines: Mapping[str, bytes]) -> dict[str, str]:
    try:
        head = {key: value.decode() for key, value in lines.items()}
    except UnicodeDecodeError:
        raise unusable("its head is not UTF-8 text") from None
    for key, value in head.items():
        if not value.isprintable() or (key == "objective" and not _OBJECTIVE.fullmatch(value)):
            raise unusable(f"its line '{key[:60]}' holds something else than words")
    return head


def _head_features(head: Mapping[str, str]) -> int:
    unknown = sorted(set(head) - HEADER)
    if unknown:
        raise unusable(f"its head has the unknown line '{unknown[0][:60]}'")
    for key in ("version", "num_class", "max_feature_idx", "feature_names", "feature_infos"):
        if key not in head:
            raise unusable(f"its head lacks '{key}'")
    if head["version"] not in ("v2", "v3", "v4"):
        raise unusable(f"its version is {_show(head['version'])}, and v2 to v4 are understood")
    if head["num_class"] != "1" or head.get("num_tree_per_iteration", "1") != "1":
        raise unusable("it has several outputs, and a ranker has one")
    n_features = len(head["feature_names"].split(" "))
    if head["max_feature_idx"] != str(n_features - 1):
        raise unusable(f"max_feature_idx is {_show(head['max_feature_idx'])}, but there are {n_features} feature names")
    for key in ("feature_names", "feature_infos", "monotone_constraints"):
        words = head[key].split(" ") if key in head else ["-"] * n_features
        if len(words) != n_features or "" in words:
            raise unusable(f"'{key}' does not have one entry for each of the {n_features} features")
    return n_features


def _decode(
    head: Mapping[str, str], trees: Sequence[Mapping[str, bytes]], parameters: Sequence[bytes], n_features: int
) -> TextModel:
    for number, tree in enumerate(trees):
        if tree.get("is_linear", b"0") != b"0":
            raise unusable(f"tree {number} has linear leaves, which is not supported. Train with linear_tree=False")
    n_leaves = _integers([tree.get("num_leaves", b"") for tree in trees], "num_leaves")
    if len(n_leaves) != len(trees) or (n_leaves < 1).any():
        raise unusable("every tree needs its num_leaves, 1 or more")
    node = _fields(trees, NODE_FIELDS, n_leaves - 1)
    leaf = _fields(trees, LEAF_FIELDS, n_leaves)
    cat_sizes, cat_lengths, cat_words = _categories(trees)
    model = TextModel(
        head={key: head[key] for key in head if key not in _OWN_LINES},
        names=tuple(head["feature_names"].split(" ")),
        infos=tuple(head["feature_infos"].split(" ")),
        monotone=tuple(head["monotone_constraints"].split(" ")) if "monotone_constraints" in head else None,
        average="average_output" in head,
        n_leaves=n_leaves,
        node=node,
        leaf=leaf,
        feature=_whole(node, "split_feature"),
        threshold=_real(node, "threshold"),
        decision=_whole(node, "decision_type"),
        left=_whole(node, "left_child"),
        right=_whole(node, "right_child"),
        value=_real(leaf, "leaf_value"),
        cat_sizes=cat_sizes,
        cat_lengths=cat_lengths,
        cat_words=cat_words,
        shrinkage=tuple(_number(tree.get("shrinkage", b"1"), "shrinkage") for tree in trees),
        parameters=tuple(line.decode(errors="replace") for line in parameters),
    )
    # Words that decide nothing must be numbers all the same: LightGBM ends the process over one that is not.
    for name, words in {**node, **leaf}.items():
        if name in OPTIONAL:
            _convert(words, name, int if name in _WHOLE else float)
    _check_trees(model, n_features)
    return model


def _fields(trees: Sequence[Mapping[str, bytes]], names: Sequence[str], counts: IntArray) -> dict[str, Words]:
    """Field → words of all trees end to end, after checking that each tree has as many as it should."""
    wanted = counts.tolist()
    fields = {}
    for name in names:
        lines = [tree.get(name, b"") for tree in trees]
        if name in OPTIONAL and not any(lines):
            continue
        found = [line.count(b" ") + 1 if line else 0 for line in lines]
        # A tree of one leaf has no weight or count of its own in some versions.
        if found != wanted and not (name in OPTIONAL and _only_stumps_lack(found, wanted)):
            wrong = next(i for i, (have, want) in enumerate(zip(found, wanted)) if have != want)
            raise unusable(f"tree {wrong} should have {wanted[wrong]} entries of '{name}', but has {found[wrong]}")
        filled = [line or b"0" for line, want in zip(lines, wanted) if want]
        fields[name] = _words(b" ".join(filled), name, _INTEGER if name in _WHOLE else _NUMBER)
    return fields


_WHOLE = {"split_feature", "decision_type", "left_child", "right_child", "leaf_count", "internal_count"}


def _only_stumps_lack(found: Sequence[int], wanted: Sequence[int]) -> bool:
    return all(have == want or (have == 0 and want == 1) for have, want in zip(found, wanted))


def _words(line: bytes, name: str, letters: bytes) -> Words:
    if line.translate(None, letters):
        raise unusable(f"'{name}' holds something that is not a number")
    words = line.split(b" ") if line else []
    if words and (b"" in words or max(map(len, words)) > _MAX_WORD):
        raise unusable(f"'{name}' holds an entry that is empty or longer than {_MAX_WORD} characters")
    return np.array(words, dtype=object)


def _convert(words: Words, name: str, dtype: type) -> npt.NDArray:
    try:
        return np.fromiter(map(dtype, words.tolist()), np.dtype(dtype), len(words))
    except (ValueError, OverflowError):
        raise unusable(f"'{name}' holds something that is not a number") from None


def _whole(fields: Mapping[str, Words], name: str) -> IntArray:
    return _convert(_present(fields, name), name, int)


def _real(fields: Mapping[str, Words], name: str) -> npt.NDArray[np.float64]:
    values = _convert(_present(fields, name), name, float)
    # A threshold of infinity is LightGBM's way to part missing values from all others.
    if not (np.isfinite(values).all() if name == "leaf_value" else not np.isnan(values).any()):
        raise unusable(f"'{name}' holds a value that is not a number")
    return values


def _present(fields: Mapping[str, Words], name: str) -> Words:
    return fields[name] if name in fields else np.empty(0, dtype=object)


def _integers(lines: Sequence[bytes], name: str) -> IntArray:
    return _convert(_words(b" ".join(lines), name, _INTEGER), name, int)


def _number(word: bytes, name: str) -> str:
    _convert(_words(word, name, _NUMBER), name, float)
    return word.decode()


def _categories(trees: Sequence[Mapping[str, bytes]]) -> tuple[IntArray, IntArray, IntArray]:
    """(trees,) categorical splits; (splits,) how many words each has; the words, end to end."""
    sizes: list[int] = []
    lengths: list[IntArray] = [np.empty(0, dtype=np.int64)]
    words: list[IntArray] = [np.empty(0, dtype=np.int64)]
    for number, tree in enumerate(trees):
        count = _integers([tree.get("num_cat", b"0")], "num_cat")
        if len(count) != 1 or count[0] < 0:
            raise unusable(f"tree {number} has no sound num_cat")
        sizes.append(int(count[0]))
        if not count[0]:
            continue
        edge = _integers([tree.get("cat_boundaries", b"")], "cat_boundaries")
        word = _integers([tree.get("cat_threshold", b"")], "cat_threshold")
        sound = len(edge) == count[0] + 1 and edge[0] == 0 and edge[-1] == len(word) and (np.diff(edge) > 0).all()
        if not sound or (word < 0).any() or (word >= 1 << 32).any():
            raise unusable(f"the categories of tree {number} (cat_boundaries, cat_threshold) do not fit together")
        lengths.append(np.diff(edge))
        words.append(word)
    return np.array(sizes, dtype=np.int64), np.concatenate(lengths), np.concatenate(words)


def _check_trees(model: TextModel, n_features: int) -> None:
    """Every node's feature, rule and children must exist, and each tree must reach all of its parts exactly once."""
    tree = model.tree_of_node
    place = np.arange(len(tree)) - model.node_offsets[tree]
    leaves = model.n_leaves[tree]

    def refuse(bad: npt.NDArray[np.bool_], what: str) -> None:
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            raise unusable(f"node {place[first]} of tree {tree[first]} {what}")

    refuse((model.feature < 0) | (model.feature >= n_features), f"splits on a feature that is not among {n_features}")
    refuse((model.decision < 0) | (model.decision >= 12), "has an unknown decision_type")
    for child in (model.left, model.right):
        # LightGBM numbers a node after its parent, so this alone rules out circles.
        refuse((child >= leaves - 1) | (child < -leaves), "points outside its tree")
        refuse((child >= 0) & (child <= place), "points back at itself or at a node before it")
    children = np.concatenate([model.left, model.right])
    owner = np.concatenate([tree, tree])
    inner = children >= 0
    met = np.bincount((model.node_offsets[owner] + children)[inner], minlength=len(tree))
    refuse((met != 1) & (place > 0), "does not have exactly one parent")
    leaf = (model.leaf_offsets[owner] + ~children)[~inner]
    if (np.bincount(leaf, minlength=len(model.value))[np.repeat(model.n_leaves > 1, model.n_leaves)] != 1).any():
        raise unusable("a leaf does not have exactly one parent")
    categorical = (model.decision & CATEGORICAL) != 0
    index = model.threshold
    lost = categorical & ((index < 0) | (index >= model.cat_sizes[tree]) | (index != np.floor(index)))
    refuse(lost, "names categories that its tree does not have")


def _show(word: bytes | str) -> str:
    return repr(word[:60] if isinstance(word, str) else word[:60].decode(errors="replace"))
