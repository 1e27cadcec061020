"""Reads RankLib's XML ensembles by RankLib's rule."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.deploy.verify.tables import Rows, Table, build
from unskew.errors import ModelFileError


def score(content: bytes, names: Sequence[str], rows: Rows) -> npt.NDArray[np.float64]:
    """Scores by RankLib's rule: float32, left iff value <= threshold, missing is 0; `names` in the engine's order."""
    table, weights = Table(), []
    for tree in _ensemble(content):
        if tree.tag != "tree" or len(tree) != 1:
            raise ModelFileError("An ensemble holds trees of one root each.")
        weights.append(np.float32(_float(tree.get("weight"))))
        build(table, tree[0], lambda node: _node(table, node, len(names)))
    if not weights:
        raise ModelFileError("The ensemble has no trees.")
    seen = np.where(np.isnan(rows), np.float32(0), rows)
    total = np.zeros(len(rows), dtype=np.float32)
    for weight, output in zip(weights, table.outputs(seen, lambda value, threshold, _: value <= threshold)):
        # RankLib multiplies in double and keeps the sum in float.
        total = (total.astype(np.float64) + output.astype(np.float64) * float(weight)).astype(np.float32)
    return total.astype(np.float64)


def _ensemble(content: bytes) -> Any:
    # In another encoding "<!" would look otherwise, so only the one that RankLib writes is read.
    if not _is_utf8(content) or b"<?" in content or b"\x00" in content:
        raise ModelFileError("The ensemble must be plain UTF-8 text without an XML declaration.")
    if b"<!" in content:
        raise ModelFileError("The XML declares entities or a document type, which RankLib models do not have.")
    body = b"\n".join(line for line in content.splitlines() if not line.startswith(b"#"))
    try:
        root = xml.fromstring(body)
    except (xml.ParseError, ValueError, LookupError) as error:
        raise ModelFileError(f"The ensemble is not XML: {error}.") from None
    if root.tag != "ensemble":
        raise ModelFileError("The XML must hold an <ensemble>.")
    return root


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _node(table: Table, node: Any, n_features: int) -> tuple[int, tuple[Any, Any] | None]:
    tags = [child.tag for child in node]
    if tags == ["output"]:
        return table.leaf(_float(node[0].text)), None
    if tags != ["feature", "threshold", "split", "split"]:
        raise ModelFileError("A split holds an output, or a feature, a threshold and two splits.")
    if [child.get("pos") for child in (node[2], node[3])] != ["left", "right"]:
        raise ModelFileError("The two ways of a split must be left and right.")
    word = (node[0].text or "").strip()
    if not word.isascii() or not word.isdigit() or len(word) > 9 or not 1 <= int(word) <= n_features:
        raise ModelFileError(f"A split asks for the feature {word[:20]!r}, but there are {n_features}.")
    return table.split(int(word) - 1, _float(node[1].text)), (node[2], node[3])


def _float(word: str | None) -> float:
    try:
        value = float((word or "").strip()) if "_" not in (word or "_") else float("nan")
    except ValueError:
        value = float("nan")
    if not np.isfinite(np.float32(value)):
        raise ModelFileError(f"{(word or '')[:40]!r} is not a float32.")
    return value
