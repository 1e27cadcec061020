"""Pictures of a run: the gap closed, sweeps over a setting, and time against quality, from the rows of its table.

A row is what `unskew bench show --json` gives: experiment, data, setting, ranker, method, metric, mean, sd, n,
gap_closed, gap_low, gap_high, p, published.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from unskew._words import percent
from unskew.report.panels import Panel, by_method, dashed, order_methods, tip, values
from unskew.report.themes import LIGHT, Theme, styles_of

Row = Mapping[str, Any]

# A method can lose many times the gap; bars end here and their labels say the number.
LOWEST_GAP = -1.0
HEADLINE = "ndcg@10"
# The two ends of the gap by name, below their numbers.
_ENDS = "{'0': ['0 %', 'naive'], '1': ['100 %', 'oracle']}[datum.value] || format(100 * datum.value, '.0f') + ' %'"


def gap_panel(
    rows: Sequence[Row],
    theme: Theme = LIGHT,
    *,
    metric: str = HEADLINE,
    title: str = "",
    beside: Sequence[Row] | None = None,
) -> Panel:
    """How much of the way from naive to oracle each method goes, with 95 % intervals; one bar a row.

    beside : rows of all panels that stand together, so that bars of one length mean one share.
    """
    kept = _with_gap(rows, metric)
    names = order_methods(row["method"] for row in kept)
    styles = styles_of(names)
    drawn = [_gap_row(row) for row in kept]
    reach = drawn if beside is None else [_gap_row(row) for row in _with_gap(beside, metric)]
    lowest = min([0.0, *(row["low"] for row in reach)])
    highest = max([1.0, *(row["high"] for row in reach)])
    # Room on the right for a column with the numbers.
    domain = [lowest - 0.04 * (highest - lowest), highest + 0.26 * (highest - lowest)]
    x = alt.X("shown:Q", title="share of the gap closed", scale=alt.Scale(domain=domain, nice=False, clamp=True))
    ticks = [tick / 2 for tick in range(-2, 6) if domain[0] <= tick / 2 <= domain[1]]
    x = x.axis(alt.Axis(labelExpr=_ENDS, grid=False, values=ticks))
    y = alt.Y("method:N", sort=names, title=None, axis=alt.Axis(labelFontSize=12, domain=False, ticks=False))
    colour = alt.Color(
        "method:N",
        scale=alt.Scale(domain=names, range=[theme[styles[name].hue] for name in names]),
        legend=None,
    )
    tips = [
        tip("method", "method"),
        tip("gap", "gap closed", ".0%"),
        tip("interval", "95 % interval"),
        tip("mean", metric.upper(), ".4f"),
    ]
    base = alt.Chart(values(drawn)).encode(y=y, tooltip=tips)
    ends = alt.Chart(values([{"at": 0.0}, {"at": 1.0}])).encode(x="at:Q")
    chart = alt.layer(
        ends.mark_rule(color=theme.muted, strokeDash=[3, 3]),
        base.mark_bar(opacity=0.85, size=20, cornerRadius=2).encode(x=x, color=colour),
        base.mark_rule(color=theme.ink, strokeWidth=1.6).encode(x="low:Q", x2="high:Q"),
        base.mark_text(color=theme.ink, align="right", fontWeight="bold").encode(
            x=alt.datum(domain[1]), text="label:N"
        ),
    )
    return Panel(
        title or "How much of the gap each method closes",
        f"0 % is the ranker trained on clicks as they are (naive), 100 % the one trained on human grades (oracle), "
        f"in {metric.upper()}. Lines are 95 % intervals over queries"
        + (f", cut off at {percent(LOWEST_GAP)}." if any(row["cut"] for row in drawn) else "."),
        chart,
        height=34 * max(len(names), 2),
    )


def _with_gap(rows: Sequence[Row], metric: str) -> list[Row]:
    return [row for row in rows if row["metric"] == metric and row.get("gap_closed") is not None]


def _gap_row(row: Row) -> dict[str, Any]:
    gap = float(row["gap_closed"])
    low = gap if row.get("gap_low") is None else float(row["gap_low"])
    high = gap if row.get("gap_high") is None else float(row["gap_high"])
    return {
        "method": row["method"],
        "gap": gap,
        "shown": max(gap, LOWEST_GAP),
        "low": max(low, LOWEST_GAP),
        "high": max(high, LOWEST_GAP),
        "cut": low < LOWEST_GAP,
        "label": percent(gap),
        "interval": f"{percent(low)} to {percent(high)}",
        "mean": row["mean"],
    }


def setting_value(setting: Any) -> tuple[str, float] | None:
    """Name and number of a swept setting, None where it is no number.

    >>> setting_value("eta=1.5"), setting_value({"passes": 10}), setting_value("deterministic")
    (('eta', 1.5), ('passes', 10.0), None)
    """
    if isinstance(setting, Mapping):
        setting = ", ".join(f"{name}={value}" for name, value in setting.items())
    found = re.fullmatch(r"\s*([\w ]*?)\s*[=:]?\s*(-?\d+(?:\.\d+)?)\s*(%?)\s*", str(setting))
    return None if found is None else (found[1] or "setting", float(found[2]) / (100 if found[3] else 1))


_AXES = {"eta": "severity η of position bias", "passes": "passes over the queries", "noise": "click noise ε"}


def is_sweep(rows: Sequence[Row]) -> bool:
    """Whether these rows differ in one setting that is a number."""
    found = {setting_value(row["setting"]) for row in rows}
    return len(found) > 1 and None not in found and len({pair[0] for pair in found if pair}) == 1


def sweep_panels(rows: Sequence[Row], theme: Theme = LIGHT, *, metric: str = HEADLINE) -> list[Panel]:
    """Quality against a swept setting: one panel a data set, one row a ranker."""
    kept = [row for row in rows if row["metric"] == metric and setting_value(row["setting"]) is not None]
    names = order_methods(row["method"] for row in kept)
    panels = []
    for ranker in dict.fromkeys(row["ranker"] for row in kept):
        for data in dict.fromkeys(row["data"] for row in kept):
            mine = [row for row in kept if row["ranker"] == ranker and row["data"] == data]
            if mine:
                panels.append(_sweep(mine, names, metric, f"{data}, {ranker}", theme))
    return panels


def _sweep(rows: Sequence[Row], names: list[str], metric: str, title: str, theme: Theme) -> Panel:
    drawn = []
    what = ""
    for row in rows:
        found = setting_value(row["setting"])
        assert found is not None
        what = found[0]
        sd = row.get("sd")
        drawn.append(
            {
                "value": found[1],
                "method": row["method"],
                "mean": row["mean"],
                "gap": percent(row.get("gap_closed")),
                "spread": "–" if sd is None else f"±{sd:.4f}",
            }
        )
    ticks = sorted({row["value"] for row in drawn})
    form = ".0%" if what == "noise" else "~g"
    x = alt.X(
        "value:Q",
        title=_AXES.get(what, what),
        scale=alt.Scale(domain=[ticks[0], ticks[-1]], padding=14, nice=False),
        axis=alt.Axis(values=ticks, format=form),
    )
    # A label at the very top would push the panel's title out of line with its neighbours'.
    y = alt.Y("mean:Q", title=metric.upper(), scale=alt.Scale(zero=False, nice=False, padding=12))
    style = by_method(names, theme)
    tips = [
        tip("method", "method"),
        tip("value", what, form),
        tip("mean", metric.upper(), ".4f"),
        tip("spread", "spread"),
        tip("gap", "gap closed"),
    ]
    base = alt.Chart(values(drawn)).encode(x=x, y=y, color=style["color"])
    lines = dashed(base.mark_line(), names)
    points = base.mark_point(opacity=1).encode(shape=style["shape"], tooltip=tips)
    text = f"{metric.upper()} on judged test queries as the {_AXES.get(what, what)} grows; higher is better."
    return Panel(title, text, lines + points, tuple(names))


def setting_panels(rows: Sequence[Row], theme: Theme = LIGHT, *, metric: str = HEADLINE) -> list[Panel]:
    """Quality in settings that are no numbers: one panel a ranker, a line of points a setting."""
    kept = [row for row in rows if row["metric"] == metric]
    settings = list(dict.fromkeys(row["setting"] for row in kept))
    panels = []
    for ranker in dict.fromkeys(row["ranker"] for row in kept):
        mine = [row for row in kept if row["ranker"] == ranker]
        names = order_methods(row["method"] for row in mine)
        style = by_method(names, theme)
        drawn = [
            {key: row[key] for key in ("setting", "method", "mean")} | {"gap": percent(row.get("gap_closed"))}
            for row in mine
        ]
        tips = [tip("setting", "setting"), tip("method", "method"), tip("mean", metric.upper(), ".4f")]
        chart = (
            alt.Chart(values(drawn))
            .mark_point(size=85, opacity=0.9)
            .encode(
                x=alt.X(
                    "mean:Q",
                    title=metric.upper(),
                    scale=alt.Scale(zero=False, nice=False, padding=10),
                    axis=alt.Axis(tickCount=5),
                ),
                y=alt.Y("setting:N", sort=settings, title=None, axis=alt.Axis(grid=True, labelLimit=150)),
                tooltip=[*tips, tip("gap", "gap closed")],
                **style,
            )
        )
        text = f"{metric.upper()} on judged test queries with {ranker}, setting by setting; to the right is better."
        panels.append(Panel(f"With {ranker}", text, chart, tuple(names), height=40 * max(len(settings), 2)))
    return panels


def _room(seconds: Sequence[float]) -> tuple[float, float]:
    """Bounds around times on a logarithmic axis, a decade apart at least."""
    low, high = min(seconds) / 1.4, max(seconds) * 1.4
    widen = max(10 / (high / low), 1) ** 0.5
    return low / widen, high * widen


def time_panel(
    points: Sequence[Row],
    theme: Theme = LIGHT,
    *,
    metric: str = HEADLINE,
    title: str = "",
    names: Sequence[str] | None = None,
) -> Panel:
    """Seconds to fit against quality: rows with method, seconds and mean.

    names : methods of all panels that stand together and share a legend.
    """
    shown = order_methods([row["method"] for row in points] if names is None else names)
    tips = [tip("method", "method"), tip("seconds", "seconds to fit", ".2~f"), tip("mean", metric.upper(), ".4f")]
    drawn = [{key: row[key] for key in ("method", "seconds", "mean")} for row in points]
    low, high = _room([row["seconds"] for row in drawn])
    steps = [step * 10.0**power for power in range(-4, 7) for step in (1, 3)]
    ticks = alt.Axis(values=[step for step in steps if low <= step <= high], format="~g", grid=False)
    x_scale = alt.Scale(type="log", domain=[low, high], nice=False)
    y_scale = alt.Scale(zero=False, nice=False, padding=16)
    chart = (
        alt.Chart(values(drawn))
        .mark_point(size=90, opacity=1)
        .encode(
            x=alt.X("seconds:Q", title="seconds to fit", scale=x_scale, axis=ticks),
            y=alt.Y("mean:Q", title=metric.upper(), scale=y_scale),
            tooltip=tips,
            **by_method(shown, theme),
        )
    )
    return Panel(
        title or "Time against quality",
        f"What a fit costs and what it gives, in {metric.upper()} on judged queries: up and to the left is better.",
        chart,
        tuple(shown),
    )
