"""unskew: learn what people find relevant from click logs that position has skewed."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.data.clicks import ClickLog
    from unskew.data.ranking import RankingData

__version__ = version("unskew")

# Where every public name lives. They are imported when first used: a service that only
# loads a model and scores must not pay for the training side.
_HOMES = {
    "ClickLog": "unskew.data.clicks",
    "RankingData": "unskew.data.ranking",
    "read_judged": "unskew.data.sources",
    "read_log": "unskew.data.frames",
    "simulate": "unskew.simulate.log",
    "ControlFunctionRanker": "unskew.control.estimator",
    "methods": "unskew.registry",
    "make_method": "unskew.registry",
    "evaluate": "unskew.evaluate.report",
    "load": "unskew.deploy.model",
    "Model": "unskew.deploy.model",
    "export": "unskew.deploy.export",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'unskew' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
