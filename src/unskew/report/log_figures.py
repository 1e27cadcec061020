"""Pictures of a log: what stage one left over, how clicks fall with position, what a method believes about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

from unskew.control.density import grid_density
from unskew.control.diagnostics import ClickCurve, Diagnostics
from unskew.control.spread_curve import SpreadCurve
from unskew.control.statistics import ResidualStatistics
from unskew.method import PositionCurve
from unskew.report.panels import Panel, by_method, columns, dashed, order_methods, tip, values
from unskew.report.themes import CLICKS, LIGHT, TRUTH, Theme
from unskew.report.words import short

# Points of a density's line, and positions that are drawn one by one: more cannot be seen.
DENSITY_POINTS = 240
TICKS = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000]


def diagnostics_panels(found: Diagnostics, theme: Theme = LIGHT) -> list[Panel]:
    """The residuals' density, their spread over deciles, and the clicks by position."""
    spreads = [spread_panel(curve, theme) for curve in found.curves]
    return [clicks_panel(found.clicks, theme), density_panel(found.residuals, theme), *spreads]


def density_panel(statistics: ResidualStatistics, theme: Theme = LIGHT) -> Panel:
    """What is left of the rank once the features have explained what they can, beside a normal curve."""
    density = grid_density(statistics)
    shown = np.flatnonzero(density.density > density.density.max() / 2000)
    places = np.unique(np.linspace(shown[0], shown[-1], DENSITY_POINTS).astype(int))
    grid = density.grid[places]
    sd = max(statistics.sd, float(np.finfo(float).tiny))
    normal = np.exp(-0.5 * ((grid - statistics.mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    data = columns(residual=grid, density=density.density[places], normal=normal)
    base = alt.Chart(data).encode(x=alt.X("residual:Q", title="residual (positive: shown too low)"))
    y = alt.Y("density:Q", title="density")
    tips = [tip("residual", "residual", ".3f"), tip("density", "density", ".2f"), tip("normal", "normal curve", ".2f")]
    chart = alt.layer(
        base.mark_area(color=theme["blue"], opacity=0.25, line={"color": theme["blue"]}).encode(y=y, tooltip=tips),
        base.mark_line(color=theme["ink"], strokeDash=[4, 3], strokeWidth=1.2).encode(y=alt.Y("normal:Q")),
    )
    return Panel(
        "What the features leave unexplained",
        "Residuals of stage one, with a normal curve of the same spread (dashed). These are what the correction works "
        "with: the wider, the more it has.",
        chart,
    )


def densities_panel(named: Mapping[str, tuple[Any, Any]], theme: Theme = LIGHT) -> Panel:
    """Residual densities of several logs, one line each: name → (residuals, densities)."""
    rows = [
        {"name": name, "residual": float(x), "density": float(y)}
        for name, (grid, density) in named.items()
        for x, y in zip(grid, density, strict=True)
        if y > max(density) / 500
    ]
    names = list(named)
    base = alt.Chart(values(rows)).mark_line(point={"size": 0})
    chart = dashed(base, names, field="name").encode(
        x=alt.X("residual:Q", title="residual (positive: shown too low)", axis=alt.Axis(tickCount=5)),
        y=alt.Y("density:Q", title="density"),
        tooltip=[tip("name", "log"), tip("residual", "residual", ".3f"), tip("density", "density", ".2f")],
        color=by_method(names, theme, field="name")["color"],
    )
    return Panel("Residuals", "What stage one leaves over of the rank, log by log.", chart, tuple(names))


def spread_panel(curve: SpreadCurve, theme: Theme = LIGHT) -> Panel:
    """Quantiles of the residuals in groups from the lowest to the highest values of something."""
    low, quarter, median, three, high = curve.quantiles.T
    data = columns(
        group=np.arange(1, len(curve.items) + 1),
        range=[f"{a:.3g} to {b:.3g}" for a, b in zip(curve.low, curve.high)],
        items=curve.items,
        sd=curve.sd,
        low=low,
        quarter=quarter,
        median=median,
        three=three,
        high=high,
    )
    tips = [
        tip("range", f"{short(curve.by)} from"),
        tip("items", "items", ",.0f"),
        tip("sd", "standard deviation", ".3f"),
        tip("median", "median", ".3f"),
        tip("low", "lowest tenth below", ".3f"),
        tip("high", "highest tenth above", ".3f"),
    ]
    x = alt.X("group:O", title=f"groups by {short(curve.by)}, low to high", axis=alt.Axis(labelAngle=0))
    base = alt.Chart(data).encode(x=x, tooltip=tips)
    y = alt.Y("low:Q", title="residual")
    chart = alt.layer(
        base.mark_rule(color=theme["blue"], strokeWidth=1.5).encode(y=y, y2="high:Q"),
        base.mark_bar(color=theme["blue"], size=11, cornerRadius=2).encode(y="quarter:Q", y2="three:Q"),
        base.mark_tick(color=theme["orange"], thickness=3, size=11, opacity=1).encode(y="median:Q"),
    )
    return Panel(
        f"Spread of the residuals by {short(curve.by)}",
        "Bars hold the middle half, lines the middle four fifths of a group's residuals. Bars of unequal height are "
        "what identifies the paper's correction (cfc).",
        chart,
    )


def _position_axis(positions: Sequence[int]) -> Any:
    """Positions on a logarithmic axis: what happens, happens near the top."""
    largest = max(positions, default=1)
    ticks = [tick for tick in TICKS if tick <= largest] or [1]
    return alt.X(
        "position:Q",
        title="position",
        scale=alt.Scale(type="log", domain=[0.9, max(largest, 2) * 1.05], nice=False),
        axis=alt.Axis(values=ticks, format="d", grid=False),
    )


def clicks_panel(clicks: ClickCurve, theme: Theme = LIGHT) -> Panel:
    """The click rate at every position; of an aggregated log the clicks on an item."""
    pooled = pool_positions(clicks)
    data = values(pooled)
    what, exact, axis = ("clicks on an item", ".3~g", "~g") if clicks.counted else ("clicks per impression", ".2%", "%")
    tips = [
        tip("places", "position"),
        tip("rate", what, exact),
        tip("impressions", "impressions", ",.0f"),
    ]
    base = alt.Chart(data).encode(
        x=_position_axis(clicks.position.tolist()),
        y=alt.Y("rate:Q", title=what, axis=alt.Axis(format=axis)),
        tooltip=tips,
    )
    chart = base.mark_line(color=theme["blue"]) + base.mark_point(color=theme["blue"], size=30, opacity=1)
    return Panel(
        "Clicks by position",
        "How often an item was clicked where it stood. The fall mixes two things: better items stand higher, and "
        "higher places are looked at more.",
        chart,
    )


def pool_positions(clicks: ClickCurve, *, single: int = 10, growth: float = 1.15) -> list[dict[str, Any]]:
    """Rows for drawing: every position down to `single`, below it ever wider groups, whose few clicks mean something.

    >>> curve = ClickCurve(np.arange(1, 14), np.full(13, 10.0), np.full(13, 0.1))
    >>> [row["places"] for row in pool_positions(curve)][-3:]
    ['10', '11–12', '13']
    """
    edges = [float(single + 1)]
    while edges[-1] <= clicks.position.max():
        edges.append(max(edges[-1] + 1, edges[-1] * growth))
    group = np.where(clicks.position <= single, clicks.position, single + np.digitize(clicks.position, edges))
    rows = []
    for number in np.unique(group):
        mine = group == number
        places, weight = clicks.position[mine], clicks.impressions[mine]
        rows.append(
            {
                "position": float(np.sqrt(places[0] * places[-1])),
                "places": str(places[0]) if len(places) == 1 else f"{places[0]}–{places[-1]}",
                "rate": float(np.average(clicks.rate[mine], weights=weight)),
                "impressions": float(weight.sum()),
            }
        )
    return rows


def examination_panel(
    curves: Mapping[str, PositionCurve],
    *,
    planted: npt.NDArray[np.float64] | None = None,
    clicks: ClickCurve | None = None,
    theme: Theme = LIGHT,
) -> Panel:
    """What each method believes about examination, beside the planted truth and the clicks, all relative to the top."""
    rows: list[dict[str, Any]] = []
    if clicks is not None and clicks.rate[0] > 0:
        rows += [
            {"name": CLICKS, "position": row["position"], "value": row["rate"] / clicks.rate[0]}
            for row in pool_positions(clicks)
        ]
    for name in order_methods(curves):
        curve = curves[name]
        rows += _curve_rows(name, curve.position, curve.value, curve.low, curve.high)
    last = max((row["position"] for row in rows), default=1)
    if planted is not None:
        rows += _curve_rows(TRUTH, np.arange(1, len(planted) + 1), planted)
        last = max(last, len(planted))
    names = [TRUTH] * (planted is not None) + order_methods(curves) + [CLICKS] * (clicks is not None)
    # The curves fall, so that there is room at the top right for a few names.
    style = by_method(names, theme, field="name", legend="top-right" if len(names) <= 4 else "right")
    tips = [tip("name", "curve"), tip("position", "position", ".0f"), tip("value", "relative to the top", ".3f")]
    x = _position_axis([1, last])
    y = alt.Y("value:Q", title="examination, position 1 = 1", scale=alt.Scale(domainMin=0))
    base = alt.Chart(values(rows)).encode(x=x, color=style["color"])
    band = base.transform_filter("isValid(datum.low)").mark_area(opacity=0.18).encode(y="low:Q", y2="high:Q")
    chart = alt.layer(
        *[band] * any("low" in row for row in rows),
        dashed(base.mark_line(), names, field="name").encode(y=y),
        base.mark_point(size=28, opacity=1).encode(y=y, shape=style["shape"], tooltip=tips),
    )
    return Panel(
        "Examination by position",
        "Examination by position as each method sees it, relative to the top."
        + (" The dashed line is the truth that was planted in this simulated log." if planted is not None else ""),
        chart,
        tuple(names),
    )


def _curve_rows(name: str, position: Any, value: Any, low: Any = None, high: Any = None) -> list[dict[str, Any]]:
    """Rows of a curve: every position near the top, fewer and fewer below."""
    position = np.asarray(position)
    kept = np.unique(np.searchsorted(position, np.unique(np.geomspace(1, max(position.max(), 1), 60).round())))
    rows = []
    for i in kept[kept < len(position)]:
        row = {"name": name, "position": int(position[i]), "value": float(value[i])}
        if low is not None and high is not None:
            row |= {"low": float(low[i]), "high": float(high[i])}
        rows.append(row)
    return rows
