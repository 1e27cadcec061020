"""PairD: Unbiased LambdaMART (Hu, Wang, Peng, Li, WWW 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from unskew._options import Preset, TuneOn
from unskew._segments import IntArray
from unskew.baselines.base import RankerMethod, pack
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.lists import training_lists
from unskew.data.ranking import RankingData
from unskew.errors import SettingError
from unskew.method import Outcome, PositionCurve
from unskew.rankers.lambda_pairs import Floats, LambdaObjective
from unskew.rankers.lambdamart import LambdaMART
from unskew.rankers.search import search, trials_of

# A position without clicks would get the ratio 0 and its pairs an infinite weight.
FLOOR = 0.01


class PairD(RankerMethod):
    """LambdaMART whose pairs are divided by the position ratios of the clicked and of the unclicked item.

    A click at position k is t⁺_k times as likely as at position 1, a missing click t⁻_k times as likely, relevance
    being equal, so that Σ L_ij / (t⁺_{k_i} t⁻_{k_j}) over pairs (clicked i, unclicked j) is free of position bias.
    Between rounds the ratios are set to where the loss plus ‖t⁺‖ₚ + ‖t⁻‖ₚ is smallest:
        t⁺_k = (S⁺_k / S⁺_1)^{1/(p+1)}, S⁺_k the mean over what was shown at k of Σ_j L_ij / t⁻_{k_j}; t⁻ likewise.
    Means instead of the paper's sums, which agree where every list reaches position k: positions that few lists reach,
    and the last bin, are then not mistaken for badly or well seen ones.

    bins : positions beyond the last bin share it.
    exponent : 1 / (p + 1); 0.5 is p = 1. With 0 every ratio is 1: plain LambdaMART.
    """

    name: ClassVar[str] = "paird"

    def __init__(
        self,
        *,
        ranker: Any = "lambdamart",
        bins: int = 12,
        exponent: float = 0.5,
        preset: Preset = "default",
        tune_on: TuneOn = "auto",
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(ranker=ranker, preset=preset, tune_on=tune_on, random_state=random_state, n_jobs=n_jobs)
        self.bins = bins
        self.exponent = exponent

    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome:
        if self.bins < 1 or not 0 <= self.exponent <= 1:
            raise SettingError(
                f"bins must be 1 or more and exponent between 0 and 1, but they are {self.bins} and {self.exponent}."
            )
        lists = training_lists(log)
        design = DesignMatrix(log.data.features, lists.row)
        ranker = PairDebiasedMART.around(self._ranker(), bins=self.bins, exponent=self.exponent)
        trials = trials_of(ranker, design, lists.label, lists.sizes, weight=lists.weight, position=lists.position)
        best, trial, candidates = search(trials, self._judge(validation))
        ratios = best.ratios_
        facts = {"ratio_clicked": ratios.plus.tolist(), "ratio_unclicked": ratios.minus.tolist()}
        return pack(best, trial, candidates, log, bias=examination(ratios, self.exponent), extra=facts)


@dataclass(frozen=True)
class Ratios:
    """t⁺ and t⁻, (bins,) each, 1 at position 1."""

    plus: Floats
    minus: Floats


def examination(ratios: Ratios, exponent: float) -> PositionCurve:
    """How much better seen position 1 is: t⁺ before the regulariser drew it towards 1.

    >>> examination(Ratios(np.array([1.0, 0.5]), np.ones(2)), 0.5).value
    array([1.  , 0.25])
    """
    value = ratios.plus ** (1 / exponent) if exponent > 0 else np.ones_like(ratios.plus)
    return PositionCurve(np.arange(1, len(value) + 1), value)


def update_ratios(cost_plus: Floats, cost_minus: Floats, shown: Floats, *, exponent: float, before: Ratios) -> Ratios:
    """The ratios that minimise the regularised loss, given the pair costs summed by position.

    cost_plus, cost_minus, shown : (bins,) Σ costs of clicked and of unclicked items, and the weight of all items there.
    A side whose first position has no cost says nothing, and keeps its ratios.

    >>> ones = Ratios(np.ones(2), np.ones(2))
    >>> update_ratios(np.array([4.0, 1.0]), np.array([0.0, 1.0]), np.ones(2), exponent=0.5, before=ones)
    Ratios(plus=array([1. , 0.5]), minus=array([1., 1.]))
    """

    def side(cost: Floats, old: Floats) -> Floats:
        mean = cost / np.maximum(shown, np.finfo(float).tiny)
        if mean[0] <= 0:
            return old
        # Nothing was ever shown there: nothing to correct.
        ratio = np.where(shown > 0, mean / mean[0], 1.0)
        return np.maximum(ratio**exponent, FLOOR)

    return Ratios(side(cost_plus, before.plus), side(cost_minus, before.minus))


@dataclass
class DebiasedObjective:
    """What LightGBM calls once a round: lambdas divided by the ratios, then new ratios; `history` keeps them all."""

    lambdas: LambdaObjective
    bin: IntArray
    bins: int
    exponent: float
    history: list[Ratios] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history.append(Ratios(np.ones(self.bins), np.ones(self.bins)))
        # Only lists with pairs can have costs, so only they are counted as shown.
        pairs, weight = self.lambdas.pairs, self.lambdas.weight
        counted = np.zeros(pairs.n_lists)
        counted[pairs.segment[pairs.clicks]] = 1.0
        self._shown = self._by_bin(counted[pairs.segment] * (1.0 if weight is None else weight))

    def __call__(self, scores: Floats) -> tuple[Floats, Floats]:
        now = self.history[-1]
        found = self.lambdas(scores, (1 / now.plus)[self.bin], (1 / now.minus)[self.bin])
        if self.exponent > 0:
            plus, minus = self._by_bin(found.cost_clicked), self._by_bin(found.cost_unclicked)
            now = update_ratios(plus, minus, self._shown, exponent=self.exponent, before=now)
        self.history.append(now)
        return found.gradient, found.hessian

    def _by_bin(self, values: Floats) -> Floats:
        return np.bincount(self.bin, weights=values, minlength=self.bins).astype(np.float64)


class PairDebiasedMART(LambdaMART):
    """LambdaMART with the debiased objective; the settings are LambdaMART's, and `debias` = (bins, exponent)."""

    _native_position = False

    def __init__(
        self,
        *,
        debias: tuple[int, float] = (12, 0.5),
        preset: Preset = "default",
        trees: int | tuple[int, ...] | None = None,
        learning_rate: float | tuple[float, ...] | None = None,
        leaves: int | None = None,
        min_rows: int | None = None,
        l2: float | None = None,
        feature_fraction: float | None = None,
        bagging_fraction: float | None = None,
        truncation: int | None = None,
        separate_terms: bool = False,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            preset=preset,
            trees=trees,
            learning_rate=learning_rate,
            leaves=leaves,
            min_rows=min_rows,
            l2=l2,
            feature_fraction=feature_fraction,
            bagging_fraction=bagging_fraction,
            truncation=truncation,
            separate_terms=separate_terms,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.debias = debias

    @classmethod
    def around(cls, ranker: Any, *, bins: int, exponent: float) -> Self:
        """The settings of a LambdaMART, debiased."""
        if not isinstance(ranker, LambdaMART):
            raise SettingError(f"The method 'paird' needs LambdaMART, but the ranker is {type(ranker).__name__}.")
        return cls(debias=(bins, exponent), **ranker.get_params(deep=False))

    @property
    def ratios_(self) -> Ratios:
        """The ratios after the last round that the chosen model uses."""
        history = self.history_
        return history[min(self.stage_, len(history) - 1)]

    def _objective(
        self, labels: npt.NDArray, sizes: IntArray, weight: npt.NDArray | None, position: IntArray | None
    ) -> str | Callable[..., Any]:
        if position is None:
            raise SettingError("The method 'paird' needs to know the position of every item.")
        bins, exponent = self.debias
        bins = min(bins, int(position.max()))
        lambdas = LambdaObjective.of(labels, sizes, weight=weight, truncation=self.setting("truncation"))
        objective = DebiasedObjective(lambdas, np.minimum(position, bins) - 1, bins, exponent)
        self.history_ = objective.history
        # A plain function: LightGBM would train on a deep copy of an object, and its ratios would be lost.
        return lambda scores, data: objective(scores)
