"""The click model with a neural ranker: a net that learns what the click model says of relevance.

A net that learns from few and noisy clicks knows the noise by heart before it has learnt the rest. So the click model
with its position effect and its control terms is fitted first, and teaches: the net minimises, list by list, the
cross-entropy between the shares softmax(f) that the model gives to a query's items and its own. It so learns from
every query of the log, clicked or not. A net that learns from the clicks themselves, with logits
f(x) + b_k + h + log n, is tried beside it, for features that trees make little of, and is taken where it predicts the
clicks of held-out queries better, beyond chance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from unskew._options import Preset
from unskew._segments import IntArray, gather_segments, offsets_of, ranks_within, segment_of, segment_sum
from unskew.control.aggregate import Exposures
from unskew.control.boosting import fold_of_queries
from unskew.control.click_fit import ClickFit, click_table
from unskew.control.click_model import QueryClicks, softmax_within
from unskew.control.forest_ranker import Forest
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.ranking import RankingData
from unskew.errors import LogError
from unskew.method import Candidate
from unskew.rankers._torch import torch
from unskew.rankers.base import Judge
from unskew.rankers.batches import LONGEST_LIST, Batch, Batches, Lists, cut_lists, fit_scaling
from unskew.rankers.net import Schedule, adagrad, make_net, net_judge, net_scores, seeded, softmax_loss, train
from unskew.rankers.neural import NeuralRanker, net_settings, preset_of, threads_of

Floats = npt.NDArray[np.float64]
Teacher = Literal["click model", "clicks"]

# A query's list holds all its items, and the clicks of all its sessions, so fewer of them make a step's worth; still
# fewer where lists are long, since an item shown at many positions has a row for each.
BATCH_QUERIES, BATCH_ROWS = 64, 6_400
# With fewer queries than this a part of them says nothing about what teaches a net best.
LEAST_QUERIES = 20


class FitTo(Protocol):
    """Fits the click model to a table of counts."""

    def __call__(self, table: Exposures) -> ClickFit: ...


@dataclass(frozen=True, eq=False)
class NetFit:
    """A net, and the teachers that were tried, the one it learnt from first.

    Their settings have the log-likelihood of held-out clicks, per click. The position effect that is added to a net's
    scores there was fitted to all clicks, alike for every teacher.
    """

    ranker: NeuralRanker
    candidates: list[Candidate]


class LikelihoodJudge:
    """Held-out log-likelihood per click of a net's scores: rows of a table, with what is added to them."""

    def __init__(self, features: DesignMatrix, clicks: QueryClicks, given: Floats) -> None:
        self.features, self.clicks, self.given = features, clicks, given
        self.n_lists = int((clicks.totals > 0).sum())

    def by_query(self, scores: npt.NDArray[np.floating]) -> Floats:
        """(queries,) log-likelihoods."""
        return self.clicks.log_likelihood(scores + self.given)

    def __call__(self, scores: npt.NDArray[np.floating]) -> float:
        return float(self.by_query(scores).sum() / self.clicks.totals.sum())


def fit_net_clicks(
    log: ClickLog,
    fit: ClickFit,
    fit_to: FitTo,
    *,
    preset: Preset = "default",
    folds: int = 4,
    seed: int = 0,
    n_jobs: int | None = None,
) -> NetFit:
    """Fit a net to the log; a part of the queries (one in `folds`) chooses its teacher and its number of steps.

    fit : the click model of the whole log; fit_to : the same of a part of it.
    """
    order = np.lexsort((fit.table.position, fit.table.segment))
    table, given = fit.table.by_position(), _given(fit)[order]
    make = partial(NeuralRanker, preset=preset, random_state=seed, n_jobs=n_jobs)
    with seeded(seed, threads_of(n_jobs)):
        if table.n_queries < LEAST_QUERIES:
            net = make(learning_rate=preset_of(preset).rates[-1])
            ranker = _taught(net, net_settings(net)[0], log.data, fit)
            return NetFit(ranker, [Candidate({"taught_by": "click model", "stage": ranker.stage_}, None, 0.0)])
        candidates = _try_teachers(log, table, given, fit_to, make, folds, seed)
        best = candidates[0].setting
        last = Schedule(best["stage"], best["learning_rate"], best["stage"])
        final = make(learning_rate=best["learning_rate"])
        if best["taught_by"] == "clicks":
            ranker = _on_clicks(final, last, log, table, given)
        else:
            ranker = _taught(final, last, log.data, fit)
    return NetFit(ranker, candidates)


def _try_teachers(
    log: ClickLog,
    table: Exposures,
    given: Floats,
    fit_to: FitTo,
    make: Callable[..., NeuralRanker],
    folds: int,
    seed: int,
) -> list[Candidate]:
    """Either teacher on a part of the queries, held against the clicks of the others: the better one first."""
    fold = fold_of_queries(table.n_queries, min(folds, table.n_queries // 5), seed=seed)
    seen, unseen = np.flatnonzero(fold != 0), np.flatnonzero(fold == 0)
    hidden = (fold == 0)[table.segment]
    held_out = table.take(unseen)
    judge = LikelihoodJudge(DesignMatrix(log.data.features, held_out.row), QueryClicks.of(held_out), given[hidden])
    # Counts as they are: the model's own may hold looks in place of impressions.
    teacher = fit_to(click_table(log).take(seen))
    rates = preset_of(make().preset).rates
    learn: dict[tuple[Teacher, float], Callable[..., NeuralRanker]] = {
        ("click model", rates[-1]): partial(_taught, data=log.data, fit=teacher, without=table.query[unseen]),
        ("clicks", rates[0]): partial(_on_clicks, log=log, table=table.take(seen), given=given[~hidden]),
    }
    candidates, reached = [], []
    for (by, rate), how in learn.items():
        started, net = time.perf_counter(), make(learning_rate=rate)
        try:
            net = how(net, net_settings(net)[0], judge=judge)
        except LogError:  # no click that far up, which only a net on clicks minds
            if by == "click model":
                raise
            continue
        facts = {"taught_by": by, "learning_rate": rate, "stage": net.stage_, "held_out": net.judged_}
        candidates.append(Candidate(facts, None, time.perf_counter() - started))
        reached.append(judge.by_query(net.predict(judge.features)))
    return candidates[::-1] if len(reached) == 2 and _clearly_better(reached[1], reached[0]) else candidates


def _clearly_better(one: Floats, other: Floats) -> bool:
    """Whether the sum of (n,) values is larger by more than two standard errors of the difference."""
    gain = one - other
    return float(gain.sum()) > 2 * float(gain.std(ddof=1)) * len(gain) ** 0.5


def _given(fit: ClickFit) -> Floats:
    """(n,) what the click model adds to relevance: its position effect, its control terms."""
    given = fit.basis.columns(fit.table.position) @ fit.effect
    if fit.sample.terms is not None:
        terms = fit.sample.terms.scores(fit.additive.terms, len(fit.table))
        given += terms.mean(axis=0) * fit.weights["terms"]
    return given


def _taught(
    ranker: NeuralRanker,
    schedule: Schedule,
    data: RankingData,
    fit: ClickFit,
    without: IntArray | None = None,
    judge: Judge | None = None,
) -> NeuralRanker:
    """Minimise −Σ softmax(f)_r log softmax(net)_r over the items of every query, but for those left out.

    Of a query with very many items a random choice takes part.
    """
    rows, offsets = _some_of_each(data, without, seed=ranker.random_state)
    design = DesignMatrix(data.features, rows)
    f = Forest(fit.forest(data.feature_names), ranker.n_jobs).predict(design)
    share = softmax_within(f, offsets, segment_of(offsets)).astype(np.float32)
    return _train(ranker, schedule, design, cut_lists(share, np.diff(offsets), list_size=None), judge)


def _some_of_each(data: RankingData, without: IntArray | None, *, seed: int) -> tuple[IntArray, IntArray]:
    """Rows and offsets of the queries with a choice, at most LONGEST_LIST rows of each, drawn at random."""
    several = np.diff(data.offsets) > 1
    several[[] if without is None else without] = False
    rows, offsets = gather_segments(data.offsets, np.flatnonzero(several))
    if len(rows) == 0 or np.diff(offsets).max() <= LONGEST_LIST:
        return rows, offsets
    kept = ranks_within(np.random.default_rng(seed).random(len(rows)), offsets) <= LONGEST_LIST
    return rows[kept], offsets_of(segment_sum(kept.astype(np.int64), offsets))


def _on_clicks(
    ranker: NeuralRanker,
    schedule: Schedule,
    log: ClickLog,
    table: Exposures,
    given: Floats,
    judge: Judge | None = None,
) -> NeuralRanker:
    """Minimise −Σ c_r log softmax(net + given + log n)_r / Σ c_r."""
    lists = cut_lists(
        table.clicks,
        np.diff(table.offsets),
        list_size=None,
        position=table.position,
        # The batches carry one more number an item beside its label: what is added to the net's score.
        logging_score=(given + table.log_shown).astype(np.float32),
    )
    return _train(ranker, schedule, DesignMatrix(log.data.features, table.row), lists, judge)


def _train(
    ranker: NeuralRanker, schedule: Schedule, design: DesignMatrix, lists: Lists, judge: Judge | None
) -> NeuralRanker:
    """Minimise the list-wise cross-entropy, batch by batch; the best checkpoint by the judge stays."""
    _, hidden = net_settings(ranker)
    torch.manual_seed(ranker.random_state % 2**63)
    scaling = fit_scaling(design)
    net = make_net(design.n_plain, 0, hidden)

    def loss(batch: Batch) -> Any:
        scores = batch.spread(net_scores(net, batch.x))
        added = 0.0 if batch.logging_score is None else batch.logging_score
        return softmax_loss(scores + added, batch.click, batch.weight)

    size = int(np.clip(BATCH_ROWS / lists.size.mean(), 1, BATCH_QUERIES))
    batches = Batches(design, lists, scaling, np.random.default_rng(ranker.random_state), size)
    parts = [adagrad(net, schedule.learning_rate)]
    return ranker.adopt(net, scaling, train(parts, loss, batches, schedule, judge=net_judge(net, scaling, judge)))
