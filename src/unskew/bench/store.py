"""A run's folder: finished units, failures, plans. What is in it is whole, whenever the run was killed.

RUN/plans/EXPERIMENT@DATA.json   the units behind every number of a table
RUN/units/KEY.parquet            the metrics of every test query
RUN/units/KEY.json               settings, versions, edition, times, chosen candidate, curves; written last: it is
                                 the mark of a finished unit
RUN/failures/KEY.json            units that failed, with their errors, until they succeed
"""

from __future__ import annotations

import json
import os
import platform
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from unskew._files import atomic_path
from unskew.bench.editions import EDITION, edition_of, last_moved
from unskew.bench.experiments import EXPERIMENTS
from unskew.bench.plan import Plan
from unskew.bench.units import Unit
from unskew.bench.work import Result
from unskew.errors import DataError, OutputError

# What the record of every unit has.
_PARTS = {"unit", "seconds", "versions", "values"}
_PACKAGES = ("unskew", "numpy", "scipy", "scikit-learn", "lightgbm", "xgboost-cpu", "torch", "polars")


@dataclass(frozen=True)
class Failure:
    """A unit that failed, and why; times : how often it was tried."""

    key: str
    said: str
    error: str
    traceback: str
    times: int


class Store:
    """Reads and writes a run's folder. One process writes; every file appears whole or not at all."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._whole: dict[str, bool] = {}

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Store:
        """The store of a folder that holds a run, or an error that says what is missing."""
        store = cls(folder)
        if not store._plan_files():
            raise DataError(
                f"{folder} is not the folder of a run: it has no plans/*.json. "
                "Make one with: unskew bench run EXPERIMENT --out FOLDER"
            )
        return store

    def sweep(self) -> None:
        """Remove what a kill left half-written. For the process that holds the lock."""
        for name in ("plans", "units", "failures"):
            for path in (self.folder / name).glob(".*"):
                path.unlink(missing_ok=True)

    # Units

    def is_done(self, unit: Unit) -> bool:
        """Whether the unit's files are there and can be read; a damaged one is to be done again."""
        known = self._whole.get(unit.key)
        if known is None:
            known = self._whole[unit.key] = self._unit(unit.key, "json").is_file() and self._damage(unit) is None
        return known

    def is_current(self, unit: Unit) -> bool:
        """Whether the unit is done, and nothing that moves its numbers has changed since."""
        return self.is_done(unit) and edition_of(record := self.record(unit)) >= last_moved(unit, record)

    def _damage(self, unit: Unit) -> str | None:
        """What is wrong with the files of a unit."""
        try:
            self.per_query(unit)
            if not self.record(unit).keys() >= _PARTS:
                return f"{self._unit(unit.key, 'json')} lacks a part"
        except (OSError, ValueError, AttributeError, pl.exceptions.PolarsError) as error:
            name = "json" if isinstance(error, (ValueError, AttributeError)) else "parquet"
            return f"{self._unit(unit.key, name)} cannot be read ({error})"
        return None

    def write(self, unit: Unit, result: Result) -> None:
        """Keep a finished unit; its failure, if it had failed before, is forgotten."""
        frame = pl.DataFrame({"query_id": result.query_ids, **result.metrics})
        content = BytesIO()
        frame.write_parquet(content)
        _write(self._unit(unit.key, "parquet"), content.getvalue())
        record = {
            "unit": unit.to_dict(),
            "seconds": result.seconds,
            "versions": versions(),
            "edition": EDITION,
            "values": result.values,
            **result.record,
        }
        _write_json(self._unit(unit.key, "json"), record)
        self._failure(unit).unlink(missing_ok=True)
        self._whole[unit.key] = True

    def record(self, unit: Unit) -> dict[str, Any]:
        """What was written beside the metrics: settings, versions, times, chosen candidate, curves."""
        return json.loads(self._unit(unit.key, "json").read_text(encoding="utf-8"))

    def per_query(self, unit: Unit) -> pl.DataFrame:
        """One row a test query: query_id, one column a metric; NaN where the query has no relevant item."""
        return pl.read_parquet(self._unit(unit.key, "parquet"))

    # Failures

    def fail(self, unit: Unit, error: str, traceback: str = "") -> None:
        """Keep why a unit failed."""
        before = self.failure(unit)
        times = 1 if before is None else before.times + 1
        _write_json(self._failure(unit), vars(Failure(unit.key, unit.said, error, traceback, times)))

    def failure(self, unit: Unit) -> Failure | None:
        """Why a unit is not there: its last error, or what is wrong with its files; None if it was never tried."""
        if self._unit(unit.key, "json").is_file() and not self.is_done(unit):
            return Failure(unit.key, unit.said, f"{self._damage(unit)}. Run the same command again.", "", 0)
        try:
            return Failure(**json.loads(self._failure(unit).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    # Plans

    def write_plan(self, plan: Plan) -> None:
        """Keep a plan, in place of an older one of the same experiment and the same data."""
        target = self.folder / "plans" / f"{_slug(plan.experiment)}@{_slug(plan.data)}.json"
        if _data_of(target) not in (None, next((unit.data for unit in plan.units), None)):
            raise OutputError(
                f"{self.folder} holds {plan.experiment} on other data that is also called {plan.data!r}. "
                "Name another folder with --out, or rename the file."
            )
        with atomic_path(target) as path:
            path.write_text(plan.to_json(), encoding="utf-8")

    def plans(self) -> list[Plan]:
        """Every experiment of the folder, in the order of the catalogue."""
        found = [_read_plan(path) for path in self._plan_files()]
        order = {name: place for place, name in enumerate(EXPERIMENTS)}
        return sorted(found, key=lambda plan: (plan.data, order.get(plan.experiment, len(order))))

    def _plan_files(self) -> list[Path]:
        # A name that begins with a dot is a file that somebody is still writing.
        return sorted(path for path in (self.folder / "plans").glob("*.json") if not path.name.startswith("."))

    def _unit(self, key: str, suffix: str) -> Path:
        return self.folder / "units" / f"{key}.{suffix}"

    def _failure(self, unit: Unit) -> Path:
        return self.folder / "failures" / f"{unit.key}.json"


def _data_of(path: Path) -> str | None:
    """The fingerprint of the data of a plan in a file; None where there is no plan that can be read."""
    try:
        return next((unit.data for unit in _read_plan(path).units), None)
    except (OSError, DataError):
        return None


def _read_plan(path: Path) -> Plan:
    try:
        return Plan.from_json(path.read_text(encoding="utf-8"))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a plan that this version reads. Run the experiment again.") from error


@cache
def versions() -> dict[str, str]:
    """Versions of what decides the numbers."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _write_json(target: Path, document: dict[str, Any]) -> None:
    _write(target, (json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n").encode())


def _write(target: Path, content: bytes) -> None:
    with atomic_path(target) as path, path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # before it gets its name, so that a power cut leaves no empty file behind


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)
