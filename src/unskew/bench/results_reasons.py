"""What is recommended and why: reasons, each with the claims it rests on and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unskew.bench.claims import Finding


@dataclass(frozen=True)
class Reason:
    """Why something is as it is. rests_on : beginnings of the claims that can bear it out or refute it."""

    text: str
    rests_on: tuple[str, ...]


REASONS = (
    Reason(
        "**Use `default`.** It asks the referee and fits the full control function, or naive where position does not "
        "matter; where something moved items and clicks alike, it takes half of the position effect. It is held "
        "against what a log's owner has today, training on clicks as they are, and against the best cheap remedy, a "
        "position effect in LightGBM, averaged alike.",
        (
            "default closes at least 85 %",
            "default is in no cell below LightGBM's position effect by more than a standard error.",
            "default is above LightGBM's position effect",
            "default is in no cell below naive by more than a standard error.",
        ),
    ),
    Reason(
        "**Why not the correction as printed.** Under a ranking that is nearly a function of the features most of the "
        "position effect sits in what the features explain, where no residual reaches it, and the printed second stage "
        "leaves the position out. What zeroing the terms asks for at inference never occurred in training.",
        ("CFC corrects: it is better than naive", "True residuals correct more than permuted ones."),
    ),
    Reason(
        "**Why the full control function.** The textbook has the endogenous regressor beside its residual in stage "
        "two. With the position there, clicks have something to be explained by that is not relevance. Aggregated "
        "counts, strong regularisation and the mean of fold models do the rest; a net is taught by the result, because "
        "single clicks are too noisy for it.",
        ("full-cfc is better than naive", "full-cfc is better than every method of the paper"),
    ),
    Reason(
        "**Why control terms are left to the referee.** Residual and position say the same thing twice unless "
        "something else moved the items. Where that is so, terms can be found; where it is not, they only cost.",
        (
            "The referee announces effects that are not there",
            "The referee finds the planted confounder",
            "When the logging policy knew more",
            "Where some items were moved far",
        ),
    ),
    Reason(
        "**What limits it.** The same method told the planted examination shows what learning it costs. It is off "
        "where the production ranker knew relevance better than the features can say, and where a common cause moved "
        "items and clicks: shuffle a few results, and it no longer has to guess.",
        (
            "default would do better if it were told",
            "default is in no cell below naive by more than a standard error, whatever",
            "default is in no cell below LightGBM's position effect by more than a standard error, whatever",
            "Told the examination, full-cfc with shift",
        ),
    ),
)


def reasons(found: Sequence[Finding]) -> Iterator[str]:
    """Blocks of Markdown; nothing where the study they rest on was not run."""
    if not any(finding.about == "default" and finding.experiment == "truth" for finding in found):
        return
    yield "## What we recommend, and why"
    for reason in REASONS:
        lines = [line for start in reason.rests_on for line in _verdicts(start, found)]
        yield reason.text + ("\n\n" + "\n".join(lines) if lines else "")


def _verdicts(start: str, found: Sequence[Finding]) -> Iterator[str]:
    """A line for every claim that begins so: what became of it, and where."""
    mine = [finding for finding in found if finding.claim.startswith(start)]
    for claim in dict.fromkeys(finding.claim for finding in mine):
        places: dict[str, list[str]] = {}
        for finding in mine:
            if finding.claim == claim:
                where = f"{finding.experiment} on {finding.data}{_rankers(finding)}"
                places.setdefault(finding.verdict, []).append(where)
        said = "; ".join(f"{verdict} ({', '.join(where)})" for verdict, where in places.items())
        yield f"- {claim} *{said[:1].upper() + said[1:]}.*"


def _rankers(finding: Finding) -> str:
    """Named where nets alone were looked at."""
    rankers = [ranker for ranker in finding.by_ranker if ranker]
    return f", {', '.join(rankers)}" if rankers and "lambdamart" not in rankers else ""
