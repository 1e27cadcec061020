"""The page of a fitted model: what the log looked like, what the correction did, what moved, whether to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew._words import percent, setting
from unskew.control.diagnostics import Diagnostics, Finding, diagnose
from unskew.data.clicks import ClickLog
from unskew.data.fingerprint import fingerprint
from unskew.deploy.model import Model, load
from unskew.method import PositionCurve
from unskew.registry import methods
from unskew.report.again import fit_command, left_to_fill_in, referee_of
from unskew.report.log_figures import diagnostics_panels, examination_panel
from unskew.report.movement import Movement, movement, origins_panel
from unskew.report.page import Block, Cell, Commands, Facts, Figures, Findings, Page, Section, Table, Text
from unskew.report.themes import PAGE
from unskew.report.trust import VERDICTS, trust_findings, verdict
from unskew.report.words import count, listed, number, short

SHOWN_ITEMS = 8


@dataclass(frozen=True, eq=False)
class ModelFacts:
    """A model, and what its log adds where one was given."""

    model: Model
    log: ClickLog | None
    diagnostics: Diagnostics | None
    moved: Movement | None
    same_log: bool | None

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self.model.manifest

    @property
    def method(self) -> str:
        return str(self.manifest.get("method", "a method"))


def model_page(folder: Path, *, log: ClickLog | None = None, log_name: str = "LOG", seed: int = 0) -> Page:
    """The page of a saved model; with the log it was fitted on the page can say much more."""
    return page_of(gather(load(folder), log, seed=seed), folder=str(folder), log_name=log_name)


def gather(model: Model, log: ClickLog | None, *, seed: int = 0) -> ModelFacts:
    """Look at the log through the model."""
    if log is None:
        return ModelFacts(model, None, None, None, None)
    moved = movement(log, model.predict(log.data))
    known = (model.manifest.get("data") or {}).get("sha256")
    same = None if known is None else fingerprint(log)["sha256"] == known
    share = (model.manifest.get("extra") or {}).get("control_gain_share")
    return ModelFacts(model, log, diagnose(log, gain_share=share, seed=seed), moved, same)


def page_of(facts: ModelFacts, *, folder: str, log_name: str) -> Page:
    """What to say about a model."""
    findings = trust_findings(facts.manifest, diagnostics=facts.diagnostics, moved=facts.moved, same_log=facts.same_log)
    level = verdict(findings)
    sections = [
        Section(
            "trust",
            "Can I trust it?",
            f"{VERDICTS[level]}. Only judged queries or an experiment on live traffic can prove that a model is "
            "better; this list says what speaks for and against it.",
            (Findings(tuple((item.level, item.about, item.text) for item in findings)),),
        ),
        _log_section(facts),
        *correction_sections(facts),
        _making_section(facts, folder, log_name),
    ]
    versions = (f"{name} {version}" for name, version in (facts.manifest.get("libraries") or {}).items())
    return Page(
        title=f"A ranking model learnt with {facts.method}",
        kicker="unskew · fitted model",
        asked="What does this model do with the log it was learnt from, and is it to be trusted?",
        answer=_answer(facts, _verdict(findings)),
        level=level,
        numbers=_numbers(facts),
        sections=sections,
        made=tuple(versions),
    )


def _verdict(findings: list[Finding]) -> str:
    """The verdict and what it rests on."""
    level = verdict(findings)
    reasons = list(dict.fromkeys(item.about for item in findings if item.level == level))
    return VERDICTS[level] if level == "fine" else f"{VERDICTS[level]} ({listed(reasons)})"


def _answer(facts: ModelFacts, said: str) -> tuple[str, ...]:
    data = facts.manifest.get("data") or {}
    what = made_of(facts.manifest)
    learnt = f" from {count(data['clicks'], 'click')}" if "clicks" in data else ""
    first = f"The model was learnt{learnt} with {facts.method}" + (f" ({what})." if what else ".")
    if facts.moved is None:
        return first, f"{said}, as far as the model alone can tell; give its log with --log to learn more."
    kept = percent(facts.moved.kept)
    return first, f"{said}. It keeps {kept} of the log's {facts.moved.top} at the top and replaces the rest."


def _numbers(facts: ModelFacts) -> tuple[tuple[str, str], ...]:
    data = facts.manifest.get("data") or {}
    found = [(f"{data[key]:,}", key) for key in ("queries", "sessions", "clicks") if isinstance(data.get(key), int)]
    if facts.moved is not None:
        found.append((percent(facts.moved.kept), f"of the items in its {facts.moved.top} stood there in the log"))
    return tuple(found)


def _log_section(facts: ModelFacts) -> Section:
    data = facts.manifest.get("data") or {}
    names = ("queries", "rows", "features", "sessions", "impressions", "clicks")
    blocks: list[Block] = [Facts(tuple((name, f"{data[name]:,}") for name in names if isinstance(data.get(name), int)))]
    if facts.diagnostics is not None:
        blocks.append(Figures(tuple(diagnostics_panels(facts.diagnostics, PAGE))))
    else:
        blocks.append(Text("Its clicks and positions are not stored with the model: give the log with --log."))
    return Section("log", "What the log looked like", "", tuple(blocks))


def correction_sections(facts: ModelFacts) -> list[Section]:
    """What the correction believes about examination, and which items moved."""
    blocks: list[Block] = []
    panels = []
    curve = curve_of(facts.manifest)
    if curve is not None:
        clicks = None if facts.diagnostics is None else facts.diagnostics.clicks
        panels.append(examination_panel({facts.method: curve}, clicks=clicks, theme=PAGE))
    if facts.moved is not None:
        panels.append(origins_panel(facts.moved, PAGE))
    if panels:
        blocks.append(Figures(tuple(panels)))
    said = referee_of(facts.manifest)
    if said is not None:
        blocks.append(Text(f"The referee: {said['text']}"))
    taught_by = (facts.manifest.get("extra") or {}).get("taught_by")
    if taught_by is not None:
        blocks.append(Text(f"The net was taught by the {taught_by}."))
    share = (facts.manifest.get("extra") or {}).get("control_gain_share")
    if share is not None:
        blocks.append(Text(f"The control terms took {percent(share)} of the ranker's gain; they are folded away now."))
    if not blocks:
        blocks.append(Text("This method keeps no picture of position: what it did shows in what it moves."))
    found = [Section("correction", "What the correction did", made_of(facts.manifest).capitalize(), tuple(blocks))]
    if facts.moved is not None and facts.log is not None:
        found.append(moved_section(facts.log, facts.moved))
    return found


def moved_section(log: ClickLog, moved: Movement) -> Section:
    """The items that moved most, up and down."""
    tables = tuple(
        _moved_table(log, moved, moved.strongest(SHOWN_ITEMS, up=up), "Moved up" if up else "Moved down")
        for up in (True, False)
    )
    lead = "The largest changes where they matter, near the top of the list; at most one item a query."
    return Section("moved", "Which items moved most", lead, tables)


def _moved_table(log: ClickLog, moved: Movement, chosen: Any, title: str) -> Table:
    data = log.data
    judged = data.grades is not None
    rows = []
    for i in chosen.tolist():
        row = int(moved.row[i])
        item = row if data.item_ids is None else data.item_ids[row]
        cells = [
            Cell(short(data.query_ids[int(moved.query[i])], 60)),
            Cell(short(item, 60)),
            _whole(moved.before[i]),
            _whole(moved.after[i]),
            _whole(moved.impressions[i]),
            _whole(moved.clicks[i]),
        ]
        if data.grades is not None:
            cells.append(_whole(data.grades[row]))
        rows.append(tuple(cells))
    columns = ("query", "item", "in the log", "by the model", "impressions", "clicks") + ("grade",) * judged
    return Table(title, columns, (False, False) + (True,) * (len(columns) - 2), tuple(rows))


def _whole(value: Any) -> Cell:
    return Cell(f"{float(value):,.0f}", float(value))


def _making_section(facts: ModelFacts, folder: str, log_name: str) -> Section:
    settings = facts.manifest.get("settings") or {}
    command = fit_command(facts.manifest, folder, log_name)
    blocks: list[Block] = [Commands((command,))]
    left = left_to_fill_in(facts.manifest, command)
    if left:
        blocks.append(Text(left))
    blocks.append(Facts(tuple((str(name), short(setting(value), 80)) for name, value in settings.items())))
    tried = facts.manifest.get("candidates") or []
    if len(tried) > 1:
        blocks.append(_tried_table(tried))
    return Section("again", "Run it again", "The settings the model was fitted with.", tuple(blocks))


def _tried_table(tried: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for one in tried for name in one["setting"]))
    scores = [one["score"] for one in tried if one.get("score") is not None]
    best = max(scores, default=None)
    rows = tuple(
        (
            *(Cell(setting(one["setting"].get(name, ""))) for name in names),
            Cell(number(one.get("score")), one.get("score"), strong=best is not None and one.get("score") == best),
        )
        for one in tried
    )
    return Table("Settings tried", (*names, "validation"), (False,) * len(names) + (True,), rows, open=False)


def made_of(manifest: Mapping[str, Any]) -> str:
    """The registry's words about a model's method; of full-cfc, what is in this very model."""
    if manifest.get("method") != "full-cfc":
        return summary_of(str(manifest.get("method")))
    terms = "terms_gain" in (manifest.get("extra") or {})
    parts = "relevance, position effect and control terms" if terms else "relevance and position effect"
    return f"conditional click model: {parts} together"


def summary_of(method: str) -> str:
    """The registry's words about a method."""
    return next((info.summary for info in methods() if info.name == method), "")


def curve_of(manifest: Mapping[str, Any]) -> PositionCurve | None:
    """The position curve a manifest holds."""
    bias = manifest.get("bias")
    if not bias or not bias.get("position") or not bias.get("value"):
        return None
    low, high = (None if bias.get(key) is None else np.asarray(bias[key], float) for key in ("low", "high"))
    return PositionCurve(np.asarray(bias["position"], int), np.asarray(bias["value"], float), low, high)
