"""The page of the demo, and the picture of it that the README shows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from unskew._words import percent
from unskew.control.diagnostics import click_curve
from unskew.demo import SETTINGS, DemoResult
from unskew.registry import DEFAULT
from unskew.report.log_figures import diagnostics_panels, examination_panel
from unskew.report.model_page import moved_section, summary_of
from unskew.report.movement import movement, origins_panel
from unskew.report.page import Cell, Commands, Facts, Figures, Findings, Page, Section, Table, Text
from unskew.report.panels import Panel, arrange
from unskew.report.run_figures import HEADLINE, gap_panel
from unskew.report.themes import LIGHT, PAGE, Theme
from unskew.report.words import count, gap_words, number

_ROLES = {"naive": "clicks taken at their word", "oracle": "human grades: what others are measured by"}


def demo_rows(result: DemoResult) -> list[dict[str, Any]]:
    """The demo's table as rows of a run."""
    rows = []
    for name in result.evaluation.systems:
        gap = result.gap.get(name)
        for metric in result.evaluation.metrics:
            shown = gap if metric == HEADLINE else None
            rows.append(
                {
                    "method": name,
                    "metric": metric,
                    "mean": result.evaluation.summary[name].mean[metric],
                    "gap_closed": None if shown is None else shown.value,
                    "gap_low": None if shown is None else shown.low,
                    "gap_high": None if shown is None else shown.high,
                }
            )
    return rows


def demo_panels(result: DemoResult, theme: Theme = LIGHT) -> list[Panel]:
    """The pictures that tell the story: what was learnt about looking, and what it gave back, if that can be said."""
    curves = {name: fit.method.bias_ for name, fit in result.fitted.items() if fit.method.bias_ is not None}
    log = result.data.log
    planted = result.data.simulation.curve[: log.longest_list]
    examined = examination_panel(curves, planted=planted, clicks=click_curve(log), theme=theme)
    if all(gap.value is None for gap in result.gap.values()):
        return [examined]
    return [gap_panel(demo_rows(result), theme, title="How much of the gap is closed"), examined]


def demo_figure(result: DemoResult, *, theme: Theme = LIGHT) -> Any:
    """Both pictures side by side."""
    return arrange(demo_panels(result, theme), columns=2, width=340, height=180)


def demo_page(result: DemoResult, *, out: Path, seed: int = 0) -> Page:
    """The whole story on one page."""
    from unskew import __version__

    log, default = result.data.log, DEFAULT
    moved = movement(log, result.fitted[default].method.predict(log.data))
    findings = tuple((item.level, item.about, item.text) for item in result.diagnostics.findings)
    *gap, examined = demo_panels(result, PAGE)
    sections = (
        Section(
            "result",
            "What came out",
            f"{count(result.evaluation.queries, 'judged query', 'judged queries')} that nobody trained on.",
            (_table(result, default), *(Figures((panel,), wide=True) for panel in gap)),
        ),
        Section(
            "looking",
            "How far down people look",
            "The log was simulated, so the truth is known: position k was looked at with probability 1/k. The methods "
            "had to find that out from clicks.",
            (Figures((examined, origins_panel(moved, PAGE))),),
        ),
        moved_section(log, moved),
        Section(
            "log",
            "The log, and what can be learnt from it",
            "What the diagnostics say before anything is fitted. On your own log: unskew diagnose.",
            (
                Findings(findings),
                *_verdict(result, default),
                Figures(tuple(diagnostics_panels(result.diagnostics, PAGE))),
            ),
        ),
        _again(result, out, seed),
    )
    return Page(
        title="What clicks say once position is taken out",
        kicker="unskew demo",
        asked="People click what stands on top. Trained on such clicks, a ranker learns the old order again: "
        "how much of what that costs can be won back from the clicks?",
        answer=_answer(result, default),
        numbers=_numbers(result, default),
        sections=sections,
        made=(f"unskew {__version__}", f"seed {seed}", f"{result.seconds:.0f} seconds"),
    )


def _answer(result: DemoResult, default: str) -> tuple[str, str]:
    mean = {name: of.mean[HEADLINE] for name, of in result.evaluation.summary.items()}
    first = (
        f"Trained on the clicks as they are, the ranker reaches an NDCG@10 of {number(mean['naive'], '.3f')}; "
        f"trained on human grades it would reach {number(mean['oracle'], '.3f')}."
    )
    gap = result.gap[default]
    if gap.value is None:
        return first, f"That difference is too small here to say how much of it {default} wins back."
    return first, (
        f"Trained on the same clicks with the recommended method, {default}, it reaches "
        f"{number(mean[default], '.3f')}, {gap_words(gap.value, gap.low, gap.high)}."
    )


def _verdict(result: DemoResult, default: str) -> tuple[Text, ...]:
    verdict = result.fitted[default].verdict
    return () if verdict is None else (Text(f"The referee: {verdict.text}"),)


def _numbers(result: DemoResult, default: str) -> tuple[tuple[str, str], ...]:
    log, gap = result.data.log, result.gap[default]
    return (
        (percent(gap.value), f"of the gap closed by {default}"),
        (f"{log.n_sessions:,}", f"sessions of {len(log.queries):,} queries"),
        (f"{log.n_clicks:,}", f"clicks, {percent(log.n_clicks / log.n_impressions, 1)} of what was shown"),
        (f"{result.seconds:.0f} s", "for everything on this page"),
    )


def _role(name: str, default: str) -> str:
    words = _ROLES.get(name, summary_of(name))
    return f"recommended: {words}" if name == default else words


def _table(result: DemoResult, default: str) -> Table:
    shown = ("ndcg@10", "ndcg@1", "err@10")
    best = {
        metric: max(of.mean[metric] for name, of in result.evaluation.summary.items() if name != "oracle")
        for metric in shown
    }
    rows = []
    for name in result.evaluation.systems:
        mean, gap = result.evaluation.summary[name].mean, result.gap.get(name)
        interval = "" if gap is None or gap.value is None else f"{percent(gap.low)} to {percent(gap.high)}"
        share = None if gap is None else gap.value
        rows.append(
            (
                Cell(name, note=_role(name, default)),
                Cell(percent(share), share, interval),
                *(Cell(number(mean[metric]), mean[metric], strong=mean[metric] == best[metric]) for metric in shown),
                Cell(f"{result.fitted[name].seconds:.1f}", result.fitted[name].seconds),
            )
        )
    columns = ("method", "gap closed", *(metric.upper() for metric in shown), "seconds")
    caption = (
        "Bold: best of those that learn from clicks. Gap closed: how far from naive to oracle in NDCG@10, with its "
        f"95 % interval. {_chosen_on(result)}"
    )
    return Table("", columns, (False,) + (True,) * (len(columns) - 1), tuple(rows), caption)


def _chosen_on(result: DemoResult) -> str:
    """What settings were chosen on, once for all methods that have it in common."""
    groups: dict[str, list[str]] = {}
    for name, fitted in result.fitted.items():
        groups.setdefault(fitted.chosen_on, []).append(name)
    said = "; ".join(f"{', '.join(names)} on {what}" for what, names in groups.items())
    return f"Settings were chosen: {said}."


def _again(result: DemoResult, out: Path, seed: int) -> Section:
    seeds = () if seed == 0 else ("--seed", str(seed))
    log, model = str(result.log_path), str(result.model_path)
    lines = (
        shlex.join(["unskew", "demo", "--out", str(out), *seeds]),
        shlex.join(["unskew", "diagnose", log]),
        shlex.join(["unskew", "fit", log, "--out", str(out / "mine")]),
        shlex.join(["unskew", "report", model, "--log", log, "-o", str(out / "model.html")]),
    )
    settings = Facts(
        (
            ("severity η", f"{SETTINGS['eta']:g}"),
            ("passes over the queries", f"{SETTINGS['passes']}"),
            ("grades the production ranker saw", percent(SETTINGS["production"])),
            ("its NDCG@10", number(result.data.simulation.production.ndcg, ".3f")),
            ("seed", str(seed)),
        )
    )
    text = Text("Your own log: one row an impression, with query, session, item, position, click and features.")
    return Section("again", "Run it again", "", (Commands(lines), text, settings))
