"""One judged collection as three: for the log, for a validation log, for the final test."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unskew.data.ranking import RankingData
from unskew.errors import DataError, SettingError


class Split(NamedTuple):
    """Parts without a query in common; None where no share was asked for."""

    train: RankingData
    valid: RankingData | None
    test: RankingData | None


def split_queries(data: RankingData, *, valid: float = 0.0, test: float = 0.0, seed: int = 0) -> Split:
    """Set aside a share of the queries for validation and one for testing, drawn at random; the rest is for training.

    >>> from unskew.simulation.synthetic import synthetic_collection
    >>> [part.n_queries for part in split_queries(synthetic_collection(20), valid=0.2, test=0.3)]
    [10, 4, 6]
    """
    if not (valid >= 0 and test >= 0 and valid + test < 1):
        raise SettingError(
            f"The shares for validation and test must be 0 or greater and leave something for training, "
            f"but {valid:g} and {test:g} were given. Shares such as 0.2 and 0.2 leave 0.6 (--valid, --test)."
        )
    if seed < 0:
        raise SettingError(f"seed must be 0 or greater, but {seed} was given.")
    counts = [max(1, round(share * data.n_queries)) if share > 0 else 0 for share in (valid, test)]
    if sum(counts) >= data.n_queries:
        raise DataError(
            f"{data.n_queries} queries cannot be split into training, validation and test parts. "
            "Take data with more queries, or smaller shares (--valid, --test)."
        )
    if sum(counts) == 0:
        return Split(data, None, None)
    order = np.random.default_rng(seed).permutation(data.n_queries)
    first, second, rest = (np.sort(part) for part in np.split(order, np.cumsum(counts)))
    return Split(
        train=data.take_queries(rest),
        valid=data.take_queries(first) if len(first) else None,
        test=data.take_queries(second) if len(second) else None,
    )
