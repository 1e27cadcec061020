"""Trying control terms: what they add to the position effect and the parts of a fitted click model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.control.aggregate import Exposures
from unskew.control.click_fit import ClickFit
from unskew.control.click_model import QueryClicks
from unskew.control.conditional import fit_linear
from unskew.control.evidence import Budget, Specification, compare
from unskew.control.stack import PRIORS
from unskew.control.term_columns import TermColumns
from unskew.control.term_source import TermsName, TermSource
from unskew.data.clicks import ClickLog

Floats = npt.NDArray[np.float64]

# How strongly control terms are shrunk, times their own penalty; leaving them out altogether is tried as well.
RIDGES = (3_000.0, 300.0, 30.0, 3.0)


def try_terms(
    log: ClickLog,
    table: Exposures,
    fit: ClickFit,
    tried: Sequence[tuple[TermsName, str]],
    position: Specification,
    placebo: bool,
    budget: Budget,
    seed: int,
) -> list[Specification]:
    """Control terms beside the parts and the position effect, which is estimated anew with them.

    table : the counts that the model was fitted to, impressions even where looks are known.
    """
    source, beside = TermSource(log, seed), _Beside.of(fit)
    used = table if len(fit.used) == len(table) else table.take(fit.sample.queries)
    found = []
    for kind, transformation in tried:
        make = source.maker(kind, transformation, permuted=seed if placebo else None)
        reached = beside.with_terms(make(used, fit.place.held_out[fit.sample.rows]))
        name = f"position + {f'Φ({transformation})' if kind == 'phi' else kind}"
        # Of several that mean nothing one may look good: they share the error.
        share = budget.error / len(tried)
        found.append(compare(name, reached - beside.likelihood, position, budget, share=share, seed=seed))
    return found


@dataclass(frozen=True, eq=False)
class _Beside:
    """The position effect and the parts of a fit as one linear model, which control terms are put beside.

    columns : (n, p); centre, penalty : (p,) their prior; by_fold : coefficients fitted without the fold's queries.
    likelihood : (queries,) of held-out clicks, without any terms.
    """

    clicks: QueryClicks
    fold: IntArray
    columns: npt.NDArray[np.float32]
    centre: Floats
    penalty: Floats
    by_fold: tuple[Floats, ...]
    likelihood: Floats

    @classmethod
    def of(cls, fit: ClickFit) -> _Beside:
        clicks, fold = QueryClicks.of(fit.used), fit.fold[fit.sample.queries]
        names = [name for name, weight in fit.stack.weights.items() if weight != 0]
        parts = [fit.parts[name][:, None] for name in names]
        columns = np.hstack([fit.basis.columns(fit.used.position), *parts]).astype(np.float32)
        centre = np.r_[np.zeros(fit.basis.size), [PRIORS[name].expected for name in names]]
        penalty = np.r_[fit.basis.penalty(fit.stack.bend), [PRIORS[name].spread ** -2.0 for name in names]]
        by_fold, likelihood = [], np.zeros(len(fold))
        for k in range(int(fold.max()) + 1):
            model = fit_linear(columns, clicks.without(fold == k), penalty=penalty, centre=centre, tolerance=0.05)
            by_fold.append(model.coefficients)
            likelihood[fold == k] = clicks.log_likelihood(columns @ model.coefficients)[fold == k]
        return cls(clicks, fold, columns, centre, penalty, tuple(by_fold), likelihood)

    def with_terms(self, terms: TermColumns) -> Floats:
        """(queries,) held-out log-likelihood; how much h is shrunk is what the queries of other folds would choose."""
        fixed = self.columns.shape[1]
        columns = np.empty((len(self.columns), fixed + terms.size), dtype=np.float32)
        columns[:, :fixed] = self.columns
        terms.fill(columns[:, fixed:], np.arange(len(columns)))
        centre = np.r_[self.centre, np.zeros(terms.size)]
        path = np.zeros((1 + len(RIDGES), len(self.fold)))
        path[0] = self.likelihood
        for k, known in enumerate(self.by_fold):
            training, mine, start = self.clicks.without(self.fold == k), self.fold == k, np.r_[known, centre[fixed:]]
            for i, ridge in enumerate(RIDGES, start=1):
                penalty = np.r_[self.penalty, ridge * terms.penalty(1.0)]
                start = fit_linear(
                    columns, training, penalty=penalty, centre=centre, start=start, tolerance=0.05
                ).coefficients
                path[i, mine] = self.clicks.log_likelihood(columns @ start)[mine]
        return _honest(path, self.fold)


def _honest(path: Floats, fold: npt.NDArray[np.integer]) -> Floats:
    """(queries,) log-likelihood at the setting (first axis) that the queries of the other folds would choose."""
    reached = np.empty(path.shape[1])
    for k in range(int(fold.max()) + 1):
        mine = fold == k
        best = int(np.argmax(path[:, ~mine].sum(axis=1)))
        reached[mine] = path[best, mine]
    return reached
