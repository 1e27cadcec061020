"""Caution: a share of the position effect is left to relevance where the log hardly tells the two apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from unskew.control.aggregate import Exposures
from unskew.control.caution import BEGINS, LEFT, WHOLE, Caution, be_cautious
from unskew.control.click_fit import PRESETS, fit_clicks
from unskew.control.click_model import QueryClicks
from unskew.control.full import FullControlFunction
from unskew.control.position_effect import PositionBasis
from unskew.control.referee_words import caution_words
from unskew.control.stack import Stack, fit_stack
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection

Floats = npt.NDArray[np.float64]
QUERIES, LENGTH = 300, 8


def _world(agree: float, *, seed: int = 0, moved: int = 0) -> tuple[Exposures, dict[str, Floats]]:
    """Expected clicks of a position-based model (η = 1) whose relevance goes with the ranker's order by `agree`.

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
        order = np.argsort(row // LENGTH, kind="stable")
        row, position = row[order], position[order]
        offsets = np.searchsorted(row // LENGTH, np.arange(QUERIES + 1))
    clicks = 5 * np.exp(f[row]) / position
    table = Exposures(row, position, offsets, np.arange(QUERIES), np.full(len(row), 10.0), clicks)
    return table, {"trees": f[row], "boosted": f[row], "place": m[row]}


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
    caution, _ = _cautious(0.82)
    assert BEGINS < caution.agreement < WHOLE
    assert caution.left == pytest.approx(LEFT * (caution.agreement - BEGINS) / (WHOLE - BEGINS))


def test_items_that_were_moved_tell_position_from_relevance() -> None:
    some, _ = _cautious(0.99, moved=QUERIES // 2)
    table, _ = _world(0.99, moved=QUERIES // 2)
    never = table.row >= QUERIES // 2 * LENGTH
    assert some.left == pytest.approx(LEFT * table.clicks[never].sum() / table.clicks.sum())
    every, _ = _cautious(0.99, moved=QUERIES)
    assert every.left == 0


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
    f = sum(weights[name] * part for name, part in parts.items())
    return float(np.polyfit(parts["place"], f, 1)[0])


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
    assert caution_words(None) == caution_words(Caution(0.5, 0.0, {})) == caution_words(Caution(0.8, 0.01, {})) == ""
    said = caution_words(Caution(0.953, 0.2, {}))
    assert "correlation 0.95" in said
    assert "20% of the effect is left to relevance" in said
