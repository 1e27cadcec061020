"""Figures as files: what to draw of a log, and writing any chart as PNG, SVG, PDF or a page of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import vl_convert

from unskew._files import atomic_path, check_folder
from unskew.control.diagnostics import Diagnostics
from unskew.data.clicks import ClickLog
from unskew.errors import OutputError
from unskew.report.log_figures import diagnostics_panels
from unskew.report.panels import arrange
from unskew.report.themes import LIGHT, Theme

SUFFIXES: Final = (".png", ".svg", ".pdf", ".html")
# Sharp on screens of high density, and in a README.
PNG_SCALE: Final = 2.0
VEGA_LITE: Final = "6.4"


def diagnostics_figure(log: ClickLog, diagnostics: Diagnostics, *, theme: Theme = LIGHT) -> Any:
    """Clicks by position, the residuals' density, and their spread by expected rank and by feature."""
    title = f"{log.n_sessions:,} sessions of {len(log.queries):,} queries, {log.n_clicks:,} clicks"
    return arrange(diagnostics_panels(diagnostics, theme), columns=2).properties(title=title)


def save_figure(chart: Any, path: str | os.PathLike[str], *, theme: Theme = LIGHT) -> None:
    """Write a chart; the name's suffix says as what: .png, .svg, .pdf, or .html (which needs no network)."""
    check_figure(path)
    target = Path(path)
    content = _render(spec_of(chart, theme), target.suffix.lower())
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)


def check_figure(path: str | os.PathLike[str]) -> None:
    """Refuse a name that no figure can be written to; asked before long work rather than after it."""
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"Cannot write {target}: a folder of that name is there. Name another file.")
    if target.suffix.lower() not in SUFFIXES:
        raise OutputError(
            f"Cannot write a figure as '{target.name}': the name must end in {', '.join(SUFFIXES[:-1])} or "
            f"{SUFFIXES[-1]}."
        )
    check_folder(target.parent)


def spec_of(chart: Any, theme: Theme) -> dict[str, Any]:
    """The Vega-Lite specification of a chart in this look."""
    spec = chart.to_dict()
    # Altair's own default configuration gives way to the theme's.
    return {
        **spec,
        "config": theme.config(),
        "padding": 16 if theme.paper else {"left": 1, "top": 4, "right": 12, "bottom": 6},
    }


def _render(spec: dict[str, Any], suffix: str) -> bytes:
    if suffix == ".png":
        return vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=PNG_SCALE)
    if suffix == ".pdf":
        return vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE)
    if suffix == ".svg":
        return vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE).encode()
    return vl_convert.vegalite_to_html(spec, vl_version=VEGA_LITE, bundle=True).encode()
