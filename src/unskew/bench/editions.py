"""Editions: which state of the methods and of the simulator a number comes from.

A change that moves numbers begins a new edition: a line here. Units whose numbers it moves are done again when their
experiment is run again, and RESULTS.md says of every chapter which edition it is of, so that nothing is compared across
two of them unawares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unskew.bench.scales import SELF_TUNED
from unskew.bench.units import Unit

EDITIONS: Mapping[int, str] = {
    1: "as everything was run at first",
    2: "simulated logs are drawn anew, their production ranker being solved exactly, and full-cfc (so default too) is "
    "cautious under strong production rankers",
    3: "the trees of full-cfc see an item once, wherever it stood; this moves numbers only where items were moved",
    4: "full-cfc tries larger trees where its small ones are still learning at their last round, on larger logs",
    5: "shift is where an item usually stood, beside the single moves where nothing tells examination; this moves "
    "default, and full-cfc with shift, where items were moved",
    6: "the Φ of full-cfc is T less T(0), so that it holds no relevance, and default takes half of the position effect "
    "where relevance runs against the production ranker; this moves full-cfc with Φ, and default where Φ was found, "
    "moved items refuted the model, or a common cause moved items and clicks",
}
EDITION = max(EDITIONS)


def edition_of(record: Mapping[str, Any]) -> int:
    """The edition that a unit's record or a chapter's facts name; those without one are of the first.

    >>> edition_of({}), edition_of({"edition": 2})
    (1, 2)
    """
    return int(record.get("edition", 1))


def last_moved(unit: Unit, record: Mapping[str, Any]) -> int:
    """The last edition that moved the numbers of a unit with this record: one of that edition is as good as new."""
    of_clicks = unit.method in SELF_TUNED or unit.kind == "referee"
    terms = dict(unit.options).get("terms")
    shocked = unit.method == "default" and unit.cell.shock > 0
    if unit.kind == "referee" or terms in ("phi", "auto") or shocked or _decided_otherwise(record):
        return 6
    if unit.cell.moves_items and (unit.method == "default" or terms == "shift"):
        return 5
    if of_clicks and _still_learning(record):
        return 4
    return 3 if of_clicks and unit.cell.moves_items else 2


def _still_learning(record: Mapping[str, Any]) -> bool:
    """Whether small trees had not stopped by themselves before their 300 rounds were over."""
    trees = (record.get("learnt") or {}).get("trees") or {}
    return trees.get("alone", 0) >= 300 - 20


def _decided_otherwise(record: Mapping[str, Any]) -> bool:
    """Whether the referee may have come to something else: Φ was found, or moved items refuted the model."""
    verdict = (record.get("learnt") or {}).get("referee") or {}
    refuted = (verdict.get("interventions") or {}).get("refuted", False)
    return refuted or any(one["found"] and "Φ" in one["name"] for one in verdict.get("specifications", ()))
