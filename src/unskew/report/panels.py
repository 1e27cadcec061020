"""Panels: one chart each, with a title and words; set side by side in a file, stacked as wanted in a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Literal

import altair as alt
import polars as pl

from unskew.report.themes import Theme, styles_of

WIDTH, HEIGHT = 300, 200


@dataclass(frozen=True, eq=False)
class Panel:
    """A chart without a size, and what to say about it.

    text : one or two sentences: what is drawn, and how to read it.
    methods : names drawn in a method's style, for the legend.
    height : what suits it, in pixels.
    """

    title: str
    text: str
    chart: Any
    methods: tuple[str, ...] = ()
    height: int = HEIGHT

    def sized(self, width: int | str, height: int | None = None) -> Any:
        """The chart in this size; width "container" follows the page."""
        words = f"{self.title}. {self.text}"
        return self.chart.properties(width=width, height=height or self.height, description=words)


def arrange(
    panels: Sequence[Panel], *, columns: int = 3, width: int = WIDTH, height: int | None = HEIGHT, words: int = 0
) -> Any:
    """All panels as one chart, in rows of `columns`.

    height : None leaves each panel what suits it; words : letters a line of what each panel says, 0 for titles alone.
    """
    sized = [panel.sized(width, height).properties(title=_title(panel, words)) for panel in panels]
    names = {panel.methods for panel in panels}
    # Flush bounds put the panels on one grid, whatever the length of their axes' labels; several legends need room.
    flush = len(names - {()}) <= 1
    bounds, spacing = ("flush", {"row": 90, "column": 76}) if flush else ("full", {"row": 36, "column": 36})
    joined = alt.concat(*sized, columns=columns, spacing=spacing, bounds=bounds)
    # Only panels with the same names can share colours: a shared scale of different names would mix them up.
    shared: Literal["shared", "independent"] = "shared" if len(names) == 1 and panels[0].methods else "independent"
    return joined.resolve_scale(color=shared, shape=shared)


def _title(panel: Panel, words: int) -> Any:
    return alt.TitleParams(panel.title, subtitle=wrap(panel.text, words)) if words else panel.title


def values(rows: Iterable[dict[str, Any]]) -> Any:
    """Rows as data of a chart: none of Altair's limits, and no file beside it."""
    return alt.Data(values=list(rows))


def columns(**named: Any) -> Any:
    """Columns as data of a chart."""
    return values(pl.DataFrame(named).to_dicts())


def by_method(
    methods: Sequence[str], theme: Theme, *, field: str = "method", legend: str | None = "right"
) -> dict[str, Any]:
    """Encodings of colour and shape that give every method its style, the same in every picture."""
    styles = styles_of(methods)
    shown: Any = {"title": None, "symbolOpacity": 1, "orient": legend} if theme.legend and legend else None
    domain = list(styles)
    return {
        "color": alt.Color(
            f"{field}:N",
            sort=None,
            scale=alt.Scale(domain=domain, range=[theme[style.hue] for style in styles.values()]),
            legend=shown,
        ),
        "shape": alt.Shape(
            f"{field}:N",
            sort=None,
            scale=alt.Scale(domain=domain, range=[style.shape for style in styles.values()]),
            legend=shown,
        ),
    }


def dashed(chart: Any, methods: Sequence[str], *, field: str = "method") -> Any:
    """The lines of a chart in every method's dashes.

    The dashes are looked up, not scaled: Vega-Lite would merge a scale of them into the legend and fray its symbols.
    """
    dashes = json.dumps({name: list(style.dash) or [1, 0] for name, style in styles_of(methods).items()})
    return chart.transform_calculate(dash=f"{dashes}[datum.{field}]").encode(
        strokeDash=alt.StrokeDash("dash:N", scale=None, legend=None)
    )


def tip(field: str, title: str, form: str = "") -> Any:
    """A line of what hovering shows; a form such as ".3f" makes it a number."""
    if form:
        return alt.Tooltip(field, type="quantitative", title=title, format=form)
    return alt.Tooltip(field, type="nominal", title=title)


def order_methods(names: Iterable[str]) -> list[str]:
    """Methods in the registry's order, references at the ends: naive first, oracle last, unknown names before it."""
    from unskew.registry import methods

    known = [info.name for info in methods()]
    place = {name: i for i, name in enumerate(known)} | {"naive": -1, "oracle": len(known) + 1}
    return sorted(dict.fromkeys(names), key=lambda name: place.get(name, len(known)))
