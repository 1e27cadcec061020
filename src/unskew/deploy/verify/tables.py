"""Trees as flat tables, and rows walked through them; shared by the readers, and by nothing that writes exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ModelFileError

Rows = npt.NDArray[np.float32]
# (values, limits, where a missing value goes) → whether each value takes the first way
Rule = Callable[[npt.NDArray, npt.NDArray, npt.NDArray], npt.NDArray[np.bool_]]


@dataclass
class Table:
    """The nodes of all trees, one entry each; first and second are the two ways on, -1 at leaves."""

    feature: list[int] = field(default_factory=list)
    limit: list[float] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    second: list[int] = field(default_factory=list)
    missing_first: list[bool] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)

    def leaf(self, value: float) -> int:
        return self._add(0, 0.0, False, value)

    def split(self, feature: int, limit: float, missing_first: bool = False) -> int:
        return self._add(feature, limit, missing_first, 0.0)

    def _add(self, feature: int, limit: float, missing_first: bool, value: float) -> int:
        self.feature.append(feature)
        self.limit.append(limit)
        self.first.append(-1)
        self.second.append(-1)
        self.missing_first.append(missing_first)
        self.value.append(value)
        return len(self.feature) - 1

    def outputs(self, rows: Rows, rule: Rule, dtype: type = np.float32) -> Iterator[npt.NDArray]:
        """For every tree in turn, (n,) the leaf values that the rows end in."""
        feature, first, second = (
            np.array(column, dtype=np.int64) for column in (self.feature, self.first, self.second)
        )
        limit: npt.NDArray = np.array(self.limit, dtype)
        value: npt.NDArray = np.array(self.value, dtype)
        missing = np.array(self.missing_first, dtype=bool)
        for root in self.roots:
            place = np.full(len(rows), root)
            going = np.arange(len(rows)) if first[root] >= 0 else np.empty(0, np.int64)
            while going.size:
                node = place[going]
                takes_first = rule(rows[going, feature[node]], limit[node], missing[node])
                place[going] = np.where(takes_first, first[node], second[node])
                going = going[first[place[going]] >= 0]
            yield value[place]


def build(table: Table, document: Any, read: Callable[[Any], tuple[int, tuple[Any, Any] | None]]) -> int:
    """Add a nested tree to the table: read(node) adds one node and gives its entry and its two children, or None."""
    root = -1
    todo: list[tuple[Any, int, bool]] = [(document, -1, True)]
    while todo:
        node, parent, is_first = todo.pop()
        entry, children = read(node)
        if parent < 0:
            root = entry
        elif is_first:
            table.first[parent] = entry
        else:
            table.second[parent] = entry
        if children is not None:
            todo += [(children[1], entry, False), (children[0], entry, True)]
    table.roots.append(root)
    return root


def number(value: Any, what: str) -> float:
    """A finite number from JSON, or a ModelFileError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e308:
        raise ModelFileError(f"{what} must be a number, but is {str(value)[:40]!r}.")
    return float(value)


def add_float32(outputs: Iterator[npt.NDArray], n_rows: int) -> npt.NDArray[np.float64]:
    """The sum as a float32 engine keeps it: rounded after every tree."""
    total = np.zeros(n_rows, dtype=np.float32)
    for output in outputs:
        total += output
    return total.astype(np.float64)
