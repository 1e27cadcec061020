"""What the paper claims about cfc."""

from __future__ import annotations

from collections.abc import Mapping

from unskew.bench.claim import Claim
from unskew.bench.looks import (
    Verdict,
    cfc_beats_rivals,
    cfc_is_alike,
    distance_grows,
    one_beats_other,
    spread_changes,
    value_falls,
)

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
_CFC_TO_NAIVE = one_beats_other("cfc", "naive")

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
