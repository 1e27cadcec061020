"""`unskew diagnose`: is the correction identified on this log?"""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from unskew._options import RankTarget, StageOneName
from unskew.cli import app
from unskew.cli.columns import LogOptions, in_words_of_the_command, with_log_options
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command, refuse_overwriting
from unskew.cli.examination import check_reach, read_known
from unskew.control.diagnostics import Diagnostics
from unskew.control.verdict import Verdict

COLOURS = {"fine": "green", "weak": "yellow", "bad": "bold red"}
VERDICTS = {
    "fine": "So --method cfc, the paper's correction, has what it needs on this log.",
    "weak": "So --method cfc, the paper's correction, may help, but some of what it rests on is weak here.",
    "bad": "So --method cfc, the paper's correction, is not identified on this log.",
}


@app.command("diagnose")
@command
@with_log_options
def diagnose_command(
    log: Annotated[Path, typer.Argument(help="The click log: Parquet, a folder of it, or CSV; one row an impression.")],
    columns: LogOptions,
    stage_one: Annotated[StageOneName, typer.Option(help="What explains the rank.")] = "ridge",
    rank_target: Annotated[RankTarget, typer.Option(help="Scale of the rank.")] = "global",
    placebo: Annotated[bool, typer.Option("--placebo", help="Also fit with permuted residuals, to compare.")] = False,
    referee: Annotated[
        bool, typer.Option("--referee/--no-referee", help="Also compare click models on held-out clicks.")
    ] = True,
    examination: Annotated[
        Path | None,
        typer.Option(help="CSV or Parquet with the columns position and examination, if an experiment told."),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Write a figure: .png, .svg, .pdf or .html.")] = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say whether a correction can be trusted on this log, and which method to use.

    First what the paper's correction (cfc) rests on: what the features explain of the position, and what is left over.
    Then the referee, which compares click models on held-out clicks; what it says is what `unskew fit` goes by.

    Example: [bold]unskew diagnose log.parquet --figure log.png[/bold]
    """
    from unskew.control.diagnostics import diagnose
    from unskew.control.placebo import placebo as run_placebo
    from unskew.control.referee import recommend
    from unskew.report.figures import check_figure
    from unskew.report.trust import amount_of_data

    voice = Voice(json, quiet)
    known = read_known(examination, base=columns.position_base)
    if figure is not None:
        check_figure(figure)
        refuse_overwriting([figure], *filter(None, (log, columns.features)))
    read = columns.read(log)
    check_reach(examination, known, read.longest_list, base=columns.position_base)
    found = diagnose(read, learner=stage_one, rank_target=rank_target, seed=seed)
    document = found.to_dict()
    voice.say(_findings(found))
    voice.say(_numbers(found))
    voice.say(Text(VERDICTS[found.verdict], COLOURS[found.verdict]))
    amount = amount_of_data(read.n_counted_clicks, len(read.queries))
    document["amount_of_data"] = asdict(amount)
    if amount.level != "fine":
        voice.say(Text(amount.text, COLOURS[amount.level]))
    if referee:
        with voice.progress("Asking the referee"), in_words_of_the_command():
            verdict = recommend(read, examination=known, seed=seed)
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
        table.caption = "Intervals of control terms are wider: they share one error rate of 5 % among them."
    for one in verdict.specifications:
        gain = "" if one.against is None else "unused" if one.unused else f"{one.gain:+.1f}"
        interval = "" if one.against is None or one.unused else f"{one.low:+.1f} to {one.high:+.1f}"
        table.add_row(one.name, f"{one.log_likelihood:.1f}", gain, interval, style="bold" if one.found else "")
    return table


def _test(statistic: float, p: float) -> str:
    return f"{statistic:.1f} (p = {p:.2g})" if isfinite(p) else "not tested: too few queries"


def _numbers(found: Diagnostics) -> Table:
    spread, residuals = found.spread, found.residuals
    table = Table(box=None, pad_edge=False, show_header=False, style="dim")
    rows = (
        ("stage-one R²", f"{found.r2:.3f}"),
        ("within-query rank correlation", f"{found.rank_correlation:.3f}"),
        ("residual mean / sd / mean |e|", f"{residuals.mean:.4f} / {residuals.sd:.4f} / {residuals.mean_absolute:.4f}"),
        ("skewness / excess kurtosis", f"{found.skewness:.2f} / {found.excess_kurtosis:.2f}"),
        ("Fligner–Killeen by expected rank", _test(spread.overall_statistic, spread.overall_p)),
        ("  the same on all items", _test(spread.pooled_statistic, spread.pooled_p)),
        ("Breusch–Pagan (Koenker)", _test(spread.breusch_pagan, spread.breusch_pagan_p)),
        ("features with unequal spread", f"{spread.n_rejected} of {spread.n_tested}"),
    )
    for name, value in rows:
        table.add_row(name, value)
    return table
