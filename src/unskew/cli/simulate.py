"""`unskew simulate`: judged data to a click log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from unskew._options import LoggingPolicy, MissingValues, ShockScope
from unskew._words import percent
from unskew.cli import app
from unskew.cli.columns import JudgedItem, JudgedQuery, JudgedRelevance, named
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command, refuse_overwriting
from unskew.errors import SettingError
from unskew.report.words import listed

if TYPE_CHECKING:
    from unskew.data.ranking import RankingData
    from unskew.simulation.journey import Files

LIST = "How lists are made"
SPLIT = "Setting queries aside"


@app.command("simulate")
@command
def simulate_command(
    data: Annotated[
        str,
        typer.Argument(
            help="Judged data: LETOR text (plain, .gz, .xz, .zst), Parquet, CSV, a known name such as "
            "mslr-web10k/fold1, or synthetic[:queries].",
            metavar="DATA",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The log to write: .parquet or .csv.", metavar="LOG")],
    features: Annotated[
        Path | None,
        typer.Option(help="Write the features once, to this file, instead of beside every impression.", metavar="FILE"),
    ] = None,
    max_grade: Annotated[
        int | None, typer.Option(help="The collection's largest grade; without it what the data says.")
    ] = None,
    missing: Annotated[
        MissingValues, typer.Option(help="Missing features: 'refuse' them, or 'keep' them as missing.")
    ] = "refuse",
    data_dir: Annotated[
        Path | None, typer.Option(help="Where known collections are unpacked; else UNSKEW_DATA.", metavar="DIR")
    ] = None,
    eta: Annotated[float, typer.Option(help="Severity of position bias: rank k is examined with (1/k)^eta.")] = 1.0,
    noise: Annotated[float, typer.Option(help="Chance that an irrelevant item looks relevant.")] = 0.0,
    passes: Annotated[int, typer.Option(help="Sessions of every query.")] = 10,
    production: Annotated[
        float, typer.Option(help="Share of the queries whose grades train the production ranker.", rich_help_panel=LIST)
    ] = 0.01,
    landmarks: Annotated[
        str,
        typer.Option(help="Ranks whose item is swapped with a random one, such as 1,3,5,10.", rich_help_panel=LIST),
    ] = "",
    policy: Annotated[
        LoggingPolicy, typer.Option(help="The production ranking, or lists in random order.", rich_help_panel=LIST)
    ] = "production",
    hidden: Annotated[
        int, typer.Option(help="Withhold this many features, those the ranker leans on most.", rich_help_panel=LIST)
    ] = 0,
    shock: Annotated[
        float,
        typer.Option(
            help="Personalisation: random change of the production score, in its standard deviations.",
            rich_help_panel=LIST,
        ),
    ] = 0.0,
    shock_moves_clicks: Annotated[
        bool, typer.Option("--shock-moves-clicks", help="People share the shock's taste.", rich_help_panel=LIST)
    ] = False,
    shock_per: Annotated[
        ShockScope, typer.Option(help="Draw the shock once an item, or in every session.", rich_help_panel=LIST)
    ] = "item",
    shock_share: Annotated[
        float, typer.Option(help="Share of the items that a shock falls on.", rich_help_panel=LIST)
    ] = 1.0,
    valid: Annotated[
        str,
        typer.Option(
            help="A second log, LOG.valid.parquet: from this share of the queries, or from judged data named here.",
            metavar="SHARE|DATA",
            rich_help_panel=SPLIT,
        ),
    ] = "0",
    test: Annotated[
        float, typer.Option(help="Share of the queries kept as judged data, LOG.test.parquet.", rich_help_panel=SPLIT)
    ] = 0.0,
    query: JudgedQuery = None,
    item: JudgedItem = None,
    relevance: JudgedRelevance = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make a click log from judged data, as in the paper: a weak ranker shows lists, people click by position.

    Queries that trained the production ranker are left out of the log. With --valid and --test one judged file is
    enough for the whole way:

    [bold]unskew simulate mq2008.txt.xz --max-grade 2 --valid 0.2 --test 0.2 --out log.parquet[/bold]

    [bold]unskew fit log.parquet --valid log.valid.parquet --out model[/bold]

    [bold]unskew rank model log.test.parquet --out scores.parquet[/bold]

    [bold]unskew evaluate log.test.parquet scores.parquet[/bold]
    """
    from unskew.simulation.journey import simulate_files, targets
    from unskew.sources import read_judged

    def read(source: str) -> RankingData:
        columns = named(query=query, item=item, relevance=relevance)
        return read_judged(source, max_grade=max_grade, data_dir=data_dir, missing=missing, seed=seed, **columns)

    voice = Voice(json, quiet)
    share = _share(valid)
    _check_shock(shock, {"moves-clicks": shock_moves_clicks, "per": shock_per != "item", "share": shock_share != 1})
    refuse_overwriting(targets(out, features, valid=share != 0, test=test > 0), data, valid)
    with voice.progress("Simulating"):
        files = simulate_files(
            read(data),
            out,
            features=features,
            valid=read(valid) if share is None else share,
            test=test,
            seed=seed,
            max_grade=max_grade,
            eta=eta,
            noise=noise,
            passes=passes,
            production=production,
            landmarks=_ranks(landmarks),
            policy=policy,
            hidden=hidden,
            shock=shock,
            shock_moves_clicks=shock_moves_clicks,
            shock_per=shock_per,
            shock_share=shock_share,
        )
    _tell(voice, files)
    voice.result({"data": data, **files.to_dict()})


def _tell(voice: Voice, files: Files) -> None:
    ranker = files.simulation.production
    quality = "no judged query to measure it on" if ranker.ndcg is None else f"NDCG@10 {ranker.ndcg:.4f}"
    voice.say(f"Production ranker: RankSVM on {len(ranker.trained_on):,} queries, C = {ranker.C:.3g}; {quality}")
    if files.remark() is not None:
        voice.note(str(files.remark()))
    if files.simulation.hidden_names:
        voice.say(f"Hidden features: {', '.join(files.simulation.hidden_names)}")
    voice.say(_table(files))
    for path in files.paths.values():
        voice.say(Text(f"→ {path}", overflow="fold"))


def _table(files: Files) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    parts = files.facts()
    for role in parts:
        table.add_column(role, justify="right")
    for name in ("queries", "sessions", "impressions", "clicks", "items", "features"):
        if any(name in facts for facts in parts.values()):
            table.add_row(name, *(f"{facts[name]:,}" if name in facts else "" for facts in parts.values()))
    table.add_row(
        "click density",
        *(percent(facts["click_density"], 2) if "click_density" in facts else "" for facts in parts.values()),
    )
    lengths = [facts["list_length"] for facts in parts.values()]
    table.add_row("list length", *(f"{one['shortest']}–{one['longest']}, median {one['median']:g}" for one in lengths))
    return table


def _check_shock(shock: float, more: dict[str, bool]) -> None:
    """What says more about a shock needs one; more : --shock-… → whether it was given."""
    given = [f"--shock-{name}" for name, there in more.items() if there]
    if shock == 0 and given:
        raise SettingError(
            f"{listed(given)} {'says' if len(given) == 1 else 'say'} how a shock falls, but there is none. Give its "
            "size too, such as --shock 1."
        )


def _share(text: str) -> float | None:
    """The number, or None for a name."""
    try:
        return float(text)
    except ValueError:
        return None


def _ranks(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise SettingError(
            f"landmarks must be ranks separated by commas, such as 1,3,5,10, but got '{text}'."
        ) from None
