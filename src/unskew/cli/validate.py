"""`unskew validate`: named checks on a log, PASS / WARN / FAIL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from unskew.cli import app
from unskew.cli.columns import LogOptions, with_log_options
from unskew.cli.common import OK, SAYS_NO, Debug, Json, Quiet, Seed, Voice, command, visible

if TYPE_CHECKING:
    from unskew.data.checks import Check
    from unskew.data.validation import Validation

COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "bold red"}


@app.command("validate")
@command
@with_log_options
def validate(
    log: Annotated[Path, typer.Argument(help="A Parquet or CSV file, or a folder of Parquet files.")],
    columns: LogOptions,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Check a click log: named checks, each PASS, WARN or FAIL with the first offending rows.

    Exits 1 if a check fails, 2 if the file cannot be read.

    Example: [bold]unskew validate log.parquet --click clicked --position-base 0[/bold]
    """
    from unskew.data.validation import validate_log

    outcome = validate_log(log, feature_table=columns.features, columns=columns.columns())
    voice = Voice(json=json, quiet=quiet)
    voice.say(_table(outcome))
    voice.say(_verdict(outcome))
    if quiet and not json:
        for check in outcome.checks:
            if check.status == "FAIL":
                typer.echo(f"FAIL {check.name}: {check.text(cli=True)}", err=True)
    voice.result(
        {
            "log": str(log),
            "status": outcome.status,
            "summary": outcome.summary,
            "checks": [check.to_dict(cli=True) for check in outcome.checks],
        }
    )
    return SAYS_NO if outcome.status == "FAIL" else OK


def _table(outcome: Validation) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("check", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("count", justify="right")
    table.add_column("found", overflow="fold")
    for check in outcome.checks:
        count = f"{check.count:,}" if check.count and check.status != "PASS" else ""
        table.add_row(check.name, Text(check.status, COLOURS[check.status]), count, Text(visible(_found(check))))
    return table


def _found(check: Check) -> str:
    lines = [check.text(cli=True)]
    if check.status != "PASS" and len(check.rows) > 1:
        lines += ["  " + ", ".join(f"{name} {value}" for name, value in row.items()) for row in check.rows]
    return "\n".join(line for line in lines if line)


def _verdict(outcome: Validation) -> Text:
    counted = ", ".join(f"{value:,} {name}" for name, value in outcome.summary.items())
    said = {
        "PASS": "This log can be used.",
        "WARN": "This log can be used; read the warnings first.",
        "FAIL": "This log cannot be used as it is.",
    }
    text = Text(f"\n{said[outcome.status]}", COLOURS[outcome.status])
    return text.append(f" {counted}." if counted else "", "dim")
