"""unskew: learn what people find relevant from click logs that position has skewed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Where every public name lives. They are imported when first used: a service that only
# loads a model and scores must not pay for the training side.
_HOMES = {
    "ClickLog": "unskew.data.clicks",
    "RankingData": "unskew.data.ranking",
    "read_judged": "unskew.sources",
    "read_log": "unskew.data.frames",
    "simulate": "unskew.simulation.log",
    "simulate_detailed": "unskew.simulation.log",
    "split_queries": "unskew.simulation.split",
    "synthetic_collection": "unskew.simulation.synthetic",
    "train_production": "unskew.simulation.production",
    "ControlFunctionRanker": "unskew.control.estimator",
    "methods": "unskew.registry",
    "make_method": "unskew.registry",
    "evaluate": "unskew.evaluation.report",
    "load": "unskew.deploy.model",
    "Model": "unskew.deploy.model",
    "export": "unskew.deploy.export",
    "verify_export": "unskew.deploy.verify.check",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # slow to import, and seldom asked for

        return version("unskew")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'unskew' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
