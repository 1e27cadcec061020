"""Whether to trust a fitted model: what its making and its log say, in findings with a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unskew._words import percent
from unskew.control.caution import caution_words
from unskew.control.confounded import whole_effect_words
from unskew.control.diagnostics import Diagnostics, Finding, Level
from unskew.report.movement import Movement
from unskew.report.words import count, listed

# Findings about residuals matter to methods that correct by residuals alone.
_RESIDUAL_METHODS = ("cfc", "cfc-s", "cfc-bc")
_ABOUT_RESIDUALS = ("stage one", "identification", "shape of the residuals")
FEW_CLICKS, MANY_CLICKS = 500, 5_000
# A place that is looked at so much more often than the top is not.
RISES = 1.1
_NOT_BELIEVABLE, _WHICH_COLUMN = "That is not believable", "is the position column right?"
# The referee's words where clicks go with position beyond an examination that was given.
STILL = "Beside it clicks still"

VERDICTS: Mapping[Level, str] = {
    "fine": "Nothing here speaks against using it",
    "weak": "Use it with care",
    "bad": "Do not rely on it",
}


def trust_findings(
    manifest: Mapping[str, Any], *, diagnostics: Diagnostics | None, moved: Movement | None, same_log: bool | None
) -> list[Finding]:
    """Everything worth knowing before the model is used, the most serious first."""
    data = manifest.get("data") or {}
    found = [_choice(manifest), _curve(manifest)]
    if data.get("clicks") is not None and data.get("queries") is not None:
        found.insert(0, amount_of_data(data["clicks"], data["queries"]))
    if data.get("clicked_positions") == 1 and manifest.get("method") != "oracle":  # which learns from grades
        text = "All clicks of the log are at one position: relevance and position cannot be told apart in it."
        found.append(Finding("bad", "clicks", text))
    if same_log is False:
        text = (
            "The log given here is not the one the model was fitted on (its checksum differs). What this page says "
            "about the log may not hold for the model."
        )
        found.append(Finding("weak", "the log", text))
    if diagnostics is not None:
        residual = manifest.get("method") in _RESIDUAL_METHODS
        found += [item for item in diagnostics.findings if residual or item.about not in _ABOUT_RESIDUALS]
    if moved is not None:
        found.append(_reordering(moved))
    order = ("bad", "weak", "fine")
    return sorted((item for item in found if item is not None), key=lambda item: order.index(item.level))


def verdict(findings: Sequence[Finding]) -> Level:
    """The worst level among the findings."""
    levels = {finding.level for finding in findings}
    return "bad" if "bad" in levels else "weak" if "weak" in levels else "fine"


def amount_of_data(clicks: float, queries: int) -> Finding:
    """Whether there are clicks enough to learn from, whatever the method.

    >>> amount_of_data(120, 40).level, amount_of_data(9_000, 800).level
    ('bad', 'fine')
    """
    seen = f"The log has {count(clicks, 'click')} on {count(queries, 'query', 'queries')}"
    if clicks < FEW_CLICKS:
        return Finding("bad", "amount of data", f"{seen}. That is too little for any method; collect more.")
    if clicks < MANY_CLICKS:
        return Finding("weak", "amount of data", f"{seen}. With so few, chance moves the result by several points.")
    return Finding("fine", "amount of data", f"{seen}.")


def _choice(manifest: Mapping[str, Any]) -> Finding | None:
    scores = sorted(one["score"] for one in manifest.get("candidates") or [] if one.get("score") is not None)
    if len(scores) < 2:
        return None
    best, worst = scores[-1], scores[0]
    text = f"Of {len(scores)} settings tried, the best scored {best:.4f} on validation and the worst {worst:.4f}."
    if best <= 0 or (best - worst) / best < 0.2:
        return Finding("fine", "choice of settings", text)
    return Finding("weak", "choice of settings", f"{text} So much depends on it that it must be made with care.")


def _curve(manifest: Mapping[str, Any]) -> Finding | None:
    bias = manifest.get("bias")
    if not bias or not bias.get("value"):
        return None
    pairs = list(zip(bias["position"], bias["value"]))
    last = next((pair for pair in reversed(pairs) if pair[0] <= 10), pairs[-1])
    extra = manifest.get("extra") or {}
    if "severity" in extra and extra["severity"] is None:  # told, or decided by the referee
        return _taken_curve(last[0], last[1], extra.get("referee") or {})
    text = f"It estimates that position {last[0]} is looked at {percent(last[1])} as often as the top."
    if last[1] > RISES:
        return Finding("bad", "position effect", f"{text} {_NOT_BELIEVABLE}: {_WHICH_COLUMN}")
    if last[1] > 0.8:
        return Finding("weak", "position effect", f"{text} It found hardly any bias, so it corrects hardly any.")
    wrong = "" if "referee" in extra else whole_effect_words(extra.get("with_ranker"))
    if wrong:
        return Finding("bad", "position effect", f"{text} {wrong}")
    caution = caution_words(extra.get("agreement"), extra.get("left_to_relevance"))
    if caution:
        return Finding("weak", "position effect", f"{text} {caution}")
    return Finding("fine", "position effect", text)


def _taken_curve(position: int, value: float, referee: Mapping[str, Any]) -> Finding:
    """An examination that was not estimated: only nonsense, and the referee's doubt, speak against it."""
    text = f"It takes position {position} to be looked at {percent(value)} as often as the top."
    doubt = _doubt(referee)
    if value > RISES:
        what = "is position 1 the top in the examination that was given?" if referee.get("given") else _WHICH_COLUMN
        return Finding("bad", "position effect", " ".join(filter(None, (f"{text} {_NOT_BELIEVABLE}: {what}", doubt))))
    return Finding("weak" if doubt else "fine", "position effect", f"{text} {doubt}".strip())


def _doubt(referee: Mapping[str, Any]) -> str:
    """What the referee has against an examination that was given, or why it took half of the position effect."""
    if referee.get("half"):
        return (
            "That is half of the effect it estimated: something moved items and clicks alike, and steepened it. A few "
            "shuffled results would tell by how much."
        )
    if not referee.get("given"):
        return ""
    said = [] if referee.get("position_found", True) else ["it does not help to predict held-out clicks"]
    if STILL in str(referee.get("text", "")):
        said.append("clicks still go with position beside it")
    return f"The referee says that {listed(said)}: is it the examination of this log?" if said else ""


def _reordering(moved: Movement) -> Finding:
    text = f"{percent(moved.kept)} of the items in the model's {moved.top} stood there in the log."
    if moved.kept < 0.2:
        text += " It contradicts the production ranker nearly everywhere: try it on a small share of the traffic first."
        return Finding("weak", "reordering", text)
    if moved.kept > 0.98:
        return Finding("weak", "reordering", f"{text} It changes next to nothing.")
    return Finding("fine", "reordering", text)
