"""How long every method took. Apart from the other tables, which are the same to the byte in every run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from unskew.bench.grids import Cell, Grid
from unskew.bench.outcomes import Outcome
from unskew.bench.tables import Row

_PARTS = ("fit", "stage_one", "test")
READ_FACTORS = "If the machine did other work at the same time, read the factors rather than the seconds."


def times(outcome: Outcome) -> list[Row]:
    """Seconds of every method, ranker and setting, each a median over folds and seeds.

    seconds : to fit, with everything that was tried on validation; stage_one_seconds : of the control function's
    stage one; test_seconds : to rank and measure the test queries.
    times_naive : seconds as a multiple of naive with the same ranker in the same setting; None without a naive.
    """
    found = []
    for setting in outcome.plan.settings:
        records = outcome.records(setting)
        taken = {
            column: {part: median(record["seconds"][part] for record in of) for part in _PARTS}
            for column, of in records.items()
        }
        for (ranker, method), seconds in taken.items():
            naive = taken.get((ranker, "naive"), {}).get("fit")
            found.append(
                {
                    "experiment": outcome.plan.experiment,
                    "data": outcome.plan.data,
                    "setting": setting,
                    "ranker": ranker,
                    "method": method,
                    "seconds": seconds["fit"],
                    "times_naive": seconds["fit"] / naive if naive else None,
                    "stage_one_seconds": seconds["stage_one"],
                    "test_seconds": seconds["test"],
                    "n": len(records[ranker, method]),
                }
            )
    return found


def time_grid(outcome: Outcome, taken: Sequence[Row]) -> Grid | None:
    """The times of an experiment for people; None where no method was fitted."""
    if outcome.plan.kind != "ranking" or not taken:
        return None
    title = f"{outcome.plan.experiment} on {outcome.plan.data}: seconds"
    several = len(outcome.plan.settings) > 1
    return _by_setting(title, taken, outcome.plan.settings) if several else _by_part(title, taken)


def _by_part(title: str, taken: Sequence[Row]) -> Grid:
    lines = [
        (
            (row["ranker"], row["method"]),
            (
                Cell(_seconds(row["seconds"])),
                Cell(_factor(row["times_naive"])),
                Cell(_seconds(row["stage_one_seconds"]) if row["stage_one_seconds"] else ""),
                Cell(_seconds(row["test_seconds"])),
            ),
        )
        for row in _by_ranker(taken)
    ]
    return Grid(title, ("ranker", "method", "fit", "fit, × naive", "stage one", "test"), tuple(lines), _caption())


def _by_setting(title: str, taken: Sequence[Row], settings: Sequence[str]) -> Grid:
    lines: list[tuple[tuple[str, ...], tuple[Cell, ...]]] = []
    for ranker, method in dict.fromkeys((row["ranker"], row["method"]) for row in _by_ranker(taken)):
        at = {row["setting"]: row for row in taken if (row["ranker"], row["method"]) == (ranker, method)}
        lines.append(((ranker, method), tuple(_fit(at.get(setting)) for setting in settings)))
        if any(row["stage_one_seconds"] for row in at.values()):
            stage_one = [at[setting]["stage_one_seconds"] if setting in at else None for setting in settings]
            lines.append((("", "its stage one"), tuple(Cell(_seconds(seconds)) for seconds in stage_one)))
    return Grid(title, ("ranker", "method", *settings), tuple(lines), _caption())


def _by_ranker(taken: Sequence[Row]) -> list[Row]:
    """Rankers together, naive first: it is what the others are multiples of."""
    rankers = list(dict.fromkeys(row["ranker"] for row in taken))
    return sorted(taken, key=lambda row: (rankers.index(row["ranker"]), row["method"] != "naive"))


def _fit(row: Row | None) -> Cell:
    if row is None:
        return Cell()
    return Cell(_seconds(row["seconds"]), f" ({_factor(row['times_naive'])})")


def _seconds(value: float | None) -> str:
    """Seconds with as many digits as mean something.

    >>> _seconds(0.1234), _seconds(12.345), _seconds(1234.5), _seconds(None)
    ('0.12', '12.3', '1,234', '')
    """
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _factor(value: float | None) -> str:
    """A multiple of naive.

    >>> _factor(0.123), _factor(2.51), _factor(1234.5), _factor(None)
    ('×0.12', '×2.5', '×1,234', '–')
    """
    if value is None:
        return "–"
    return f"×{value:.2f}" if value < 1 else f"×{value:.1f}" if value < 10 else f"×{value:,.0f}"


def _caption() -> str:
    return (
        "Medians over folds and seeds. Fit: everything that a method tried on validation, and its multiple of naive "
        "with the same ranker. Stage one is apart: it is fitted once for all methods that use it on the same log. "
        f"{READ_FACTORS}"
    )
