"""Reads LightGBM's text by its documented rule; and runs LightGBM itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from unskew.deploy.verify.tables import Rows
from unskew.errors import ModelFileError

_ZERO = float(np.float32(1e-35))


def score(content: bytes, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    """Scores in float64: left iff value <= threshold; decision_type says what counts as missing and where it goes."""
    head, *trees = content.decode("utf-8", "replace").split("\nTree=")
    average = "\naverage_output" in head
    total = np.zeros(len(rows))
    try:
        for tree in trees:
            lines = dict(line.split("=", 1) for line in tree.split("\n\n")[0].splitlines()[1:])
            total += _tree(lines, rows.astype(np.float64))
    except (KeyError, ValueError, IndexError, OverflowError) as error:
        raise ModelFileError(f"A tree of the text cannot be read: {type(error).__name__} {error}.") from None
    if not trees or not np.isfinite(total).all():
        raise ModelFileError("The text holds no trees, or scores that are not finite.")
    return total / len(trees) if average else total


def run(content: bytes, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    """Scores by LightGBM itself, of the text after it was checked: LightGBM trusts what it reads."""
    import lightgbm

    from unskew.deploy.lightgbm_text import only_scores, read_text, write_text

    model = read_text(content)
    if len(model.names) != len(names):
        raise ModelFileError(f"The model takes {len(model.names)} features, but the parity file has {len(names)}.")
    try:
        booster = lightgbm.Booster(model_str=write_text(only_scores(model)).decode())
    except lightgbm.basic.LightGBMError as error:
        raise ModelFileError(f"LightGBM refused the model: {error}.") from None
    raw = np.asarray(booster.predict(rows, raw_score=True), dtype=np.float64)
    return raw / model.n_trees if model.average else raw


def _tree(lines: dict[str, str], rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    value = np.array(lines["leaf_value"].split(), dtype=np.float64)
    if len(value) == 1:
        return np.full(len(rows), value[0])
    feature, left, right, decision = (
        np.array(lines[key].split(), dtype=np.int64)
        for key in ("split_feature", "left_child", "right_child", "decision_type")
    )
    threshold = np.array(lines["threshold"].split(), dtype=np.float64)
    # A node comes after its parent; a way that leads back would be walked for as long as the file is.
    for child in (left, right):
        if ((child >= 0) & (child <= np.arange(len(feature)))).any():
            raise ValueError("a node points back at itself or at a node before it")
    node = np.zeros(len(rows), dtype=np.int64)
    for _ in range(len(feature)):  # no way down is longer than there are splits
        going = np.flatnonzero(node >= 0)
        if not going.size:
            break
        here = node[going]
        takes_left = _left(rows[going, feature[here]], threshold[here], decision[here], lines)
        node[going] = np.where(takes_left, left[here], right[here])
    if (node >= 0).any():
        raise ValueError("a way down has no end")
    return value[~node]


def _left(
    x: npt.NDArray[np.float64], threshold: npt.NDArray[np.float64], decision: npt.NDArray, lines: dict[str, str]
) -> npt.NDArray[np.bool_]:
    kind, default = (decision >> 2) & 3, (decision & 2) > 0
    # Values within 1e-35 of zero reach the trees as zero.
    known = np.where((np.isnan(x) & (kind != 2)) | (np.abs(x) <= _ZERO), 0.0, x)
    absent = np.where(kind == 1, np.abs(known) <= _ZERO, (kind == 2) & np.isnan(known))
    left = np.where(absent, default, known <= threshold)
    for place in np.flatnonzero(decision & 1):
        edges = [int(word) for word in lines["cat_boundaries"].split()]
        words = [int(word) for word in lines["cat_threshold"].split()][
            edges[int(threshold[place])] : edges[int(threshold[place]) + 1]
        ]
        sound = bool(-1 < x[place] < 32 * len(words))
        left[place] = sound and words[int(x[place]) // 32] >> (int(x[place]) % 32) & 1 == 1
    return left
