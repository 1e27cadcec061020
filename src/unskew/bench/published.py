"""The paper's tables, as data."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

Key = tuple[str, str, str, str, str, str]


@cache
def published() -> dict[Key, float]:
    """(experiment, data, setting, ranker, method, metric) → the published figure.

    >>> published()["rq1", "mslr-web10k", "base", "lambdamart", "cfc", "ndcg@10"]
    0.489
    """
    figures: dict[Key, float] = {}
    for table in document()["tables"]:
        for metric, values in table["values"].items():
            for column, value in zip(table["columns"], values, strict=True):
                ranker, _, method = column.partition("/")
                figures[table["experiment"], table["data"], table["setting"], ranker, method, metric] = value
    return figures


@cache
def document() -> dict[str, Any]:
    """The file itself: its source, a note, and every table."""
    return json.loads(files("unskew.bench").joinpath("published.json").read_text(encoding="utf-8"))


def published_figure(
    experiment: str, dataset: str | None, setting: str, ranker: str, method: str, metric: str
) -> float | None:
    """The figure the paper printed for this place of its tables; None where it has none."""
    return None if dataset is None else published().get((experiment, dataset, setting, ranker, method, metric))
