"""Lambdas of LambdaMART, pair by pair, with a weight for every pair: plain ones, or debiased by position ratios."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, offsets_of, segment_of, segment_sum

Floats = npt.NDArray[np.float64]

# Pairs worked on at a time: a handful of such arrays fits the processor's cache.
CHUNK = 1 << 16
# LightGBM's sigmoid table ends there too.
MAX_DIFFERENCE = 25.0
NORM_FLOOR = 0.01


@dataclass(frozen=True, eq=False)
class ClickPairs:
    """Every (clicked, unclicked) pair of entries of the same list, ordered by list and by clicked entry.

    clicked, unclicked : (pairs,) int32, entries.
    clicks : (m,) the clicked entries that have pairs, ascending; starts (m + 1,) where their pairs begin.
    offsets : (lists + 1,) the entries of every list.
    label : (n,) whether an entry was clicked.
    """

    clicked: IntArray
    unclicked: IntArray
    clicks: IntArray
    starts: IntArray
    offsets: IntArray
    label: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, label: npt.ArrayLike, sizes: npt.ArrayLike) -> ClickPairs:
        """The pairs of lists with these labels (0 or not) and sizes.

        >>> pairs = ClickPairs.of([1, 0, 0, 0, 1], [3, 2])
        >>> pairs.clicked.tolist(), pairs.unclicked.tolist()
        ([0, 0, 4], [1, 2, 3])
        """
        positive = np.asarray(label) > 0
        offsets = offsets_of(sizes)
        segment = segment_of(offsets)
        unclicked = np.flatnonzero(~positive).astype(np.int32)
        # Unclicked entries of a list are a run of `unclicked`; every click of the list is paired with that run.
        runs = offsets_of(np.bincount(segment[unclicked], minlength=len(offsets) - 1))
        clicks = np.flatnonzero(positive)
        count = np.diff(runs)[segment[clicks]]
        clicks, count = clicks[count > 0], count[count > 0]
        starts = offsets_of(count)
        inside = np.arange(starts[-1]) - np.repeat(starts[:-1], count)
        return cls(
            clicked=np.repeat(clicks.astype(np.int32), count),
            unclicked=unclicked[np.repeat(runs[segment[clicks]], count) + inside],
            clicks=clicks,
            starts=starts,
            offsets=offsets,
            label=positive,
        )

    @property
    def n_lists(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def segment(self) -> IntArray:
        """(n,) the list of every entry."""
        return segment_of(self.offsets)

    @cached_property
    def blocks(self) -> list[_PairBlock]:
        """Runs of clicks with about CHUNK pairs each."""
        cuts = np.searchsorted(self.starts, np.arange(0, self.starts[-1] + CHUNK, CHUNK))
        bounds = np.unique(np.clip(cuts, 0, len(self.clicks)))
        return [self._block(int(a), int(b)) for a, b in pairwise(bounds)]

    def _block(self, start: int, stop: int) -> _PairBlock:
        pairs = slice(int(self.starts[start]), int(self.starts[stop]))
        low = int(self.unclicked[pairs].min())
        return _PairBlock(
            clicks=slice(start, stop),
            clicked=self.clicked[pairs],
            unclicked=self.unclicked[pairs],
            runs=self.starts[start:stop] - self.starts[start],
            low=low,
            high=int(self.unclicked[pairs].max()) + 1,
            local=self.unclicked[pairs] - low,
        )


@dataclass(frozen=True, eq=False)
class _PairBlock:
    """Some clicks with all their pairs; unclicked entries lie between low and high - 1."""

    clicks: slice
    clicked: IntArray
    unclicked: IntArray
    runs: IntArray
    low: int
    high: int
    local: IntArray


@dataclass(frozen=True)
class Lambdas:
    """First and second derivatives by score, and the pair costs by click and by unclicked entry.

    gradient, hessian : (n,).
    cost_clicked : (n,) Σ over the pairs of a clicked entry of cost / (its partner's ratio).
    cost_unclicked : (n,) Σ over the pairs of an unclicked entry of cost / (its partner's ratio).
    """

    gradient: Floats
    hessian: Floats
    cost_clicked: Floats
    cost_unclicked: Floats


@dataclass(frozen=True, eq=False)
class ListSorter:
    """Ranks inside lists without sorting all entries at once: lists of similar size are rows of one matrix.

    >>> ListSorter.of([3, 2]).ranks(np.array([0.1, 0.5, 0.5, 2.0, 3.0]))
    array([3, 1, 2, 2, 1], dtype=int32)
    """

    tables: tuple[IntArray, ...]
    n: int

    @classmethod
    def of(cls, sizes: npt.ArrayLike) -> ListSorter:
        """Lists sorted into tables of widths 1, 2, 4, 8, …, padded with the number of entries."""
        counts = np.asarray(sizes, dtype=np.int64)
        starts, total = offsets_of(counts)[:-1], int(counts.sum())
        width = np.ceil(np.log2(np.maximum(counts, 1))).astype(int)
        tables = []
        for power in np.unique(width[counts > 0]):
            chosen = np.flatnonzero((width == power) & (counts > 0))
            column = np.arange(int(counts[chosen].max()))
            entry = starts[chosen, None] + column
            tables.append(np.where(column < counts[chosen, None], entry, total))
        return cls(tuple(tables), total)

    def ranks(self, scores: Floats) -> npt.NDArray[np.int32]:
        """(n,) 1-based ranks, the largest score first, equal scores in the order of the entries."""
        # Padding sorts last, and its rank is written to an entry that nobody reads.
        keys = np.append(-np.asarray(scores, dtype=np.float64), np.inf)
        out = np.empty(self.n + 1, dtype=np.int32)
        for table in self.tables:
            order = np.argsort(keys[table], axis=1, kind="stable")
            place = np.arange(1, table.shape[1] + 1, dtype=np.int32)
            out[np.take_along_axis(table, order, axis=1)] = place
        return out[:-1]


@dataclass(frozen=True, eq=False)
class LambdaObjective:
    """LambdaMART's lambdas for clicks, as LightGBM has them, with every pair divided by t⁺ of the clicked and t⁻ of
    the unclicked item's position (Hu et al. 2019, equations for the unbiased pairwise loss).

    For a pair (i clicked, j not) of a list with scores s, ranks r by score and c clicks:
        Δ = |1 / log₂(1 + r_i) - 1 / log₂(1 + r_j)| / ideal DCG, / (0.01 + |s_i - s_j|) if `norm`,
        cost = Δ log(1 + exp(-(s_i - s_j))), λ = Δ ρ, hessian = Δ ρ (1 - ρ), ρ = 1 / (1 + exp(s_i - s_j)).
    Pairs with both items beyond `truncation` do not count. With `norm`, a list's lambdas are multiplied by
    log₂(1 + S) / S, S = 2 Σ λ before the ratios, so that the ratios are all that differs from plain LambdaMART.
    """

    pairs: ClickPairs
    sorter: ListSorter
    weight: Floats | None
    inverse_ideal: Floats
    truncation: int = 30
    norm: bool = True

    @classmethod
    def of(
        cls,
        label: npt.ArrayLike,
        sizes: npt.ArrayLike,
        *,
        weight: npt.NDArray | None = None,
        truncation: int = 30,
        norm: bool = True,
    ) -> LambdaObjective:
        pairs = ClickPairs.of(label, sizes)
        clicks = segment_sum(pairs.label.astype(np.int64), pairs.offsets)
        discounts = 1 / np.log2(np.arange(truncation) + 2)
        ideal = np.concatenate([[0.0], np.cumsum(discounts)])[np.minimum(clicks, truncation)]
        inverse = np.divide(1.0, ideal, out=np.zeros_like(ideal), where=ideal > 0)
        heavy = None if weight is None or (np.asarray(weight) == 1).all() else np.asarray(weight, dtype=np.float64)
        return cls(pairs, ListSorter.of(sizes), heavy, inverse, truncation, norm)

    def __call__(self, scores: Floats, over_plus: Floats | None = None, over_minus: Floats | None = None) -> Lambdas:
        """Lambdas at these scores; over_plus, over_minus : (n,) 1/t⁺ and 1/t⁻ of every entry's position, or 1."""
        n = len(scores)
        over_plus = np.ones(n) if over_plus is None else over_plus
        over_minus = np.ones(n) if over_minus is None else over_minus
        gradient, hessian, cost_plus, cost_minus = np.zeros((4, n))
        total = np.zeros(len(self.pairs.clicks))  # Σ λ of every click, before the ratios
        for block, delta, difference in self._deltas(scores):
            clicks = self.pairs.clicks[block.clicks]
            growth = np.exp(-difference)
            rho = growth / (1 + growth)
            push = delta * rho
            total[block.clicks] = np.add.reduceat(push, block.runs)
            plus, minus = over_plus[block.clicked], over_minus[block.unclicked]
            cost = delta * np.log1p(growth)
            cost_plus[clicks] = np.add.reduceat(cost * minus, block.runs)
            _scatter(cost_minus, block, cost * plus)
            push *= plus * minus
            gradient[clicks] = -np.add.reduceat(push, block.runs)
            _scatter(gradient, block, push)
            push *= 1 - rho
            hessian[clicks] = np.add.reduceat(push, block.runs)
            _scatter(hessian, block, push)
        factor = self._list_factor(scores, total)[self.pairs.segment]
        if self.weight is not None:
            factor = factor * self.weight
        for values in (gradient, hessian, cost_plus, cost_minus):
            values *= factor
        return Lambdas(gradient, hessian, cost_plus, cost_minus)

    def _deltas(self, scores: Floats) -> Iterator[tuple[_PairBlock, Floats, Floats]]:
        """Block by block, Δ (but for the list's own factor) and the score difference of every pair."""
        ranks = self.sorter.ranks(scores)
        discount = 1 / np.log2(ranks + 1.0)
        beyond = ranks > self.truncation
        cut = bool(beyond.any())
        for block in self.pairs.blocks:
            difference = scores[block.clicked] - scores[block.unclicked]
            delta = np.abs(discount[block.clicked] - discount[block.unclicked])
            if self.norm:
                delta /= NORM_FLOOR + np.abs(difference)
            if cut:
                delta[beyond[block.clicked] & beyond[block.unclicked]] = 0.0
            yield block, delta, np.clip(difference, -MAX_DIFFERENCE, MAX_DIFFERENCE, out=difference)

    def _list_factor(self, scores: Floats, total: Floats) -> Floats:
        """(lists,) what is common to all pairs of a list: 1 / ideal DCG, and LightGBM's normalisation."""
        factor = self.inverse_ideal.copy()
        if not self.norm:
            return factor
        bounds = self.pairs.offsets
        filled = np.flatnonzero(np.diff(bounds) > 0)
        spread = np.zeros(len(factor))
        starts = bounds[filled]
        spread[filled] = np.maximum.reduceat(scores, starts) - np.minimum.reduceat(scores, starts)
        # Where all scores are equal LightGBM leaves out the division by 0.01 + |difference|.
        factor[spread == 0] *= NORM_FLOOR
        of_click = self.pairs.segment[self.pairs.clicks]
        lambdas = 2 * factor * np.bincount(of_click, weights=total, minlength=len(factor))
        positive = lambdas > 0
        factor[positive] *= np.log2(1 + lambdas[positive]) / lambdas[positive]
        return factor


def _scatter(out: Floats, block: _PairBlock, values: Floats) -> None:
    """Add every pair's value to its unclicked entry."""
    out[block.low : block.high] += np.bincount(block.local, weights=values, minlength=block.high - block.low)
