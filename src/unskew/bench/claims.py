"""The paper's claims, and ours, held against what a run came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unskew.bench.looks import (
    Case,
    Look,
    Verdict,
    cfc_beats_rivals,
    cfc_is_alike,
    distance_grows,
    one_beats_other,
    residual_shrinks,
    spread_changes,
)
from unskew.bench.outcomes import Outcome
from unskew.bench.tables import ALPHA
from unskew.evaluation.significance import holm


@dataclass(frozen=True)
class Finding:
    """One claim on one data set: the verdict, the numbers behind it, and what it means for a user."""

    claim: str
    experiment: str
    data: str
    verdict: Verdict
    evidence: str
    means: str


@dataclass(frozen=True)
class Claim:
    """What is claimed, and how to look at it; means : what each verdict says to a user."""

    experiment: str
    text: str
    look: Look
    means: Mapping[Verdict, str]


def findings(outcomes: list[Outcome]) -> list[Finding]:
    """Every claim that these runs can say something about, in the order of the claims."""
    found = []
    for claim in CLAIMS:
        for outcome in outcomes:
            if outcome.plan.experiment != claim.experiment:
                continue
            cases = list(claim.look(outcome))
            if cases:
                verdict = overall(cases)
                evidence = "; ".join(case.text for case in cases)
                means = claim.means.get(verdict, "More queries or seeds would be needed to tell.")
                found.append(Finding(claim.text, claim.experiment, outcome.plan.data, verdict, evidence, means))
    return found


def overall(cases: list[Case]) -> Verdict:
    """A claim about several cases holds if it holds in each, and fails if it fails in one.

    Cases that were tested are corrected for being tested together (Holm), so that a claim about many cases does not
    fail by chance in one.

    >>> overall([Case("a", 0.04, 0.1), Case("b", 0.04, -0.1)]), overall([Case("a", 0.01, 0.1), Case("b", 0.01, -0.1)])
    ('cannot be told', 'does not hold')
    """
    tested = [(case.p, case.difference) for case in cases if case.p is not None]
    corrected = holm([p for p, _ in tested]) if tested else ()
    verdicts = [case.verdict for case in cases if case.p is None]
    verdicts += [_verdict(difference, float(p)) for (_, difference), p in zip(tested, corrected)]
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if all(verdict == "holds" for verdict in verdicts) else "cannot be told"


def _verdict(difference: float, p: float) -> Verdict:
    if p >= ALPHA:
        return "cannot be told"
    return "holds" if difference > 0 else "does not hold"


_WINS: Mapping[Verdict, str] = {
    "holds": "The correction as published is worth using on data like this.",
    "does not hold": "Do not count on the correction as published here; a rival that does better is in the table.",
    "cannot be told": "The correction as published is neither clearly better nor clearly worse than its best rival.",
}

CLAIMS = (
    Claim("rq1", "CFC is better than every rival of the paper, with both rankers.", cfc_beats_rivals, _WINS),
    Claim("rq2", "CFC is the best method at every severity of position bias.", cfc_beats_rivals, _WINS),
    Claim(
        "rq2",
        "The distance to the oracle grows with the severity of position bias.",
        distance_grows,
        {"holds": "The steeper people's attention falls, the more a log hides: expect less from harsh logs."},
    ),
    Claim("rq3", "CFC is the best method on a real log.", cfc_beats_rivals, _WINS),
    Claim("rq4", "CFC is the best method when settings are chosen without grades.", cfc_beats_rivals, _WINS),
    Claim("rq5", "CFC is the best method at every number of clicks.", cfc_beats_rivals, _WINS),
    Claim(
        "rq5",
        "CFC improves with more clicks.",
        one_beats_other("cfc", "cfc", setting="passes=20", against="passes=1"),
        {"holds": "More log is better log.", "does not hold": "More clicks alone do not help this correction."},
    ),
    Claim("rq6", "CFC is the best method at every level of click noise.", cfc_beats_rivals, _WINS),
    Claim("rq7", "CFC is the best method under random swaps.", cfc_beats_rivals, _WINS),
    Claim(
        "rq7",
        "CFC is better with random swaps than without.",
        one_beats_other("cfc", "cfc", setting="swaps", against="deterministic"),
        {
            "holds": "A little randomisation of the list pays.",
            "does not hold": "Swaps cost this correction more than the variation brings; methods with a position "
            "effect are the ones that gain from them.",
        },
    ),
    Claim(
        "production",
        "CFC does equally well whatever the strength of the production ranker.",
        cfc_is_alike,
        {
            "holds": "The strength of the ranker behind the log does not decide the result.",
            "does not hold": "The result depends on the ranker that made the log; judge the correction on your own.",
        },
    ),
    Claim(
        "residual-only",
        "Residual-by-feature terms (CFC) are better than the residual alone (CFC-S).",
        one_beats_other("cfc", "cfc-s"),
        {
            "holds": "Use cfc rather than cfc-s.",
            "does not hold": "Use cfc-s rather than cfc: it is simpler and better here.",
            "cannot be told": "cfc-s is simpler and no worse here.",
        },
    ),
    Claim(
        "stage-one",
        "It hardly matters what explains the rank in stage one.",
        cfc_is_alike,
        {"holds": "Keep ridge: it is the fastest.", "does not hold": "Try several stage ones on validation."},
    ),
    Claim(
        "residuals",
        "The spread of the residuals changes with the features, whatever the production ranker.",
        spread_changes,
        {"holds": "The condition that identification rests on is met by this test, which alone proves little."},
    ),
    Claim(
        "residuals",
        "A stronger production ranker leaves smaller residuals.",
        residual_shrinks,
        {"holds": "The better the ranker behind the log, the less the residuals have to say."},
    ),
    Claim(
        "validation",
        "Tuning on debiased clicks (CFC) is better than on clicks (CFC-BC).",
        one_beats_other("cfc", "cfc-bc"),
        {
            "holds": "Without grades, tune cfc on debiased clicks (its default).",
            "does not hold": "Without grades, tuning cfc on plain clicks did better here.",
            "cannot be told": "It does not matter here whether cfc is tuned on debiased or on plain clicks.",
        },
    ),
    Claim(
        "placebo",
        "True residuals correct more than permuted ones (ours).",
        one_beats_other("cfc", "cfc", setting="true T", against="T permuted"),
        {
            "holds": "What the control terms do, they do because of the residuals.",
            "does not hold": "Permuted residuals did better than true ones: what cfc gains or loses here is not a "
            "correction of bias.",
            "cannot be told": "True residuals do no more than meaningless ones would: the control terms correct "
            "nothing measurable here.",
        },
    ),
    Claim(
        "inference",
        "Centred terms (T − T(0)) do better than terms set to zero at inference (ours).",
        one_beats_other("cfc", "cfc", setting="centred", against="zero"),
        {
            "holds": "Prefer centred=True: zero then means no residual shock.",
            "does not hold": "The published form did better than the centred one here.",
            "cannot be told": "Centring neither helps nor harms here.",
        },
    ),
    Claim(
        "hidden",
        "When the logging policy knew more than the learner, control terms add to a position effect (ours).",
        one_beats_other("full-cfc:terms=T", "full-cfc"),
        {
            "holds": "Use full-cfc with terms='T' where the logging policy knew more than the features you have.",
            "does not hold": "Leave control terms out: beside a position effect they cost more than they bring.",
            "cannot be told": "Control terms beside a position effect neither help nor harm measurably, not even "
            "where the logging policy knew more than the learner.",
        },
    ),
    Claim(
        "truth",
        "The recommended full control function is better than LightGBM's position effect in every cell (ours).",
        one_beats_other("full-cfc", "position"),
        {},
    ),
    Claim(
        "truth",
        "The recommended full control function is better than naive in every cell (ours).",
        one_beats_other("full-cfc", "naive"),
        {},
    ),
)
