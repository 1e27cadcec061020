"""`unskew bench`: the experiments: list them, run them, show what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from unskew._options import Half, Preset, TableFormat
from unskew.cli import app
from unskew.cli.common import OK, SAYS_NO, Debug, Json, Quiet, Seed, Voice, command, visible
from unskew.cli.running import running
from unskew.errors import SettingError

if TYPE_CHECKING:  # the library is loaded by the command that runs, not by the help page
    from unskew.bench.run import RunSummary

bench = typer.Typer(
    name="bench",
    help="The paper's experiments on any judged data: list them, run them, show what came out.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.add_typer(bench)

PRESETS: tuple[Preset, ...] = ("smoke", "default", "paper")


@bench.command("list")
@command
def list_command(json: Json = False, seed: Seed = 0, quiet: Quiet = False, debug: Debug = False) -> None:
    """What can be run, what it asks, and how many fits each preset makes (with five folds).

    Example: [bold]unskew bench list[/bold]
    """
    from unskew.bench.experiments import EXPERIMENTS
    from unskew.bench.plan import count_units

    voice = Voice(json, quiet)
    counts = {name: {preset: count_units(name, preset) for preset in PRESETS} for name in EXPERIMENTS}
    table = Table("experiment", "asks", *PRESETS, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in table.columns[2:]:
        column.justify = "right"
    for name, what in EXPERIMENTS.items():
        table.add_row(name, what.asks, *(f"{counts[name][preset]:,}" for preset in PRESETS))
    voice.say(table)
    voice.say("\nExperiments that are run into one folder share the fits they have in common.")
    documents = [
        {
            "name": name,
            "asks": what.asks,
            "settings": [setting.name for setting in what.settings],
            "methods": list(what.methods),
            "units": counts[name],
        }
        for name, what in EXPERIMENTS.items()
    ]
    voice.result({"experiments": documents})


@bench.command("run")
@command
def run_command(
    experiments: Annotated[list[str], typer.Argument(metavar="EXPERIMENT…", help="Names that `bench list` shows.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The run's folder; running again goes on where it was.")],
    data: Annotated[
        str | None,
        typer.Option(help="Judged data: LETOR text, Parquet, CSV, a registered name, or synthetic[:queries]."),
    ] = None,
    max_grade: Annotated[int | None, typer.Option(help="The collection's largest grade.", min=1)] = None,
    methods: Annotated[
        str | None, typer.Option(help="Only these, by commas: naive,oracle,cfc/dnn,cfc:centred=true.")
    ] = None,
    rankers: Annotated[str | None, typer.Option(help="Only these, by commas: lambdamart,dnn,xgboost.")] = None,
    folds: Annotated[int | None, typer.Option(help="Folds to test on, of five.", min=1)] = None,
    seeds: Annotated[int | None, typer.Option(help="Click seeds.", min=1)] = None,
    preset: Annotated[Preset, typer.Option(help="smoke: seconds; default: an hour; paper: as published.")] = "default",
    jobs: Annotated[int | None, typer.Option(help="Processes; one a core without it, 0: this one.", min=0)] = None,
    threads: Annotated[int | None, typer.Option(help="Cores a process may use.", min=1)] = None,
    average: Annotated[
        int | None, typer.Option(help="Trees: mean of so many models, each without a part of the log.", min=1)
    ] = None,
    half: Annotated[Half | None, typer.Option(help="Only this half of the queries, split once by their ids.")] = None,
    log: Annotated[str | None, typer.Option(help="rq3: the real log to train on.")] = None,
    valid: Annotated[str | None, typer.Option(help="rq3: judged data to choose on, else a third of --data.")] = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Run experiments. Killed at any moment, the same command goes on where it was; failed units are tried again.

    Several experiments at once share what they have in common. Exits 1 if units failed.

    Example: [bold]unskew bench run rq1 --data mq2008.txt.xz --max-grade 2 --out run[/bold]
    """
    from unskew.bench.plan import Request
    from unskew.bench.run import default_source, finish, run
    from unskew.deploy.targets import shell_path

    voice = Voice(json, quiet)
    requests = [
        Request(name, preset, _listed("methods", methods), _listed("rankers", rankers), folds, seeds, seed, average)
        for name in dict.fromkeys(experiments)
    ]
    source = default_source(requests[0], data, max_grade=max_grade, half=half, log=log, valid=valid)
    with running(quiet) as tell:
        summary = run(requests, source, out, jobs=jobs, threads=threads, tell=tell)
    written = finish(out)
    shown = visible(shell_path(out))
    voice.say(
        f"{summary.made} units done, {summary.kept} were there, {len(summary.failures)} failed "
        f"({summary.seconds:.0f} s). Tables: {', '.join(str(path) for path in written)}."
    )
    voice.say(
        Text.assemble(
            "Next: ", (f"unskew bench show {shown}", "bold"), ", ", (f"unskew report {shown} -o report.html", "bold")
        )
    )
    _tell_failures(voice, summary)
    voice.result(
        {
            "out": str(out),
            "units": summary.total,
            "kept": summary.kept,
            "made": summary.made,
            "failed": [{"unit": failure.said, "error": failure.error} for failure in summary.failures],
            "seconds": round(summary.seconds, 3),
        }
    )
    return SAYS_NO if summary.failures else OK


@bench.command("show")
@command
def show_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    form: Annotated[
        TableFormat | None, typer.Option("--format", help="markdown, csv or latex instead of tables.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file.")] = None,
    times: Annotated[
        bool, typer.Option("--times", help="Also the seconds every method took, and as multiples of naive.")
    ] = False,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """The tables of a run: best in bold, second underlined, stars, spread, gap closed, published figures.

    Example: [bold]unskew bench show run --format latex --out tables.tex[/bold]
    """
    from unskew.bench.formats import document, render, render_grids
    from unskew.bench.outcomes import open_run
    from unskew.bench.tables import all_rows
    from unskew.bench.tables_times import time_grid
    from unskew.bench.tables_times import times as times_of

    voice = Voice(json, quiet)
    outcomes = open_run(run)
    taken = [times_of(outcome) for outcome in outcomes] if times else []
    found = [time_grid(outcome, mine) for outcome, mine in zip(outcomes, taken)]
    time_grids = [grid for grid in found if grid is not None]
    if form is not None or out is not None:
        _write(document(outcomes, form or _format_of(out), time_grids), out, voice)
    elif not json:
        voice.say(render(outcomes))
        voice.say(render_grids(time_grids))
    if json:
        listed = [row for mine in taken for row in mine]
        voice.result({"rows": all_rows(outcomes), **({"times": listed} if times else {})})


@bench.command("figures")
@command
def figures_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write to.", metavar="DIR")],
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """The figures of a run's page as files of their own, each as SVG and as PNG.

    Example: [bold]unskew bench figures run --out figures[/bold]
    """
    from unskew.report.run_files import write_figures

    voice = Voice(json, quiet)
    with voice.progress("Drawing"):
        written = write_figures(run, out)
    for path in written:
        voice.verbatim(str(path))
    voice.result({"run": str(run), "out": str(out), "files": [str(path) for path in written]})


@bench.command("results")
@command
def results_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("RESULTS.md"),
    chapters: Annotated[
        Path | None,
        typer.Option(
            "--keep", metavar="DIR", help="A folder that keeps what each run came to; the page has all that is in it."
        ),
    ] = None,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write RESULTS.md: every table, which claims hold on these data, which do not, and what that means for a user.

    With --keep a page can grow: experiments of runs that are long gone stay on it until they are run again.

    Example: [bold]unskew bench results run1 run2 -o RESULTS.md[/bold]
    """
    from dataclasses import asdict

    from unskew.bench.outcomes import open_run
    from unskew.bench.results import results_page
    from unskew.bench.results_chapter import chapter_of, keep

    voice = Voice(json, quiet)
    found = [chapter_of(outcome) for run in runs for outcome in open_run(run)]
    if chapters is not None:
        found = keep(found, chapters)
    _write(results_page(found), out, voice)
    if json:
        claims = [asdict(finding) for chapter in found for finding in chapter.findings]
        voice.result({"out": str(out), "claims": claims})


def _listed(option: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:  # an empty shell variable must not start everything
        raise SettingError(f"--{option} names nothing. Name some by commas, or leave the option out.")
    return names


def _format_of(out: Path | None) -> TableFormat:
    suffix = "" if out is None else out.suffix.lower()
    known: dict[str, TableFormat] = {".csv": "csv", ".tex": "latex"}
    return known.get(suffix, "markdown")


def _write(text: str, out: Path | None, voice: Voice) -> None:
    from unskew._files import atomic_path

    if out is None:
        typer.echo(text, nl=False)
        return
    with atomic_path(out) as path:
        path.write_text(text, encoding="utf-8")
    voice.say(f"Written: {out}")


def _tell_failures(voice: Voice, summary: RunSummary) -> None:
    for failure in summary.failures[:5]:
        typer.echo(f"Failed: {failure.said}: {failure.error}", err=True)
    if len(summary.failures) > 5:
        voice.note(f"… and {len(summary.failures) - 5} more, in the folder 'failures'.")
    if summary.failures:
        voice.note("Run the same command again to try them once more.")
