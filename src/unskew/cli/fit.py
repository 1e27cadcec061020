"""`unskew fit`: train on a click log."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from unskew._options import Engine, Preset, RankerName, TermsOption, TuneOn
from unskew._words import percent, setting
from unskew.cli import app
from unskew.cli.columns import LogOptions, in_words_of_the_command, with_log_options
from unskew.cli.common import Debug, Json, Quiet, Seed, Voice, command, visible
from unskew.cli.examination import check_reach, read_known
from unskew.cli.tuning import check_grades, check_tune_on
from unskew.errors import SettingError

if TYPE_CHECKING:
    from unskew.control.diagnostics import Finding
    from unskew.fitting import Fitted

SCALE = "Logs larger than memory"
SHOWN_POSITIONS = (1, 2, 3, 5, 10, 20, 50)


@app.command("fit")
@command
@with_log_options
def fit_command(
    log: Annotated[Path, typer.Argument(help="The click log: Parquet, a folder of it, or CSV; one row an impression.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write the model to.")],
    columns: LogOptions,
    method: Annotated[
        str, typer.Option(help="A name that `unskew methods` lists; on Dask cfc takes default's place.")
    ] = "default",
    ranker: Annotated[RankerName | None, typer.Option(help="What learns the score.")] = None,
    valid: Annotated[
        Path | None,
        typer.Option(help="A second log to choose settings on; default and full-cfc hold out clicks themselves."),
    ] = None,
    judged: Annotated[str | None, typer.Option(help="Judged data to choose settings on, instead of a log.")] = None,
    preset: Annotated[Preset, typer.Option(help="Settings of the ranker.")] = "default",
    tune_on: Annotated[
        TuneOn | None,
        typer.Option(
            help="Choose settings on grades, clicks or (cfc) debiased clicks; auto: on grades where there are any. "
            "full-cfc chooses on clicks it holds out itself."
        ),
    ] = None,
    stage_one: Annotated[
        str | None, typer.Option(help="cfc: what explains the rank: ridge, logistic, svm or xgboost.")
    ] = None,
    transformation: Annotated[
        str | None,
        typer.Option(help="cfc: minmax, normal_pdf, inverse_mills, hazard, or auto to try all four."),
    ] = None,
    terms: Annotated[
        TermsOption | None,
        typer.Option(help="full-cfc: control terms beside the position effect; auto asks the referee, else none."),
    ] = None,
    examination: Annotated[
        Path | None,
        typer.Option(
            help="default, full-cfc: CSV or Parquet with the columns position and examination, if an experiment told."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores without it.", min=1)] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="Fit in memory, out of core (stream) or on a Dask cluster; auto goes by memory.", rich_help_panel=SCALE
        ),
    ] = "auto",
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory a fit may take, such as 6GB; a share of what is free without it.", rich_help_panel=SCALE
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler; a local cluster without it.", metavar="ADDRESS", rich_help_panel=SCALE
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Workers of a local cluster.", min=1, rich_help_panel=SCALE)] = 2,
    json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn a ranking model from a click log and save it as a folder.

    Without --method the referee looks at the log's own clicks and decides whether, and how, to correct them. Without
    --valid or --judged a fifth of the log's queries is held out to choose settings on, where a method needs that.

    Example: [bold]unskew fit log.parquet --out model --method cfc[/bold]
    """
    from unskew.deploy.model import check_target
    from unskew.fitting import fit_method
    from unskew.scale.engines import choose_engine, fit_on_dask
    from unskew.scale.memory import parse_size, peak_memory
    from unskew.scale.stream_fit import fit_streamed
    from unskew.sources import read_judged

    if valid is not None and judged is not None:
        raise SettingError("Give either --valid (a log) or --judged (grades) to choose settings on, not both.")
    voice = Voice(json, quiet)
    check_target(out)
    limit = None if memory is None else parse_size(memory)
    if scheduler is not None and engine == "auto":
        engine = "dask"
    chosen = choose_engine(engine, log, columns.columns(), memory=limit, feature_table=columns.features, say=voice.note)
    if chosen != "dask":  # where cfc takes default's place
        check_tune_on(method, tune_on, judged=judged is not None)
    in_memory = chosen == "memory"
    validation: Any = columns.read(valid) if valid is not None and in_memory else valid
    if judged is not None:
        validation = read_judged(judged, max_grade=columns.max_grade)
    known = read_known(examination, base=columns.position_base)
    given: dict[str, Any] = {
        "examination": known,
        "tune_on": tune_on,
        "stage_one": stage_one,
        "transformation": transformation,
    }
    settings: dict[str, Any] = {
        "method": method,
        "ranker": ranker,
        "preset": preset,
        "validation": validation,
        "seed": seed,
        "n_jobs": jobs,
        **{name: value for name, value in given.items() if value is not None},
        **({} if terms is None else {"terms": None if terms == "none" else terms}),
    }
    train = columns.read(log) if in_memory else None
    if train is not None:
        check_reach(examination, known, train.longest_list, base=columns.position_base)
        check_grades(method, tune_on, train.data if validation is None else getattr(validation, "data", validation))
    with voice.progress(f"Fitting {method}") as advance, in_words_of_the_command():
        if train is not None:
            fitted = fit_method(train, progress=advance, **settings)
        elif chosen == "stream":
            fitted = fit_streamed(log, columns=columns.columns(), progress=advance, **settings)
        else:
            cluster: dict[str, Any] = {"scheduler": scheduler, "workers": workers, "say": voice.note}
            fitted = fit_on_dask(log, columns=columns.columns(), progress=advance, **cluster, **settings)
    asked = {
        "method": method,
        "engine": chosen,
        "columns": columns.given(),
        "validation": "valid" if valid is not None else "judged" if judged is not None else None,
    }
    fitted.method.to_model().with_facts(asked=asked).save(out)
    _tell(voice, fitted, out)
    if not in_memory:
        voice.say(f"Engine {chosen}, peak memory of this process {peak_memory() / 1e9:.2f} GB.")
    amount = _amount_of_data(fitted)
    facts = {
        "engine": chosen,
        "peak_memory": peak_memory(),
        "amount_of_data": None if amount is None else asdict(amount),
    }
    voice.result({"log": str(log), "out": str(out), **facts, **fitted.to_dict()})


def _tell(voice: Voice, fitted: Fitted, out: Path) -> None:
    rest = f" with {fitted.ranker}, {fitted.seconds:.1f} s → {visible(str(out))}"
    voice.say(Text.assemble((fitted.info.name, "bold"), rest))
    if fitted.verdict is not None:
        voice.say(Text.assemble(("The referee", "bold"), f": {fitted.verdict.text}"))
    voice.say(f"Settings chosen on {fitted.chosen_on}.")
    taught_by = fitted.method.outcome_.extra.get("taught_by")
    if taught_by is not None:
        voice.say(f"The net was taught by the {taught_by}.")
    if len(fitted.method.candidates_) > 1:
        voice.say(_candidates(fitted))
    if fitted.method.bias_ is not None:
        voice.say(_curve(fitted))
    from unskew.control.caution import caution_words
    from unskew.control.confounded import whole_effect_words

    extra = fitted.method.outcome_.extra
    caution = caution_words(extra.get("agreement"), extra.get("left_to_relevance"))
    if caution:
        voice.say(caution)
    wrong = "" if "referee" in extra else whole_effect_words(extra.get("with_ranker"))
    if wrong:
        voice.say(Text(wrong, "yellow"))
    amount = _amount_of_data(fitted)
    if amount is not None and amount.level != "fine":
        voice.say(Text(amount.text, "yellow"))


def _amount_of_data(fitted: Fitted) -> Finding | None:
    """Whether there were clicks enough, for a method that learns from them."""
    from unskew.report.trust import amount_of_data

    data = fitted.method.fingerprint_
    return amount_of_data(data["clicks"], data["queries"]) if fitted.method.needs_clicks else None


def _candidates(fitted: Fitted) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    names = list(dict.fromkeys(name for candidate in fitted.method.candidates_ for name in candidate.setting))
    for name in names:
        table.add_column(name)
    table.add_column("validation", justify="right")
    table.add_column("seconds", justify="right")
    best = max((c.score for c in fitted.method.candidates_ if c.score is not None), default=None)
    for candidate in fitted.method.candidates_:
        values = [setting(candidate.setting.get(name, "")) for name in names]
        score = "–" if candidate.score is None else f"{candidate.score:.4f}"
        style = "bold" if candidate.score is not None and candidate.score == best else ""
        table.add_row(*values, score, f"{candidate.seconds:.1f}", style=style)
    return table


def _curve(fitted: Fitted) -> Table:
    bias = fitted.method.bias_
    assert bias is not None
    table = Table(title="Examination", box=None, pad_edge=False, header_style="dim")
    for name in ("position", "examined", *([f"{percent(bias.confidence)} interval"] if bias.low is not None else [])):
        table.add_column(name, justify="right")
    for i, position in enumerate(bias.position):
        if position in (bias.position[0], *SHOWN_POSITIONS):
            sure = [f"{bias.low[i]:.2f}–{bias.high[i]:.2f}"] if bias.low is not None and bias.high is not None else []
            table.add_row(str(position), f"{bias.value[i]:.2f}", *sure)
    return table
