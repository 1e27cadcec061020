"""`unskew methods`: the registry."""

from __future__ import annotations

from rich.table import Table

from unskew.cli import app
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command


@app.command("methods")
@command
def methods(json: Json = False, seed: Seed = 0, quiet: Quiet = False, debug: Debug = False) -> None:
    """List every method: family, rankers it works with, citation.

    Example: [bold]unskew methods --json[/bold]
    """
    from unskew.registry import DEFAULT, MethodInfo, methods

    def row(info: MethodInfo) -> dict[str, object]:
        return {
            "name": info.name,
            "family": info.family,
            "rankers": list(info.rankers),
            "summary": info.summary,
            "citation": info.citation,
        }

    voice = Voice(json=json, quiet=quiet)
    table = Table("method", "family", "rankers", "what it does", "where it comes from", box=None, pad_edge=False)
    for info in methods():
        name = f"[bold]{info.name}[/bold]" + (" *" if info.name == DEFAULT else "")
        table.add_row(name, info.family, ", ".join(info.rankers), info.summary, info.citation)
    voice.say(table)
    voice.say(
        f"\n* what unskew fit uses when no --method is named (also: --method default). "
        "Example: unskew fit log.parquet --method cfc --ranker lambdamart --out model/"
    )
    voice.result({"default": DEFAULT, "methods": [row(info) for info in methods()]})
