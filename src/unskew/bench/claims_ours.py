"""What is claimed here: about full-cfc, default, the referee, the placebos and the variants."""

from __future__ import annotations

from collections.abc import Mapping

from unskew.bench.claim import Claim
from unskew.bench.experiments import EXPERIMENTS, MOVED_FAR, SWAPS, TOLD
from unskew.bench.looks import (
    PAPER_RIVALS,
    Look,
    Verdict,
    beats_best,
    does_no_harm,
    one_beats_other,
    several,
    share_is,
)
from unskew.bench.standards import closes_gap, never_below, often_above

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
_FULL_TO_PAPER = beats_best("full-cfc", ("cfc", *PAPER_RIVALS))
_FULL_TO_NAIVE = one_beats_other("full-cfc", "naive")


def _about_full(experiment: str, where: str) -> tuple[Claim, Claim]:
    """The two claims about full-cfc that every comparison of methods can answer."""
    best = f"full-cfc is better than every method of the paper {where}."
    naive = f"full-cfc is better than naive {where}."
    return (
        Claim(experiment, best, _FULL_TO_PAPER, _FULL_WINS, "ours", "full-cfc"),
        Claim(experiment, naive, _FULL_TO_NAIVE, _FULL_CORRECTS, "ours", "full-cfc"),
    )


# The cells of the truth study, and of the study of hidden causes.
CELLS = tuple(setting.name for setting in EXPERIMENTS["truth"].settings)
_HIDDEN = tuple(setting.name for setting in EXPERIMENTS["hidden"].settings)
_COMMON_CAUSE = tuple(one.name for one in EXPERIMENTS["hidden"].settings if one.cell.shock_moves_clicks)
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
            never_below(method, "position", CELLS),
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
            never_below(method, "naive", CELLS),
            {
                "holds": f"{method} is a safe default: nowhere worse than training on clicks as they are.",
                "does not hold": f"{method} is worse than training on clicks as they are in some cell.",
            },
        ),
        claim(
            "would do better if it were told the true examination.",
            one_beats_other(TOLD, method),
            {
                "holds": f"What limits {method} is that it has to learn the examination: shuffle a few results.",
                "does not hold": f"What limits {method} is not that it has to learn the examination: told the true "
                "one, it does worse in some cell.",
                "cannot be told": f"Knowing the true examination would not clearly help {method} in every cell.",
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
        share_is("terms found", MOVED_FAR, at_least=0.95),
        {
            "holds": "Where some items were moved far for a reason that clicks share, control terms find it.",
            "does not hold": "Control terms do not reliably find a confounder, even one that was planted.",
        },
        "ours",
        "default",
    ),
    Claim(
        "referee",
        "Items moved by chance refute a position effect that is right in at most 1 log of 20.",
        share_is("refuted", SWAPS, at_most=0.05),
        {
            "holds": "When items that moved overrule the model, there is a reason.",
            "does not hold": "Items that moved overrule the model more often than they should.",
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
        one_beats_other("full-cfc:terms=shift", "full-cfc", setting=MOVED_FAR),
        {
            "holds": "Where lists were changed by hand (promotions, pins), let the referee decide about control terms: "
            "they are worth having there.",
            "does not hold": "Control terms find changes made by hand, but do not make the ranking better.",
        },
        "ours",
        "full-cfc",
    ),
    Claim(
        "hidden",
        "Told the examination, full-cfc with shift does better than without, where some items were moved far for a "
        "reason that clicks share.",
        one_beats_other(f"{TOLD}:terms=shift", TOLD, setting=MOVED_FAR),
        {
            "holds": "Control terms and the examination cannot both be learnt from one log: where the examination is "
            "known (from shuffled results), control terms take out what moved items and clicks share.",
            "does not hold": "Control terms do not help even where the examination is known.",
        },
        "ours",
        "full-cfc",
    ),
    Claim(
        "hidden",
        "Told the examination, full-cfc with shift does better than without, wherever items and clicks have a common "
        "cause.",
        several(*(one_beats_other(f"{TOLD}:terms=shift", TOLD, setting=setting) for setting in _COMMON_CAUSE)),
        {
            "holds": "Where the examination is known, use control terms.",
            "does not hold": "Even where the examination is known, control terms help against changes made by hand, "
            "not against taste.",
        },
        "ours",
        "full-cfc",
    ),
    Claim(
        "hidden",
        "default is in no cell below naive by more than a standard error, whatever the logging policy knew.",
        never_below("default", "naive", _HIDDEN),
        {
            "holds": "default is safe even where the logging policy knew more than the learner.",
            "does not hold": "Where lists and clicks have a common cause that the features do not show, default can be "
            "worse than training on clicks as they are: have some results shuffled, or give it the examination.",
        },
        "ours",
        "default",
    ),
    Claim(
        "hidden",
        "default is in no cell below LightGBM's position effect by more than a standard error, whatever the logging "
        "policy knew.",
        never_below("default", "position", _HIDDEN),
        {
            "holds": "default costs nothing beside LightGBM's position effect, whatever the logging policy knew.",
            "does not hold": "Where lists and clicks have a common cause that the features do not show, LightGBM's "
            "position effect can do better than default.",
        },
        "ours",
        "default",
    ),
    *_about_truth("default"),
    *_about_full("truth", "with nets, in the base case and two hard corners"),
)
