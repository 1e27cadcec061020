"""Numbers and names in words, the same way everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from unskew._words import percent, true_minus


def number(value: float | None, form: str = ".4f") -> str:
    """A number in this form, with a true minus sign.

    >>> number(-1234.5, ",.1f"), number(None)
    ('−1,234.5', '–')
    """
    return "–" if value is None or value != value else true_minus(format(value, form))


def short(name: object, length: int = 40) -> str:
    """A name that fits a label: cut in the middle, without signs that break lines or turn the text around.

    >>> short("body\\nbm25"), short("x" * 30 + "y" * 30, 11)
    ('body bm25', 'xxxxx…yyyyy')
    """
    text = "".join(sign if sign.isprintable() else " " for sign in str(name))
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}" if names else ""


def count(number_of: float, noun: str, plural: str | None = None) -> str:
    """How many of something.

    >>> count(1, "query", "queries"), count(1200, "click")
    ('1 query', '1,200 clicks')
    """
    word = noun if number_of == 1 else plural or f"{noun}s"
    return f"{number_of:,.0f} {word}"


def gap_words(value: float, low: float | None, high: float | None) -> str:
    """What a share of the gap means, as the end of a sentence.

    >>> gap_words(0.6, 0.4, 0.8)
    'which closes 60 % of that gap (95 % interval 40 % to 80 %)'
    >>> gap_words(-0.5, -1.2, -0.1)
    'which is worse than the clicks as they are (gap closed: −50 %, 95 % interval −120 % to −10 %)'
    """
    known = low is not None and high is not None
    interval = f"95 % interval {percent(low)} to {percent(high)}" if known else "no interval"
    if low is not None and high is not None and low <= 0 <= high:
        return f"which chance may explain (gap closed: {percent(value)}, {interval})"
    if value < 0:
        return f"which is worse than the clicks as they are (gap closed: {percent(value)}, {interval})"
    return f"which closes {percent(value)} of that gap ({interval})"
