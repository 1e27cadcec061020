"""What the referee says is true of what it found, whatever it found."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from unskew.control.evidence import Specification
from unskew.control.interventions import Interventions
from unskew.control.referee_words import moved_words, position_words, terms_words

FOUND = Specification("position + shift", -90.0, "position", 10.0, 4.0, 16.0)
NOT_FOUND = Specification("position + T", -99.0, "position", 1.0, -4.0, 6.0)


def _fit(severity: float, error: float) -> SimpleNamespace:
    return SimpleNamespace(
        stack=SimpleNamespace(severity=severity, severity_error=error),
        used=SimpleNamespace(totals=np.array([50.0, 50.0])),
        basis=SimpleNamespace(size=2),
    )


def _moved(severity: float, of_model: float) -> Interventions:
    return Interventions(30, 200.0, severity, 0.05, of_model, 0.05, 5.0, 1.0, 9.0, queries=25)


@pytest.mark.parametrize(
    ("severity", "high", "overruled", "said", "unsaid"),
    [
        (0.02, 3.0, False, "no correction is needed here, or the log is too small to tell", "so none is made"),
        (0.02, -1.0, False, "no correction is needed here.", "too small"),
        (0.90, 3.0, False, "too small to tell whether a correction is needed, so none is made", "is needed here"),
        (0.02, 3.0, True, "does not help to predict held-out clicks", "no correction is needed"),
    ],
)
def test_a_position_effect_that_was_not_found(
    severity: float, high: float, overruled: bool, said: str, unsaid: str
) -> None:
    position = Specification("position", -100.0, "none", 0.5, -2.0, high)
    text = position_words(_fit(severity, 0.2), position, overruled=overruled)
    assert said in text
    assert unsaid not in text


def test_an_examination_that_was_given_is_doubted_only_where_clicks_speak_against_it() -> None:
    unsure, wrong = (Specification("position", -100.0, "none", -1.0, -4.0, high) for high in (2.0, -0.5))
    nothing_left = _fit(0.1, 0.1).stack
    assert "may be too small" in position_words(_fit(0, 0), unsure, beside=nothing_left)
    assert "Is it that of this log?" in position_words(_fit(0, 0), wrong, beside=nothing_left)
    found = Specification("position", -90.0, "none", 9.0, 4.0, 14.0)
    assert position_words(_fit(0, 0), found, beside=nothing_left).endswith("in log-likelihood).")
    too_flat = position_words(_fit(0, 0), found, beside=_fit(0.5, 0.1).stack)
    assert "clicks still fall with position, as k^−0.50 ± 0.20 does: is it that of this log?" in too_flat
    assert "clicks still rise" in position_words(_fit(0, 0), unsure, beside=_fit(-0.5, 0.1).stack)


def test_terms_that_were_found_are_called_so_whether_or_not_they_are_used() -> None:
    assert "add nothing beyond chance" in terms_words([NOT_FOUND], used=True, sure=True)
    unused = terms_words([NOT_FOUND, FOUND], used=False, sure=True)
    assert "shift add +10.0 (+4.0 to +16.0)" in unused
    assert unused.endswith("nothing to correct with them.")
    bound = terms_words([FOUND], used=True, sure=False)
    assert "between none and all of it" in bound
    assert "between none" not in terms_words([FOUND], used=True, sure=False, shuffle=False)
    assert "or that examination is not that of this log" in terms_words([FOUND], used=True, sure=True, given=True)


def test_items_that_say_more_than_the_model_are_not_sent_to_be_shuffled_again() -> None:
    more = moved_words(_moved(1.2, 0.7), by_chance=False)
    assert "more than the model's 0.70" in more
    assert "k^−1.20" in more
    assert "cannot be relied upon" in moved_words(_moved(0.71, 0.7), by_chance=False)
    less = moved_words(_moved(0.2, 0.7), by_chance=False)
    assert "less than the model's 0.70." in less
    assert "give that" not in less
    assert "is refuted: what put items at the top" in moved_words(_moved(0.2, 0.7), by_chance=True)


def test_moved_items_that_agree_on_nothing_to_correct_are_not_called_too_few() -> None:
    alike = Interventions(30, 200.0, 0.05, 0.05, 0.02, 0.05, 0.1, -1.0, 1.0, queries=25)
    assert "hardly matters, as the model says too" in moved_words(alike, by_chance=True)
    assert "hardly matters" not in moved_words(replace(alike, of_model=0.3), by_chance=True)
    assert "too little" in moved_words(replace(alike, queries=9), by_chance=True)
    assert not replace(_moved(0.2, 0.7), queries=9).refuted
    wide = Interventions(3, 20.0, 0.05, 0.5, 0.02, 0.05, 0.1, -1.0, 1.0, queries=25)
    assert moved_words(wide, by_chance=True).endswith("too little to confirm or refute the model.")


def test_terms_that_every_fold_would_leave_out_are_not_given_figures() -> None:
    unused = Specification("position + T", -100.0, "position")
    assert unused.unused
    assert not NOT_FOUND.unused
    text = terms_words([unused], used=True, sure=True)
    assert "would rather do without any" in text
    assert "0.0" not in text
    assert "at best +1.0" in terms_words([unused, NOT_FOUND], used=True, sure=True)
