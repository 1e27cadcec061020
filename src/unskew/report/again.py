"""The command that fits a model again, and what must be filled in by hand because no model keeps it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from unskew.report.words import listed

_SETTINGS_OF_DEFAULT = ("ranker", "preset", "tune_on")
_SETTINGS = (*_SETTINGS_OF_DEFAULT, "stage_one", "transformation", "terms")
# Values that a command says by saying nothing, where that is not "auto".
_LEFT_OUT = {"preset": "default", "terms": ""}
# Files that a command names and a model does not keep the names of.
_EXAMINATION, _FEATURES = "EXAMINATION.csv", "FEATURES.parquet"
_VALIDATION = {"valid": "VALID.parquet", "judged": "JUDGED.parquet"}


def fit_command(manifest: Mapping[str, Any], folder: str, log_name: str) -> str:
    """The command that fits this model again: what the referee chose is left to it."""
    settings, asked = manifest.get("settings") or {}, manifest.get("asked") or {}
    said = referee_of(manifest)
    left_to_it = said is not None and settings.get("terms") != "auto"
    method = str(asked.get("method") or ("default" if left_to_it else manifest.get("method", "a method")))
    words = ["unskew", "fit", log_name, "--out", folder, "--method", method]
    for name in _SETTINGS_OF_DEFAULT if method == "default" else _SETTINGS:
        if isinstance(settings.get(name), str) and settings[name] != _LEFT_OUT.get(name, "auto"):
            words += _option(name, settings[name])
    if (settings if said is None else {"examination": said.get("given")}).get("examination") is not None:
        words += ["--examination", _EXAMINATION]
    for name, value in (asked.get("columns") or {}).items():
        words += _option(name, _FEATURES if name == "features" else value)
    if asked.get("validation") in _VALIDATION:
        words += _option(asked["validation"], _VALIDATION[asked["validation"]])
    if asked.get("engine") == "dask":
        words += ["--engine", "dask"]
    if settings.get("random_state"):
        words += ["--seed", str(settings["random_state"])]
    return shlex.join(words)


def left_to_fill_in(manifest: Mapping[str, Any], command: str) -> str:
    """What the command leaves open, in words; empty where it is the whole of it.

    >>> left_to_fill_in({"asked": {"columns": {}}}, "unskew fit log.parquet --valid VALID.parquet")
    'Put the file of your own in the place of VALID.parquet: a model does not keep its name.'
    """
    if manifest.get("asked") is None:
        return (
            "How the columns of the log were read (--click, --counts, --missing, --position-base, …) and what settings "
            "were chosen on (--valid, --judged) is kept by models that unskew fit writes, but not by this one: add "
            "what applies, and compare the settings below."
        )
    words = shlex.split(command)
    open_ = [name for name in (_EXAMINATION, _FEATURES, *_VALIDATION.values()) if name in words]
    if not open_:
        return ""
    whose, their = ("file", "its name") if len(open_) == 1 else ("files", "their names")
    return f"Put the {whose} of your own in the place of {listed(open_)}: a model does not keep {their}."


def referee_of(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the referee said, where it was asked."""
    return (manifest.get("extra") or {}).get("referee")


def _option(name: str, value: Any) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    return [option] if value is True else [option, str(value)]
