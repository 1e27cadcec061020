"""A run's figures as files of their own: those of its page, with a title, a legend and words that stand alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import altair as alt

from unskew._files import check_folder
from unskew.bench.outcomes import Outcome, open_run
from unskew.bench.tables import Row, rows
from unskew.errors import DataError
from unskew.report.figures import save_figure
from unskew.report.panels import WIDTH, Panel, arrange
from unskew.report.run_evidence import gap_panels, log_panels, outcome_panels, time_panels
from unskew.report.run_figures import HEADLINE, is_sweep, sweep_panels
from unskew.report.themes import LIGHT, Theme

# Vector for print, pixels for everything else.
SUFFIXES = (".svg", ".png")
# Letters of a line that fit above a hundred pixels of a panel.
_LETTERS = 20


@dataclass(frozen=True, eq=False)
class Figure:
    """Panels that belong together.

    name : of the file, without its ending; columns : panels beside each other; width : of a panel.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    columns: int = 2
    width: int = WIDTH

    def chart(self) -> Any:
        """All panels as one chart below the title; what all of them say is said once."""
        beside = min(self.columns, len(self.panels))
        said = {panel.text for panel in self.panels}
        letters = self.width * _LETTERS // 100
        once = wrap(said.pop(), letters * beside) if len(said) == 1 else []
        title = alt.TitleParams(wrap(self.title, letters * beside), subtitle=once)
        return arrange(
            self.panels, columns=beside, width=self.width, height=None, words=0 if once else letters
        ).properties(title=title)


def write_figures(run: Path, out: Path, theme: Theme = LIGHT) -> list[Path]:
    """Write every figure of a run's folder, as SVG and as PNG; the files that were written."""
    figures = run_figures(open_run(run), theme)
    if not figures:
        raise DataError(
            f"{run} has nothing to draw yet: none of its units is done, or its experiments have no figures. "
            f"See what there is with: unskew bench show {run}"
        )
    folder, written = check_folder(out), []
    for figure in figures:
        chart = figure.chart()
        for suffix in SUFFIXES:
            path = folder / f"{figure.name}{suffix}"
            save_figure(chart, path, theme=theme)
            written.append(path)
    return written


def run_figures(outcomes: Sequence[Outcome], theme: Theme = LIGHT) -> list[Figure]:
    """The figures of a run, experiment by experiment; sweeps of several data sets share one, as in the paper."""
    tables = [(outcome, rows(outcome)) for outcome in outcomes]
    found: list[Figure] = []
    for name in dict.fromkeys(outcome.plan.experiment for outcome in outcomes):
        mine = [(outcome, table) for outcome, table in tables if outcome.plan.experiment == name]
        swept = [row for _, table in mine for row in table if row["metric"] == HEADLINE]
        if swept and is_sweep(swept):
            found.append(_sweep(mine[0][0], swept, theme))
        else:
            found += [figure for outcome, table in mine for figure in _of_outcome(outcome, table, theme)]
    return found + list(_logs(outcomes, theme))


def _sweep(outcome: Outcome, swept: Sequence[Row], theme: Theme) -> Figure:
    data = list(dict.fromkeys(row["data"] for row in swept))
    name = outcome.plan.experiment
    return Figure(_slug(name), f"{name}: {outcome.plan.asks}", tuple(sweep_panels(swept, theme)), max(len(data), 2))


def _of_outcome(outcome: Outcome, table: Sequence[Row], theme: Theme) -> Iterator[Figure]:
    plan = outcome.plan
    name, title = _slug(plan.experiment, plan.data), f"{plan.experiment} on {plan.data}: {plan.asks}"
    if plan.kind != "ranking" or len(plan.settings) > 1:
        panels = {"": outcome_panels(outcome, table, theme)}
    else:
        measured = [row for row in table if row["metric"] == HEADLINE]
        panels = {"-gap": gap_panels(measured, theme), "-time": time_panels(outcome, measured, theme)}
    for suffix, found in panels.items():
        # Bars are compared from one ranker to the next: they stand below each other.
        layout = {"columns": 1, "width": WIDTH + WIDTH // 3} if suffix == "-gap" else {}
        if found:
            yield Figure(f"{name}{suffix}", title, tuple(found), **layout)


def _logs(outcomes: Sequence[Outcome], theme: Theme) -> Iterator[Figure]:
    """The clicks and what methods made of them, once a data set."""
    done: set[str] = set()
    for outcome in outcomes:
        data = outcome.plan.data
        panels = [] if data in done else log_panels(outcome, theme)
        if panels:
            done.add(data)
            yield Figure(_slug("log", data), f"The log of {outcome.plan.experiment} on {data}", tuple(panels))


def _slug(*parts: str) -> str:
    """A file's name that every system takes.

    >>> _slug("rq1", "synthetic:60, development half")
    'rq1-synthetic-60-development-half'
    """
    return re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(parts)).strip("-.")
