"""Caution: a share of the position effect is left to relevance where the log hardly tells the two apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from unskew.control.aggregate import Exposures
from unskew.control.caution import (
    BEGINS,
    KNOWN,
    LEFT,
    LOWER,
    RAISED,
    WHOLE,
    Caution,
    along_place,
    be_cautious,
    caution_words,
)
from unskew.control.click_fit import PRESETS, fit_clicks
from unskew.control.click_model import QueryClicks
from unskew.control.full import FullControlFunction
from unskew.control.interventions import MovedItems
from unskew.control.position_effect import PositionBasis
from unskew.control.stack import Stack, fit_stack
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection

Floats = npt.NDArray[np.float64]
QUERIES, LENGTH = 300, 8


def _world(agree: float, *, seed: int = 0, moved: int = 0) -> tuple[Exposures, dict[str, Floats]]:
    """Clicks of a position-based model (η = 1) whose relevance goes with the ranker's order by `agree`.

    moved : of so many queries every item is also seen at the mirrored position.
    """
    rng = np.random.default_rng(seed)
    n = QUERIES * LENGTH
    m, other, other_reasons = rng.normal(size=(3, n))
    position = np.argsort(np.argsort(-(m + other_reasons).reshape(QUERIES, LENGTH))).ravel() + 1
    f = 0.5 * (agree * m + np.sqrt(1 - agree**2) * other)
    row, offsets = np.arange(n), np.arange(QUERIES + 1) * LENGTH
    if moved:
        again = row < moved * LENGTH
        row = np.r_[row, row[again]]
        position = np.r_[position, LENGTH + 1 - position[again]]
        order = np.lexsort((position, row))
        row, position = row[order], position[order]
        offsets = np.searchsorted(row // LENGTH, np.arange(QUERIES + 1))
    clicks = rng.poisson(5 * np.exp(f[row]) / position).astype(np.float64)
    table = Exposures(row, position, offsets, np.arange(QUERIES), np.full(len(row), 10.0), clicks)
    # What is the same for all items of a query says nothing about their order.
    of_query = 10 * rng.normal(size=(2, QUERIES))[:, row // LENGTH]
    return table, {"trees": f[row] + of_query[0], "boosted": f[row] + of_query[0], "place": m[row] + of_query[1]}


def _stack(table: Exposures, parts: dict[str, Floats]) -> tuple[PositionBasis, Stack]:
    basis = PositionBasis.up_to(table.longest)
    return basis, fit_stack(basis, table.position, QueryClicks.of(table), parts)


def _cautious(agree: float, **options: int) -> tuple[Caution, Stack]:
    table, parts = _world(agree, **options)
    basis, stack = _stack(table, parts)
    return be_cautious(basis, table, parts, stack), stack


def test_a_ranker_that_relevance_does_not_follow_is_corrected_whole() -> None:
    caution, stack = _cautious(0.3)
    assert caution.agreement == pytest.approx(0.3, abs=0.15)
    assert caution.left == 0
    assert caution.weights == stack.weights


def test_where_relevance_follows_the_ranker_a_fifth_is_left_and_the_expected_place_takes_it() -> None:
    caution, stack = _cautious(0.99)
    assert caution.agreement > WHOLE
    assert caution.left == LEFT
    assert stack.severity == pytest.approx(1, abs=0.05)  # what is reported stays the estimate
    assert caution.weights["place"] > stack.weights["place"] + 0.05


def test_in_between_the_share_grows_with_the_agreement() -> None:
    """It raises the slope of relevance by half at the most, and never takes more than a fifth of the effect."""
    table, parts = _world(0.82)
    basis, stack = _stack(table, parts)
    caution = be_cautious(basis, table, parts, stack)
    most = min(LEFT, RAISED * along_place(stack.weights, table, parts)[0] / stack.severity)
    assert BEGINS < caution.agreement < WHOLE
    assert caution.left == pytest.approx(most * (caution.agreement - BEGINS) / (WHOLE - BEGINS))


def test_items_that_were_moved_tell_position_from_relevance() -> None:
    """The share goes down with what moved items alone say of η, and not because of a few idle moves."""
    still, _ = _cautious(0.99)
    table, parts = _world(0.99, moved=QUERIES // 20)
    basis, stack = _stack(table, parts)
    _, error = MovedItems.of(table).severity(table)
    some = be_cautious(basis, table, parts, stack)
    assert 0.3 * KNOWN < error < 3 * KNOWN
    assert some.left == pytest.approx(still.left * error**2 / (error**2 + KNOWN**2), rel=0.05)
    every, _ = _cautious(0.99, moved=QUERIES)
    assert every.left < 0.02
    rare = replace(table, shown=np.where(table.row < QUERIES // 20 * LENGTH, 0.01, 1.0) * table.shown)
    rare = replace(rare, clicks=rare.clicks * rare.shown / table.shown)
    assert be_cautious(basis, rare, parts, stack).left > 0.8 * still.left


def test_the_agreement_is_that_of_the_lower_end_but_not_far_from_the_estimate() -> None:
    """A wide interval alone is no reason: where f hardly goes with the place, neither does it half as much again."""
    table, parts = _world(0.6)
    basis, stack = _stack(table, parts)
    sure, unsure, lost = (
        be_cautious(basis, table, parts, replace(stack, covariance=np.eye(basis.size) * error**2))
        for error in (0.0, 0.5 * RAISED * 0.3 / LOWER, 5.0)
    )
    assert sure.agreement < unsure.agreement < lost.agreement < BEGINS
    assert sure.agreement == pytest.approx(0.6, abs=0.1)


def test_control_terms_are_no_part_of_relevance() -> None:
    table, parts = _world(0.3)
    _, stack = _stack(table, parts)
    noise = {**parts, "terms": 3 * parts["place"]}
    assert along_place({**stack.weights, "terms": 5.0}, table, noise) == along_place(stack.weights, table, parts)


def test_an_effect_that_was_overestimated_no_longer_turns_relevance_against_the_ranker() -> None:
    """η comes out 0.2 too large: the weights beside the cautious effect lie nearer to the truth."""
    table, parts = _world(0.99)
    basis, stack = _stack(table, parts)
    steeper = replace(stack, effect=stack.effect + np.eye(basis.size)[0] * 0.2)
    caution = be_cautious(basis, table, parts, steeper)
    slope = {
        left: _slope(table, parts, (1 - left) * (basis.columns(table.position) @ steeper.effect))
        for left in (0, caution.left)
    }
    assert caution.left > LEFT / 2
    assert slope[0] < 0.42
    assert slope[caution.left] == pytest.approx(0.5, abs=0.05)


def _slope(table: Exposures, parts: dict[str, Floats], effect: Floats) -> float:
    """How much f rises with the expected place, the effect held fixed; it is 0.5 in these worlds."""
    clicks = QueryClicks.of(table)
    fixed = replace(clicks, log_shown=clicks.log_shown + effect)
    weights = fit_stack(PositionBasis.up_to(1), table.position, fixed, parts).weights
    return along_place(weights, table, parts)[0]


def test_clicks_that_rise_with_position_are_left_as_they_are() -> None:
    table, parts = _world(0.99)
    basis, stack = _stack(table, parts)
    assert be_cautious(basis, table, parts, replace(stack, effect=-stack.effect)).left == 0


def test_features_that_say_nothing_agree_with_nothing() -> None:
    table, parts = _world(0.99)
    nothing = {name: np.zeros(len(table)) for name in parts}
    caution = be_cautious(*(_stack(table, nothing)[0], table, nothing, _stack(table, nothing)[1]))
    assert (caution.agreement, caution.left) == (0, 0)


def test_a_strong_ranker_of_fixed_lists_is_met_with_caution_and_the_model_says_so() -> None:
    data = synthetic_collection(150, longest=15, typical=10, features=8)
    strong, moving = (simulate(data, production=1.0, landmarks=marks, seed=1) for marks in ((), (1, 3, 5, 10)))
    model = FullControlFunction(preset="smoke", n_jobs=1).fit(strong)
    known = model.outcome_.extra
    assert known["agreement"] > BEGINS
    assert 0 < known["left_to_relevance"] <= LEFT
    assert known["weights"] == model.clicks_.caution.weights != model.clicks_.stack.weights
    # The scores are those of the cautious weights, and the curve that is reported is the estimate.
    without = replace(model.clicks_, caution=None)
    assert model.clicks_.forest(strong.data.feature_names) != without.forest(strong.data.feature_names)
    np.testing.assert_allclose(model.clicks_.effect, (1 - known["left_to_relevance"]) * model.clicks_.stack.effect)
    assert model.bias_.value[1] == pytest.approx(np.exp(model.clicks_.basis.table[1] @ model.clicks_.stack.effect))
    told = FullControlFunction(preset="smoke", n_jobs=1, examination=1 / np.arange(1, 16)).fit(strong)
    assert told.clicks_.caution is told.outcome_.extra["left_to_relevance"] is None
    swapped = fit_clicks(moving, settings=PRESETS["smoke"], threads=1)
    assert swapped.caution.left < known["left_to_relevance"] / 2


def test_words_only_where_there_is_something_to_say() -> None:
    assert Caution(0.5, 0.0, {}).words == Caution(0.8, 0.01, {}).words == caution_words(None, None) == ""
    assert "12 % of the position effect is left" in Caution(0.8, 0.12, {}).words
    said = Caution(0.953, 0.2, {}).words
    assert "correlation 0.95" in said
    assert "20 % of the position effect is left to relevance" in said
