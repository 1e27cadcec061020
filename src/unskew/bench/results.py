"""RESULTS.md: what came out, which claims hold, what that means for a user, and every table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from unskew.bench.claims import Finding, findings
from unskew.bench.formats import markdown
from unskew.bench.grids import grids, percent
from unskew.bench.looks import METRIC
from unskew.bench.outcomes import Outcome
from unskew.bench.tables import Row, rows

_MARKS = {"holds": "**holds**", "does not hold": "**does not hold**", "cannot be told": "cannot be told"}


def results(outcomes: Sequence[Outcome]) -> str:
    """The page, as Markdown. The same runs give the same bytes."""
    tables = [(outcome, rows(outcome)) for outcome in outcomes]
    found = findings(list(outcomes))
    parts = [
        "# Results",
        "What `unskew bench` came to, written by `unskew bench results`. Do not edit: run it again.",
        "## In short",
        *_short(tables, found),
        "## The claims, one by one",
        "A claim *holds* where the difference is significant in every case it speaks of, and *does not hold* where the "
        "opposite is significant in one of them (Fisher's randomisation test over test queries, p < 0.05 after Holm's "
        "correction over the cases of the claim; the p shown are before it).",
        _claims(found),
        "## What was run",
        _runs(outcomes),
        "## Tables",
        *(markdown(grid) for outcome, own in tables for grid in grids(outcome, own)),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _short(tables: Sequence[tuple[Outcome, list[Row]]], found: Sequence[Finding]) -> list[str]:
    lines = []
    count = Counter(finding.verdict for finding in found)
    lines.append(
        f"Of {len(found)} claims looked at, {count['holds']} hold, {count['does not hold']} do not, and "
        f"{count['cannot be told']} cannot be told from these data."
    )
    for outcome, own in tables:
        if outcome.plan.experiment == "rq1":
            lines.append("\n".join(_headline(outcome, own)))
    advice = dict.fromkeys(
        f"- {finding.means} ({finding.experiment}, {finding.data})" for finding in found if finding.means
    )
    return [*lines, "For a user:\n\n" + "\n".join(advice)] if advice else lines


def _headline(outcome: Outcome, own: Sequence[Row]) -> list[str]:
    """Who closed most of the gap, and how much the published method did."""
    said = []
    for ranker in dict.fromkeys(row["ranker"] for row in own):
        mine = [r for r in own if r["ranker"] == ranker and r["metric"] == METRIC and r["gap_closed"] is not None]
        if not mine:
            continue
        best = max(mine, key=lambda row: row["gap_closed"])
        cfc = next((row for row in mine if row["method"] == "cfc"), None)
        text = (
            f"- {outcome.plan.data}, {ranker}: {best['method']} closes most of the {METRIC.upper()} gap, {_gap(best)}"
        )
        said.append(text + (f"; cfc closes {_gap(cfc)}." if cfc is not None and cfc is not best else "."))
    return said


def _gap(row: Row) -> str:
    return f"{percent(row['gap_closed'])} ({percent(row['gap_low'])} to {percent(row['gap_high'])})"


def _claims(found: Sequence[Finding]) -> str:
    lines = [
        "| claim | asked by | data | verdict | evidence (NDCG@10 unless said) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for finding in found:
        cells = (finding.claim, finding.experiment, finding.data, _MARKS[finding.verdict], finding.evidence)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _runs(outcomes: Sequence[Outcome]) -> str:
    lines = [
        "| experiment | data | preset | folds | seeds | units | missing |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for outcome in outcomes:
        plan = outcome.plan
        seeds = ", ".join(map(str, plan.seeds))
        cells = (plan.experiment, plan.data, plan.preset, plan.folds, seeds, len(plan.units), outcome.missing)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    made_with = sorted({_versions(outcome) for outcome in outcomes if _versions(outcome)})
    lines += ["", "Made with " + "; ".join(made_with) + "."] if made_with else []
    return "\n".join(lines)


def _versions(outcome: Outcome) -> str:
    done = next((unit for unit in outcome.plan.units if outcome.store.is_done(unit)), None)
    if done is None:
        return ""
    return ", ".join(f"{name} {number}" for name, number in outcome.store.record(done)["versions"].items())
