"""`unskew report`: a run or a fitted model as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli import app
from unskew.cli.columns import LogOptions, with_log_options
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command, refuse_overwriting


@app.command("report")
@command
@with_log_options
def report_command(
    source: Annotated[Path, typer.Argument(metavar="RUN_OR_MODEL", help="The folder of a run or of a saved model.")],
    columns: LogOptions,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    log: Annotated[Path | None, typer.Option(help="The log a model was fitted on: the page can then say more.")] = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write one self-contained HTML page: what was asked, what came out, tables, figures, diagnostics, how to run it.

    Example: [bold]unskew report model --log log.parquet -o report.html[/bold]
    """
    from unskew.report.page import write_page
    from unskew.report.sources import page_for

    voice = Voice(json, quiet)
    refuse_overwriting([out], *filter(None, (log, columns.features)), *_files_of(source))
    page = page_for(source, log=None if log is None else columns.read(log), log_name=str(log or "LOG"), seed=seed)
    write_page(page, out)
    for sentence in page.answer:
        voice.say(sentence)
    voice.say(f"Page: {out}")
    voice.result({"source": str(source), "out": str(out), **page.to_dict()})


def _files_of(folder: Path) -> list[Path]:
    """What lies in the folder of a run or a model, pages aside: a report may be written over an older one."""
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix.lower() != ".html"]
