"""Lambdas: brute force, LightGBM's own, finite differences."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew._segments import offsets_of, ranks_within
from unskew.rankers import lambda_pairs
from unskew.rankers.lambda_pairs import ClickPairs, LambdaObjective, ListSorter

lists_of_labels = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=9), min_size=1, max_size=8)


@given(lists_of_labels)
def test_pairs_are_all_clicked_unclicked_combinations(lists: list[list[int]]) -> None:
    sizes, label = [len(one) for one in lists], np.concatenate(lists)
    pairs = ClickPairs.of(label, sizes)
    expected = [
        (start + i, start + j)
        for one, start in zip(lists, offsets_of(sizes))
        for i in range(len(one))
        for j in range(len(one))
        if one[i] and not one[j]
    ]
    assert sorted(zip(pairs.clicked.tolist(), pairs.unclicked.tolist())) == sorted(expected)


@given(lists_of_labels, st.integers(0, 1000))
def test_ranks_equal_a_stable_sort(lists: list[list[int]], seed: int) -> None:
    sizes = [len(one) for one in lists]
    scores = np.random.default_rng(seed).integers(0, 4, size=sum(sizes)).astype(float)  # many ties
    expected = ranks_within(scores, offsets_of(sizes), ties=np.arange(sum(sizes), dtype=float))
    np.testing.assert_array_equal(ListSorter.of(sizes).ranks(scores), expected)


def _literal(
    label: np.ndarray,
    sizes: list[int],
    scores: np.ndarray,
    plus: np.ndarray,
    minus: np.ndarray,
    *,
    truncation: int,
    norm: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """The formulas, pair by pair."""
    gradient, hessian = np.zeros(len(label)), np.zeros(len(label))
    for start, stop in zip(offsets_of(sizes)[:-1], offsets_of(sizes)[1:]):
        y, s = label[start:stop], scores[start:stop]
        order = sorted(range(len(y)), key=lambda i: -s[i])
        rank = {item: place + 1 for place, item in enumerate(order)}
        ideal = sum(1 / np.log2(r + 2) for r in range(min(int(y.sum()), truncation)))
        own_gradient, own_hessian, total = np.zeros(len(y)), np.zeros(len(y)), 0.0
        for i in np.flatnonzero(y == 1):
            for j in np.flatnonzero(y == 0):
                if min(rank[i], rank[j]) > truncation:
                    continue
                delta = abs(1 / np.log2(1 + rank[i]) - 1 / np.log2(1 + rank[j])) / ideal
                if norm and s.max() != s.min():
                    delta /= 0.01 + abs(s[i] - s[j])
                rho = 1 / (1 + np.exp(s[i] - s[j]))
                total += 2 * delta * rho
                pull = delta * rho / (plus[start + i] * minus[start + j])
                own_gradient[i] -= pull
                own_gradient[j] += pull
                own_hessian[[i, j]] += pull * (1 - rho)
        factor = np.log2(1 + total) / total if norm and total > 0 else 1.0
        gradient[start:stop], hessian[start:stop] = own_gradient * factor, own_hessian * factor
    return gradient, hessian


@settings(max_examples=40, deadline=None)
@given(lists_of_labels, st.booleans(), st.integers(1, 6), st.integers(0, 10_000))
def test_lambdas_equal_the_literal_formula(lists: list[list[int]], norm: bool, truncation: int, seed: int) -> None:
    sizes, label = [len(one) for one in lists], np.concatenate(lists)
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=len(label)) * rng.integers(0, 2)
    plus, minus = rng.uniform(0.1, 2, size=(2, len(label)))
    found = LambdaObjective.of(label, sizes, truncation=truncation, norm=norm)(scores, 1 / plus, 1 / minus)
    gradient, hessian = _literal(label, sizes, scores, plus, minus, truncation=truncation, norm=norm)
    np.testing.assert_allclose(found.gradient, gradient, atol=1e-10)
    np.testing.assert_allclose(found.hessian, hessian, atol=1e-10)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 40, size=60)
    label, scores = rng.random(sizes.sum()) < 0.3, rng.normal(size=sizes.sum())
    whole = LambdaObjective.of(label, sizes)(scores)
    monkeypatch.setattr(lambda_pairs, "CHUNK", 13)
    pieces = LambdaObjective.of(label, sizes)
    assert len(pieces.pairs.blocks) > 50
    for name in ("gradient", "hessian", "cost_clicked", "cost_unclicked"):
        np.testing.assert_allclose(getattr(pieces(scores), name), getattr(whole, name), atol=1e-12)


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("truncation", [30, 5])
@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0])
def test_with_all_ratios_one_they_are_lightgbms(norm: bool, truncation: int, spread: float) -> None:
    """LightGBM does not show its lambdas, but a tree of two leaves shows their sums over any half of the entries."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(2, 60, size=40)
    n = int(sizes.sum())
    label, weight = (rng.random(n) < 0.15).astype(int), rng.integers(1, 5, size=n).astype(float)
    scores = rng.normal(size=n) * spread
    ours = LambdaObjective.of(label, sizes, weight=weight, norm=norm, truncation=truncation)(scores)
    for half in rng.random((5, n)) < 0.5:
        data = lgb.Dataset(
            half[:, None].astype(float),
            label,
            group=sizes,
            weight=weight,
            init_score=scores,
            params={"min_data_in_bin": 1, "feature_pre_filter": False, "verbosity": -1},
        )
        params = {
            "objective": "lambdarank",
            "num_leaves": 2,
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 0,
            "learning_rate": 1,
            "lambdarank_norm": norm,
            "lambdarank_truncation_level": truncation,
            "num_threads": 1,
            "verbosity": -1,
        }
        leaf = lgb.train(params, data, 1).dump_model()["tree_info"][0]["tree_structure"]["right_child"]
        # LightGBM reads its sigmoid from a table with steps of 5e-5.
        assert ours.hessian[half].sum() == pytest.approx(leaf["leaf_weight"], rel=1e-4)
        assert ours.gradient[half].sum() == pytest.approx(-leaf["leaf_value"] * leaf["leaf_weight"], rel=1e-3, abs=1e-5)


def test_gradients_equal_finite_differences() -> None:
    """Ranks and Δ held still, as LambdaMART holds them, the loss Σ Δ log(1 + exp(-(s_i - s_j))) / (t⁺ t⁻)."""
    rng = np.random.default_rng(2)
    sizes = [7, 5, 9]
    n = sum(sizes)
    label, scores = (rng.random(n) < 0.4).astype(int), rng.normal(size=n)
    plus, minus = rng.uniform(0.2, 1.5, size=(2, n))
    objective = LambdaObjective.of(label, sizes, norm=False)
    pairs = objective.pairs
    discount = 1 / np.log2(1 + objective.sorter.ranks(scores))
    delta = np.abs(discount[pairs.clicked] - discount[pairs.unclicked])
    delta *= objective.inverse_ideal[pairs.segment[pairs.clicked]] / (plus[pairs.clicked] * minus[pairs.unclicked])

    def loss(s: np.ndarray) -> float:
        return float(delta @ np.log1p(np.exp(-(s[pairs.clicked] - s[pairs.unclicked]))))

    step = 1e-4
    shifts = step * np.eye(n)
    slope = np.array([(loss(scores + e) - loss(scores - e)) / (2 * step) for e in shifts])
    curve = np.array([(loss(scores + e) - 2 * loss(scores) + loss(scores - e)) / step**2 for e in shifts])
    found = objective(scores, 1 / plus, 1 / minus)
    np.testing.assert_allclose(found.gradient, slope, atol=1e-7)
    np.testing.assert_allclose(found.hessian, curve, atol=1e-5)


def test_costs_are_summed_by_side() -> None:
    label, sizes = np.array([1, 0, 0, 1]), [4]
    plus, minus = np.array([1.0, 0.5, 0.4, 0.3]), np.array([1.0, 1.2, 1.4, 1.6])
    found = LambdaObjective.of(label, sizes, norm=False)(np.zeros(4), 1 / plus, 1 / minus)
    discount = 1 / np.log2([2, 3, 4, 5])
    ideal = 1 + 1 / np.log2(3)

    def cost(i: int, j: int) -> float:
        return abs(discount[i] - discount[j]) / ideal * np.log(2)

    assert found.cost_clicked[0] == pytest.approx(cost(0, 1) / minus[1] + cost(0, 2) / minus[2])
    assert found.cost_unclicked[2] == pytest.approx(cost(0, 2) / plus[0] + cost(3, 2) / plus[3])
    assert found.cost_clicked[1] == found.cost_unclicked[0] == 0
