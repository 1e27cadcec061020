"""RESULTS.md: data set by data set what came out and which claims hold there, and what that means for a user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unskew.bench.claims import SIDES, Finding, findings, unanswered
from unskew.bench.claims_list import CLAIMS
from unskew.bench.experiments import EXPERIMENTS, RANKERS
from unskew.bench.formats import markdown
from unskew.bench.grids import Grid, grids, percent
from unskew.bench.looks import METRIC
from unskew.bench.outcomes import Outcome
from unskew.bench.results_advice import advice
from unskew.bench.tables import Row, rows
from unskew.bench.tables_times import time_grid, times

_MARKS = {"holds": "**holds**", "does not hold": "**does not hold**", "cannot be told": "cannot be told"}
_OWNERS = {"paper": "The paper's claims", "ours": "Claims of ours"}
# Experiments whose times are part of the story.
_TIMED = ("rq1",)
_HOW = (
    "A claim *holds* where the difference is significant in every case it speaks of, *does not hold* where the "
    "opposite is significant in one of them, and otherwise *cannot be told* from these data (Fisher's randomisation "
    "test over test queries, p < 0.05 after Holm's correction over the cases of the claim; the p shown are before "
    "it). A case is *open* where chance may explain its difference. That two things are alike is judged by the "
    "interval of their difference. Numbers are NDCG@10 unless said; the best rival is the best on these test queries, "
    "which favours it."
)


@dataclass(frozen=True, eq=False)
class Part:
    """One experiment on one data set: its rows, and what it says about the claims. name : as headings have it."""

    outcome: Outcome
    table: list[Row]
    found: list[Finding]
    name: str


def results(outcomes: Sequence[Outcome]) -> str:
    """The page, as Markdown. The same runs give the same bytes."""
    parts = _parts(outcomes)
    found = [finding for part in parts for finding in part.found]
    blocks = [
        "# Results",
        "What `unskew bench` came to, written by `unskew bench results`. Do not edit: run it again.",
        "## In short",
        *_short(parts, found),
        "## What was run",
        _runs(outcomes),
        *_missing(outcomes),
        "## The claims at a glance",
        _HOW,
        _claims(found),
        *(block for data in _data(parts) for block in _section(data, parts)),
        "## What this means for a user",
        *advice([(part.outcome, part.table) for part in parts], found),
    ]
    return "\n\n".join(block.strip() for block in blocks if block.strip()) + "\n"


def _parts(outcomes: Sequence[Outcome]) -> list[Part]:
    """Data sets together, in the order of the runs; an experiment that comes twice is numbered."""
    data = list(dict.fromkeys(outcome.plan.data for outcome in outcomes))
    found = []
    seen: Counter[tuple[str, str]] = Counter()
    for outcome in sorted(outcomes, key=lambda outcome: data.index(outcome.plan.data)):
        key = outcome.plan.experiment, outcome.plan.data
        seen[key] += 1
        name = key[0] if seen[key] == 1 else f"{key[0]}, run {seen[key]}"
        found.append(Part(outcome, rows(outcome), findings([outcome]), name))
    return found


def _data(parts: Sequence[Part]) -> list[str]:
    return list(dict.fromkeys(part.outcome.plan.data for part in parts))


# In short


def _short(parts: Sequence[Part], found: Sequence[Finding]) -> list[str]:
    lines = []
    for owner, title in _OWNERS.items():
        mine = [finding for finding in found if finding.of == owner]
        count = Counter(finding.verdict for finding in mine)
        if mine:
            lines.append(
                f"- {title}: {len(mine)} looked at; {count['holds']} hold, {count['does not hold']} do not, "
                f"{count['cannot be told']} cannot be told from these data."
            )
    for part in parts:
        if part.outcome.plan.experiment == "rq1":
            lines += _headline(part.outcome, part.table)
    smoke = any(part.outcome.plan.preset == "smoke" for part in parts)
    warning = ["These are smoke runs: they show that everything works, their numbers mean nothing."] if smoke else []
    return [*warning, "\n".join(lines)]


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


# What was run, and what was not


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


def _missing(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Experiments with claims that nobody ran, by data set."""
    asked = {claim.experiment for claim in CLAIMS}
    lines = []
    for data in dict.fromkeys(outcome.plan.data for outcome in outcomes):
        there = {outcome.plan.experiment for outcome in outcomes if outcome.plan.data == data}
        left = [name for name in EXPERIMENTS if name in asked and name not in there]
        if left:
            needs = [name for name in left if EXPERIMENTS[name].needs_log]
            why = f" ({', '.join(needs)} needs a real click log)" if needs else ""
            lines.append(f"- {data}: {', '.join(left)}{why}")
    if lines:
        yield "Not run, so that nothing is said about them:\n\n" + "\n".join(lines)


def _versions(outcome: Outcome) -> str:
    done = next((unit for unit in outcome.plan.units if outcome.store.is_done(unit)), None)
    if done is None:
        return ""
    return ", ".join(f"{name} {number}" for name, number in outcome.store.record(done)["versions"].items())


# The claims


def _claims(found: Sequence[Finding]) -> str:
    lines = ["| claim | asked by | data | verdict |", "| --- | --- | --- | --- |"]
    for finding in found:
        cells = (finding.claim, finding.experiment, finding.data, _MARKS[finding.verdict])
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) if found else "None of the claims can be looked at with what was run."


def _section(data: str, parts: Sequence[Part]) -> Iterator[str]:
    yield f"## {data}"
    for part in parts:
        if part.outcome.plan.data == data:
            yield f"### {part.name} on {data}: {part.outcome.plan.asks}"
            shown = _grids(part)
            yield from map(markdown, shown)
            if not shown:
                yield "Nothing was measured: none of its units is done."
            yield from _verdicts(part)


def _grids(part: Part) -> list[Grid]:
    found = grids(part.outcome, part.table)
    if part.outcome.plan.experiment in _TIMED:
        timed = time_grid(part.outcome, times(part.outcome))
        found += [] if timed is None else [timed]
    return found


def _verdicts(part: Part) -> Iterator[str]:
    for owner, title in _OWNERS.items():
        mine = [finding for finding in part.found if finding.of == owner]
        if mine:
            yield f"**{title}**"
            yield "\n".join(line for finding in mine for line in _finding(finding))
    left = unanswered(part.outcome, part.found)
    if left:
        yield "Not looked at, as what they compare was not run: " + " ".join(left)


def _finding(finding: Finding) -> Iterator[str]:
    notes = [note for note in (finding.tally, _one_ranker(finding)) if note]
    yield f"- **{finding.verdict.capitalize()}:** {finding.claim}" + (f" ({'; '.join(notes)})" if notes else "")
    for text, verdict in finding.cases:
        side = f": {SIDES[verdict]}" if len(finding.cases) > 1 else ""
        yield f"  - {text}{side}"


def _one_ranker(finding: Finding) -> str:
    """A claim about both rankers that was looked at with one of them says so."""
    there = [ranker for ranker in RANKERS if ranker in finding.by_ranker]
    return f"run with {there[0]} only" if "both rankers" in finding.claim and len(there) == 1 else ""
