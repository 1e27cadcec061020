"""Numbers as people read them, the same way in tables, pages and messages."""

from __future__ import annotations


def percent(share: float | None, digits: int = 0) -> str:
    """A share as people write it.

    >>> percent(-0.123), percent(0.5), percent(0.0213, 2), percent(None)
    ('−12 %', '50 %', '2.13 %', '–')
    """
    if share is None:
        return "–"
    text = f"{100 * share:.{digits}f}"
    # Rounding can leave a minus in front of nothing.
    return f"{true_minus(text)} %" if float(text) != 0 else f"{abs(float(text)):.{digits}f} %"


def setting(value: object) -> str:
    """The value of a setting in a table of those that were tried.

    >>> setting(-1.8006954584017272), setting(1e-5), setting(300), setting("auto"), setting(None)
    ('−1.8007', '1e−05', '300', 'auto', '–')
    """
    return true_minus(f"{value:.5g}") if isinstance(value, float) else "–" if value is None else str(value)


def true_minus(text: str) -> str:
    return text.replace("-", "−")
