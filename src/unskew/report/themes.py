"""One look for every picture: colours that colour-blind readers can tell apart, in light, dark and inside a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

# What vl-convert and browsers find on most machines, in this order.
FILE_FONT = "Inter, 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
PAGE_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
HUES = ("blue", "orange", "green", "vermilion", "purple", "sky", "grey", "ink")


@dataclass(frozen=True)
class Theme:
    """Colours by name.

    hues : the colours of HUES (the Okabe–Ito set, lightened for dark paper).
    ink, muted, grid, paper : text, lesser text, lines of the grid, background (None: whatever is behind).
    legend : whether a picture carries its own legend; a page draws one beside its pictures.
    """

    name: str
    hues: Mapping[str, str]
    ink: str
    muted: str
    grid: str
    paper: str | None
    legend: bool = True
    font: str = FILE_FONT

    def __getitem__(self, hue: str) -> str:
        return self.hues[hue]

    def config(self) -> dict[str, Any]:
        """Vega-Lite's configuration of this look."""
        axis = {
            "domainColor": self.grid,
            "gridColor": self.grid,
            "tickColor": self.grid,
            "labelColor": self.muted,
            "titleColor": self.muted,
            "titleFontWeight": "normal",
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titlePadding": 8,
            "titleLimit": 250,
            "labelOverlap": True,
            "tickSize": 4,
        }
        text = {"labelColor": self.ink, "titleColor": self.muted, "labelFontSize": 11, "titleFontSize": 11}
        return {
            "font": self.font,
            "background": self.paper,
            "view": {"stroke": None},
            "axis": axis,
            "axisX": {"grid": False},
            "axisY": {"domain": False, "ticks": False, "tickCount": 5},
            "title": {
                "color": self.ink,
                "fontSize": 13,
                "anchor": "start",
                "frame": "group",
                "offset": 12,
                "subtitleColor": self.muted,
                "subtitleFontSize": 11,
                "subtitlePadding": 4,
            },
            "legend": {**text, "title": None, "symbolStrokeWidth": 2, "symbolSize": 70, "labelLimit": 220},
            "header": {**text, "labelFontSize": 12},
            "line": {"strokeWidth": 2, "strokeCap": "round", "strokeJoin": "round"},
            "point": {"size": 55, "filled": True},
            "text": {"color": self.ink, "fontSize": 11},
            "rule": {"color": self.muted},
        }


def _hues(*colours: str) -> Mapping[str, str]:
    return MappingProxyType(dict(zip(HUES, colours, strict=True)))


LIGHT = Theme(
    name="light",
    hues=_hues("#0067a5", "#d68a00", "#00875f", "#c84e00", "#b0568a", "#3d9fd6", "#7a7f87", "#1d2126"),
    ink="#1d2126",
    muted="#565d66",
    grid="#e3e6ea",
    paper="#ffffff",
)
DARK = Theme(
    name="dark",
    hues=_hues("#5aa9f0", "#f2b33d", "#35c493", "#ff8a55", "#e59ac7", "#92d7ff", "#9aa1ab", "#eceff3"),
    ink="#eceff3",
    muted="#a7aeb8",
    grid="#333a43",
    paper="#14181d",
)
# Inside a page the colours are the page's own, so that a change from light to dark, or to print, needs no redrawing.
PAGE = Theme(
    name="page",
    hues=_hues(*(f"var(--hue-{hue})" for hue in HUES)),
    ink="var(--ink)",
    muted="var(--muted)",
    grid="var(--line)",
    paper=None,
    legend=False,
    font=PAGE_FONT,
)


@dataclass(frozen=True)
class Style:
    """How a method is drawn: its hue, the dashes of its line ([] for a solid one) and the shape of its points."""

    hue: str
    dash: tuple[int, ...] = ()
    shape: str = "circle"


_SOLID, _DASHED, _DOTTED = (), (6, 3), (2, 3)

# Curves of examination that are no method's: what a simulation planted, and the clicks as they are.
TRUTH, CLICKS = "planted truth", "clicks, uncorrected"

# A hue says what a method is about; methods of one hue differ in dash and shape, for readers who see no hues.
STYLES: Mapping[str, Style] = MappingProxyType(
    {
        "naive": Style("grey", _DASHED, "square"),
        "oracle": Style("ink", _DOTTED, "diamond"),
        "cfc": Style("vermilion", _SOLID, "circle"),
        "cfc-s": Style("vermilion", _DASHED, "square"),
        "cfc-bc": Style("vermilion", _DOTTED, "triangle-up"),
        "full-cfc": Style("blue", _SOLID, "circle"),
        "default": Style("blue", _DASHED, "square"),
        "position": Style("green", _SOLID, "circle"),
        "xgb-unbiased": Style("green", _DASHED, "square"),
        "pijd": Style("orange", _SOLID, "circle"),
        "pijd-linear": Style("orange", _DASHED, "square"),
        "paird": Style("purple", _SOLID, "circle"),
        "upe": Style("sky", _SOLID, "circle"),
        "multr": Style("sky", _DASHED, "square"),
        "pal": Style("sky", _DOTTED, "triangle-up"),
        "rem": Style("purple", _DASHED, "square"),
        "dla": Style("purple", _DOTTED, "triangle-up"),
        TRUTH: Style("ink", _DASHED, "circle"),
        CLICKS: Style("grey", _DOTTED, "circle"),
    }
)
_SPARE = tuple(Style(hue, dash, "cross") for dash in (_SOLID, _DASHED, _DOTTED) for hue in HUES[:6])


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """Every name's style; names that are no method of ours take the spare ones in turn.

    >>> styles_of(["cfc", "mine"])["mine"]
    Style(hue='blue', dash=(), shape='cross')
    """
    found: dict[str, Style] = {}
    spare = 0
    for name in dict.fromkeys(names):
        if name in STYLES:
            found[name] = STYLES[name]
        else:
            found[name] = _SPARE[spare % len(_SPARE)]
            spare += 1
    return found
