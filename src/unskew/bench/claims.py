"""The paper's claims, and ours, held against what a run came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unskew.bench.claim import Claim, Owner
from unskew.bench.claims_list import CLAIMS
from unskew.bench.looks import Case, Verdict
from unskew.bench.outcomes import Outcome
from unskew.bench.tables import ALPHA
from unskew.evaluation.significance import holm

# What a single case says, in a word.
SIDES: Mapping[Verdict, str] = {"holds": "for it", "does not hold": "against it", "cannot be told": "open"}
# What a reader is told where a claim has no words of its own for a verdict.
OPEN = "More queries or seeds would be needed to tell."


@dataclass(frozen=True)
class Finding:
    """One claim on one data set: the verdict, the numbers behind it, and what it means for a user.

    of : whose claim it is; about : what it is a claim about.
    cases : (numbers in words, verdict) of everything it speaks of.
    by_ranker : ranker ("" where no ranker was fitted) → (verdict, what that means for a user of it).
    """

    claim: str
    experiment: str
    data: str
    verdict: Verdict
    evidence: str
    means: str
    of: Owner
    about: str
    cases: tuple[tuple[str, Verdict], ...]
    by_ranker: dict[str, tuple[Verdict, str]]

    @property
    def tally(self) -> str:
        """How many cases speak for it, against it, or for neither; nothing where there is only one."""
        count = Counter(verdict for _, verdict in self.cases)
        parts = [f"{count[verdict]} {word}" for verdict, word in SIDES.items() if count[verdict]]
        return f"{len(self.cases)} cases: {', '.join(parts)}" if len(self.cases) > 1 else ""


def findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Every claim that these runs can say something about, in the order of the claims."""
    return [found for claim in CLAIMS for outcome in outcomes if (found := finding_of(claim, outcome)) is not None]


def finding_of(claim: Claim, outcome: Outcome) -> Finding | None:
    """What an experiment says about a claim; None if it is not asked, or the methods are not there."""
    cases = list(claim.look(outcome)) if outcome.plan.experiment == claim.experiment else []
    if not cases:
        return None
    verdict = overall(cases)
    by_ranker = {
        ranker: overall([case for case in cases if case.ranker == ranker])
        for ranker in dict.fromkeys(case.ranker for case in cases)
    }
    return Finding(
        claim.text,
        claim.experiment,
        outcome.plan.data,
        verdict,
        "; ".join(case.text for case in cases),
        claim.means.get(verdict, OPEN),
        claim.of,
        claim.about,
        tuple(zip((case.text for case in cases), decided(cases))),
        {ranker: (own, claim.means.get(own, OPEN)) for ranker, own in by_ranker.items()},
    )


def unanswered(outcome: Outcome, found: Sequence[Finding]) -> list[str]:
    """Claims about an experiment for which the methods or settings were not run."""
    seen = {finding.claim for finding in found if finding.experiment == outcome.plan.experiment}
    asked = [claim.text for claim in CLAIMS if claim.experiment == outcome.plan.experiment]
    return [text for text in asked if text not in seen]


def overall(cases: Sequence[Case]) -> Verdict:
    """A claim about several cases holds if it holds in each, and fails if it fails in one.

    >>> overall([Case("a", 0.04, 0.1), Case("b", 0.04, -0.1)]), overall([Case("a", 0.01, 0.1), Case("b", 0.01, -0.1)])
    ('cannot be told', 'does not hold')
    """
    verdicts = decided(cases)
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if all(verdict == "holds" for verdict in verdicts) else "cannot be told"


def decided(cases: Sequence[Case]) -> list[Verdict]:
    """The verdict of every case.

    Cases that were tested are corrected for being tested together (Holm), so that a claim about many cases does not
    fail by chance in one.
    """
    tested = [case.p for case in cases if case.p is not None]
    corrected = iter(holm(tested) if tested else ())
    return [case.verdict if case.p is None else _verdict(case.difference, float(next(corrected))) for case in cases]


def _verdict(difference: float, p: float) -> Verdict:
    if p >= ALPHA:
        return "cannot be told"
    return "holds" if difference > 0 else "does not hold"
