"""`unskew methods`: the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from unskew.cli import app
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command

if TYPE_CHECKING:
    from unskew.registry import MethodInfo


@app.command("methods")
@command
def methods(json: Json = False, seed: Seed = 0, quiet: Quiet = False, debug: Debug = False) -> None:
    """List every method: family, rankers it works with, citation.

    Example: [bold]unskew methods --json[/bold]
    """
    from unskew.registry import DEFAULT, methods

    known = methods()
    voice = Voice(json=json, quiet=quiet)
    voice.say(_table(known))
    voice.say("\n* what unskew fit takes when no --method is named, under the name 'default' too.")
    voice.say("Example: unskew fit log.parquet --method cfc --ranker lambdamart --out model/")
    voice.result({"default": DEFAULT, "methods": [_document(info) for info in known]})


def _table(known: list[MethodInfo]) -> Table:
    table = Table("method", "rankers", "what it does", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for family in dict.fromkeys(info.family for info in known):
        table.add_row("", "", "")
        table.add_row(Text(family, style="italic"), "", "")
        for info in (info for info in known if info.family == family):
            name = Text(info.name + (" *" if info.is_default else ""), style="bold", no_wrap=True)
            what = Group(Text(info.summary), Text(info.citation, style="dim"))
            table.add_row(name, "\n".join(info.rankers), what)
    return table


def _document(info: MethodInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "family": info.family,
        "rankers": list(info.rankers),
        "summary": info.summary,
        "citation": info.citation,
    }
