"""From one judged collection to the files a training run needs: a log, a validation log, judged test data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew._segments import IntArray
from unskew.data.clicks import ClickLog
from unskew.data.files import Sheet, check_target, judged_sheet, log_sheets, write_sheets
from unskew.data.ranking import RankingData
from unskew.errors import OutputError
from unskew.simulation.log import Simulation, simulate, simulate_detailed, without_features
from unskew.simulation.split import split_queries


@dataclass(frozen=True, eq=False)
class Files:
    """What was made and where it lies: file by role (log, features, valid, valid_features, test)."""

    simulation: Simulation
    valid: ClickLog | None
    test: RankingData | None
    paths: dict[str, Path]

    def facts(self) -> dict[str, dict[str, Any]]:
        """How large each part is."""
        parts = {"log": log_facts(self.simulation.log)}
        if self.valid is not None:
            parts["valid"] = log_facts(self.valid)
        if self.test is not None:
            parts["test"] = data_facts(self.test)
        return parts

    def remark(self) -> str | None:
        """What a reader of the settings would not expect: a production sample larger than its share."""
        ranker = self.simulation.production
        total = self.simulation.log.data.n_queries + len(ranker.left_out)
        wanted = round(ranker.share * total)
        if len(ranker.trained_on) <= wanted:
            return None
        enough = math.ceil(1000 * len(ranker.trained_on) / total) / 1000
        return (
            f"A share of {ranker.share:.3g} of {total:,} queries is {wanted or 'none'}, too few to learn an order "
            f"from: the production ranker was trained on {len(ranker.trained_on)}. To choose how many, name a share of "
            f"{enough:g} or more (--production), or take data with more queries."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything worth knowing as one JSON-able document."""
        ranker = self.simulation.production
        return {
            "files": self.paths,
            "settings": self.simulation.settings,
            "production": {
                "share": ranker.share,
                "queries": len(ranker.trained_on),
                "C": ranker.C,
                "ndcg@10": ranker.ndcg,
            },
            **self.facts(),
        }


def simulate_files(
    data: RankingData,
    out: Path,
    *,
    features: Path | None = None,
    valid: float | RankingData = 0.0,
    test: float = 0.0,
    seed: int = 0,
    **settings: Any,
) -> Files:
    """Simulate and write a log to `out`; shares of the queries go to OUT.valid (a log) and OUT.test (judged data).

    The production ranker learns from training queries only, and makes the validation log too; `valid` may also be
    judged data of its own, such as the published validation part. Hidden features are hidden everywhere. `settings`
    are those of :func:`unskew.simulation.log.simulate`.
    """
    share, own = (0.0, valid) if isinstance(valid, RankingData) else (valid, None)
    targets(out, features, valid=own is not None or share > 0, test=test > 0)
    split = split_queries(data, valid=share, test=test, seed=seed)
    simulation = simulate_detailed(split.train, seed=seed, **settings)
    held = own or split.valid
    second = None if held is None else _validation(held, simulation)
    judged = without_features(split.test, simulation.hidden_names) if split.test is not None else None
    # Written only now, when nothing but the disk can fail, and all together: parts of two runs do not fit.
    sheets = _sheets(simulation.log, out, features, "log")
    if second is not None:
        beside_features = None if features is None else beside(features, "valid")
        sheets |= _sheets(second, beside(out, "valid"), beside_features, "valid")
    if judged is not None:
        sheets["test"] = judged_sheet(judged, beside(out, "test"))
    write_sheets(list(sheets.values()))
    return Files(simulation, second, judged, {role: sheet.path for role, sheet in sheets.items()})


def targets(out: Path, features: Path | None, *, valid: bool, test: bool) -> list[Path]:
    """Every file that will be written; an error if one cannot be. To be asked before the work rather than after it."""
    roots = [out] if features is None else [out, features]
    for root in roots:
        check_target(root)
    places = [*roots, *(beside(root, "valid") for root in roots if valid), *([beside(out, "test")] if test else [])]
    taken: set[Path] = set()
    for place in places:
        check_target(place)
        if place.resolve() in taken:
            raise OutputError(f"The log and its features cannot both go to {place}. Name another file for one of them.")
        taken.add(place.resolve())
    return places


def _validation(data: RankingData, simulation: Simulation) -> ClickLog:
    # Another seed: the same draws would make the two logs' clicks alike, list by list.
    again = {"production": simulation.production, "seed": simulation.settings["seed"] + 1}
    return simulate(data, **{**simulation.settings, **again})


def _sheets(log: ClickLog, path: Path, features: Path | None, role: str) -> dict[str, Sheet]:
    roles = (role, "features" if role == "log" else f"{role}_features")
    return dict(zip(roles, log_sheets(log, path, features=features)))


def beside(path: Path, part: str) -> Path:
    """The name of another part of the same thing.

    >>> beside(Path("runs/log.parquet"), "valid").as_posix()
    'runs/log.valid.parquet'
    """
    return path.with_name(f"{path.stem}.{part}{path.suffix}")


def log_facts(log: ClickLog) -> dict[str, Any]:
    """How large a log is, how often it clicks, how long its lists are."""
    return {
        "queries": len(log.queries),
        "sessions": log.n_sessions,
        "impressions": log.n_impressions,
        "clicks": log.n_clicks,
        "click_density": log.n_clicks / log.n_impressions,
        "list_length": _lengths(np.diff(log.session_offsets)),
        "features": log.data.n_features,
    }


def data_facts(data: RankingData) -> dict[str, Any]:
    """How large judged data is."""
    return {
        "queries": data.n_queries,
        "items": data.n_rows,
        "list_length": _lengths(data.sizes),
        "features": data.n_features,
        "max_grade": data.max_grade,
    }


def _lengths(sizes: IntArray) -> dict[str, float]:
    return {"shortest": int(sizes.min()), "median": float(np.median(sizes)), "longest": int(sizes.max())}
