"""Folds by query: a partition, the same for the same ids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.data.ranking import RankingData
from unskew.errors import DataError, SettingError
from unskew.evaluation.folds import query_folds


def data_of(names):
    return RankingData.from_arrays(np.arange(2.0 * len(names))[:, None], sizes=[2] * len(names), query_ids=names)


@given(queries=st.integers(5, 60), n=st.integers(3, 5), seed=st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_every_query_is_tested_once_and_parts_never_overlap(queries, n, seed):
    folds = query_folds(data_of(list(range(queries))), n, seed=seed)
    tested = np.concatenate([fold.test for fold in folds])
    assert sorted(tested) == list(range(queries))
    for fold in folds:
        assert sorted(np.concatenate([fold.train, fold.valid, fold.test])) == list(range(queries))
        assert max(len(fold.test), len(fold.valid)) - queries // n <= 1


def test_folds_follow_the_ids_not_the_rows():
    names = [f"q{i}" for i in range(20)]
    forth, back = data_of(names), data_of(names[::-1])
    for one, other in zip(query_folds(forth, seed=3), query_folds(back, seed=3)):
        assert set(forth.query_ids.gather(one.test)) == set(back.query_ids.gather(other.test))
    assert (query_folds(forth, seed=3)[0].test != query_folds(forth, seed=4)[0].test).any()


def test_a_fold_splits_the_data():
    data = data_of(list(range(10)))
    train, valid, test = query_folds(data)[0].split(data)
    assert (train.n_queries, valid.n_queries, test.n_queries) == (6, 2, 2)


def test_too_few_are_refused():
    with pytest.raises(SettingError, match="3 folds or more"):
        query_folds(data_of([1, 2, 3]), 2)
    with pytest.raises(DataError, match="5 folds need at least 5 queries, but the data has 3"):
        query_folds(data_of([1, 2, 3]), 5)
