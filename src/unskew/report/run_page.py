"""The page of a run: every experiment's question, answer, tables and figures, and how to run it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from unskew._words import percent
from unskew.bench.experiments import experiment
from unskew.bench.grids import Cell as GridCell
from unskew.bench.grids import Grid, grids
from unskew.bench.outcomes import Outcome, open_run
from unskew.bench.plan import Plan, Request, method_pairs
from unskew.bench.scales import settings_of
from unskew.bench.tables import Row, rows
from unskew.report.page import Block, Cell, Commands, Facts, Page, Section, Table, Text
from unskew.report.run_evidence import evidence_section, outcome_figures
from unskew.report.run_words import answer
from unskew.report.words import listed


def run_page(folder: Path) -> Page:
    """The page of a run's folder; what is not done yet is said to be missing."""
    outcomes = open_run(folder)
    tables = [rows(outcome) for outcome in outcomes]
    lead = _leading(outcomes)
    first = outcomes[lead]
    sections = [
        _section(outcome, table, i + 1, alone=len(outcomes) == 1, leading=i == lead)
        for i, (outcome, table) in enumerate(zip(outcomes, tables, strict=True))
    ]
    sections += [evidence_section(outcomes), _again(outcomes, folder)]
    return Page(
        title=_title(outcomes),
        kicker="unskew bench" + (" · smoke run: the numbers mean nothing" if first.plan.preset == "smoke" else ""),
        asked=first.plan.asks if len(outcomes) == 1 else f"{len(outcomes)} questions; the first: {first.plan.asks}",
        answer=answer(tables[lead], kind=first.plan.kind),
        numbers=_numbers(outcomes, tables[lead]),
        sections=sections,
        made=_made(outcomes),
        level="weak" if first.plan.preset == "smoke" else "fine",
    )


def _leading(outcomes: list[Outcome]) -> int:
    """The experiment whose answer stands at the top: the comparison of all methods, if it is there."""
    names = [outcome.plan.experiment for outcome in outcomes]
    return names.index("rq1") if "rq1" in names else 0


def _title(outcomes: list[Outcome]) -> str:
    data = list(dict.fromkeys(outcome.plan.data for outcome in outcomes))
    if len(outcomes) == 1:
        return f"{outcomes[0].plan.experiment} on {data[0]}"
    return f"{len(outcomes)} experiments on {listed(data)}"


def _numbers(outcomes: list[Outcome], table: list[Row]) -> tuple[tuple[str, str], ...]:
    units = {unit.key for outcome in outcomes for unit in outcome.plan.units}
    missing = sum(outcome.missing for outcome in outcomes)
    queries = max((row["queries"] or 0 for row in table), default=0)
    closed = [row for row in table if row["metric"] == "ndcg@10" and row["gap_closed"] is not None]
    found = []
    if closed:
        best = max(closed, key=lambda row: row["mean"])
        found.append((percent(best["gap_closed"]), f"of the gap closed by {best['method']} with {best['ranker']}"))
    if queries:
        found.append((f"{queries:,}", "judged test queries"))
    found.append(
        (
            f"{len(units) - missing:,}",
            f"units of work done, {missing:,} missing" if missing else "units of work, all done",
        )
    )
    return tuple(found)


def _section(outcome: Outcome, table: list[Row], number: int, *, alone: bool, leading: bool) -> Section:
    plan = outcome.plan
    name = f"{plan.experiment} on {plan.data}"
    blocks: list[Block] = [] if leading else [Text(" ".join(answer(table, kind=plan.kind)))]
    blocks += outcome_figures(outcome, table)
    blocks += _tables(grids(outcome, table), f"{name}: ")
    title = "What came out" if alone else plan.asks
    return Section(f"experiment-{number}", title, "" if alone else name, tuple(blocks), link="" if alone else name)


def _tables(found: list[Grid], prefix: str) -> list[Table]:
    """The first table open with the words about all of them, the others folded away."""
    tables = [table_of(grid) for grid in found]
    said = next((table.caption for table in tables if table.caption), "")
    return [
        replace(table, title=_capital(table.title.removeprefix(prefix)), caption=said if i == 0 else "", open=i == 0)
        for i, table in enumerate(tables)
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def table_of(grid: Grid) -> Table:
    """A table of the run as the page has it."""
    labels = 2
    lines = []
    above: tuple[str, ...] = ("", "")
    for names, cells in grid.lines:
        if names[0] == "" and names[1]:  # belongs to the line above, which sorting would part it from
            names = (above[0], f"{above[1]}, {names[1]}")
        else:
            above = names[:2]
        lines.append((*(Cell(name) for name in names), *(_cell(cell) for cell in cells)))
    numeric = (False,) * labels + (True,) * (len(grid.header) - labels)
    # A column of nothing but empty names says nothing.
    kept = [i for i in range(len(grid.header)) if grid.header[i] or any(line[i].text for line in lines)]
    return Table(
        title=grid.title,
        columns=tuple(grid.header[i] for i in kept),
        numeric=tuple(numeric[i] for i in kept),
        rows=tuple(tuple(line[i] for i in kept) for line in lines),
        caption=" ".join(grid.caption.splitlines()),
    )


def _cell(cell: GridCell) -> Cell:
    found = re.search(r"[-−+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?", cell.text)
    value = None if found is None else float(found[0].replace("−", "-"))
    text = cell.text + ("*" if cell.star else "")
    return Cell(text or "–", value, cell.spread.strip(), strong=cell.place == 1, second=cell.place == 2)


def _again(outcomes: list[Outcome], folder: Path) -> Section:
    lines = tuple(dict.fromkeys(run_command(outcome.plan, folder) for outcome in outcomes))
    plans = [outcome.plan for outcome in outcomes]
    facts = (
        ("preset", _all(plan.preset for plan in plans)),
        ("folds", _all(str(plan.folds) for plan in plans)),
        ("split", _all(plan.how for plan in plans)),
        ("click seeds", _all(str(seed) for plan in plans for seed in plan.seeds)),
    )
    lead = "What is done already is kept: the same command goes on where a run was stopped."
    return Section("again", "Run it again", lead, (Commands(lines), Facts(facts)))


def _all(values: Iterable[str]) -> str:
    return listed(list(dict.fromkeys(values)))


def run_command(plan: Plan, folder: Path) -> str:
    """The command that makes this experiment again."""
    words = ["unskew", "bench", "run", plan.experiment, "--data", plan.source.data]
    for option, value in (
        ("--max-grade", plan.source.max_grade),
        ("--half", plan.source.half),
        ("--log", plan.source.log),
        ("--valid", plan.source.valid),
    ):
        words += [] if value is None else [option, str(value)]
    chosen = dict.fromkeys(f"{entry.method}/{entry.ranker}" for entry in plan.entries)
    if plan.kind == "ranking" and set(chosen) != _usual(plan):
        words += ["--methods", ",".join(chosen)]
    words += ["--folds", str(plan.folds), "--seeds", str(len(plan.seeds)), "--preset", plan.preset]
    average = max(unit.average for unit in plan.units)
    if average > 1:
        words += ["--average", str(average)]
    if plan.seeds[0]:
        words += ["--seed", str(plan.seeds[0])]
    return shlex.join([*words, "--out", str(folder)])


def _usual(plan: Plan) -> set[str]:
    """The methods that the preset takes by itself."""
    what, request = experiment(plan.experiment), Request(plan.experiment, preset=plan.preset)  # type: ignore[arg-type]
    pairs = [pair for setting in settings_of(what, plan.preset) for pair in method_pairs(what, setting, request)]
    return {f"{method}/{ranker}" for method, ranker in pairs}


def _made(outcomes: list[Outcome]) -> tuple[str, ...]:
    for outcome in outcomes:
        for unit in outcome.plan.units:
            if outcome.store.is_done(unit):
                return tuple(f"{name} {version}" for name, version in outcome.store.record(unit)["versions"].items())
    return ()
