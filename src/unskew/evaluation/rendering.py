"""An evaluation for the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from unskew._words import percent

if TYPE_CHECKING:
    from unskew.evaluation.report import Evaluation


def render(evaluation: Evaluation) -> Group:
    """A table a metric, how large the differences are, and what the numbers are over."""
    families = dict.fromkeys(metric.split("@")[0] for metric in evaluation.metrics)
    tables = [_means(evaluation, family) for family in families]
    if evaluation.comparisons:
        tables.append(_differences(evaluation, [name for name in evaluation.metrics if name.startswith("ndcg")][-1]))
    return Group(*tables, Text(evaluation.caption()))


def _means(evaluation: Evaluation, family: str) -> Table:
    """Systems × cut-offs of one metric: the best in bold, letters of the systems that are beaten."""
    several = len(evaluation.systems) > 1
    metrics = [metric for metric in evaluation.metrics if metric.startswith(f"{family}@")]
    best = {metric: max(of.mean[metric] for of in evaluation.summary.values()) for metric in metrics}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("system", overflow="fold")
    for metric in metrics:
        table.add_column(metric.upper(), no_wrap=True)
    for row in evaluation.rows():
        cells = [cell(row[name], row["beats"][name], several and row[name] == best[name]) for name in metrics]
        table.add_row(row["letter"] if several else "", Text(row["system"]), *cells)
    return table


def _differences(evaluation: Evaluation, metric: str) -> Table:
    """How large the differences are: significance alone says little when there are thousands of queries."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(metric.upper(), overflow="fold")
    for name in ("difference", "95 % interval", "effect size", "wins", "p (Holm)"):
        table.add_column(name, justify="right", no_wrap=True)
    for pair in (pair for pair in evaluation.comparisons if pair.metric == metric):
        found = pair.result
        table.add_row(
            Text(f"{pair.a} - {pair.b}"),
            f"{found.difference:+.4f}",
            f"{found.low:+.4f} … {found.high:+.4f}",
            f"{found.effect:+.2f}",
            percent(found.wins / found.queries),
            f"{found.p_holm:.2g}",
        )
    return table


def cell(value: float, marks: str, best: bool = False) -> Text:
    """A mean with the letters of the systems that are beaten."""
    text = "–" if math.isnan(value) else f"{value:.4f}"
    return Text.assemble((text, "bold" if best else ""), (f" {marks}" if marks else "", "dim"))
