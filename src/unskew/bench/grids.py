"""Rows laid out for people: methods down, metrics or settings across."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from unskew._words import percent
from unskew.bench.experiments import REFERENCES, knows_more
from unskew.bench.outcomes import Outcome
from unskew.bench.plan import Plan
from unskew.bench.scales import SELF_TUNED
from unskew.bench.tables import Row

CUTS = (1, 3, 5, 10)
FAMILIES = ("ndcg", "err")
HEADLINES = ("ndcg@10", "err@10")


@dataclass(frozen=True)
class Cell:
    """A number as text. place : 1 the best, 2 the second best; star : significantly better than every other method."""

    text: str = ""
    spread: str = ""
    place: int | None = None
    star: bool = False


@dataclass(frozen=True)
class Grid:
    """A table for people: the first two columns name ranker and method (or what the rows are)."""

    title: str
    header: tuple[str, ...]
    lines: tuple[tuple[tuple[str, ...], tuple[Cell, ...]], ...]
    caption: str = ""


def grids(outcome: Outcome, rows: Sequence[Row]) -> list[Grid]:
    """The tables of an experiment: by cut-off where there is one setting, by setting where there are several."""
    if not rows:
        return []
    plan = outcome.plan
    name = f"{plan.experiment} on {plan.data}"
    if plan.kind != "ranking":
        what = "residuals of stage one" if plan.kind == "residuals" else "what was measured"
        return [_values(f"{name}: {what}", rows, caption(outcome))]
    if len(plan.settings) == 1:
        found = [_by_cut(f"{name}: {family.upper()}", rows, family) for family in FAMILIES]
    else:
        found = [_by_setting(f"{name}: {metric.upper()}", rows, metric, plan.settings, _mean) for metric in HEADLINES]
        found += [_by_setting(f"{name}: share of the NDCG@10 gap closed", rows, HEADLINES[0], plan.settings, _gap)]
    last = found[-1]
    return [*found[:-1], Grid(last.title, last.header, last.lines, caption(outcome))]


def caption(outcome: Outcome) -> str:
    """What the numbers are, and what a reader must know about them."""
    plan = outcome.plan
    seeds = f" × {len(plan.seeds)} click seeds" if len(plan.seeds) > 1 else ""
    folds = "1 fold" if plan.folds == 1 else f"{plan.folds} folds"
    lines = [plan.asks, f"Mean ± spread over {folds}{seeds} (split {plan.how}; preset {plan.preset})."]
    if plan.kind == "ranking":
        lines.append(
            "Best of a ranker in bold, second underlined, the oracle apart (and what was told the planted examination, "
            "if there is any); * the best of all, better than the best "
            "other method (Fisher, p < 0.05). Gap closed: from naive (0 %) to oracle (100 %) with the same ranker, and "
            "its 95 % interval; – where the oracle is not clearly above naive."
        )
    lines += plan.notes
    alone = _averaging_alone(plan)
    if alone:
        lines.append(
            f"With trees {' and '.join(alone)} {'averages' if len(alone) == 1 else 'average'} fold models, and the "
            "others are single models: a part of a lead may come from that."
            + ("" if plan.experiment == "truth" else " The experiment truth averages everybody's.")
        )
    if outcome.missing:
        lines.append(f"{outcome.missing} of {len(plan.units)} units are missing; run the same command again for them.")
    return "\n".join(lines)


def _averaging_alone(plan: Plan) -> list[str]:
    """Methods that average by themselves beside single models."""
    trees = [entry for entry in plan.entries if entry.ranker == "lambdamart" and plan.kind == "ranking"]
    if any(entry.unit.average > 1 for entry in trees):
        return []
    names = dict.fromkeys(entry.method.partition(":")[0] for entry in trees)
    alone = [name for name in names if name in SELF_TUNED]
    return alone if len(alone) < len(names) else []


def _by_cut(title: str, rows: Sequence[Row], family: str) -> Grid:
    metrics = [f"{family}@{cut}" for cut in CUTS]
    has_figure = any(row["published"] is not None for row in rows)
    header = ("ranker", "method", *(f"@{cut}" for cut in CUTS), "gap closed @10")
    lines = []
    for ranker, method in _columns(rows):
        by_metric = {row["metric"]: row for row in rows if (row["ranker"], row["method"]) == (ranker, method)}
        cells = [_mean(by_metric.get(metric)) for metric in metrics]
        last = by_metric.get(metrics[-1])
        cells.append(_gap(last))
        if has_figure:
            cells += [_published(last), _difference(last)]
        lines.append(((ranker, method), tuple(cells)))
    if has_figure:
        header = (*header, "published @10", "difference")
    return Grid(title, header, tuple(lines))


def _by_setting(
    title: str, rows: Sequence[Row], metric: str, settings: Sequence[str], show: Callable[[Row | None], Cell]
) -> Grid:
    mine = [row for row in rows if row["metric"] == metric]
    has_figure = show is _mean and any(row["published"] is not None for row in mine)
    lines = []
    for ranker, method in _columns(mine):
        at = {row["setting"]: row for row in mine if (row["ranker"], row["method"]) == (ranker, method)}
        if show is _gap and all(row["gap_closed"] is None for row in at.values()):
            continue
        lines.append(((ranker, method), tuple(show(at.get(setting)) for setting in settings)))
        if has_figure and any(row["published"] is not None for row in at.values()):
            lines.append((("", "published"), tuple(_published(at.get(setting)) for setting in settings)))
    return Grid(title, ("ranker", "method", *settings), tuple(lines))


def _values(title: str, rows: Sequence[Row], said: str) -> Grid:
    """What is measured once a unit: settings (and methods, where there are several) down, numbers across."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    several = len(_columns(rows)) > 1
    at = {(row["setting"], row["ranker"], row["method"], row["metric"]): row for row in rows}
    lines: list[tuple[tuple[str, ...], tuple[Cell, ...]]] = []
    for place in dict.fromkeys(key[:3] for key in at):
        mine = [at.get((*place, metric)) for metric in metrics]
        lines.append(((place[0], place[2] if several else ""), tuple(_number(row) for row in mine)))
        if any(row is not None and row["published"] is not None for row in mine):
            lines.append((("", "published"), tuple(_published(row) for row in mine)))
    return Grid(title, ("setting", "method" if several else "", *metrics), tuple(lines), said)


def _columns(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """(ranker, method), rankers together, in the order of the rows; the two references last."""
    found = list(dict.fromkeys((row["ranker"], row["method"]) for row in rows))
    rankers = list(dict.fromkeys(ranker for ranker, _ in found))
    last = {"naive": 1, "oracle": 3}
    return sorted(
        found, key=lambda column: (rankers.index(column[0]), last.get(column[1], 2 if knows_more(column[1]) else 0))
    )


def _mean(row: Row | None) -> Cell:
    if row is None:
        return Cell()
    part = "" if row["n"] == row["planned"] else f" ({row['n']} of {row['planned']})"
    spread = part if row["sd"] is None else f" ± {row['sd']:.3f}{part}"
    return Cell(f"{row['mean']:.4f}", spread, row["place"], row["star"])


def _gap(row: Row | None) -> Cell:
    if row is None or row["gap_closed"] is None:
        return Cell("" if row is None or row["method"] in REFERENCES else "–")
    return Cell(percent(row["gap_closed"]), f" ({percent(row['gap_low'])} to {percent(row['gap_high'])})")


def _number(row: Row | None) -> Cell:
    if row is None or row["mean"] != row["mean"]:
        return Cell("" if row is None else "–")
    return Cell(f"{row['mean']:.4g}", "" if row["sd"] is None else f" ± {row['sd']:.2g}")


def _published(row: Row | None) -> Cell:
    return Cell() if row is None or row["published"] is None else Cell(f"{row['published']:g}")


def _difference(row: Row | None) -> Cell:
    return Cell() if row is None or row["difference"] is None else Cell(f"{row['difference']:+.3f}")
