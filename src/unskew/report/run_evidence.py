"""What stands behind a run's numbers: its figures, its logs, its failures, and what to be careful about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unskew._words import percent
from unskew.bench.outcomes import Outcome
from unskew.bench.tables import Row
from unskew.bench.tables_times import times
from unskew.control.diagnostics import ClickCurve
from unskew.method import PositionCurve
from unskew.report.log_figures import clicks_panel, densities_panel, examination_panel
from unskew.report.page import Block, Facts, Figures, Findings, Section
from unskew.report.panels import Panel
from unskew.report.run_figures import HEADLINE, gap_panel, is_sweep, setting_panels, sweep_panels, time_panel
from unskew.report.themes import PAGE, Theme
from unskew.report.words import count, number, short

Finding = tuple[str, str, str]
# (ranker, method) → what was written beside the metrics of its units
Records = dict[tuple[str, str], list[dict[str, Any]]]
SHOWN_FAILURES = 20


def outcome_figures(outcome: Outcome, table: Sequence[Row], theme: Theme = PAGE) -> list[Block]:
    """The figures of one experiment: what suits its kind and its settings."""
    panels = outcome_panels(outcome, table, theme)
    if not panels:
        return []
    return [Figures(tuple(panels), wide=len(panels) == 1)]


def outcome_panels(outcome: Outcome, table: Sequence[Row], theme: Theme = PAGE) -> list[Panel]:
    """Residual densities; a sweep; settings side by side; or the gap closed and the time it took."""
    if outcome.plan.kind == "residuals":
        named = dict(_densities(outcome))
        return [densities_panel(named, theme)] if named else []
    measured = [row for row in table if row["metric"] == HEADLINE]
    if not measured:
        return []
    if is_sweep(measured):
        return sweep_panels(measured, theme)
    if len(outcome.plan.settings) > 1:
        return setting_panels(measured, theme)
    return [*gap_panels(measured, theme), *time_panels(outcome, measured, theme)]


def _densities(outcome: Outcome) -> Iterable[tuple[str, tuple[Any, Any]]]:
    for setting in outcome.plan.settings:
        for records in outcome.records(setting).values():
            density = records[0].get("density")
            if density:
                yield setting, (density["residual"], density["density"])
                break


def gap_panels(rows: Sequence[Row], theme: Theme = PAGE) -> list[Panel]:
    """The gap closed, one panel a ranker that has both ends of it."""
    found = []
    for ranker in dict.fromkeys(row["ranker"] for row in rows if row["gap_closed"] is not None):
        mine = [row for row in rows if row["ranker"] == ranker]
        found.append(gap_panel(mine, theme, title=f"Gap closed with {ranker}", beside=rows))
    return found


def time_panels(outcome: Outcome, rows: Sequence[Row], theme: Theme = PAGE) -> list[Panel]:
    """Time against quality, one panel a ranker with enough methods to compare."""
    taken = {(row["ranker"], row["method"]): row["seconds"] for row in times(outcome)}
    by_ranker: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        seconds = taken.get((row["ranker"], row["method"]), 0)
        if seconds > 0:
            point = {"method": row["method"], "mean": row["mean"], "seconds": seconds}
            by_ranker.setdefault(row["ranker"], []).append(point)
    shown = {ranker: points for ranker, points in by_ranker.items() if len(points) > 2}
    names = [point["method"] for points in shown.values() for point in points]
    return [
        time_panel(points, theme, title=f"Time against quality, {ranker}", names=names)
        for ranker, points in shown.items()
    ]


def evidence_section(outcomes: Sequence[Outcome], theme: Theme = PAGE) -> Section:
    """The logs behind the numbers, and what to be careful about."""
    findings = [finding for outcome in outcomes for finding in _cautions(outcome)]
    blocks: list[Block] = [Findings(tuple(dict.fromkeys(findings)))] if findings else []
    for outcome in outcomes:
        records = _first_records(outcome)
        if records:
            blocks += _log_blocks(records, theme)
            break
    lead = "How the clicks came about, what the methods made of them, and how far the numbers carry."
    return Section("evidence", "The logs, and what to be careful about", lead, tuple(blocks))


def _first_records(outcome: Outcome) -> Records:
    return outcome.records(outcome.plan.settings[0]) if outcome.plan.settings else {}


def _log_blocks(records: Records, theme: Theme) -> list[Block]:
    log = _log_of(records)
    counts = ("queries", "sessions", "impressions", "clicks")
    facts: list[tuple[str, str]] = [(name, f"{log[name]:,}") for name in counts if name in log]
    if log.get("production_ndcg@10") is not None:
        facts.append(("NDCG@10 of the production ranker", number(log["production_ndcg@10"], ".3f")))
    panels = _log_panels(records, theme)
    return [Facts(tuple(facts)), Figures(tuple(panels))] if panels else [Facts(tuple(facts))]


def log_panels(outcome: Outcome, theme: Theme = PAGE) -> list[Panel]:
    """Clicks by position, and what the methods made of them, in an experiment's first setting."""
    records = _first_records(outcome)
    return _log_panels(records, theme) if records else []


def _log_panels(records: Records, theme: Theme) -> list[Panel]:
    log = _log_of(records)
    panels, clicks = [], None
    if log.get("by_position"):
        curve = log["by_position"]
        clicks = ClickCurve(*(np.asarray(curve[name]) for name in ("position", "impressions", "rate")))
        panels.append(clicks_panel(clicks, theme))
    curves = {
        method: curve for (_, method), found in reversed(records.items()) if (curve := mean_curve(found)) is not None
    }
    planted = next((r["planted_curve"] for of in records.values() for r in of if r.get("planted_curve")), None)
    if curves:
        truth = None if planted is None else np.asarray(planted, dtype=float)
        panels.append(examination_panel(curves, planted=truth, clicks=clicks, theme=theme))
    return panels


def _log_of(records: Records) -> dict[str, Any]:
    return next(iter(records.values()))[0].get("log") or {}


def mean_curve(records: Sequence[dict[str, Any]]) -> PositionCurve | None:
    """A method's position curve, averaged over folds and seeds as far down as all of them reach."""
    found = [record["curve"] for record in records if record.get("curve")]
    if not found:
        return None
    length = min(len(curve["value"]) for curve in found)
    value = np.mean([curve["value"][:length] for curve in found], axis=0)
    return PositionCurve(np.asarray(found[0]["position"][:length]), value)


def _cautions(outcome: Outcome) -> Iterable[Finding]:
    """What a reader must know before believing a number."""
    plan = outcome.plan
    name = f"{plan.experiment} on {plan.data}"
    if plan.preset == "smoke":
        yield "bad", "a smoke run", "It shows that everything works; its numbers mean nothing."
    elif len(plan.seeds) == 1:
        yield (
            "weak",
            "one draw of clicks",
            ("With a single click seed the intervals know about queries, not about the luck of the clicks."),
        )
    for failure in outcome.failures[:SHOWN_FAILURES]:
        yield "bad", f"failed: {short(failure.said, 80)}", short(failure.error, 300)
    waiting = outcome.missing - len(outcome.failures)
    if waiting > 0:
        yield "weak", name, f"{count(waiting, 'unit')} of {len(plan.units)} are not done yet."
    yield from _residual_findings(outcome)


def _residual_findings(outcome: Outcome) -> Iterable[Finding]:
    """What the diagnostics said, where an experiment looked at them, or what stage one left to the methods."""
    setting = outcome.plan.settings[0]
    for (_, method), records in outcome.records(setting).items():
        for finding in (records[0].get("diagnostics") or {}).get("findings", []):
            yield finding["level"], finding["about"], finding["text"]
        learnt = (records[0].get("learnt") or {}) if method == "cfc" else {}
        if "stage_one" in learnt:
            r2, share = learnt["stage_one"]["r2"], learnt.get("control_gain_share")
            text = f"Stage one explains {percent(r2)} of the rank's variance"
            if share is not None:
                text += f"; the control terms took {percent(share)} of the ranker's gain, all of it zero at inference"
            yield ("weak" if r2 > 0.95 or (share or 0) > 0.5 else "fine"), "what cfc had to work with", f"{text}."
