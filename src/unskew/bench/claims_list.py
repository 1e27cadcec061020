"""What is claimed: by the paper about cfc, and here about full-cfc, the placebos and the variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from unskew.bench.looks import (
    PAPER_RIVALS,
    Look,
    Verdict,
    beats_best,
    cfc_beats_rivals,
    cfc_is_alike,
    distance_grows,
    does_no_harm,
    one_beats_other,
    several,
    share_is,
    spread_changes,
    value_falls,
)
from unskew.bench.standards import closes_gap, never_below, often_above

Owner = Literal["paper", "ours"]


@dataclass(frozen=True)
class Claim:
    """What is claimed, and how to look at it.

    means : what each verdict says to a user; of : whose claim it is; about : what it is a claim about.
    """

    experiment: str
    text: str
    look: Look
    means: Mapping[Verdict, str]
    of: Owner = "paper"
    about: str = "cfc, as published"


_WINS: Mapping[Verdict, str] = {
    "holds": "The correction as published (cfc) is worth using on data like this.",
    "does not hold": "Do not count on the correction as published (cfc): in one case or more a rival of the paper does "
    "better.",
    "cannot be told": "The correction as published (cfc) is neither clearly better nor clearly worse than its best "
    "rival.",
}
_CORRECTS: Mapping[Verdict, str] = {
    "holds": "cfc is better than training on clicks as they are.",
    "does not hold": "cfc can be worse than training on clicks as they are (naive): compare the two before you ship.",
    "cannot be told": "cfc is not clearly better than training on clicks as they are (naive).",
}
_FULL_WINS: Mapping[Verdict, str] = {
    "holds": "full-cfc beats every method of the paper here.",
    "does not hold": "A method of the paper beats full-cfc in some case: look at the tables before you choose.",
    "cannot be told": "full-cfc is not clearly better than the best method of the paper in every case.",
}
_FULL_CORRECTS: Mapping[Verdict, str] = {
    "holds": "full-cfc is better than training on clicks as they are.",
    "does not hold": "full-cfc can be worse than training on clicks as they are (naive): compare the two before you "
    "ship.",
    "cannot be told": "full-cfc is not clearly better than training on clicks as they are (naive) in every case.",
}
_CFC_TO_NAIVE = one_beats_other("cfc", "naive")
_FULL_TO_PAPER = beats_best("full-cfc", ("cfc", *PAPER_RIVALS))
_FULL_TO_NAIVE = one_beats_other("full-cfc", "naive")

PAPER = (
    Claim("rq1", "CFC is better than every rival of the paper, with both rankers.", cfc_beats_rivals, _WINS),
    Claim("rq1", "CFC corrects: it is better than naive, with both rankers.", _CFC_TO_NAIVE, _CORRECTS),
    Claim("rq2", "CFC is the best method at every severity of position bias.", cfc_beats_rivals, _WINS),
    Claim(
        "rq2",
        "The distance to the oracle grows with the severity of position bias.",
        distance_grows,
        {
            "holds": "The steeper people's attention falls, the more a log hides: expect less from harsh logs.",
            "does not hold": "A harsher position bias did not cost cfc more here.",
        },
    ),
    Claim("rq3", "CFC is the best method on a real log.", cfc_beats_rivals, _WINS),
    Claim("rq4", "CFC is the best method when settings are chosen without grades.", cfc_beats_rivals, _WINS),
    Claim("rq5", "CFC is the best method at every number of clicks.", cfc_beats_rivals, _WINS),
    Claim(
        "rq5",
        "CFC improves with more clicks.",
        one_beats_other("cfc", "cfc", setting="passes=20", against="passes=1"),
        {
            "holds": "More log is better log, for cfc too.",
            "does not hold": "More clicks alone do not help cfc.",
            "cannot be told": "Whether more clicks help cfc is within chance.",
        },
    ),
    Claim("rq6", "CFC is the best method at every level of click noise.", cfc_beats_rivals, _WINS),
    Claim("rq7", "CFC is the best method under random swaps.", cfc_beats_rivals, _WINS),
    Claim(
        "rq7",
        "CFC is better with random swaps than without.",
        one_beats_other("cfc", "cfc", setting="swaps", against="deterministic"),
        {
            "holds": "A little randomisation of the list pays, for cfc too.",
            "does not hold": "Swaps cost cfc more than the variation brings; methods with a position effect are the "
            "ones that may gain from them.",
        },
    ),
    Claim(
        "production",
        "CFC does equally well whatever the strength of the production ranker.",
        cfc_is_alike,
        {
            "holds": "The strength of the ranker behind the log does not decide what cfc comes to.",
            "does not hold": "What cfc comes to depends on the ranker that made the log; judge it on your own.",
        },
    ),
    Claim(
        "production",
        "CFC corrects (is better than naive) under weak and strong production rankers.",
        _CFC_TO_NAIVE,
        _CORRECTS,
    ),
    Claim(
        "residual-only",
        "Residual-by-feature terms (CFC) are better than the residual alone (CFC-S).",
        one_beats_other("cfc", "cfc-s"),
        {
            "holds": "Use cfc rather than cfc-s.",
            "does not hold": "Use cfc-s rather than cfc: it is simpler and better here.",
            "cannot be told": "cfc-s is simpler than cfc and not measurably worse here.",
        },
    ),
    Claim(
        "stage-one",
        "It hardly matters what explains the rank in stage one.",
        cfc_is_alike,
        {"holds": "Keep ridge as stage one.", "does not hold": "Try several stage ones on validation."},
    ),
    Claim(
        "residuals",
        "The spread of the residuals changes with the features, whatever the production ranker.",
        spread_changes,
        {
            "holds": "The condition that identification rests on is met by this test, which alone proves little.",
            "does not hold": "The condition that identification rests on is not met by every log: run "
            "`unskew diagnose` on yours.",
        },
        about="the log",
    ),
    Claim(
        "residuals",
        "A stronger production ranker leaves smaller residuals.",
        value_falls("mean |residual|"),
        {"holds": "The better the ranker behind the log, the less the residuals have to say."},
        about="the log",
    ),
    Claim(
        "residuals",
        "The residuals' spread changes less with the features (FK falls) under a stronger production ranker.",
        value_falls("FK"),
        {"holds": "The better the ranker behind the log, the weaker what identifies the correction."},
        about="the log",
    ),
    Claim(
        "validation",
        "Tuning on debiased clicks (CFC) is better than on clicks (CFC-BC).",
        one_beats_other("cfc", "cfc-bc"),
        {
            "holds": "Without grades, tune cfc on debiased clicks (its default).",
            "does not hold": "Without grades, tuning cfc on plain clicks did better here.",
            "cannot be told": "Whether cfc is tuned on debiased or on plain clicks makes no measurable difference.",
        },
    ),
)


def _about_full(experiment: str, where: str) -> tuple[Claim, Claim]:
    """The two claims about full-cfc that every comparison of methods can answer."""
    best = f"full-cfc is better than every method of the paper {where}."
    naive = f"full-cfc is better than naive {where}."
    return (
        Claim(experiment, best, _FULL_TO_PAPER, _FULL_WINS, "ours", "full-cfc"),
        Claim(experiment, naive, _FULL_TO_NAIVE, _FULL_CORRECTS, "ours", "full-cfc"),
    )


# The cells of the truth study where a correction has more to do than in the base case.
_HARDER = (
    "eta=1.5",
    "eta=2",
    "noise=0.1",
    "production=1",
    "hidden=4",
    "eta=2, noise=0.1",
    "production=1, swaps",
    "production=1, hidden=4",
)


def _about_truth(method: str) -> tuple[Claim, ...]:
    def claim(text: str, look: Look, means: Mapping[Verdict, str]) -> Claim:
        return Claim("truth", f"{method} {text}", look, means, "ours", method)

    return (
        claim(
            "closes at least 85 % of the gap from naive to oracle in the base case.",
            closes_gap(method, "base", at_least=0.85),
            {
                "holds": f"In the base case {method} brings nearly what human grades would.",
                "does not hold": f"{method} does not bring what human grades would, not even in the base case.",
                "cannot be told": f"How near {method} comes to human grades in the base case is not settled.",
            },
        ),
        claim(
            "is in no cell below LightGBM's position effect by more than a standard error.",
            never_below(method, "position"),
            {
                "holds": f"{method} costs nothing beside LightGBM's position effect.",
                "does not hold": f"LightGBM's position effect does better than {method} in some cell.",
            },
        ),
        claim(
            "is above LightGBM's position effect, beyond chance, in three or more of the harder cells.",
            often_above(method, "position", _HARDER, at_least=3),
            {
                "holds": f"Where the log is hard, prefer {method} to LightGBM's position effect.",
                "does not hold": f"{method} is seldom clearly better than LightGBM's position effect.",
            },
        ),
        claim(
            "is in no cell below naive by more than a standard error.",
            never_below(method, "naive"),
            {
                "holds": f"{method} is a safe default: nowhere worse than training on clicks as they are.",
                "does not hold": f"{method} is worse than training on clicks as they are in some cell.",
            },
        ),
    )


OURS = (
    *_about_full("rq1", "with the same ranker"),
    Claim(
        "rq1",
        "full-cfc is better than LightGBM's position effect.",
        one_beats_other("full-cfc", "position"),
        {
            "holds": "Prefer full-cfc to LightGBM's position effect.",
            "does not hold": "Prefer LightGBM's position effect to full-cfc: it is simpler and better here.",
            "cannot be told": "LightGBM's position effect is simpler than full-cfc and not measurably worse here.",
        },
        "ours",
        "full-cfc",
    ),
    *_about_full("rq2", "at every severity of position bias"),
    *_about_full("rq4", "when settings are chosen without grades"),
    *_about_full("rq5", "at every number of clicks"),
    Claim(
        "rq5",
        "full-cfc improves with more clicks.",
        one_beats_other("full-cfc", "full-cfc", setting="passes=20", against="passes=1"),
        {
            "holds": "full-cfc gains from more clicks.",
            "does not hold": "More clicks alone do not help full-cfc.",
            "cannot be told": "Whether more clicks help full-cfc is within chance.",
        },
        "ours",
        "full-cfc",
    ),
    *_about_full("rq6", "at every level of click noise"),
    *_about_full("rq7", "with and without random swaps"),
    Claim(
        "rq7",
        "full-cfc is better with random swaps than without.",
        one_beats_other("full-cfc", "full-cfc", setting="swaps", against="deterministic"),
        {
            "holds": "A little randomisation of the list pays, for full-cfc.",
            "does not hold": "Swaps cost full-cfc more than they bring here.",
        },
        "ours",
        "full-cfc",
    ),
    Claim(
        "placebo",
        "True residuals correct more than permuted ones.",
        one_beats_other("cfc", "cfc", setting="true T", against="T permuted"),
        {
            "holds": "What cfc's control terms do, they do because of the residuals.",
            "does not hold": "Permuted residuals did better than true ones: what cfc gains or loses here is not a "
            "correction of bias.",
            "cannot be told": "True residuals do no more than meaningless ones would: cfc's control terms correct "
            "nothing measurable here.",
        },
        "ours",
    ),
    Claim(
        "placebo",
        "True residuals correct more than a constant.",
        one_beats_other("cfc", "cfc", setting="true T", against="T constant"),
        {},
        "ours",
    ),
    Claim(
        "placebo",
        "Where there is no position bias (η = 0), CFC does no harm.",
        does_no_harm("cfc", "naive", "eta=0"),
        {
            "holds": "Where position does not matter, cfc costs nothing noticeable.",
            "does not hold": "Where position does not matter, cfc makes the ranking worse.",
        },
        "ours",
    ),
    Claim(
        "placebo",
        "Where there is no position bias (η = 0), default does no harm.",
        does_no_harm("default", "naive", "eta=0"),
        {
            "holds": "Where position does not matter, default costs nothing noticeable.",
            "does not hold": "Where position does not matter, default makes the ranking worse.",
        },
        "ours",
        "default",
    ),
    Claim(
        "referee",
        "The referee finds the position effect that was planted in at least 19 logs of 20.",
        share_is("corrected", "eta=1", at_least=0.95),
        {
            "holds": "Where position matters, the referee says so.",
            "does not hold": "The referee misses position effects that are there: where you know of one, name the "
            "method yourself.",
        },
        "ours",
        "default",
    ),
    Claim(
        "referee",
        "The referee announces effects that are not there in at most 1 log of 20.",
        several(
            share_is("corrected", "eta=0", at_most=0.05), share_is("terms found", "eta=1, T permuted", at_most=0.05)
        ),
        {
            "holds": "What the referee announces can be believed.",
            "does not hold": "The referee announces effects that are not there more often than it should.",
        },
        "ours",
        "default",
    ),
    Claim(
        "referee",
        "The referee finds the planted confounder by its control terms in at least 19 logs of 20.",
        share_is("terms found", "a few moved far, with reason", at_least=0.95),
        {
            "holds": "Where some items were moved far for a reason that clicks share, control terms find it.",
            "does not hold": "Control terms do not reliably find a confounder, even one that was planted.",
        },
        "ours",
        "default",
    ),
    Claim(
        "inference",
        "Centred terms (T − T(0)) do better than terms set to zero at inference.",
        one_beats_other("cfc", "cfc", setting="centred", against="zero"),
        {
            "holds": "With cfc prefer centred=True: zero then means no residual shock.",
            "does not hold": "The published form of cfc did better than the centred one here.",
            "cannot be told": "Centring cfc's terms neither helps nor harms measurably.",
        },
        "ours",
    ),
    Claim(
        "inference",
        "Terms at T(0) do better than terms set to zero at inference.",
        one_beats_other("cfc", "cfc", setting="t0", against="zero"),
        {
            "holds": "With cfc prefer inference='t0' to zero.",
            "does not hold": "Keep cfc's terms at zero at inference, as published.",
        },
        "ours",
    ),
    Claim(
        "hidden",
        "When the logging policy knew more than the learner, control terms add to a position effect.",
        several(*(one_beats_other(f"full-cfc:terms={name}", "full-cfc") for name in ("T", "phi", "shift"))),
        {
            "holds": "Use full-cfc with control terms where the logging policy knew more than the features you have.",
            "does not hold": "Leave control terms out: beside a position effect they cost more than they bring.",
            "cannot be told": "Control terms beside a position effect neither help nor harm measurably, not even "
            "where the logging policy knew more than the learner.",
        },
        "ours",
        "full-cfc",
    ),
    Claim(
        "hidden",
        "Where some items were moved far for a reason that clicks share, full-cfc with shift does better than without.",
        one_beats_other("full-cfc:terms=shift", "full-cfc", setting="a few moved far, with reason"),
        {
            "holds": "Where lists were changed by hand (promotions, pins), let the referee decide about control terms: "
            "they are worth having there.",
            "does not hold": "Control terms find changes made by hand, but do not make the ranking better.",
        },
        "ours",
        "full-cfc",
    ),
    *_about_truth("default"),
)

CLAIMS = (*PAPER, *OURS)
