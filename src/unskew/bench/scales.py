"""Presets: how large an experiment is run, and how much tuning every method gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unskew._options import Preset
from unskew.bench.experiments import CONTROL, Experiment, Setting
from unskew.errors import check_choice

# The paper's four transformations, and PIJD's cut-offs: what those methods try by themselves.
TRANSFORMATIONS = 4
CUTOFFS = (10, 5, 20)
# In the order of trying; the first is the one a method with a single try gets.
RATES: Mapping[str, tuple[float, ...]] = {
    "lambdamart": (0.05, 0.1, 0.03, 0.15),
    "xgboost": (0.05, 0.1, 0.03, 0.15),
    "dnn": (0.05, 0.02, 0.1, 0.01),
}
# Methods that choose their settings and average their models by themselves.
SELF_TUNED = ("full-cfc", "default")
# Rankers that averaging helps at a price worth paying; a net's models would cost hours.
AVERAGED = ("lambdamart", "xgboost")


@dataclass(frozen=True)
class Scale:
    """What a preset means here.

    preset : the rankers' preset.
    tries : settings every method may try on validation (numbers of trees come on top); None leaves the published
        grids, in which the control function tries four transformations where others try none.
    net : settings of neural nets that take the preset's place.
    data : the collection where none is named.
    """

    preset: Preset
    tries: int | None
    data: str
    net: Mapping[str, Any] = field(default_factory=dict)


SCALES: Mapping[str, Scale] = {
    "smoke": Scale("smoke", None, "synthetic:60"),
    "default": Scale("default", TRANSFORMATIONS, "synthetic:600", {"hidden": (128, 64, 32), "steps": 400}),
    "paper": Scale("paper", None, "synthetic:2000"),
}


@dataclass(frozen=True)
class Budget:
    """What a method may try: learning rates (none: the preset's own), and options that bound its own tries."""

    rates: tuple[float, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def scale(preset: str) -> Scale:
    """The preset of that name, or an error listing them."""
    check_choice("preset", preset, SCALES)
    return SCALES[preset]


def budget(method: str, ranker: str, options: Mapping[str, Any], tries: int | None) -> Budget:
    """The tries of a method: as many settings for everyone, whatever they are settings of.

    >>> budget("naive", "lambdamart", {}, 4).rates, budget("cfc", "lambdamart", {}, 4).rates
    ((0.05, 0.1, 0.03, 0.15), (0.05,))
    """
    if tries is None or method in SELF_TUNED:
        return Budget()
    if method in CONTROL:
        own = TRANSFORMATIONS if options.get("transformation", "auto") == "auto" else 1
        return Budget(RATES.get(ranker, ())[: max(tries // own, 1)])
    if method.startswith("pijd"):
        cutoffs = CUTOFFS[:tries]
        return Budget(RATES.get(ranker, ())[: max(tries // len(cutoffs), 1)], {"cutoffs": cutoffs})
    return Budget(RATES.get(ranker, ())[:tries])


def settings_of(experiment: Experiment, preset: str) -> tuple[Setting, ...]:
    """The settings that a preset looks at: a smoke run takes the ends of a long list."""
    if preset == "smoke" and len(experiment.settings) > 4:
        return (experiment.settings[0], experiment.settings[-1])
    return experiment.settings


def methods_of(experiment: Experiment, setting: Setting, preset: str) -> tuple[str, ...]:
    """The methods that a preset compares."""
    if preset == "smoke":
        return experiment.smoke
    if setting.methods is not None:
        return setting.methods
    return experiment.brief if preset == "default" and experiment.brief is not None else experiment.methods


def folds_of(experiment: Experiment, preset: str) -> int | None:
    """How many folds are tested; None means all there are."""
    return {"smoke": 1, "default": experiment.folds}.get(preset)


def seeds_of(experiment: Experiment, preset: str) -> int:
    """How many click seeds."""
    return 1 if preset == "smoke" else experiment.seeds
