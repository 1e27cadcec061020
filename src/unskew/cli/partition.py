"""`unskew partition`: a log as a folder of files that hold whole queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from unskew.cli import app
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command


@app.command("partition")
@command
def partition_command(
    log: Annotated[Path, typer.Argument(help="The click log: Parquet, a folder of Parquet files, or CSV.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.", metavar="DIR")],
    by: Annotated[Literal["query"], typer.Option(help="What stays together in a part.")] = "query",
    query: Annotated[str, typer.Option("--query", help="Column with the query's id.")] = "query_id",
    parts: Annotated[
        int | None, typer.Option(help="How many files; without it, as many as keep each small.", min=1)
    ] = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a log as a folder of Parquet files, whole queries in each, in bounded memory.

    For logs larger than memory and for logs that are not sorted by query.

    Example: [bold]unskew partition log.parquet --out parts --by query[/bold]
    """
    from unskew.scale.partition import partition_log

    voice = Voice(json, quiet)
    written = partition_log(log, out, query=query, parts=parts)
    facts = written.to_dict()
    voice.say(
        f"{facts['rows']:,} rows of {facts['queries']:,} queries in {facts['parts']:,} parts of "
        f"{facts['smallest_part']:,} to {facts['largest_part']:,} rows → {out}"
    )
    voice.result({"log": str(log), "by": by, **facts})
