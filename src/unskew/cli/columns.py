"""The options that say what a log's columns are called, shared by every command that reads a log."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from unskew._options import MissingValues
from unskew.errors import DataError

if TYPE_CHECKING:  # the library is loaded by the command that runs, not by the help page
    from unskew.data.clicks import ClickLog
    from unskew.data.columns import LogColumns

PANEL = "Columns of the log"


def _option(flag: str, text: str, **more: Any) -> Any:
    return typer.Option(flag, help=text, rich_help_panel=PANEL, **more)


Query = Annotated[str, _option("--query", "Column with the query's id.")]
Session = Annotated[str, _option("--session", "Column with the session's id.")]
Item = Annotated[str, _option("--item", "Column with the item's id.")]
Position = Annotated[str, _option("--position", "Column with the position an item was shown at.")]
Click = Annotated[str, _option("--click", "Column that says whether an item was clicked.")]
Relevance = Annotated[str, _option("--relevance", "Column with a human grade, if there is one; 'none' leaves it out.")]
Weight = Annotated[str, _option("--weight", "Column with a weight, if there is one; 'none' leaves it out.")]
LoggingScore = Annotated[
    str, _option("--logging-score", "Column with the production ranker's score, if there; 'none' leaves it out.")
]
FeatureColumns = Annotated[
    str | None, _option("--feature-columns", "Feature columns, separated by commas; without it all that are left.")
]
FeatureTable = Annotated[
    Path | None, _option("--features", "A second table with the features, keyed by query and item.", metavar="FILE")
]
PositionBase = Annotated[int, _option("--position-base", "The number of the top position, 1 or 0.")]
Counts = Annotated[bool, _option("--counts", "The click column counts clicks, as in an aggregated log.")]
Missing = Annotated[
    MissingValues,
    _option("--missing", "Missing features: 'refuse' them, or 'keep' them where the ranker can take them."),
]
MaxGrade = Annotated[
    int | None, _option("--max-grade", "The collection's largest grade; without it what the file says.")
]


# The same for judged data, where a name is given only if the data is a table.
JUDGED = "Columns of a judged table"
JudgedQuery = Annotated[
    str | None, typer.Option("--query", help="Column with the query's id \\[query_id].", rich_help_panel=JUDGED)
]
JudgedItem = Annotated[
    str | None, typer.Option("--item", help="Column with the item's id \\[item_id].", rich_help_panel=JUDGED)
]
JudgedRelevance = Annotated[
    str | None, typer.Option("--relevance", help="Column with the human grade \\[relevance].", rich_help_panel=JUDGED)
]


def named(**columns: str | None) -> dict[str, Any]:
    """The columns that were named, as `read_judged` takes them."""
    return {part: name for part, name in columns.items() if name is not None}


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """How a command reads a log: the column options as they were given."""

    query: Query = "query_id"
    session: Session = "session_id"
    item: Item = "item_id"
    position: Position = "position"
    click: Click = "click"
    relevance: Relevance = "relevance"
    weight: Weight = "weight"
    logging_score: LoggingScore = "logging_score"
    feature_columns: FeatureColumns = None
    features: FeatureTable = None
    position_base: PositionBase = 1
    counts: Counts = False
    missing: Missing = "refuse"
    max_grade: MaxGrade = None

    def columns(self, **more: Any) -> LogColumns:
        """The same as the library takes it."""
        from unskew.data.columns import LogColumns

        chosen = None if self.feature_columns is None else [name.strip() for name in self.feature_columns.split(",")]
        return LogColumns(
            query=self.query,
            session=_or_none(self.session),
            item=self.item,
            position=self.position,
            click=self.click,
            relevance=_or_none(self.relevance),
            weight=_or_none(self.weight),
            logging_score=_or_none(self.logging_score),
            features=chosen,
            position_base=self.position_base,
            counts=self.counts,
            missing=self.missing,
            max_grade=self.max_grade,
            **more,
        )

    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults: what a model keeps, to be read again in the same way."""
        return {
            item.name: "a file" if item.name == "features" else getattr(self, item.name)
            for item in fields(self)
            if getattr(self, item.name) != item.default
        }

    def read(self, path: Path, **more: Any) -> ClickLog:
        """Read a log; what is wrong with it is said in the words of the command line."""
        from unskew.data.files import read_log

        settings = vars(self.columns(**more))
        with in_words_of_the_command():
            return read_log(path, feature_table=self.features, **settings)


@contextmanager
def in_words_of_the_command() -> Iterator[None]:
    """Say what is wrong with a log with options (--click NAME) where the library says it with arguments."""
    try:
        yield
    except DataError as error:
        if not hasattr(error, "for_cli"):
            raise
        raise type(error)(error.for_cli) from error


def _or_none(name: str) -> str | None:
    return None if name.lower() in ("none", "") else name


def with_log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command all column options: its parameter `columns: LogOptions` is made of them.

    @app.command("diagnose")
    @command
    @with_log_options
    def diagnose(log: Path, columns: LogOptions, json: Json = False) -> None: ...
    """
    hints = get_type_hints(LogOptions, include_extras=True)
    own = inspect.signature(function, eval_str=True).parameters
    ours = {
        name: inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=getattr(LogOptions, name), annotation=hint
        )
        for name, hint in hints.items()
    }
    kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own.values()]
    place = list(own).index("columns")
    parameters = [*kept[:place], *(ours[name] for name in ours if name not in own), *kept[place + 1 :]]

    @functools.wraps(function)
    def run(**given: Any) -> Any:
        columns = LogOptions(**{name: given[name] for name in ours if name in given})
        rest = {name: value for name, value in given.items() if name in own}
        return function(columns=columns, **rest)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
