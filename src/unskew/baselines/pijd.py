"""PIJD: two-stage correction for selection and position (Ovaisi, Vasilaky, Zheleva, SIGIR 2021)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone

from unskew._options import Preset, TuneOn
from unskew._segments import IntArray
from unskew.baselines.base import RankerMethod, pack
from unskew.baselines.selection import Floats, Probit, fit_probit, heckman_ratio
from unskew.control.placements import Placements, placements
from unskew.data.clicks import ClickLog
from unskew.data.counts import single_clicks
from unskew.data.design import DesignMatrix, FloatMatrix, ZeroTerms
from unskew.data.lists import training_lists
from unskew.data.ranking import RankingData
from unskew.errors import LogError, SettingError
from unskew.method import Outcome
from unskew.rankers.base import Judge, RankerState
from unskew.rankers.search import Trial, search, trials_of

RATIO = ("heckman_ratio",)
# Placements that stage one looks at: the cut-off is nearly a function of the rank, and more do not sharpen it.
STAGE_ONE_ROWS = 100_000


class PIJD(RankerMethod):
    """Any ranker on the features and a Heckman ratio, which says how surprising it was that an item got its place.

    Stage one: a probit of S = 1[position ≤ K] on features (centred within the query), position and list length; the
    position drives selection but not relevance. λ = φ/Φ of its index. Stage two: the ranker on [x, λ] with clicks
    as labels. At inference λ = 0, its limit as the item is surely shown.

    cutoffs : K, tuned on validation; those that no list exceeds say nothing and are left out.
    penalty : of stage one, without which it would separate S perfectly; it decides the shape of λ.
    """

    name: ClassVar[str] = "pijd"

    def __init__(
        self,
        *,
        ranker: Any = "lambdamart",
        cutoffs: Sequence[int] = (10, 5, 20),
        penalty: float = 200.0,
        preset: Preset = "default",
        tune_on: TuneOn = "auto",
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(ranker=ranker, preset=preset, tune_on=tune_on, random_state=random_state, n_jobs=n_jobs)
        self.cutoffs = cutoffs
        self.penalty = penalty

    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome:
        judge = self._judge(validation, terms=ZeroTerms(RATIO))
        best, trial, candidates = search(self._trials(log), judge)
        facts = {"cutoff": trial.setting["cutoff"], "penalty": self.penalty}
        return pack(best, trial, candidates, log, extra=facts)

    def _trials(self, log: ClickLog) -> Iterator[Trial]:
        lists = training_lists(log)
        for stage_one in self._selections(log):
            ratio = stage_one.ratio(log.data, lists.row, lists.position)
            design = DesignMatrix(log.data.features, lists.row, RatioTerm(ratio))
            setting = {"cutoff": stage_one.cutoff}
            yield from trials_of(self._ranker(), design, lists.label, lists.sizes, weight=lists.weight, setting=setting)

    def _selections(self, log: ClickLog) -> Iterator[Selection]:
        shown = placements(log)
        for cutoff in usable_cutoffs(log, self.cutoffs):
            yield fit_selection(log, shown, cutoff=cutoff, penalty=self.penalty, seed=self.random_state)


class PIJDLinear(PIJD):
    """PIJD with a linear second stage, as its public implementation has it: a probit of clicks on [x, λ].

    Every impression counts, those of sessions without a click too. The score of an item is x · β.
    """

    name: ClassVar[str] = "pijd-linear"

    def __init__(
        self,
        *,
        cutoffs: Sequence[int] = (10, 5, 20),
        penalty: float = 200.0,
        preset: Preset = "default",
        tune_on: TuneOn = "auto",
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        ranker = None  # a probit, always
        super().__init__(
            ranker=ranker,
            cutoffs=cutoffs,
            penalty=penalty,
            preset=preset,
            tune_on=tune_on,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    def _ranker(self, **settings: Any) -> Any:
        return ProbitRanker(penalty=self.penalty)

    def _trials(self, log: ClickLog) -> Iterator[Trial]:
        single = single_clicks(log)
        shown = placements(single)
        clicks = clicks_at(single, shown)
        for stage_one in self._selections(log):
            ratio = stage_one.ratio(log.data, shown.row, shown.position)
            design = DesignMatrix(log.data.features, shown.row, RatioTerm(ratio))
            rate = clicks / np.maximum(shown.count, np.finfo(float).tiny)
            everything = np.array([len(rate)])
            yield from trials_of(
                self._ranker(), design, rate, everything, weight=shown.count, setting={"cutoff": stage_one.cutoff}
            )


@dataclass(frozen=True, eq=False)
class RatioTerm:
    """The Heckman ratio of every entry as one extra column; value : (entries,)."""

    value: npt.NDArray[np.float32]
    names: tuple[str, ...] = RATIO

    def fill(self, out: FloatMatrix, x: FloatMatrix, row: IntArray, entry: IntArray) -> None:
        out[:, 0] = self.value[entry]


@dataclass(frozen=True, eq=False)
class Selection:
    """Stage one: P(position ≤ cutoff) by a probit; length : (queries,) the lowest position of every query's lists."""

    probit: Probit
    cutoff: int
    length: IntArray

    def ratio(self, data: RankingData, row: IntArray, position: IntArray) -> npt.NDArray[np.float32]:
        """(n,) λ of items at positions."""
        out = np.empty(len(row), dtype=np.float32)
        for at in range(0, len(row), STAGE_ONE_ROWS):
            part = slice(at, at + STAGE_ONE_ROWS)
            out[part] = heckman_ratio(self.probit.index(_columns(data, row[part], position[part], self.length)))
        return out


def fit_selection(log: ClickLog, shown: Placements, *, cutoff: int, penalty: float, seed: int) -> Selection:
    """Fit stage one on the log's placements, or on a random choice of them if there are very many."""
    length = np.zeros(log.data.n_queries, dtype=np.int64)
    np.maximum.at(length, log.data.query_of_row[shown.row], shown.position)
    chosen = np.arange(len(shown.row))
    if len(chosen) > STAGE_ONE_ROWS:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, STAGE_ONE_ROWS, replace=False))
    position, count = shown.position[chosen], shown.count[chosen]
    z = _columns(log.data, shown.row[chosen], position, length)
    inside = position <= cutoff
    return Selection(fit_probit(z, count * inside, count * ~inside, penalty=penalty), cutoff, length)


def usable_cutoffs(log: ClickLog, cutoffs: Sequence[int]) -> list[int]:
    """The cut-offs that split the log's positions; half of the longest list where none does.

    A cut-off that no list exceeds selects everything, and there is nothing for stage one to explain.
    """
    if not cutoffs or min(cutoffs) < 1:
        raise SettingError(f"cutoffs must be positions of 1 or more, but they are {tuple(cutoffs)}.")
    lowest, highest = int(log.position.min()), log.longest_list
    if lowest == highest:
        raise LogError(
            f"Everything was shown at position {lowest}, so there is no selection to correct for. "
            "Is the position column the right one?"
        )
    usable = [cutoff for cutoff in dict.fromkeys(cutoffs) if lowest <= cutoff < highest]
    return usable or [(lowest + highest) // 2]


def clicks_at(log: ClickLog, shown: Placements) -> Floats:
    """(placements,) clicks on every placement, weighted."""
    width = log.longest_list + 1
    where = np.searchsorted(shown.row * width + shown.position, log.row * width + log.position)
    weighted = log.click if log.weight is None else log.click * log.weight
    return np.bincount(where, weights=weighted, minlength=len(shown.row)).astype(np.float64)


def _columns(data: RankingData, row: IntArray, position: IntArray, length: IntArray) -> npt.NDArray[np.float32]:
    """What stage one sees: features centred within the query, position, list length.

    Uncentred it would mostly learn which queries have long lists.
    """
    query = data.query_of_row[row]
    centred = data.features[row] - data.query_means[query]
    # A missing value counts as the query's mean.
    return np.column_stack([np.nan_to_num(centred, copy=False), position, length[query]]).astype(np.float32, copy=False)


class ProbitRanker(BaseEstimator):
    """A linear score by a pointwise probit; labels are click rates, weights how often an entry was shown."""

    takes_missing = False

    def __init__(self, *, penalty: float = 1.0) -> None:
        self.penalty = penalty

    def grid(self) -> list[Self]:
        return [clone(self)]

    def fit(
        self,
        design: DesignMatrix,
        labels: npt.NDArray,
        sizes: IntArray,
        *,
        weight: npt.NDArray | None = None,
        position: IntArray | None = None,
        judge: Judge | None = None,
        cache: dict[Any, Any] | None = None,
    ) -> Self:
        shown = np.ones(len(design)) if weight is None else np.asarray(weight, dtype=np.float64)
        self.probit_ = fit_probit(design, shown * labels, shown * (1 - labels), penalty=self.penalty)
        self.n_plain_, self.stage_ = design.n_plain, 1
        self.judged_ = None if judge is None else float(judge(self.predict(judge.features)))
        return self

    def predict(self, design: DesignMatrix) -> Floats:
        return np.concatenate([self.probit_.index(design[at : at + 65_536]) for at in range(0, len(design), 65_536)])

    def state(self, columns: Sequence[str]) -> RankerState:
        document = {"coefficients": self.probit_.coefficients.tolist(), "intercept": self.probit_.intercept}
        return RankerState("linear", {"model.json": json.dumps(document).encode()}, tuple(columns), self.n_plain_)
