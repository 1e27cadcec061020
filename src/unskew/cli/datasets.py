"""`unskew datasets`: what is known, found, missing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from unskew.cli import app
from unskew.cli.common import OK, SAYS_NO, Debug, Json, Quiet, Seed, Voice, command

if TYPE_CHECKING:
    from unskew.data.datasets import Status


@app.command("datasets")
@command
def datasets(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="The folder with the unpacked collections [UNSKEW_DATA].")
    ] = None,
    checksums: Annotated[
        bool, typer.Option("--checksums/--no-checksums", help="Verify the SHA-256 of archives, not only their size.")
    ] = True,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """The published collections: what is known, what was found, what is missing and how to get it.

    Exits 1 if a downloaded archive is not the published one.

    Example: [bold]unskew datasets --data-dir ~/data[/bold]
    """
    from unskew.data.datasets import data_folder, status

    voice = Voice(json=json, quiet=quiet)
    folder = data_folder(data_dir)
    known = status(folder, verify=checksums)
    voice.result({"data_dir": folder, "datasets": [_document(entry) for entry in known]})
    voice.say(_table(known))
    if folder is None:
        voice.say("No data folder was named: use --data-dir or set UNSKEW_DATA.")
    for entry in known:
        if entry.state != "found":
            voice.say(Text.assemble((entry.dataset.name, "bold"), f": {entry.dataset.how_to_get}"))
    wrong = [entry for entry in known if entry.archive_state.startswith("wrong")]
    for entry in wrong:
        voice.note(f"{entry.archive}: {entry.archive_state}. Download it again.")
    return SAYS_NO if wrong else OK


def _document(entry: Status) -> dict[str, object]:
    dataset = entry.dataset
    return {
        "name": dataset.name,
        "title": dataset.title,
        "publisher": dataset.publisher,
        "licence": dataset.licence,
        "how_to_get": dataset.how_to_get,
        "max_grade": dataset.max_grade,
        "features": dataset.n_features,
        "scaling": dataset.scaling,
        "state": entry.state,
        "found": {name: list(files) for name, files in entry.found.items()},
        "missing": list(entry.missing),
        "archive": entry.archive,
        "archive_state": entry.archive_state,
    }


def _table(known: list[Status]) -> Table:
    table = Table()
    for column in ("name", "features", "grades", "state", "found", "missing", "archive"):
        table.add_column(column, justify="right" if column == "features" else "left")
    colours = {"found": "green", "partly": "yellow", "missing": "red"}
    for entry in known:
        dataset = entry.dataset
        lacking = {"found": [], "partly": entry.missing, "missing": ["everything"]}[entry.state]
        table.add_row(
            dataset.name,
            "by name" if dataset.n_features is None else str(dataset.n_features),
            f"0–{dataset.max_grade}",
            Text(entry.state, colours[entry.state]),
            _short(entry.found, dataset.name),
            _short(lacking, dataset.name),
            "" if entry.archive is None else entry.archive_state,
        )
    return table


def _short(names: Iterable[str], dataset: str) -> str:
    return ", ".join(name.removeprefix(dataset + "/") for name in names)
