"""`evaluate`: one or several rankings against human grades, with per-query values and significance marks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._options import EmptyQueries
from unskew.data.files import write_frame
from unskew.data.ranking import RankingData
from unskew.errors import DataError, SettingError, check_choice
from unskew.evaluation.metrics import CUTOFFS, PerQuery, Summary, Values, fill_empty, per_query, summarise
from unskew.evaluation.significance import Comparison, compare_columns, holm

if TYPE_CHECKING:
    from rich.console import Group

ALPHA = 0.05


@dataclass(frozen=True)
class PairComparison:
    """System a against system b on one metric."""

    a: str
    b: str
    metric: str
    result: Comparison

    @property
    def better(self) -> str | None:
        """The system that is significantly better (p < 0.05 after Holm's correction), if any."""
        if self.result.p_holm >= ALPHA or self.result.difference == 0:
            return None
        return self.a if self.result.difference > 0 else self.b


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What came out.

    systems : names, in the order given; metrics : names, "ndcg@10" and so on.
    summary : system → means and counts of queries.
    per_query : polars frame, one row per system and query: system, query_id, one column a metric; null where the
        query has no relevant item.
    comparisons : every pair on every metric, the later system against the earlier one; p_holm is corrected over
        the pairs of a metric.
    """

    systems: tuple[str, ...]
    metrics: tuple[str, ...]
    summary: dict[str, Summary]
    per_query: pl.DataFrame
    comparisons: tuple[PairComparison, ...]
    empty: EmptyQueries

    @property
    def queries(self) -> int:
        """How many queries the means are over."""
        return next(iter(self.summary.values())).queries

    @property
    def empty_queries(self) -> int:
        """How many queries have no relevant item."""
        return next(iter(self.summary.values())).empty

    def beats(self, system: str, metric: str) -> tuple[str, ...]:
        """The systems that this one is significantly better than."""
        found = [pair for pair in self.comparisons if pair.metric == metric and pair.better == system]
        return tuple(pair.b if pair.a == system else pair.a for pair in found)

    def rows(self) -> list[dict[str, Any]]:
        """One row per system: its letter, means, and for every metric the letters of the systems it beats."""
        letters = dict(zip(self.systems, _letters(len(self.systems))))
        return [
            {
                "system": system,
                "letter": letters[system],
                **self.summary[system].mean,
                "beats": {
                    metric: "".join(letters[name] for name in self.beats(system, metric)) for metric in self.metrics
                },
            }
            for system in self.systems
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the per-query values, as JSON has it."""
        return {
            "metrics": list(self.metrics),
            "queries": self.queries,
            "empty_queries": self.empty_queries,
            "empty": self.empty,
            "rows": self.rows(),
            "comparisons": [
                {"a": pair.a, "b": pair.b, "metric": pair.metric, **asdict(pair.result), "better": pair.better}
                for pair in self.comparisons
            ],
        }

    def render(self) -> Group:
        """For the terminal: a table a metric (best in bold, letters of the systems it beats), and what it is over."""
        from unskew.evaluation.rendering import render

        return render(self)

    def write_per_query(self, path: str | os.PathLike[str]) -> None:
        """Write every query's values as Parquet or CSV, by the ending of the path."""
        write_frame(self.per_query, path)

    def caption(self) -> str:
        """What the numbers are over, in words."""
        treatment = {"exclude": "left out", "zero": "counted as 0", "one": "counted as NDCG 1 and ERR 0"}[self.empty]
        lines = [f"{self.queries:,} queries; {self.empty_queries:,} without a relevant item, {treatment}."]
        if len(self.systems) > 1:
            lines.append(
                f"Letters: significantly better than that system (Fisher's randomisation test, Holm-corrected, "
                f"p < {ALPHA})."
            )
        return "\n".join(lines)


def evaluate(
    data: RankingData,
    scores: Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike] | npt.ArrayLike,
    *,
    at: Sequence[int] = CUTOFFS,
    empty: EmptyQueries = "exclude",
    names: Sequence[str] | None = None,
    draws: int = 100_000,
    seed: int = 0,
) -> Evaluation:
    """NDCG and ERR of scores against the grades of judged data; several systems are compared pairwise.

    scores : (rows,), or name → (rows,) for several systems, or a list of them with `names`.
    empty : queries without a relevant item are left out ("exclude"), or count as "zero" or "one".

    >>> data = RankingData.from_arrays(np.eye(4), sizes=[2, 2], grades=[0, 1, 1, 0])
    >>> found = evaluate(data, {"good": [1, 2, 2, 1], "bad": [2, 1, 1, 2]}, at=[1])
    >>> [(row["system"], row["ndcg@1"]) for row in found.rows()], found.comparisons[0].result.p
    ([('good', 1.0), ('bad', 0.0)], 0.5)
    """
    check_choice("empty", empty, get_args(EmptyQueries))
    grades = data.require_grades("evaluate")
    systems = _named(scores, names)
    largest = max(int(grades.max(initial=0)), 1) if data.max_grade is None else data.max_grade
    values = {
        name: per_query(grades, score, data.offsets, max_grade=largest, at=at, seed=seed)
        for name, score in systems.items()
    }
    filled = {
        name: {metric: fill_empty(metric, value, empty) for metric, value in of.items()} for name, of in values.items()
    }
    return Evaluation(
        systems=tuple(systems),
        metrics=tuple(next(iter(values.values()))),
        summary={name: summarise(of, empty=empty) for name, of in values.items()},
        per_query=_frame(data, filled),
        comparisons=_compare_all(filled, draws=draws, seed=seed),
        empty=empty,
    )


def _named(scores: Any, names: Sequence[str] | None) -> dict[str, npt.ArrayLike]:
    if isinstance(scores, Mapping):
        systems = {str(name): score for name, score in scores.items()}
    elif np.ndim(scores) == 1:
        systems = {names[0] if names else "scores": scores}
    else:
        listed = list(scores)
        given = list(names or ())
        if len(given) != len(listed) or len(set(given)) != len(given):
            raise SettingError(f"{len(listed)} lists of scores need as many distinct names, but {given} was given.")
        systems = dict(zip(given, listed))
    if not systems:
        raise DataError("There are no scores to evaluate.")
    return systems


def _frame(data: RankingData, values: Mapping[str, PerQuery]) -> pl.DataFrame:
    parts = [
        pl.DataFrame(
            [
                pl.Series("system", [name], dtype=pl.String).new_from_index(0, data.n_queries),
                data.query_ids.alias("query_id"),
                *(pl.Series(metric, value).fill_nan(None) for metric, value in of.items()),
            ]
        )
        for name, of in values.items()
    ]
    return pl.concat(parts)


def _compare_all(values: Mapping[str, PerQuery], *, draws: int, seed: int) -> tuple[PairComparison, ...]:
    """Every pair of systems on every metric, corrected over the pairs of a metric."""
    found: list[PairComparison] = []
    # The first system is the one that the later ones are held against.
    pairs = [(later, earlier) for earlier, later in combinations(values, 2)]
    if not pairs:
        return ()
    metrics = list(next(iter(values.values())))
    kept = ~np.isnan(values[pairs[0][0]][metrics[0]])
    if not kept.any():
        return ()
    tested = [_test_pair(values[a], values[b], kept, metrics, draws=draws, seed=seed) for a, b in pairs]
    corrected = np.stack([holm([results[i].p for results in tested]) for i in range(len(metrics))], axis=1)
    for (a, b), results, p_holm in zip(pairs, tested, corrected):
        for metric, result, p in zip(metrics, results, p_holm):
            found.append(PairComparison(a, b, metric, replace(result, p_holm=float(p))))
    return tuple(found)


def _test_pair(
    a: PerQuery, b: PerQuery, kept: npt.NDArray[np.bool_], metrics: Sequence[str], *, draws: int, seed: int
) -> list[Comparison]:
    left: Values = np.stack([a[metric][kept] for metric in metrics], axis=1)
    right: Values = np.stack([b[metric][kept] for metric in metrics], axis=1)
    return compare_columns(left, right, draws=draws, seed=seed)


def _letters(count: int) -> list[str]:
    """a, b, …, z, aa, ab, …"""
    single = list(ascii_lowercase)
    return (single + [one + two for one in single for two in single])[:count]
