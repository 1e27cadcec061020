"""`unskew diagnose`: is the correction identified on this log?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from unskew._options import RankTarget, StageOneName
from unskew.cli import app
from unskew.cli.columns import LogOptions, with_log_options
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command, refuse_overwriting
from unskew.control.diagnostics import Diagnostics
from unskew.control.referee import Verdict

COLOURS = {"fine": "green", "weak": "yellow", "bad": "bold red"}
VERDICTS = {
    "fine": "The paper's correction (cfc) has what it needs on this log.",
    "weak": "The paper's correction (cfc) may help, but some of what it rests on is weak here.",
    "bad": "The paper's correction (cfc) is not identified on this log; the referee's advice does not rest on it.",
}


@app.command("diagnose")
@command
@with_log_options
def diagnose_command(
    log: Annotated[Path, typer.Argument(help="The click log: Parquet or CSV, one row an impression.")],
    columns: LogOptions,
    stage_one: Annotated[StageOneName, typer.Option(help="What explains the rank.")] = "ridge",
    rank_target: Annotated[RankTarget, typer.Option(help="Scale of the rank.")] = "global",
    placebo: Annotated[bool, typer.Option("--placebo", help="Also fit with permuted residuals, to compare.")] = False,
    referee: Annotated[
        bool, typer.Option("--referee/--no-referee", help="Also compare click models on held-out clicks.")
    ] = True,
    figure: Annotated[Path | None, typer.Option(help="Write a figure: .png, .svg, .pdf or .html.")] = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Look at what the features explain of the position, what is left over, and how clicks fall with position.

    Example: [bold]unskew diagnose log.parquet --figure log.png[/bold]
    """
    from unskew.control.diagnostics import diagnose
    from unskew.control.placebo import placebo as run_placebo
    from unskew.control.referee import recommend
    from unskew.report.figures import check_figure

    voice = Voice(json, quiet)
    if figure is not None:
        check_figure(figure)
        refuse_overwriting([figure], *filter(None, (log, columns.features)))
    read = columns.read(log)
    found = diagnose(read, learner=stage_one, rank_target=rank_target, seed=seed)
    document = found.to_dict()
    voice.say(_findings(found))
    voice.say(_numbers(found))
    if referee:
        with voice.progress("Asking the referee"):
            verdict = recommend(read, seed=seed)
        document["referee"] = verdict.to_dict()
        voice.say(_specifications(verdict))
        voice.say(Text.assemble(("The referee", "bold"), f": {verdict.text}"))
        if verdict.caution is not None and verdict.caution.words:
            voice.say(verdict.caution.words)
    if placebo:
        compared = run_placebo(read, seed=seed)
        document["placebo"] = compared.to_dict()
        voice.say(compared.text)
    if figure is not None:
        from unskew.report.figures import diagnostics_figure, save_figure

        save_figure(diagnostics_figure(read, found), figure)
        voice.say(f"Figure: {figure}")
    voice.say(Text(VERDICTS[found.verdict], COLOURS[found.verdict]))
    voice.result({"log": str(log), **document})


def _findings(found: Diagnostics) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, title="What the paper's correction (cfc) rests on")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in found.findings:
        table.add_row(Text(finding.level, COLOURS[finding.level]), finding.about, Text(finding.text))
    return table


def _specifications(verdict: Verdict) -> Table:
    """What each click model says about clicks it did not see."""
    table = Table(box=None, pad_edge=False, header_style="dim", title="Click models on held-out clicks")
    table.add_column("model")
    for name in ("log-likelihood", "gain", "95 % interval"):
        table.add_column(name, justify="right")
    if len(verdict.specifications) > 2:
        table.caption = "Those of control terms are wider: where none adds anything, 95 % of logs announce none."
    for one in verdict.specifications:
        gain = "" if one.against is None else "none" if one.unused else f"{one.gain:+.1f}"
        interval = "" if one.against is None or one.unused else f"{one.low:+.1f} to {one.high:+.1f}"
        table.add_row(one.name, f"{one.log_likelihood:.1f}", gain, interval, style="bold" if one.found else "")
    return table


def _numbers(found: Diagnostics) -> Table:
    spread, residuals = found.spread, found.residuals
    table = Table(box=None, pad_edge=False, show_header=False, style="dim")
    rows = (
        ("stage-one R²", f"{found.r2:.3f}"),
        ("within-query rank correlation", f"{found.rank_correlation:.3f}"),
        ("residual mean / sd / mean |e|", f"{residuals.mean:.4f} / {residuals.sd:.4f} / {residuals.mean_absolute:.4f}"),
        ("skewness / excess kurtosis", f"{found.skewness:.2f} / {found.excess_kurtosis:.2f}"),
        ("Fligner–Killeen by expected rank", f"{spread.overall_statistic:.1f} (p = {spread.overall_p:.2g})"),
        ("  the same on all items", f"{spread.pooled_statistic:.1f} (p = {spread.pooled_p:.2g})"),
        ("Breusch–Pagan (Koenker)", f"{spread.breusch_pagan:.1f} (p = {spread.breusch_pagan_p:.2g})"),
        ("features with unequal spread", f"{spread.n_rejected} of {spread.n_tested}"),
    )
    for name, value in rows:
        table.add_row(name, value)
    return table
