"""RESULTS.md: data set by data set what came out and which claims hold there, and what that means for a user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from unskew.bench.claims import SIDES, Finding
from unskew.bench.claims_list import CLAIMS
from unskew.bench.editions import EDITIONS, edition_of
from unskew.bench.experiments import EXPERIMENTS, RANKERS
from unskew.bench.outcomes import Outcome
from unskew.bench.results_advice import advice
from unskew.bench.results_chapter import Chapter, chapter_of
from unskew.bench.results_reasons import reasons

_MARKS = {"holds": "**holds**", "does not hold": "**does not hold**", "cannot be told": "cannot be told"}
_OWNERS = {"paper": "The paper's claims", "ours": "Claims of ours"}
_HOW = (
    "A claim *holds* where the difference is significant in every case it speaks of, *does not hold* where the "
    "opposite is significant in one of them, and otherwise *cannot be told* from these data (Fisher's randomisation "
    "test over test queries, p < 0.05 after Holm's correction over the cases of the claim; the p shown are before "
    "it). A case is *open* where chance may explain its difference. That two things are alike is judged by the "
    "interval of their difference. Shares of a gap or of logs and *by more than a standard error* are held against the "
    "figure that the claim names, uncorrected. Numbers are NDCG@10 unless said; the best rival is the best on these "
    "test queries, which favours it."
)


def results(outcomes: Sequence[Outcome]) -> str:
    """The page of some runs, as Markdown. The same runs give the same bytes."""
    return results_page([chapter_of(outcome) for outcome in outcomes])


def results_page(chapters: Sequence[Chapter]) -> str:
    """The page of chapters: data sets together, in the order of the chapters, experiments in that of the list."""
    chapters = _ordered(chapters)
    found = _findings(chapters)
    data = list(dict.fromkeys(chapter.data for chapter in chapters))
    blocks = [
        "# Results",
        "What `unskew bench` came to, written by `unskew bench results`. Do not edit: run it again.",
        "## In short",
        *_short(chapters, found),
        *reasons(found),
        "## What was run",
        _runs(chapters),
        *_missing(chapters),
        "## The claims at a glance",
        _HOW,
        _claims(found),
        *(block for name in data for block in _section(name, chapters)),
        "## What this means for a user",
        *advice([chapter.compared for chapter in chapters], found),
    ]
    return "\n\n".join(block.strip() for block in blocks if block.strip()) + "\n"


def _ordered(chapters: Sequence[Chapter]) -> list[Chapter]:
    data, names = list(dict.fromkeys(chapter.data for chapter in chapters)), list(EXPERIMENTS)
    return sorted(chapters, key=lambda one: (data.index(one.data), names.index(one.experiment), one.part))


def _findings(chapters: Sequence[Chapter]) -> list[Finding]:
    """In the order of the claims, a claim's data sets together."""
    order = {claim.text: place for place, claim in enumerate(CLAIMS)}
    found = [finding for chapter in chapters for finding in chapter.findings]
    return sorted(found, key=lambda finding: order.get(finding.claim, len(order)))


# In short


def _short(chapters: Sequence[Chapter], found: Sequence[Finding]) -> list[str]:
    lines = []
    for owner, title in _OWNERS.items():
        mine = [finding for finding in found if finding.of == owner]
        count = Counter(finding.verdict for finding in mine)
        if mine:
            lines.append(
                f"- {title}: {len(mine)} looked at; {count['holds']} hold, {count['does not hold']} do not, "
                f"{count['cannot be told']} cannot be told from these data."
            )
    for chapter in chapters:
        of = f" ({chapter.edition})" if chapter.edition else ""
        lines += [f"{line.removesuffix('.')}{of}." for line in chapter.headlines]
    smoke = any(chapter.run["preset"] == "smoke" for chapter in chapters)
    warning = ["These are smoke runs: they show that everything works, their numbers mean nothing."] if smoke else []
    return [*warning, "\n".join(lines)]


# What was run, and what was not


def _runs(chapters: Sequence[Chapter]) -> str:
    lines = [
        "| experiment | data | rankers | preset | folds | seeds | units | missing | edition |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for chapter in chapters:
        run = chapter.run
        rankers, seeds = ", ".join(run.get("rankers", ())), _span(run["seeds"])
        facts = (run["preset"], run["folds"], seeds, run["units"], run["missing"], edition_of(run))
        lines.append(f"| {' | '.join(map(str, (chapter.experiment, chapter.data, rankers, *facts)))} |")
    made_with = sorted({chapter.run["versions"] for chapter in chapters if chapter.run["versions"]})
    there = sorted({edition_of(chapter.run) for chapter in chapters})
    lines += ["", "Editions: " + "; ".join(f"{number}, {EDITIONS[number]}" for number in there) + "."]
    lines += ["", "Made with " + "; ".join(made_with) + "."] if made_with else []
    return "\n".join(lines)


def _span(seeds: Sequence[int]) -> str:
    """Seeds as a table has them; they follow each other.

    >>> _span([0]), _span([3, 4, 5])
    ('0', '3 to 5')
    """
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"


def _missing(chapters: Sequence[Chapter]) -> Iterator[str]:
    """Experiments with claims that nobody ran, by data set."""
    asked = {claim.experiment for claim in CLAIMS}
    lines = []
    for data in dict.fromkeys(chapter.data for chapter in chapters):
        there = {chapter.experiment for chapter in chapters if chapter.data == data}
        left = [name for name in EXPERIMENTS if name in asked and name not in there]
        if left:
            needs = [name for name in left if EXPERIMENTS[name].needs_log]
            why = f" ({', '.join(needs)} needs a real click log)" if needs else ""
            lines.append(f"- {data}: {', '.join(left)}{why}")
    if lines:
        yield "Not run, so that nothing is said about them:\n\n" + "\n".join(lines)


# The claims


def _claims(found: Sequence[Finding]) -> str:
    lines = ["| claim | asked by | data | verdict |", "| --- | --- | --- | --- |"]
    for finding in found:
        cells = (finding.claim, finding.experiment, finding.data, _MARKS[finding.verdict])
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) if found else "None of the claims can be looked at with what was run."


def _section(data: str, chapters: Sequence[Chapter]) -> Iterator[str]:
    yield f"## {data}"
    seen: Counter[tuple[str, str]] = Counter()
    for chapter in chapters:
        if chapter.data == data:
            seen[chapter.experiment, chapter.part] += 1
            again = seen[chapter.experiment, chapter.part]
            name = chapter.experiment if again == 1 else f"{chapter.experiment}, run {again}"
            notes = ", ".join(filter(None, (chapter.part, chapter.edition)))
            name += f" ({notes})" if notes else ""
            yield f"### {name} on {data}: {chapter.asks}"
            yield from chapter.tables or ["Nothing was measured: none of its units is done."]
            yield from _verdicts(chapter)


def _verdicts(chapter: Chapter) -> Iterator[str]:
    for owner, title in _OWNERS.items():
        mine = [finding for finding in chapter.findings if finding.of == owner]
        if mine:
            yield f"**{title}**"
            yield "\n".join(line for finding in mine for line in _finding(finding))
    if chapter.unanswered:
        yield "Not looked at, as what they compare was not run: " + " ".join(chapter.unanswered)


def _finding(finding: Finding) -> Iterator[str]:
    notes = [note for note in (finding.tally, _one_ranker(finding)) if note]
    yield f"- **{finding.verdict.capitalize()}:** {finding.claim}" + (f" ({'; '.join(notes)})" if notes else "")
    for text, verdict in finding.cases:
        side = f": {SIDES[verdict]}" if len(finding.cases) > 1 else ""
        yield f"  - {text}{side}"


def _one_ranker(finding: Finding) -> str:
    """A claim about both rankers that was looked at with one of them says so."""
    there = [ranker for ranker in RANKERS if ranker in finding.by_ranker]
    return f"run with {there[0]} only" if "both rankers" in finding.claim and len(there) == 1 else ""
