"""`unskew rank`: scores and ranks of candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli import app
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command, refuse_overwriting


@app.command("rank")
@command
def rank_command(
    model: Annotated[Path, typer.Argument(help="The folder of a saved model.")],
    data: Annotated[str, typer.Argument(help="Candidates: Parquet, CSV, LETOR text or a registered name.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The Parquet or CSV file to write.")],
    query: Annotated[str, typer.Option("--query", help="Column with the query's id.")] = "query_id",
    item: Annotated[str, typer.Option("--item", help="Column with the item's id, if there is one.")] = "item_id",
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Score candidates with a saved model and rank them within their query.

    Writes query_id, item_id, score and rank (1 = best). Features are matched by name; no grades are needed. A click
    log, which shows an item many times, is ranked by its distinct items.

    Example: [bold]unskew rank model candidates.parquet --out ranking.parquet[/bold]
    """
    from unskew.data.files import check_target
    from unskew.deploy.model import load
    from unskew.deploy.ranking import rank_candidates, write_ranking

    voice = Voice(json, quiet)
    check_target(out)
    refuse_overwriting([out], data)
    ranking = rank_candidates(load(model), data, query=query, item=item)
    write_ranking(ranking, out)
    queries = ranking["query_id"].n_unique()
    voice.say(f"{ranking.height:,} candidates of {queries:,} queries ranked → {out}")
    voice.result({"model": str(model), "data": data, "out": str(out), "rows": ranking.height, "queries": queries})
