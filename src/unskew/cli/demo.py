"""`unskew demo`: the whole way on the embedded collection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from unskew._words import percent
from unskew.cli import app
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command

_METRICS = ("ndcg@10", "err@10")


@app.command("demo")
@command
def demo_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the log, the model and the report.")] = Path(
        "unskew-demo"
    ),
    report: Annotated[bool, typer.Option(help="Also write report.html and demo.png.")] = True,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores without it.", min=1)] = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run the whole way on an embedded collection: a click log, checks, diagnostics, models, a table, a report.

    Example: [bold]unskew demo --out demo[/bold]
    """
    from unskew.demo import run_demo
    from unskew.registry import DEFAULT

    voice = Voice(json, quiet)
    result = run_demo(out, seed=seed, n_jobs=jobs, tell=lambda step, thing: _tell(voice, step, thing))
    written = {"log": result.log_path, "model": result.model_path}
    if report:
        written |= _report(result, out, seed)
    files = ", ".join(f"{path} (the {what})" for what, path in written.items())
    voice.say(f"\nWritten in {result.seconds:.0f} s: {files}.")
    commands = ("unskew validate LOG", "unskew diagnose LOG", "unskew fit LOG --out MODEL")
    voice.say(Text("Next, on your own log: ") + Text(", ").join(Text(line, "bold") for line in commands))
    voice.result(
        {
            "out": str(out),
            **{what: str(path) for what, path in written.items()},
            "default": result.fitted[DEFAULT].info.name,
            "seconds": round(result.seconds, 3),
            "diagnostics": result.diagnostics.to_dict(),
            "evaluation": result.evaluation.to_dict(),
            "gap_closed": {name: vars(gap) for name, gap in result.gap.items()},
        }
    )


def _report(result: Any, out: Path, seed: int) -> dict[str, Path]:
    from unskew.report.demo_page import demo_figure, demo_page
    from unskew.report.figures import save_figure
    from unskew.report.page import write_page

    written = {"report": out / "report.html", "picture": out / "demo.png"}
    write_page(demo_page(result, out=out, seed=seed), written["report"])
    save_figure(demo_figure(result), written["picture"])
    return written


def _tell(voice: Voice, step: str, thing: Any) -> None:
    if step == "log":
        log, production = thing.log, thing.simulation.production
        told = (
            f": {log.n_sessions:,} sessions of {len(log.queries):,} queries, "
            f"{log.n_impressions:,} impressions, {log.n_clicks:,} clicks. The production ranker behind it has "
            f"NDCG@10 {production.ndcg:.3f}; position k was looked at with probability 1/k."
        )
        voice.say(Text.assemble(("A click log", "bold"), told))
    elif step == "checks":
        worst = [check.name for check in thing.checks if check.status != "PASS"]
        rest = f" ({', '.join(worst)})" if worst else ""
        voice.say(Text.assemble(("Checks", "bold"), f": {len(thing.checks)} checks, {thing.status}{rest}."))
    elif step == "diagnostics":
        voice.say(Text("Diagnostics", "bold"))
        for finding in thing.findings:
            colour = {"fine": "green", "weak": "yellow", "bad": "red"}[finding.level]
            voice.say(Text.assemble("  ", (finding.level, colour), f" {finding.about}: {finding.text}"))
    elif step == "fitted":
        if thing.verdict is not None:
            voice.say(Text.assemble(("The referee", "bold"), f": {thing.verdict.text}"))
        voice.say(Text.assemble(("Fitted", "bold"), f" {thing.info.name} in {thing.seconds:.1f} s"))
    elif step == "evaluation":
        voice.say(_table(*thing))


def _table(evaluation: Any, gaps: dict[str, Any]) -> Table:
    from unskew.evaluation.rendering import cell

    table = Table(caption=evaluation.caption(), caption_justify="left", title="On judged queries nobody trained on")
    table.add_column("")
    table.add_column("method")
    for metric in _METRICS:
        table.add_column(metric.upper())
    table.add_column("of the NDCG gap closed", justify="right")
    for row in evaluation.rows():
        gap = gaps.get(row["system"])
        share = "–"
        if gap is not None and gap.value is not None:
            share = f"{percent(gap.value)} ({percent(gap.low)} to {percent(gap.high)})"
        table.add_row(row["letter"], row["system"], *(cell(row[name], row["beats"][name]) for name in _METRICS), share)
    return table
