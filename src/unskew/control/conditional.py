"""Linear conditional click models, solved by Newton's method; the workhorse of the additive stage and the stack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from unskew.control.click_model import QueryClicks

Floats = npt.NDArray[np.float64]

# Rows worked on at once: bounds the weighted copies whatever the size of the log.
_BLOCK = 16_384
_STEPS = 40


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted linear click model with p columns.

    coefficients : (p,).
    curvature : (p, p) Hessian of the penalised negative log-likelihood.
    log_likelihood : of the clicks, without the penalty; cost : the penalty paid.
    penalty : (p,) what each coefficient's squared distance from its centre costs, halved.
    """

    coefficients: Floats
    curvature: Floats
    log_likelihood: float
    cost: float
    penalty: Floats

    @property
    def evidence(self) -> float:
        """Laplace's approximation of the log marginal likelihood, up to a constant that the penalty does not move.

        Coefficients with a penalty p are draws from N(0, 1/p); so the penalty can be chosen by the clicks themselves.
        """
        prior = 0.5 * float(np.log(self.penalty[self.penalty > 0]).sum())
        volume = 0.5 * float(np.linalg.slogdet(self.curvature)[1])
        return self.log_likelihood - self.cost + prior - volume


def fit_linear(
    columns: npt.NDArray[np.floating],
    clicks: QueryClicks,
    *,
    penalty: Floats,
    centre: Floats | float = 0.0,
    given: Floats | None = None,
    start: Floats | None = None,
    tolerance: float = 1e-3,
) -> LinearFit:
    """Maximise Σ c_r log s_r − ½ Σ_j penalty_j (β_j − centre_j)² over β, the scores being columns @ β + given.

    columns : (n, p); penalty : (p,), 0 for coefficients that are free; given : (n,) scores that are added.
    tolerance : Newton's decrement, in units of log-likelihood, at which it stops.
    A query whose total is 0 counts for nothing, so a part of the queries is left out by zeroing its clicks.

    >>> clicks = QueryClicks.of_counts([0, 2], clicks=[30, 10], shown=[10, 10])
    >>> fit = fit_linear(np.array([[1.0], [0.0]]), clicks, penalty=np.zeros(1))
    >>> round(float(np.exp(fit.coefficients[0])), 3)
    3.0
    """
    exact: Floats = columns.astype(np.float64, copy=False)  # once, not at every step
    given = np.zeros(len(columns)) if given is None else given
    beta = np.zeros(columns.shape[1]) if start is None else start.copy()

    def cost(at: Floats) -> float:
        return 0.5 * float(penalty @ (at - centre) ** 2)

    def objective(at: Floats) -> tuple[float, Floats]:
        scores = exact @ at + given
        return float(clicks.log_likelihood(scores).sum()) - cost(at), scores

    value, scores = objective(beta)
    for _ in range(_STEPS):
        slope, curvature = _moments(exact, clicks, scores)
        slope -= penalty * (beta - centre)
        curvature[np.diag_indices_from(curvature)] += penalty
        step = _solve(curvature, slope)
        beta, value, scores = _line_search(objective, beta, step, value, scores)
        if float(slope @ step) < tolerance:
            break
    return LinearFit(beta, curvature, value + cost(beta), cost(beta), penalty)


def robust_covariance(
    fit: LinearFit, columns: npt.NDArray[np.floating], clicks: QueryClicks, *, given: Floats | None = None
) -> Floats:
    """(p, p) covariance of the coefficients that lets the clicks of a query depend on each other.

    A⁻¹ (M + P) A⁻¹ with A the penalised curvature, M the sum over queries of the outer product of their scores and P
    the penalty: the sandwich, widened by what shrinkage may have moved. With M = A − P it is the posterior covariance.
    """
    scores = columns @ fit.coefficients + (0.0 if given is None else given)
    left_over = clicks.clicks - clicks.totals[clicks.segment] * clicks.shares(scores)
    by_query = np.add.reduceat(columns * left_over[:, None], clicks.offsets[:-1])
    queries = int((clicks.totals > 0).sum())
    meat = by_query.T @ by_query * (queries / max(queries - 1, 1)) + np.diag(fit.penalty)
    inverse = _solve(fit.curvature, np.eye(len(fit.coefficients)))
    return inverse @ meat @ inverse


def _moments(columns: Floats, clicks: QueryClicks, scores: Floats) -> tuple[Floats, Floats]:
    """Slope Z'(c − µ) and curvature Σ µ z z' − Σ_q N_q z̄ z̄' with z̄ = Σ s z, a block of queries at a time."""
    share = clicks.shares(scores)
    expected = clicks.totals[clicks.segment] * share
    left_over = clicks.clicks - expected
    p = columns.shape[1]
    slope, curvature = np.zeros(p), np.zeros((p, p))
    cuts = np.searchsorted(clicks.offsets, np.arange(0, len(scores), _BLOCK), side="left")
    bounds = np.unique(np.append(cuts, len(clicks.offsets) - 1))
    for first, last in pairwise(bounds.tolist()):
        start, stop = int(clicks.offsets[first]), int(clicks.offsets[last])
        z = columns[start:stop]
        slope += z.T @ left_over[start:stop]
        weighted = z * expected[start:stop, None]
        curvature += z.T @ weighted
        total = clicks.totals[first:last]
        # weighted holds N_q s z, so its sums are N_q z̄ and dividing once by N_q gives N_q z̄ z̄'.
        sums = np.add.reduceat(weighted, clicks.offsets[first:last] - start)
        sums /= np.sqrt(np.where(total > 0, total, 1.0))[:, None]
        curvature -= sums.T @ sums
    return slope, curvature


def _solve(curvature: Floats, slope: Floats) -> Floats:
    # Columns that never vary inside a query have no curvature; the ridge leaves their coefficients at zero.
    ridge = 1e-8 * max(float(np.trace(curvature)) / len(curvature), 1e-8) if len(curvature) else 0.0
    return cho_solve(cho_factor(curvature + ridge * np.eye(len(curvature))), slope)


def _line_search(
    objective: Callable[[Floats], tuple[float, Floats]], beta: Floats, step: Floats, value: float, scores: Floats
) -> tuple[Floats, float, Floats]:
    """The longest of the halved steps that does not lose anything: where it leads, the value and the scores there."""
    size = 1.0
    for _ in range(30):
        tried = beta + size * step
        reached, there = objective(tried)
        if reached >= value:
            return tried, reached, there
        size /= 2
    return beta, value, scores
