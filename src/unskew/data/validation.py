"""Every check on a log at once, without building it: what `unskew validate` shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.data.checks import Check, Rows, Status
from unskew.data.columns import LogColumns
from unskew.data.feature_columns import (
    ColumnFacts,
    by_table_row,
    changing_check,
    column_blocks,
    constant_check,
    copy_words,
    differs,
    facts_of,
    feature_names,
    is_copy,
    name_checks,
    value_checks,
)
from unskew.data.keys import LogKeys, raw_columns, read_keys
from unskew.data.log_checks import observations, structure_checks
from unskew.data.pairs import locate, read_pairs
from unskew.data.tables import Table, open_table
from unskew.data.written import complete


@dataclass(frozen=True)
class Validation:
    """The outcome of all checks on a log.

    checks : in the order they were made; what depends on something that failed was not looked at.
    summary : impressions, sessions, queries, items, clicks, features, as far as they could be counted.
    """

    checks: tuple[Check, ...]
    summary: dict[str, int] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """FAIL if any check failed, else WARN if any warned, else PASS."""
        found = {check.status for check in self.checks}
        return "FAIL" if "FAIL" in found else "WARN" if "WARN" in found else "PASS"

    def __getitem__(self, name: str) -> Check:
        """The check of that name; where it was made on both tables, the one that came off worse."""
        matching = [check for check in self.checks if check.name == name]
        if not matching:
            raise KeyError(f"There was no check '{name}'. The checks were: {', '.join(c.name for c in self.checks)}.")
        return max(matching, key=lambda check: ("PASS", "WARN", "FAIL").index(check.status))


class _Collector:
    """A judge that writes everything down and stops the work where going on makes no sense."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def __call__(self, checks: Iterable[Check]) -> bool:
        made = list(checks)
        self.checks += made
        return all(check.status != "FAIL" for check in made)


def validate_log(source: Any, *, feature_table: Any = None, columns: LogColumns | None = None) -> Validation:
    """All checks on a log (a frame or a path): those that the reader enforces, and what is worth knowing besides.

    The features pass through a few columns at a time, so a log larger than memory can be looked at too.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"query_id": ["q"] * 2, "session_id": [7] * 2, "item_id": ["b", "a"],
    ...                       "position": [0, 1], "click": [0, 1], "bm25": [0.5, 0.25]})
    >>> outcome = validate_log(frame)
    >>> outcome.status, outcome["position: 1 or greater"].message
    ('FAIL', "position must be 1 or greater, but 1 row has 0 (first: query 'q', item 'b').")
    """
    table = open_table(source)
    second = table if feature_table is None else open_table(feature_table)
    settings = complete(columns or LogColumns(), table, second)
    judge, summary = _Collector(), {}
    keys = read_keys(table, settings, judge)
    if keys is not None:
        summary = _counts(keys)
        if judge(structure_checks(keys)):
            judge(observations(keys))
    if second is not table:
        _check_keys(keys, second, settings, judge)
    if not settings.lacking(table) and table.height and second.height:
        summary["features"] = _check_features(second, settings, keys if second is table else None, judge)
    return Validation(tuple(judge.checks), summary)


def _counts(keys: LogKeys) -> dict[str, int]:
    return {
        "impressions": len(keys),
        "sessions": len(keys.session),
        "queries": len(keys.query),
        "items": len(keys.pairs[0]),
        "clicks": int(keys.counted.sum()),
    }


def _check_keys(keys: LogKeys | None, second: Table, columns: LogColumns, judge: _Collector) -> None:
    def named(checks: Iterable[Check]) -> bool:
        """Both tables have rows, columns and ids: the names of the checks say which one is meant."""
        return judge(replace(check, name=f"features file: {check.name}") for check in checks)

    pairs = read_pairs(second, columns, named, keyed=True)
    if keys is None or pairs is None:
        return
    query, item = keys.pair_ids()
    locate(query, item, pairs.typed_like(query, item), second, judge)


def _check_features(table: Table, columns: LogColumns, keys: LogKeys | None, judge: _Collector) -> int:
    names = feature_names(table, columns)
    if not judge(name_checks(table, columns, names)):
        return len(names)
    facts: list[ColumnFacts] = []
    copies: list[tuple[str, str]] = []
    changing: str | None = None
    known = {} if keys is None else _known(keys)
    places = None if keys is None else by_table_row(keys.source_row, *keys.pairs)
    for start, block in column_blocks(table, names):
        for place, values in enumerate(block):
            name = names[start + place]
            facts.append(facts_of(name, values))
            copies += [(name, what) for what, column in known.items() if is_copy(values, column)]
            if places is not None and changing is None and differs(values, values[places[0]][places[1]]):
                changing = name
    rows = Rows(lambda: raw_columns(table, columns, "query", "item"))
    if judge(value_checks(facts, rows, columns.missing)):
        judge([constant_check(facts), _copy_check(copies), changing_check(changing)])
    return len(names)


def _known(keys: LogKeys) -> dict[str, npt.NDArray[np.float32]]:
    """What a feature must not be a copy of, in the order of the table."""
    known = {}
    for what, values in (("position", keys.position), ("click", keys.click), ("relevance", keys.grade)):
        if values is not None and values.min() < values.max():
            known[what] = np.empty(len(keys), dtype=np.float32)
            known[what][keys.source_row] = values
    return known


def _copy_check(copies: list[tuple[str, str]]) -> Check:
    """A feature that repeats what is to be predicted or corrected for is not known when a model ranks."""
    if not copies:
        return Check("features: no copies", "PASS")
    name, what = copies[0]
    message = copy_words(name, what)
    rows = tuple({"column": name, "copy_of": what} for name, what in copies)
    hint = "Leave it out: choose the columns with {features=['a', 'b']}."
    return Check("features: no copies", "WARN", message, len(copies), rows, hint)
