"""`unskew export` and `unskew verify-export`: a model into its search engine, and the proof of equal scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from unskew._words import percent
from unskew.cli import app
from unskew.cli.columns import LogOptions, with_log_options
from unskew.cli.common import OK, SAYS_NO, Debug, Json, Quiet, Seed, Voice, command, visible
from unskew.deploy.targets import TARGETS, FormatName, shell_path
from unskew.errors import OtherFileError

if TYPE_CHECKING:
    from unskew.deploy.verify.check import Verification


_HELP_ON_ENGINES = "How each engine compares:\n\n" + "\n\n".join(
    f"{name}: {escape(target.compares)}" for name, target in TARGETS.items()
)


@app.command("export", epilog=_HELP_ON_ENGINES)
@command
@with_log_options
def export_command(
    model: Annotated[Path, typer.Argument(help="The folder of a saved model.")],
    to: Annotated[FormatName, typer.Option("--to", help="The engine; below is how each compares.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; the parity file goes beside it.")],
    columns: LogOptions,
    log: Annotated[Path | None, typer.Option("--log", help="A click log whose items go into the parity file.")] = None,
    feature_set: Annotated[
        Path | None, typer.Option("--feature-set", help="The engine's feature-set file, to check the names against.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The model's name inside the engine.")] = "unskew",
    missing: Annotated[
        Literal["exact", "zero"],
        typer.Option("--missing", help="'zero' takes missing values for 0, for engines that know none."),
    ] = "exact",
    parity: Annotated[Path | None, typer.Option("--parity", help="The parity file, .json or .parquet.")] = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a saved model as the file a search engine loads, with a parity file that proves its scores.

    Example: [bold]unskew export model --to elasticsearch --out model.json --feature-set features.json[/bold]
    """
    from unskew.deploy.export import export
    from unskew.deploy.outputs import check_outputs

    voice = Voice(json, quiet)
    rows = None
    if log is not None:
        check_outputs([out, *([parity] if parity is not None else [])], [log])
        rows = replace(columns, missing="keep").read(log)
    done = export(
        model, to, out, name=name, feature_set=feature_set, log=rows, missing=missing, parity=parity, seed=seed
    )
    covered = "" if done.leaves_covered is None else f", {percent(done.leaves_covered)} of the leaves covered"
    # Paths are neither wrapped nor read as markup, so that they can be copied.
    voice.verbatim(f"{to} → {visible(str(done.path))}")
    for path in done.beside:
        voice.verbatim(f"beside it → {visible(str(path))}")
    voice.say(Text(f"The engine compares: {done.compares}."))
    voice.verbatim(f"Parity file with {done.parity_rows:,} rows{covered} → {visible(str(done.parity))}")
    for note in () if TARGETS[to].surprises else done.notes:  # warnings have told those
        voice.note(note)
    for upload in done.upload:
        voice.say("Load it with:")
        voice.verbatim(f"  {upload}")
    voice.say("Check it with:")
    voice.verbatim(f"  unskew verify-export {shell_path(done.path)} {shell_path(done.parity)}")
    voice.result(
        {
            "format": to,
            "out": str(done.path),
            "beside": [str(path) for path in done.beside],
            "parity": str(done.parity),
            "parity_rows": done.parity_rows,
            "leaves_covered": done.leaves_covered,
            "compares": done.compares,
            "notes": list(done.notes),
            "upload": list(done.upload),
        }
    )


@app.command("verify-export")
@command
def verify_command(
    file: Annotated[Path, typer.Argument(help="The exported file.")],
    parity: Annotated[Path, typer.Argument(help="The parity file that was written with it.")],
    tolerance: Annotated[
        float, typer.Option(help="The difference allowed, relative to the largest score.", min=0)
    ] = 1e-6,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Score an exported file by its engine's rule (and by the engine's own runtime, if installed) and compare.

    Exits with 1 if a score differs, a ranking changed, or the file is not the one that was exported; with 2 if a file
    is missing or the parity file is damaged.

    Example: [bold]unskew verify-export model.json model.json.parity.json[/bold]
    """
    from unskew.deploy.verify.check import OTHER_FILE, verify_export

    voice = Voice(json, quiet)
    try:
        found = verify_export(file, parity, tolerance=tolerance)
    except OtherFileError as error:
        voice.say(Text.assemble(("Not the exported file.", "red"), f" {visible(str(error))}"))
        voice.result({"ok": False, "same_file": False, "readings": [], "error": str(error)})
        return SAYS_NO
    voice.say(_table(found))
    if not found.ok:
        voice.say(Text.assemble(("Different.", "red"), " Do not load this file."))
    if not found.same_file:
        agree = "On these rows the scores agree, but this" if found.ok else "This"
        voice.say(Text.assemble(("Not the exported file.", "red"), f" {agree} {OTHER_FILE}."))
    elif found.ok:
        voice.say(Text("Equal.", "green"))
    voice.result(found.as_dict())
    return OK if found.ok and found.same_file else SAYS_NO


def _table(found: Verification) -> Table:
    table = Table(title=f"{found.format}: differences up to {found.tolerance:g} of the largest score are allowed")
    for heading in ("scored by", "rows", "largest difference", "relative", "rankings changed"):
        table.add_column(heading, justify="left" if heading == "scored by" else "right")
    for reading in found.readings:
        by = "the engine's rule" if reading.by == "rule" else reading.by
        changed = f"{reading.rankings_changed} of {reading.rankings}"
        table.add_row(by, f"{reading.rows:,}", f"{reading.largest:.2g}", f"{reading.relative:.2g}", changed)
    return table
