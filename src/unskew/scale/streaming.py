"""Stage one from statistics that merge: two passes over the parts of a log, in any order, on any machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._options import RankTarget
from unskew.control.learners import Ridge, RidgeFit
from unskew.control.placements import Target, placements
from unskew.control.stage_one import StageOne, predict_blocks, row_targets
from unskew.control.statistics import GramStatistics, ResidualStatistics, residual_statistics
from unskew.data.clicks import ClickLog
from unskew.errors import LogError, check_choice

Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Counts:
    """What has to be known of a log before anything else; counts add up, extremes win."""

    queries: int
    rows: int
    sessions: int
    impressions: int
    clicks: int
    first: int
    last: int

    def merge(self, other: Counts) -> Counts:
        mine, theirs = vars(self), vars(other)
        added = {name: mine[name] + theirs[name] for name in mine if name not in ("first", "last")}
        return Counts(**added, first=min(self.first, other.first), last=max(self.last, other.last))


def counts_of(log: ClickLog) -> Counts:
    """Counts of a part; `first` and `last` are the highest and the lowest position anything was shown at."""
    return Counts(
        queries=log.data.n_queries,
        rows=log.data.n_rows,
        sessions=log.n_sessions,
        impressions=log.n_impressions,
        clicks=log.n_clicks,
        first=int(log.position.min()),
        last=log.longest_list,
    )


def target_of(counts: Counts, kind: RankTarget) -> Target:
    """Stage one's target for a log with these counts."""
    check_choice("rank_target", kind, ("global", "per_list", "raw"))
    if counts.first == counts.last:
        raise LogError(
            f"Every item was shown at position {counts.last}, so there is no position effect to correct. "
            "Is the position column the right one?"
        )
    return Target(kind=kind, longest=counts.last)


def gram_of(log: ClickLog, target: Target) -> GramStatistics:
    """First pass: what ridge needs to know of a part."""
    from unskew.control.learners import _gram

    shown = placements(log)
    values = target.values(log, shown.row, shown.position)
    return _gram(log.data.features, row_targets(log, shown, values))


def residuals_of(log: ClickLog, target: Target, model: RidgeFit, scale: float) -> ResidualStatistics:
    """Second pass: the residuals of a part, on the lattice that `scale` sets for all parts alike."""
    shown = placements(log)
    expected = predict_blocks(model, log.data.features)
    residual = target.values(log, shown.row, shown.position) - expected[shown.row]
    return residual_statistics(residual, shown.count, scale=scale)


def residual_scale(gram: GramStatistics, model: RidgeFit) -> float:
    """The residuals' standard deviation, without a pass: a' S a over the weight, a = (−coefficients, 1)."""
    weights = np.append(-model.coefficients, 1.0)
    return float(np.sqrt(max(weights @ gram.scatter @ weights, 0.0) / gram.weight))


def merged(parts: Iterable[Any]) -> Any:
    """Statistics of the parts together."""
    return reduce(lambda one, other: one.merge(other), parts)


def conclude(
    gram: GramStatistics, residuals: ResidualStatistics, model: RidgeFit, target: Target, expected: npt.NDArray
) -> StageOne:
    """What stage one learnt, from the merged statistics of both passes."""
    d = len(gram.mean) - 1
    # In memory a placement weighs its share of the impressions; the histogram of a stream catches up at the end.
    share = gram.entries / gram.weight
    statistics = replace(
        residuals,
        weight=residuals.weight * share,
        scatter=residuals.scatter * share,
        histogram=residuals.histogram * share,
    )
    total = float(gram.scatter[d, d])
    return StageOne(
        model=model,
        target=target,
        expected=expected,
        statistics=statistics,
        r2=1 - residuals.scatter / total if total > 0 else 0.0,
        folds=0,
        learner="ridge",
        facts=model.facts(),
    )


def stream_stage_one(
    batches: Callable[[], Iterable[ClickLog]], *, rank_target: RankTarget, expected: npt.NDArray[np.float64]
) -> StageOne:
    """Ridge stage one of a log that comes in batches of whole queries; `batches` starts a pass.

    expected : (rows,) filled with m̂(x) of every row, in the order of the batches.
    Equal to `fit_stage_one` on the whole log up to rounding, as long as no feature is missing: a missing value counts
    as the mean of the rows it is read with.
    """
    target = target_of(merged(counts_of(log) for log in batches()), rank_target)
    gram: GramStatistics = merged(gram_of(log, target) for log in batches())
    model = Ridge().solve(gram)
    scale = residual_scale(gram, model)
    residuals: ResidualStatistics = merged(residuals_of(log, target, model, scale) for log in batches())
    at = 0
    for log in batches():
        expected[at : at + log.data.n_rows] = predict_blocks(model, log.data.features)
        at += log.data.n_rows
    return conclude(gram, residuals, model, target, expected)
