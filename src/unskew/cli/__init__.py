"""The commands: one module each; it parses, calls the library, prints."""

from __future__ import annotations

import signal
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

app = typer.Typer(
    name="unskew",
    help="Learn what people find relevant from click logs that position has skewed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from unskew import __version__

        typer.echo(f"unskew {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point: registers every command, then runs the one asked for."""
    # As Ctrl-C does: unwind, so that temporary files are removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal that lacks a sign shows another one instead of an error
        sys.stdout.reconfigure(errors="replace")
    try:
        from unskew.cli import commands  # noqa: F401  (importing registers)

        app()
    except KeyboardInterrupt:  # while the program was still being loaded
        sys.exit(128 + signal.SIGINT)
