"""`unskew evaluate`: rankings against human grades."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew._options import EmptyQueries
from unskew.cli import app
from unskew.cli.columns import JudgedItem, JudgedQuery, JudgedRelevance, named
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command, refuse_overwriting
from unskew.errors import SettingError


@app.command("evaluate")
@command
def evaluate_command(
    data: Annotated[str, typer.Argument(help="Judged data: LETOR text, Parquet, CSV or a registered name.")],
    scores: Annotated[
        list[Path],
        typer.Argument(help="Scores: a table with query_id, item_id and score or rank, or one score a line."),
    ],
    max_grade: Annotated[int | None, typer.Option(help="The largest grade the collection can have.", min=1)] = None,
    at: Annotated[str, typer.Option(help="Cut-offs, separated by commas.")] = "1,3,5,10",
    empty: Annotated[
        EmptyQueries, typer.Option(help="Queries without a relevant item: left out, or counted as zero or one.")
    ] = "exclude",
    draws: Annotated[int, typer.Option(help="Draws of the randomisation test.", min=1)] = 100_000,
    per_query: Annotated[
        Path | None, typer.Option("--per-query", help="Write every query's values to this Parquet or CSV file.")
    ] = None,
    query: JudgedQuery = None,
    item: JudgedItem = None,
    relevance: JudgedRelevance = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """NDCG and ERR of one or several rankings, compared with Fisher's randomisation test.

    A judged table needs query_id, item_id and relevance; its features, if it has any, are not read.

    Example: [bold]unskew evaluate judged.parquet naive.parquet corrected.parquet --max-grade 4[/bold]
    """
    from unskew.data.files import check_target
    from unskew.evaluation.report import evaluate
    from unskew.evaluation.score_files import read_scores, system_names
    from unskew.sources import read_grades

    voice = Voice(json, quiet)
    cuts = _cutoffs(at)
    if per_query is not None:
        check_target(per_query)
        refuse_overwriting([per_query], data, *scores)
    columns = named(query=query, item=item, relevance=relevance)
    judged = read_grades(data, max_grade=max_grade, seed=seed, **columns)
    systems = {name: read_scores(path, judged) for name, path in zip(system_names(scores), scores)}
    result = evaluate(judged, systems, at=cuts, empty=empty, draws=draws, seed=seed)
    if per_query is not None:
        result.write_per_query(per_query)
    voice.say(result.render())
    voice.result(result.to_dict())


def _cutoffs(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(
            f"--at takes whole numbers separated by commas, such as 1,3,5,10, but got {text!r}."
        ) from None
