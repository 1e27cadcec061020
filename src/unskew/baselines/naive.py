"""Clicks taken at their word: the method every correction has to beat."""

from __future__ import annotations

from typing import ClassVar

from unskew.baselines.base import RankerMethod
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.lists import training_lists
from unskew.data.ranking import RankingData
from unskew.method import Outcome
from unskew.rankers.search import trials_of


class Naive(RankerMethod):
    """A ranker trained on clicks as if they were grades: label = click, one list a session."""

    name: ClassVar[str] = "naive"

    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome:
        lists = training_lists(log)
        design = DesignMatrix(log.data.features, lists.row)
        trials = trials_of(self._ranker(), design, lists.label, lists.sizes, weight=lists.weight)
        return self._outcome(log, trials, self._judge(validation))
