"""What the results mean for a user, ranker by ranker: which method, and what to know about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unskew._words import percent
from unskew.bench.claims import OPEN, Finding
from unskew.bench.experiments import knows_more
from unskew.bench.looks import METRIC, versus
from unskew.bench.outcomes import Outcome
from unskew.bench.tables import ALPHA, Row
from unskew.bench.tables_times import times
from unskew.evaluation.significance import holm

_ANY = "Whatever the ranker"


def advice(compared: Sequence[Mapping[str, str]], found: Sequence[Finding]) -> Iterator[str]:
    """Blocks of Markdown: a heading and a list for every ranker, then what holds for all of them."""
    measured = [ranker for lines in compared for ranker in lines]
    spoken = [ranker for finding in found for ranker in finding.by_ranker if ranker]
    for ranker in dict.fromkeys([*measured, *spoken, ""]):
        own = [lines[ranker] for lines in compared if ranker in lines]
        groups = {"Which method": own, **_sentences(ranker, found)}
        if any(groups.values()):
            yield f"### With {ranker}" if ranker else f"### {_ANY}"
        for title, lines in groups.items():
            if lines:
                yield f"{title}:\n\n" + "\n".join(lines)


def compared(outcome: Outcome, own: Sequence[Row]) -> dict[str, str]:
    """Ranker → a line about methods that beat training on clicks as they are, where all methods were compared."""
    if outcome.plan.experiment != "rq1":
        return {}
    rankers = dict.fromkeys(row["ranker"] for row in own if row["metric"] == METRIC)
    lines = {ranker: _methods(ranker, outcome, own) for ranker in rankers}
    return {ranker: line for ranker, line in lines.items() if line}


def _methods(ranker: str, outcome: Outcome, own: Sequence[Row]) -> str:
    """Which methods beat naive, and at what price."""
    sides = _against_naive(ranker, outcome)
    if not sides:
        return ""
    means = {row["method"]: row for row in own if row["ranker"] == ranker and row["metric"] == METRIC}
    price = {row["method"]: row["times_naive"] for row in times(outcome) if row["ranker"] == ranker}
    said = []
    for side in ("better than naive", "not clearly different from naive", "worse than naive"):
        names = sorted((name for name, own_side in sides.items() if own_side == side), key=lambda n: -means[n]["mean"])
        if names:
            said.append(f"{side}: {', '.join(_named(means[name], price.get(name)) for name in names)}")
    many = f", corrected for comparing {len(sides)} methods" if len(sides) > 1 else ""
    what = f"{outcome.plan.data} (rq1{many}; share of the gap closed, time as a multiple of naive)"
    return f"- {what}. {_capital('; '.join(said))}."


def _against_naive(ranker: str, outcome: Outcome) -> dict[str, str]:
    """Method → which side of naive it is on, corrected for the number of methods (Holm)."""
    setting = outcome.plan.settings[0]
    learners = (name for own, name in outcome.setting(setting) if own == ranker and not knows_more(name))
    names = [name for name in learners if name != "naive"]
    found = {name: versus(outcome, (setting, (ranker, name)), (setting, (ranker, "naive"))) for name in names}
    known = {name: comparison for name, comparison in found.items() if comparison is not None}
    if not known:
        return {}
    sides = {}
    for (name, comparison), p in zip(known.items(), holm([comparison.p for comparison in known.values()])):
        side = "better than naive" if comparison.difference > 0 else "worse than naive"
        sides[name] = side if p < ALPHA else "not clearly different from naive"
    return sides


def _named(row: Row, price: float | None) -> str:
    facts = [] if row["gap_closed"] is None else [percent(row["gap_closed"])]
    facts += [] if price is None else [f"×{price:.1f}"]
    return f"{row['method']} ({', '.join(facts)})" if facts else str(row["method"])


def _sentences(ranker: str, found: Sequence[Finding]) -> dict[str, list[str]]:
    """What the verdicts mean, by what they are about; each sentence once, with where it comes from."""
    groups: dict[str, dict[str, list[Finding]]] = {}
    for finding in found:
        _, sentence = finding.by_ranker.get(ranker, ("", OPEN))
        if sentence != OPEN:
            groups.setdefault(f"About {finding.about}", {}).setdefault(sentence, []).append(finding)
    return {
        title: [f"- {sentence} ({_places(mine)})" for sentence, mine in sentences.items()]
        for title, sentences in groups.items()
    }


def _places(found: Sequence[Finding]) -> str:
    """Experiments and data sets, data sets with the same experiments together."""
    by_data: dict[str, list[str]] = {}
    for finding in found:
        by_data.setdefault(finding.data, []).append(finding.experiment)
    by_names: dict[str, list[str]] = {}
    for data, names in by_data.items():
        by_names.setdefault(", ".join(dict.fromkeys(names)), []).append(data)
    return "; ".join(f"{names} on {' and '.join(data)}" for names, data in by_names.items())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
