"""NDCG and ERR against independent implementations, literal transcriptions and what must hold by construction."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from unskew._segments import offsets_of
from unskew.errors import DataError, GradeError, SettingError
from unskew.evaluation.metrics import dcg_linear, err, ndcg, per_query, summarise

MAX_GRADE = 4


def random_lists(seed: int, queries: int = 60, longest: int = 40):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, longest, queries)
    offsets = offsets_of(sizes)
    grades = rng.choice(MAX_GRADE + 1, p=[0.55, 0.2, 0.15, 0.07, 0.03], size=offsets[-1])
    return grades, rng.normal(size=offsets[-1]), offsets


def ndcg_by_definition(grades, cut):
    """Grades in ranked order."""
    dcg = sum((2.0**g - 1) / math.log2(r + 1) for r, g in enumerate(grades[:cut], start=1))
    ideal = sum((2.0**g - 1) / math.log2(r + 1) for r, g in enumerate(sorted(grades, reverse=True)[:cut], start=1))
    return dcg / ideal if ideal > 0 else math.nan


def err_by_definition(grades, cut, max_grade):
    """The cascade of Chapelle et al. (2009), word for word: read on until satisfied, reward 1/rank."""
    going_on, total = 1.0, 0.0
    for rank, grade in enumerate(grades[:cut], start=1):
        satisfied = (2.0**grade - 1) / 2.0**max_grade
        total += going_on * satisfied / rank
        going_on *= 1 - satisfied
    return total


@pytest.mark.parametrize("cut", [1, 3, 5, 10, 50])
def test_both_metrics_follow_their_definitions(cut):
    grades, scores, offsets = random_lists(seed=cut)
    found = per_query(grades, scores, offsets, max_grade=MAX_GRADE, at=[cut])
    for query, (start, end) in enumerate(itertools.pairwise(offsets)):
        ranked = [int(g) for g in grades[start:end][np.argsort(-scores[start:end])]]
        expected = ndcg_by_definition(ranked, cut)
        if math.isnan(expected):
            assert np.isnan(found[f"ndcg@{cut}"][query])
            assert np.isnan(found[f"err@{cut}"][query])
        else:
            assert found[f"ndcg@{cut}"][query] == pytest.approx(expected, abs=1e-12)
            assert found[f"err@{cut}"][query] == pytest.approx(err_by_definition(ranked, cut, MAX_GRADE), abs=1e-12)


@pytest.mark.parametrize("cut", [1, 5, 10])
def test_ndcg_agrees_with_scikit_learn(cut):
    rng = np.random.default_rng(7)
    grades, scores = rng.integers(0, 5, (50, 30)), rng.normal(size=(50, 30))
    found = ndcg(grades.ravel(), scores.ravel(), np.arange(51) * 30, at=cut)
    each = [ndcg_score([2.0**g - 1], [s], k=cut) for g, s in zip(grades, scores)]
    np.testing.assert_allclose(found, each, atol=1e-12)


def test_ndcg_agrees_with_trec_eval():
    """trec_eval's gain is the grade itself, so it is handed 2^g - 1 as the grade."""
    grades, scores, offsets = random_lists(seed=3)
    found = per_query(grades, scores, offsets, max_grade=MAX_GRADE, at=[5, 10])
    judged, run = {}, {}
    for query, (start, end) in enumerate(itertools.pairwise(offsets)):
        judged[str(query)] = {f"d{i}": int(2 ** grades[i] - 1) for i in range(start, end)}
        run[str(query)] = {f"d{i}": float(scores[i]) for i in range(start, end)}
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.5,10"}).evaluate(run)
    for cut in (5, 10):
        expected = np.array([theirs[str(query)][f"ndcg_cut_{cut}"] for query in range(len(judged))])
        values = found[f"ndcg@{cut}"]
        np.testing.assert_allclose(np.nan_to_num(values), expected, atol=1e-9)


def test_several_cut_offs_are_those_of_single_calls():
    grades, scores, offsets = random_lists(seed=11)
    together = per_query(grades, scores, offsets, max_grade=MAX_GRADE, at=[10, 1, 3])
    assert list(together) == ["ndcg@1", "err@1", "ndcg@3", "err@3", "ndcg@10", "err@10"]
    for cut in (1, 3, 10):
        np.testing.assert_array_equal(together[f"ndcg@{cut}"], ndcg(grades, scores, offsets, at=cut))
        np.testing.assert_array_equal(together[f"err@{cut}"], err(grades, scores, offsets, max_grade=MAX_GRADE, at=cut))


def test_the_maximum_grade_of_err_is_the_collections_not_the_lists():
    assert err([1, 0], [2.0, 1.0], [0, 2], max_grade=1).tolist() == [0.5]
    assert err([1, 0], [2.0, 1.0], [0, 2], max_grade=4).tolist() == [1 / 16]


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_row_order_inside_a_query_does_not_matter(seed):
    grades, scores, offsets = random_lists(seed, queries=12, longest=25)
    shuffle = np.random.default_rng(seed).random(len(scores))
    order = np.lexsort((shuffle, np.repeat(np.arange(12), np.diff(offsets))))
    before = per_query(grades, scores, offsets, max_grade=MAX_GRADE)
    after = per_query(grades[order], scores[order], offsets, max_grade=MAX_GRADE)
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name])


@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100), shift=st.floats(-100, 100))
@settings(max_examples=40, deadline=None)
def test_only_the_order_of_scores_matters(seed, scale, shift):
    grades, scores, offsets = random_lists(seed, queries=12, longest=25)
    # Distinct after rounding, so that a transformation cannot merge two of them.
    scores = np.argsort(np.argsort(scores)).astype(float)
    before = per_query(grades, scores, offsets, max_grade=MAX_GRADE)
    for other in (scale * scores + shift, np.arctan(scores / len(scores)), scores.astype(np.float32)):
        for name, values in per_query(grades, other, offsets, max_grade=MAX_GRADE).items():
            np.testing.assert_array_equal(values, before[name])


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_values_lie_between_zero_and_one_and_the_ideal_order_is_one(seed):
    grades, scores, offsets = random_lists(seed, queries=12, longest=25)
    for values in per_query(grades, scores, offsets, max_grade=MAX_GRADE).values():
        kept = values[~np.isnan(values)]
        assert ((kept >= 0) & (kept <= 1)).all()
    ideal = ndcg(grades, grades.astype(float), offsets)
    np.testing.assert_allclose(ideal[~np.isnan(ideal)], 1.0, atol=1e-12)
    assert np.nanmax(ideal, initial=0) <= 1.0


def test_constant_scores_are_worth_what_a_random_order_is():
    """Ties inherited from the file would give 1 here, for the relevant item comes first."""
    queries, size = 4000, 10
    grades = np.tile([1] + [0] * (size - 1), queries)
    values = ndcg(grades, np.zeros(queries * size), np.arange(queries + 1) * size)
    expected = np.mean(1 / np.log2(np.arange(2, size + 2)))
    # The standard error is 0.003; four of them make a false alarm rarer than one in ten thousand seeds.
    assert values.mean() == pytest.approx(expected, abs=0.014)


def test_ties_follow_the_seed():
    rng = np.random.default_rng(0)
    grades, offsets = rng.integers(0, 3, 500), np.arange(0, 501, 20)
    scores = rng.integers(0, 3, 500).astype(float)
    same = [ndcg(grades, scores, offsets, at=5, seed=4) for _ in range(2)]
    np.testing.assert_array_equal(*same)
    assert (ndcg(grades, scores, offsets, at=5, seed=5) != same[0]).any()


def test_linear_dcg_takes_real_labels():
    labels, scores = [-0.25, 1.5, 0.5, 9.0], [3.0, 2.0, 1.0, 5.0]
    expected = [-0.25 + 1.5 / math.log2(3), 9.0]
    np.testing.assert_allclose(dcg_linear(labels, scores, [0, 3, 4], at=2), expected)


def test_linear_dcg_is_linear_in_the_labels():
    rng = np.random.default_rng(2)
    a, b, scores, offsets = rng.normal(size=90), rng.normal(size=90), rng.normal(size=90), np.arange(0, 91, 15)
    whole = dcg_linear(2 * a - b, scores, offsets)
    np.testing.assert_allclose(whole, 2 * dcg_linear(a, scores, offsets) - dcg_linear(b, scores, offsets), atol=1e-12)


def test_queries_without_a_relevant_item_are_counted_and_treated_as_asked():
    values = per_query([0, 0, 1, 0], [1.0, 2.0, 2.0, 1.0], [0, 2, 4], max_grade=1, at=[1])
    left_out = summarise(values)
    assert (left_out.queries, left_out.empty, left_out.mean) == (1, 1, {"ndcg@1": 1.0, "err@1": 0.5})
    assert summarise(values, empty="zero").mean == {"ndcg@1": 0.5, "err@1": 0.25}
    as_one = summarise(values, empty="one")
    assert (as_one.queries, as_one.mean) == (2, {"ndcg@1": 1.0, "err@1": 0.25})
    with pytest.raises(SettingError, match="'exclude', 'zero', 'one'"):
        summarise(values, empty="drop")


def test_no_relevant_item_at_all_gives_no_mean():
    found = summarise(per_query([0, 0], [1.0, 2.0], [0, 2], max_grade=1))
    assert found.queries == 0
    assert np.isnan(found.mean["ndcg@10"])


def test_an_empty_query_has_no_value():
    values = ndcg([1, 0], [1.0, 2.0], [0, 0, 2, 2])
    assert np.isnan(values[[0, 2]]).all()
    assert values[1] == pytest.approx(1 / math.log2(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(bad):
    with pytest.raises(DataError, match=r"1 are not \(first: row 2, score"):
        ndcg([1, 0], [1.0, bad], [0, 2])


def test_other_wrong_input_is_refused():
    with pytest.raises(DataError, match="one score each"):
        ndcg([1, 0], [1.0], [0, 2])
    with pytest.raises(DataError, match="must be numbers"):
        ndcg([1, 0], ["a", "b"], [0, 2])
    with pytest.raises(GradeError, match="between 0 and 1"):
        err([2, 0], [1.0, 2.0], [0, 2], max_grade=1)
    with pytest.raises(GradeError, match="one grade each"):
        ndcg([1], [1.0, 2.0], [0, 2])
    with pytest.raises(DataError, match="rise from 0"):
        ndcg([1, 0], [1.0, 2.0], [1, 2])
    with pytest.raises(SettingError, match="Cut-offs"):
        per_query([1, 0], [1.0, 2.0], [0, 2], max_grade=1, at=[0])
    with pytest.raises(DataError, match="finite label"):
        dcg_linear([1.0, np.nan], [1.0, 2.0], [0, 2])


def test_a_cut_off_beyond_every_list_needs_no_room() -> None:
    grades, scores, offsets = [0, 1, 2, 0, 1], [0.1, 0.9, 0.5, 0.3, 0.2], [0, 3, 5]
    far = per_query(grades, scores, offsets, max_grade=2, at=[2, 10**12])
    near = per_query(grades, scores, offsets, max_grade=2, at=[2, 3])
    for metric in ("ndcg", "err"):
        np.testing.assert_array_equal(far[f"{metric}@{10**12}"], near[f"{metric}@3"])
        np.testing.assert_array_equal(far[f"{metric}@2"], near[f"{metric}@2"])
