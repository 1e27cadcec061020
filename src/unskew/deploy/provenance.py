"""What a model's manifest tells about its making."""

from __future__ import annotations

from typing import Any


def facts_of(method: Any) -> dict[str, Any]:
    """Method, settings, data, what was tried, and the position curve of a fitted method."""
    outcome = method.outcome_
    facts: dict[str, Any] = {
        "method": getattr(method, "name", type(method).__name__),
        "settings": method.get_params(deep=False),
        "data": getattr(method, "fingerprint_", None),
        "candidates": [{"setting": candidate.setting, "score": candidate.score} for candidate in outcome.candidates],
        "bias": None,
        "extra": outcome.extra,
    }
    if outcome.bias is not None:
        curve = outcome.bias
        facts["bias"] = {
            "position": curve.position,
            "value": curve.value,
            "low": curve.low,
            "high": curve.high,
            "confidence": curve.confidence,
        }
    return facts
