"""One split of a collection's queries, made once: a half to develop on and a half that only the final table looks at.

The half of a query follows from its id alone, so it stays the same whatever is sampled, shuffled or added.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import numpy.typing as npt

from unskew.data.ranking import RankingData

# Part of the rule: another salt is another split, and whatever was learnt on the old one leaks into it.
_SALT = "unskew-halves-1"


def in_development(query_id: object) -> bool:
    """Whether a query belongs to the development half.

    >>> [in_development(query) for query in ("10", "18", "20", "23")]
    [False, True, False, False]
    """
    return sha256(f"{_SALT}:{query_id}".encode()).digest()[0] % 2 == 0


def development_half(data: RankingData) -> RankingData:
    """The queries to try things on."""
    return data.take_queries(_mask(data))


def untouched_half(data: RankingData) -> RankingData:
    """The queries that only the final table looks at."""
    return data.take_queries(~_mask(data))


def _mask(data: RankingData) -> npt.NDArray[np.bool_]:
    return np.array([in_development(query) for query in data.query_ids.to_list()])
