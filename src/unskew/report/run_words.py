"""What came out of an experiment, in two sentences of plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unskew._words import percent
from unskew.bench.experiments import knows_more
from unskew.report.run_figures import HEADLINE
from unskew.report.words import count, gap_words, listed, number

Row = Mapping[str, Any]
PAPER = "cfc"
REFERENCES = ("naive", "oracle")


def answer(rows: Sequence[Row], *, kind: str = "ranking") -> tuple[str, ...]:
    """Two sentences about the rows of one experiment on one data set."""
    if kind == "residuals":
        return _residuals(rows)
    if kind != "ranking":
        return _values(rows)
    kept = [row for row in rows if row["metric"] == HEADLINE]
    contest = [row for row in kept if not knows_more(row["method"])]
    if not contest:
        return ("Nothing has been measured yet.",)
    settings = list(dict.fromkeys(row["setting"] for row in contest))
    found = [_one_setting(kept, contest) if len(settings) == 1 else _settings(contest, settings)]
    paper = _paper(contest, best=max(contest, key=lambda row: row["mean"]), several=len(settings) > 1)
    return (*found, paper) if paper else tuple(found)


def _one_setting(kept: Sequence[Row], contest: Sequence[Row]) -> str:
    best = max(contest, key=lambda row: row["mean"])
    methods = {row["method"] for row in contest}
    said = (
        f"Of {count(len(methods), 'method')} that learn from clicks, {best['method']} with {best['ranker']} "
        f"ranks best: its NDCG@10 is {number(best['mean'], '.3f')}"
    )
    ends = {
        row["method"]: row["mean"] for row in kept if row["ranker"] == best["ranker"] and row["method"] in REFERENCES
    }
    if best["method"] == "naive":
        return f"{said}; no correction did better than the clicks as they are."
    if "naive" in ends and "oracle" in ends:
        said += f", between {number(ends['naive'], '.3f')} (naive) and {number(ends['oracle'], '.3f')} (oracle)"
    if best.get("gap_closed") is not None:
        said += f", {gap_words(best['gap_closed'], best['gap_low'], best['gap_high'])}"
    return f"{said}."


def _settings(contest: Sequence[Row], settings: Sequence[str]) -> str:
    best = {setting: max(_at(contest, setting), key=lambda row: row["mean"]) for setting in settings}
    winners = {setting: f"{row['method']} with {row['ranker']}" for setting, row in best.items()}
    names = list(dict.fromkeys(winners.values()))
    closed = _range([row["gap_closed"] for row in best.values()])
    if len(names) == 1:
        return f"In all {len(settings)} settings {names[0]} ranks best" + (
            f": it closes {closed} of the gap." if closed else "."
        )
    parts = [f"{name} ({listed([s for s in settings if winners[s] == name])})" for name in names]
    return f"Which method ranks best depends on the setting: {listed(parts)}."


def _paper(contest: Sequence[Row], *, best: Row, several: bool) -> str:
    """What became of the paper's method."""
    mine = [row for row in contest if row["method"] == PAPER]
    if not mine:
        return ""
    known = [row for row in mine if row["gap_closed"] is not None]
    if best["method"] == PAPER and not several:
        sure = best.get("p") is not None and best["p"] < 0.05
        return f"The paper's method is the best here, and its lead over {best.get('rival') or 'the next'} is " + (
            f"more than chance (p = {best['p']:.2g})." if sure else "no more than chance may give."
        )
    if not known:
        return ""
    said = f"The paper's method, {PAPER}, closes"
    if several:
        return f"{said} {_range([row['gap_closed'] for row in known])} of the gap."
    row = max(known, key=lambda row: row["mean"])
    interval = f" (95 % interval {percent(row['gap_low'])} to {percent(row['gap_high'])})"
    return f"{said} {percent(row['gap_closed'])} of the gap with {row['ranker']}{interval}."


def _residuals(rows: Sequence[Row]) -> tuple[str, ...]:
    explained = [row["mean"] for row in rows if row["metric"] == "r2"]
    spread = [row["mean"] for row in rows if row["metric"] == "features with changing spread"]
    if not explained:
        return ("Nothing has been measured yet.",)
    first = (
        f"The features explain {_range(explained)} of the rank's variance; the rest is what the correction works with."
    )
    if not spread:
        return (first,)
    holds = "holds" if min(spread) > 0 else "does not hold everywhere"
    return first, (
        f"The residuals' spread changes with {_range(spread)} of the features, so the condition that identifies the "
        f"correction {holds}."
    )


def _values(rows: Sequence[Row]) -> tuple[str, ...]:
    """For an experiment that measures numbers of its own: how much of it there is; the table says the rest."""
    if not rows:
        return ("Nothing has been measured yet.",)
    settings = {row["setting"] for row in rows}
    names = list(dict.fromkeys(row["metric"] for row in rows))
    return (f"Measured in {count(len(settings), 'setting')}: {listed(names)}; the table has the numbers.",)


def _range(shares: Sequence[float | None]) -> str:
    known = [share for share in shares if share is not None]
    if not known:
        return ""
    low, high = percent(min(known)), percent(max(known))
    return low if low == high else f"{low} to {high}"


def _at(rows: Sequence[Row], setting: str) -> list[Row]:
    return [row for row in rows if row["setting"] == setting]
