"""Human grades instead of clicks: how good the ranker could be on these queries."""

from __future__ import annotations

from typing import ClassVar

from unskew._segments import gather_segments
from unskew.baselines.base import RankerMethod
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.ranking import RankingData
from unskew.method import Outcome
from unskew.rankers.search import trials_of


class Oracle(RankerMethod):
    """A ranker trained on the grades of the queries that the log holds: one list a query, every candidate in it.

    The list is the whole one, not what was shown, so that selection cannot hide a good item from the oracle.
    """

    name: ClassVar[str] = "oracle"
    needs_grades: ClassVar[bool] = True
    needs_clicks: ClassVar[bool] = False

    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome:
        data = log.data
        grades = data.require_grades(f"The method '{self.name}'")
        rows, offsets = gather_segments(data.offsets, log.queries)
        design = DesignMatrix(data.features, rows)
        ranker = self._ranker()
        if "list_size" in ranker.get_params():  # a net that trains on the top of a list: there is no top here
            ranker.set_params(list_size=None)
        trials = trials_of(ranker, design, grades[rows], offsets[1:] - offsets[:-1])
        return self._outcome(log, trials, self._judge(validation))
