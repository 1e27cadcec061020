"""A unit of work: one method, fitted to one log with one setting, tested on one fold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

from unskew._options import Preset, TuneOn
from unskew.bench.cells import Cell
from unskew.bench.experiments import Kind

Pairs = tuple[tuple[str, Any], ...]
# Part of every key: results of another way of counting, or under other defaults, must not be taken for this one's.
FORMAT = 2


@dataclass(frozen=True)
class Unit:
    """Everything that decides a unit's result, and nothing else: equal units have equal results.

    data : fingerprint of the collection.
    options : settings of the method; net : settings of a neural net; both as sorted pairs.
    rates : learning rates to try; empty leaves them to the preset.
    average : the score is the mean of so many models, each fitted without a part of the log's queries.
    """

    data: str
    cell: Cell
    fold: int
    seed: int
    method: str
    ranker: str
    kind: Kind = "ranking"
    tune_on: TuneOn = "grades"
    preset: Preset = "default"
    options: Pairs = ()
    rates: tuple[float, ...] = ()
    net: Pairs = ()
    average: int = 1

    @cached_property
    def key(self) -> str:
        """The name of the unit's files: readable, and unique by its content.

        >>> Unit("abc", Cell(), 0, 0, "cfc", "lambdamart").key
        'cfc-lambdamart-f0-s0-e9f0ae3ebfdd'
        """
        # What a cell leaves at its default is left out: a setting that is new one day does not change old keys.
        known = {**self.to_dict(), "cell": self.cell.changed()}
        text = json.dumps({"format": FORMAT, **known}, sort_keys=True, ensure_ascii=False)
        digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        return f"{self.method}-{self.ranker}-f{self.fold}-s{self.seed}-{digest}"

    @property
    def group(self) -> tuple[Cell, int, int]:
        """Units of a group share their log."""
        return self.cell, self.fold, self.seed

    @property
    def said(self) -> str:
        """For progress: what it is, in few words."""
        return f"{self.method}/{self.ranker} {self.cell.said} fold {self.fold + 1} seed {self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        plain = {name: getattr(self, name) for name in _FIELDS}
        return {**plain, "cell": self.cell.settings(), "options": dict(self.options), "net": dict(self.net)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        given = {name: value for name, value in values.items() if name in _FIELDS}
        cell = {**given["cell"], "landmarks": tuple(given["cell"]["landmarks"])}
        return cls(
            **{
                **given,
                "cell": Cell(**cell),
                "rates": tuple(given["rates"]),
                "options": pairs(given["options"]),
                "net": pairs(given["net"]),
            }
        )


_FIELDS = tuple(field.name for field in fields(Unit))


def pairs(values: Mapping[str, Any]) -> Pairs:
    """A mapping as sorted pairs, lists as tuples, so that it can be hashed.

    >>> pairs({"b": [1, 2], "a": 0})
    (('a', 0), ('b', (1, 2)))
    """
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in sorted(values.items()))
