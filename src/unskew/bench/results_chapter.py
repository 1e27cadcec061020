"""A chapter of RESULTS.md: one experiment on one data set, as it is kept when its run is long gone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from unskew._files import atomic_path
from unskew._words import percent
from unskew.bench.claims import Finding, findings, unanswered
from unskew.bench.editions import EDITION, EDITIONS, edition_of
from unskew.bench.experiments import EXPERIMENTS
from unskew.bench.formats import markdown
from unskew.bench.grids import grids
from unskew.bench.looks import METRIC
from unskew.bench.outcomes import Outcome
from unskew.bench.results_advice import compared
from unskew.bench.tables import Row, rows
from unskew.bench.tables_times import time_grid, times
from unskew.errors import FileFormatError, OutputError, check_choice

FORMAT = 1
# What nearly every experiment is run with.
MAIN_RANKER = "lambdamart"
# Experiments whose times are part of the story.
_TIMED = ("rq1",)


@dataclass(frozen=True)
class Chapter:
    """Everything the page says about one experiment on one data set; JSON-able, and no row of anybody's data.

    run : what was run: preset, rankers, folds, seeds, units, missing, edition, versions.
    tables : its tables as Markdown; headlines : the most important lines of them.
    compared : ranker → methods against naive, one line; unanswered : claims that could not be looked at.
    """

    experiment: str
    data: str
    asks: str
    run: dict[str, Any]
    tables: list[str]
    headlines: list[str]
    compared: dict[str, str]
    findings: list[Finding]
    unanswered: list[str]

    @property
    def edition(self) -> str:
        """Words to put behind its figures if they are not of the present edition, else nothing."""
        number = edition_of(self.run)
        return "" if number == EDITION else f"edition {number}"

    @property
    def part(self) -> str:
        """The rankers of a run without trees: it has a chapter of its own beside that of the trees."""
        rankers = self.run.get("rankers", ())
        return "" if MAIN_RANKER in rankers else ", ".join(rankers)

    @property
    def file_name(self) -> str:
        """Where a folder of chapters keeps it: one file an experiment, data set and part, the newest run wins.

        >>> Chapter("rq1", "my data/x", "", {}, [], [], {}, [], []).file_name
        'rq1-my_data_x.json'
        >>> Chapter("truth", "mq2008", "", {"rankers": ["dnn"]}, [], [], {}, [], []).file_name
        'truth-mq2008-dnn.json'
        """
        return re.sub(r"[^\w.-]", "_", "-".join(filter(None, (self.experiment, self.data, self.part)))) + ".json"

    def replaces(self, older: Chapter) -> bool:
        """Whether an older chapter of the same question and data has nothing that this one lacks."""
        fewer = set(older.run.get("rankers", ())) <= set(self.run.get("rankers", ()))
        if edition_of(self.run) < edition_of(older.run):
            return False
        whole = not self.run.get("missing") or bool(older.run.get("missing"))
        return fewer and whole and not (self._is_smoke and not older._is_smoke)

    @property
    def _is_smoke(self) -> bool:
        return self.run.get("preset") == "smoke"

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        document = json.loads(text)
        if document.pop("format") != FORMAT:
            raise ValueError("a chapter of another version")
        document["findings"] = [_finding(one) for one in document["findings"]]
        return cls(**document)


def chapter_of(outcome: Outcome) -> Chapter:
    """The chapter that an experiment's results come to."""
    plan, table, found = outcome.plan, rows(outcome), findings([outcome])
    return Chapter(
        experiment=plan.experiment,
        data=plan.data,
        asks=plan.asks,
        run={
            "preset": plan.preset,
            "rankers": list(dict.fromkeys(entry.ranker for entry in plan.entries if entry.ranker != "none")),
            "folds": plan.folds,
            "seeds": list(plan.seeds),
            "units": len(plan.units),
            "missing": outcome.missing,
            **_made_with(outcome),
        },
        tables=_tables(outcome, table),
        headlines=list(_HEADLINES.get(plan.experiment, _none)(outcome, table)),
        compared=compared(outcome, table),
        findings=found,
        unanswered=unanswered(outcome, found),
    )


def keep(chapters: Iterable[Chapter], folder: Path) -> list[Chapter]:
    """Put chapters into a folder, in place of older ones that they replace; all that it has now."""
    folder.mkdir(parents=True, exist_ok=True)
    for chapter in chapters:
        replaced = [path for path, older in _kept(folder).items() if _takes_place(chapter, older, path)]
        with atomic_path(folder / chapter.file_name) as path:
            path.write_text(chapter.to_json(), encoding="utf-8")
        for path in replaced:
            if path.name != chapter.file_name:
                path.unlink()
    return list(_kept(folder).values())


def _takes_place(chapter: Chapter, older: Chapter, path: Path) -> bool:
    """Whether a chapter takes the place of an older one; an error where it must not and both cannot stay."""
    same = (chapter.experiment, chapter.data) == (older.experiment, older.data)
    if same and chapter.replaces(older):
        return True
    both = set(chapter.run.get("rankers", ())) & set(older.run.get("rankers", ()))
    if path.name == chapter.file_name or (same and both):
        missing = chapter.run.get("missing")
        raise OutputError(
            f"{path} keeps {_described(older)}, and {_described(chapter)}"
            f"{f', {missing} units missing,' if missing else ''} cannot take its place without losing some of it. "
            "Run the whole experiment as it was run, keep it in another folder, or remove the file."
        )
    return False


def _described(chapter: Chapter) -> str:
    rankers = ", ".join(chapter.run.get("rankers", ()))
    return f"{chapter.experiment} on {chapter.data} ({chapter.run.get('preset')}{', ' if rankers else ''}{rankers})"


def _kept(folder: Path) -> dict[Path, Chapter]:
    return {path: _read(path) for path in sorted(folder.glob("[!.]*.json"))}


def _read(path: Path) -> Chapter:
    try:
        chapter = Chapter.from_json(path.read_text(encoding="utf-8"))
        check_choice("experiment", chapter.experiment, EXPERIMENTS)
        check_choice("edition", edition_of(chapter.run), EDITIONS)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileFormatError(
            f"{path} is not a chapter that this version of unskew keeps results in ({error}). "
            "Remove it, and run `unskew bench results` on the run it came from."
        ) from None
    return chapter


def _finding(document: Mapping[str, Any]) -> Finding:
    cases = tuple((text, verdict) for text, verdict in document["cases"])
    by_ranker = {ranker: (verdict, text) for ranker, (verdict, text) in document["by_ranker"].items()}
    return Finding(**{**document, "cases": cases, "by_ranker": by_ranker})


def _tables(outcome: Outcome, table: list[Row]) -> list[str]:
    found = grids(outcome, table)
    if outcome.plan.experiment in _TIMED:
        timed = time_grid(outcome, times(outcome))
        found += [] if timed is None else [timed]
    return [markdown(grid) for grid in found]


def _none(outcome: Outcome, own: list[Row]) -> Iterable[str]:
    return ()


def _of_default(outcome: Outcome, own: list[Row]) -> Iterable[str]:
    """How much of the gap `default` closed in the first setting, and LightGBM's position effect beside it."""
    first = outcome.plan.settings[0]
    mine = {
        row["method"]: row
        for row in own
        if (row["setting"], row["metric"]) == (first, METRIC) and row["gap_closed"] is not None
    }
    if "default" in mine:
        rival = f"; position closes {_gap(mine['position'])}" if "position" in mine else ""
        yield (
            f"- {outcome.plan.data}, averaged trees, {first}: default closes {_gap(mine['default'])} of the "
            f"{METRIC.upper()} gap{rival}."
        )


def _best_of_all(outcome: Outcome, own: list[Row]) -> Iterable[str]:
    """Who closed most of the gap, and how much the published method did."""
    for ranker in dict.fromkeys(row["ranker"] for row in own):
        mine = [r for r in own if r["ranker"] == ranker and r["metric"] == METRIC and r["gap_closed"] is not None]
        if not mine:
            continue
        best = max(mine, key=lambda row: row["gap_closed"])
        cfc = next((row for row in mine if row["method"] == "cfc"), None)
        text = (
            f"- {outcome.plan.data}, {ranker}: {best['method']} closes most of the {METRIC.upper()} gap, {_gap(best)}"
        )
        yield text + (f"; cfc closes {_gap(cfc)}." if cfc is not None and cfc is not best else ".")


def _gap(row: Row) -> str:
    return f"{percent(row['gap_closed'])} ({percent(row['gap_low'])} to {percent(row['gap_high'])})"


_HEADLINES: Mapping[str, Callable[[Outcome, list[Row]], Iterable[str]]] = {
    "rq1": _best_of_all,
    "truth": _of_default,
}


def _made_with(outcome: Outcome) -> dict[str, Any]:
    """The versions behind a run, and the earliest edition among its units that are not as good as new."""
    store = outcome.store
    done = [unit for unit in outcome.plan.units if store.is_done(unit)]
    records = [store.record(unit) for unit in done]
    old = [edition_of(record) for unit, record in zip(done, records) if not store.is_current(unit)]
    named = records[0]["versions"].items() if records else ()
    return {
        "edition": min(old, default=EDITION),
        "versions": ", ".join(f"{name} {number}" for name, number in named),
    }
