"""The click model with a neural ranker: the same softmax, with logits f(x) + b_k + h + log n.

The position effect and the control terms come from the additive stage, where b has a standard error, and stay fixed
while the net learns. Learning rate and number of steps are those with the best likelihood of the
clicks of held-out queries; the net is then trained on all queries.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._options import Preset
from unskew.control.additive_stage import AdditiveStage, Sample, fit_additive_stage
from unskew.control.aggregate import Exposures
from unskew.control.boosting import fold_of_queries
from unskew.control.click_fit import click_table
from unskew.control.click_model import QueryClicks
from unskew.control.expected_place import ExpectedPlace, fit_expected_place
from unskew.control.position_effect import PositionBasis
from unskew.control.stack import Stack, fit_stack
from unskew.control.term_source import TermMaker
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.method import Candidate
from unskew.rankers._torch import torch
from unskew.rankers.batches import Batch, Batches, cut_lists, fit_scaling
from unskew.rankers.binned import binned
from unskew.rankers.net import Schedule, Trained, adagrad, make_net, net_judge, net_scores, seeded, softmax_loss, train
from unskew.rankers.neural import NeuralRanker, net_settings, preset_of, threads_of

Floats = npt.NDArray[np.float64]

# A query's row holds the clicks of all its sessions and all its items, so fewer of them make a step's worth.
BATCH_QUERIES = 64


@dataclass(frozen=True, eq=False)
class NetFit:
    """A net fitted to clicks; what the additive stage learnt beside it; how each learning rate did.

    log_likelihood : of held-out clicks, by the net and by the additive stage, per click.
    """

    ranker: NeuralRanker
    sample: Sample
    place: ExpectedPlace
    additive: AdditiveStage
    stack: Stack
    candidates: list[Candidate]
    log_likelihood: dict[str, float]


class LikelihoodJudge:
    """Held-out log-likelihood per click of a net's scores: rows of a table, with what is added to them."""

    def __init__(self, features: DesignMatrix, clicks: QueryClicks, given: Floats) -> None:
        self.features, self.clicks, self.given = features, clicks, given
        self.n_lists = int((clicks.totals > 0).sum())

    def __call__(self, scores: npt.NDArray[np.floating]) -> float:
        return float(self.clicks.log_likelihood(scores + self.given).sum() / self.clicks.totals.sum())


def fit_net_clicks(
    log: ClickLog,
    *,
    examination: Floats | None = None,
    terms: TermMaker | None = None,
    preset: Preset = "default",
    folds: int = 4,
    seed: int = 0,
    n_jobs: int | None = None,
) -> NetFit:
    """Fit a net to the log's clicks; a part of the queries (one in `folds`) chooses its rate and steps."""
    table = click_table(log).by_position()
    features = log.data.features
    fold = fold_of_queries(table.n_queries, min(folds, table.n_queries), seed=seed)
    looks = table.looked_at(examination)
    basis = PositionBasis.up_to(table.longest if examination is None else 1)
    sample = Sample.of(features, looks, basis, seed=seed)
    threads = max(n_jobs or 0, 0)
    data = binned(DesignMatrix(features, table.row), threads=threads)
    place = fit_expected_place(features, table, fold, sample, data, seed=seed, threads=threads)
    columns = None if terms is None else terms(table, place.held_out)
    if columns is not None:
        sample = sample.with_terms(columns)
    additive = fit_additive_stage(sample, fold, place.held_out)
    parts = {"boosted": additive.held_out, "place": place.held_out[sample.rows]}
    if columns is not None:
        parts["terms"] = additive.held_out_terms
    stack = fit_stack(sample.basis, sample.table.position, QueryClicks.of(sample.table), parts)
    given = sample.basis.columns(table.position) @ stack.effect
    if columns is not None:
        given += columns.scores(additive.terms, len(table)).mean(axis=0) * stack.weights["terms"]
    with seeded(seed, threads_of(n_jobs)):
        ranker, candidates, best = _search(log, looks, fold, given, preset, seed, n_jobs)
    held_out = float(additive.likelihood.sum() / sample.table.totals.sum())
    return NetFit(ranker, sample, place, additive, stack, candidates, {"net": best, "additive": held_out})


def _search(
    log: ClickLog,
    table: Exposures,
    fold: npt.NDArray[np.integer],
    given: Floats,
    preset: Preset,
    seed: int,
    n_jobs: int | None,
) -> tuple[NeuralRanker, list[Candidate], float]:
    """The best learning rate and step on held-out queries, then the same on all of them."""
    seen, unseen = table.take(np.flatnonzero(fold != 0)), table.take(np.flatnonzero(fold == 0))
    of_row, features = fold[table.segment], log.data.features
    judge = LikelihoodJudge(DesignMatrix(features, unseen.row), QueryClicks.of(unseen), given[of_row == 0])
    best: tuple[float, int, float] | None = None
    candidates = []
    for rate in preset_of(preset).rates:
        started = time.perf_counter()
        ranker = NeuralRanker(preset=preset, learning_rate=rate, random_state=seed, n_jobs=n_jobs)
        schedule, _ = net_settings(ranker)
        _train(ranker, schedule, DesignMatrix(features, seen.row), seen, given[of_row != 0], judge)
        judged = float(ranker.judged_ or -np.inf)
        candidates.append(
            Candidate({"learning_rate": rate, "stage": ranker.stage_}, judged, time.perf_counter() - started)
        )
        if best is None or judged > best[0]:
            best = judged, ranker.stage_, rate
    assert best is not None
    final = NeuralRanker(preset=preset, learning_rate=best[2], random_state=seed, n_jobs=n_jobs)
    _train(final, Schedule(best[1], best[2], best[1]), DesignMatrix(features, table.row), table, given, None)
    return final, candidates, best[0]


def _train(
    ranker: NeuralRanker,
    schedule: Schedule,
    design: DesignMatrix,
    table: Exposures,
    given: Floats,
    judge: LikelihoodJudge | None,
) -> None:
    """Minimise −Σ c_r log softmax(f + given + log n) / Σ c_r, batch by batch."""
    _, hidden = net_settings(ranker)
    torch.manual_seed(ranker.random_state % 2**63)
    lists = cut_lists(
        table.clicks,
        np.diff(table.offsets),
        list_size=None,
        position=table.position,
        # The batches carry one more number an item beside its label: what is added to the net's score.
        logging_score=(given + table.log_shown).astype(np.float32),
    )
    scaling = fit_scaling(design)
    net = make_net(design.n_plain, 0, hidden)

    def loss(batch: Batch) -> Any:
        assert batch.logging_score is not None
        scores = batch.spread(net_scores(net, batch.x))
        return softmax_loss(scores + batch.logging_score, batch.click, batch.weight)

    batches = Batches(design, lists, scaling, np.random.default_rng(ranker.random_state), BATCH_QUERIES)
    parts = [adagrad(net, schedule.learning_rate)]
    trained: Trained = train(parts, loss, batches, schedule, judge=net_judge(net, scaling, judge))
    ranker.adopt(net, scaling, trained)
