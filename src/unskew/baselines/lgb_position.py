"""LightGBM's own answer to position bias: an additive position effect beside the trees."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from unskew.baselines.base import RankerMethod, pack
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.lists import training_lists
from unskew.data.ranking import RankingData
from unskew.errors import SettingError
from unskew.method import Outcome, PositionCurve
from unskew.rankers.lambdamart import LambdaMART
from unskew.rankers.search import search, trials_of


class LightGBMPosition(RankerMethod):
    """LambdaMART on s = f(x) + g(position): trees f and one number g a position, learnt together round by round.

    Both take Newton steps down the same lambdas; g is dropped at inference. Since a pair's logit is the difference of
    its scores, e^g is how the odds of a click change with the position: the position curve. Odds are examination where
    clicks are rare; where many examined items are clicked, they fall more steeply.
    """

    name: ClassVar[str] = "position"

    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome:
        lists = training_lists(log)
        design = DesignMatrix(log.data.features, lists.row)
        ranker = self._ranker()
        if not isinstance(ranker, LambdaMART):
            raise SettingError(
                f"The method 'position' is LightGBM's own and needs LambdaMART, but the ranker is "
                f"{type(ranker).__name__}."
            )
        trials = trials_of(ranker, design, lists.label, lists.sizes, weight=lists.weight, position=lists.position)
        best, trial, candidates = search(trials, self._judge(validation))
        return pack(best, trial, candidates, log, bias=position_curve(best.position_effect_))


def position_curve(effect: dict[int, float] | None) -> PositionCurve | None:
    """e^{g_k - g_1} from LightGBM's effects g; None if it told nothing.

    >>> position_curve({2: -1.0, 1: 0.5}).value.round(3)
    array([1.   , 0.223])
    """
    if not effect:
        return None
    position = np.array(sorted(effect))
    value: Any = np.array([effect[k] for k in position])
    return PositionCurve(position, np.exp(value - value[0]))
