"""Lists of a design, drawn at random and padded to rectangles: what a neural method sees at one step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray, offsets_of, segment_sum
from unskew.data.design import DesignMatrix
from unskew.errors import FeatureError, LogError
from unskew.rankers._torch import torch
from unskew.rankers.net_scorer import Scaling, signed_log

Floats = npt.NDArray[np.floating]

# Whole lists are cut here: the softmax over more items costs time and adds next to nothing.
LONGEST_LIST = 100
# Standardised inputs beyond this many deviations carry no more information, only explosions.
CLIP = 10.0
CHUNK = 16_384


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists over the n entries of a design; only their first items (the top positions) take part.

    start : (lists,) the first entry of every list; its items follow it.
    size : (lists,) items that take part.
    label : (n,) clicks or grades of all entries.
    position : (n,) positions, 1 = top.
    weight : (n,) float32 weights inside a list, the heaviest item of a list at 1; None if all are 1.
    upto : (lists,) cumulative chance of being drawn: a list that stands for five sessions comes five times as often.
    logging_score : (n,) what the production ranker thought of the items, or None.
    """

    start: IntArray
    size: IntArray
    label: npt.NDArray
    position: IntArray
    weight: npt.NDArray[np.float32] | None
    upto: npt.NDArray[np.float64]
    logging_score: npt.NDArray[np.float32] | None = None

    @property
    def width(self) -> int:
        """Items of the longest list."""
        return int(self.size.max())

    @property
    def deepest(self) -> int:
        """The lowest position (the largest number) of an item that takes part."""
        return int(self.position[self.start + self.size - 1].max())

    def __len__(self) -> int:
        return len(self.start)


def cut_lists(
    labels: npt.NDArray,
    sizes: IntArray,
    *,
    list_size: int | None,
    position: IntArray | None = None,
    weight: Floats | None = None,
    logging_score: npt.NDArray[np.float32] | None = None,
    keep_empty: bool = False,
) -> Lists:
    """The top of every list: items at positions 1 to `list_size` (None: all, at most 100 of them).

    Without positions the order of the entries is taken for it. Lists without a positive label have no gradient in a
    list-wise loss and are left out, unless `keep_empty`.

    >>> lists = cut_lists(np.array([0, 1, 0, 0, 1]), np.array([3, 2]), list_size=2)
    >>> lists.start, lists.size
    (array([0, 3]), array([2, 2]))
    """
    offsets, limit = offsets_of(sizes), LONGEST_LIST if list_size is None else list_size
    places = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], sizes) + 1 if position is None else position
    inside = places <= limit
    size = segment_sum(inside.astype(np.int64), offsets)
    chance, relative = _chances(weight, offsets)
    alive = (size > 0) & (chance > 0)
    if not keep_empty:
        alive &= segment_sum(np.where(inside, labels, 0).astype(np.float64), offsets) > 0
    if not alive.any():
        raise LogError(
            f"No list has a click or a positive grade in its first {limit} positions, so there is nothing to learn "
            "from. Is the click column the right one? A larger list_size looks further down."
        )
    upto = np.cumsum(chance[alive])
    return Lists(
        start=offsets[:-1][alive],
        size=size[alive],
        label=labels,
        position=places,
        weight=relative,
        upto=upto / upto[-1],
        logging_score=logging_score,
    )


def _chances(weight: Floats | None, offsets: IntArray) -> tuple[Floats, npt.NDArray[np.float32] | None]:
    """How often to draw every list, and the weights that remain inside it: their product is the weight given.

    Drawing in proportion to the weight and weighing the loss have the same expectation; drawing has less noise.
    """
    lists = len(offsets) - 1
    if weight is None or len(weight) == 0:
        return np.ones(lists), None
    sizes = np.diff(offsets)
    heaviest = np.zeros(lists)
    np.maximum.at(heaviest, np.repeat(np.arange(lists), sizes), weight)
    relative = (weight / np.maximum(np.repeat(heaviest, sizes), 1e-30)).astype(np.float32)
    return heaviest, None if (relative == 1).all() else relative


@dataclass(frozen=True, eq=False)
class Batch:
    """B lists of at most L items; n items in all, lists after each other.

    x : (n, d) standardised plain features.
    terms : (n, t) scaled terms, or None.
    mask : (B, L) true where a list has an item.
    place : (n,) where in the flattened (B, L) rectangle every item sits; None if the rectangle is full.
    click : (B, L) labels, 0 where there is no item.
    weight : (B, L) weights, 0 where there is no item.
    position : (B, L) positions from 0 (a table's row); 0 where there is no item.
    logging_score : (B, L) or None; 0 where there is no item.
    """

    x: torch.Tensor
    terms: torch.Tensor | None
    mask: torch.Tensor
    place: torch.Tensor | None
    click: torch.Tensor
    weight: torch.Tensor
    position: torch.Tensor
    logging_score: torch.Tensor | None = None

    def spread(self, values: torch.Tensor, fill: float = -math.inf) -> torch.Tensor:
        """(n,) or (n, h) values of the items as a (B, L) or (B, L, h) rectangle, `fill` where there is no item."""
        shape = (*self.mask.shape, *values.shape[1:])
        if self.place is None:
            return values.reshape(shape)
        empty = values.new_full((self.mask.numel(), *values.shape[1:]), fill)
        return empty.index_copy(0, self.place, values).reshape(shape)

    def pack(self, table: torch.Tensor) -> torch.Tensor:
        """(n,) the items' values of a (B, L) rectangle: the way back."""
        flat = table.reshape(-1)
        return flat if self.place is None else flat[self.place]


@dataclass(eq=False)
class Batches:
    """Draws lists with replacement and gathers what belongs to them."""

    design: DesignMatrix
    lists: Lists
    scaling: Scaling
    rng: np.random.Generator
    size: int = 256

    def draw(self) -> Batch:
        """A batch of `size` lists."""
        chosen = np.searchsorted(self.lists.upto, self.rng.random(self.size), side="right")
        return self.take(np.minimum(chosen, len(self.lists) - 1))

    def take(self, chosen: IntArray) -> Batch:
        """The named lists as a batch."""
        lists = self.lists
        size = lists.size[chosen]
        column = np.arange(int(size.max()))
        mask = column < size[:, None]
        entry = lists.start[chosen][:, None] + np.minimum(column, size[:, None] - 1)
        items, full = entry[mask], bool(mask.all())

        def table(values: npt.NDArray | None, dtype: Any = np.float32) -> Any:
            return None if values is None else torch.from_numpy(values[entry].astype(dtype) * mask)

        position = table(lists.position, np.int64)
        return Batch(
            x=torch.from_numpy(self.scaling.plain(self.design.plain(items))),
            terms=torch.from_numpy(self.scaling.terms(self.design.extra(items))) if self.design.n_terms else None,
            mask=torch.from_numpy(mask),
            place=None if full else torch.from_numpy(np.flatnonzero(mask)),
            click=table(lists.label),
            weight=torch.from_numpy(mask.astype(np.float32)) if lists.weight is None else table(lists.weight),
            position=(position - 1).clamp_(min=0),
            logging_score=table(lists.logging_score),
        )


def fit_scaling(design: DesignMatrix) -> Scaling:
    """Unit (mean size), mean and deviation of the plain features over the rows a design uses; of its terms likewise.

    Missing values are refused here: a net has no branch for them.
    """
    rows = np.arange(len(design.features)) if design.row is None else np.unique(design.row)
    parts = [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]
    unit = _unit(
        np.sum([np.abs(design.features[part]).sum(axis=0, dtype=np.float64) for part in parts], axis=0) / len(rows)
    )
    if np.isnan(unit).any():
        raise FeatureError(
            f"A neural ranker cannot take missing values, but {int(np.isnan(unit).sum())} features have some "
            f"(first: feature number {int(np.flatnonzero(np.isnan(unit))[0]) + 1}). "
            "Fill them in, or use the ranker 'lambdamart'."
        )
    shift = signed_log(design.features[rows[:1]], unit)[0].astype(np.float64)  # small squares where the mean is large
    total, squares = np.zeros(design.n_plain), np.zeros(design.n_plain)
    for part in parts:
        u = signed_log(design.features[part], unit) - shift
        total += u.sum(axis=0)
        squares += np.einsum("ij,ij->j", u, u)
    mean = total / len(rows)
    term_unit, term_scale = _term_scale(design)
    return Scaling(
        unit=unit,
        mean=(mean + shift).astype(np.float32),
        scale=_usable(np.sqrt(np.maximum(squares / len(rows) - mean**2, 0))),
        term_unit=term_unit,
        term_scale=term_scale,
        clip=CLIP,
    )


def _term_scale(design: DesignMatrix) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Unit and deviation of the terms over at most CHUNK entries, evenly spaced."""
    if design.n_terms == 0:
        return np.zeros(0, np.float32), np.zeros(0, np.float32)
    terms = design.extra(np.arange(0, len(design), -(-len(design) // CHUNK)))
    unit = _unit(np.abs(terms).mean(axis=0, dtype=np.float64))
    return unit, _usable(signed_log(terms, unit).std(axis=0, dtype=np.float64))


def _unit(size: Floats) -> npt.NDArray[np.float32]:
    """The mean size of a column, or 1 where it is always 0."""
    return np.where(size == 0, 1, size).astype(np.float32)


def _usable(deviation: Floats) -> npt.NDArray[np.float32]:
    """The deviation, or 1 where it is nothing but rounding (the columns are of size 1 by now)."""
    return np.where(deviation > 1e-6, deviation, 1).astype(np.float32)
