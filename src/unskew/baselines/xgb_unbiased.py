"""XGBoost's own unbiased LambdaMART, fed as it needs to be."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from unskew._options import Preset, TuneOn
from unskew.baselines.base import RankerMethod, pack
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.lists import training_lists
from unskew.data.ranking import RankingData
from unskew.errors import SettingError
from unskew.method import Outcome, PositionCurve
from unskew.rankers.search import search, trials_of
from unskew.rankers.xgb import XGBoostRanker


class XGBUnbiased(RankerMethod):
    """rank:ndcg with lambdarank_unbiased: pairs divided by position ratios, as PairD has them.

    XGBoost takes the order of rows for positions, so lists go in sorted by position, and a log whose lists have gaps is
    refused rather than misread. Positions beyond the truncation are not corrected. Its ratios are raised to
    1 / (1 + lambdarank_bias_norm) = 1/2.
    """

    name: ClassVar[str] = "xgb-unbiased"

    def __init__(
        self,
        *,
        ranker: Any = "xgboost",
        preset: Preset = "default",
        tune_on: TuneOn = "auto",
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(ranker=ranker, preset=preset, tune_on=tune_on, random_state=random_state, n_jobs=n_jobs)

    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome:
        ranker = self._ranker()
        if not isinstance(ranker, XGBoostRanker):
            raise SettingError(
                f"The method 'xgb-unbiased' needs the ranker 'xgboost', but the ranker is {type(ranker).__name__}."
            )
        lists = training_lists(log)
        design = DesignMatrix(log.data.features, lists.row)
        trials = trials_of(
            ranker.set_params(unbiased=True),
            design,
            lists.label,
            lists.sizes,
            weight=lists.weight,
            position=lists.position,
        )
        best, trial, candidates = search(trials, self._judge(validation))
        plus, minus = (ratio[: log.longest_list] for ratio in best.position_ratios())
        facts = {"ratio_clicked": plus.tolist(), "ratio_unclicked": minus.tolist()}
        # Undo the exponent 1/2 that draws the ratios towards 1.
        curve = PositionCurve(np.arange(1, len(plus) + 1), np.square(plus))
        return pack(best, trial, candidates, log, bias=curve, extra=facts)
