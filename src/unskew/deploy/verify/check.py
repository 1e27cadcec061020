"""verify_export: does the exported file give the model's scores and rankings?"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.deploy.manifest import digest, read_bytes
from unskew.deploy.parity import Parity, read_parity
from unskew.deploy.targets import TARGETS
from unskew.errors import ModelFileError, OtherFileError, SettingError

MAX_BYTES = 1 << 30
TOLERANCE = 1e-6
OTHER_FILE = (
    "is not the file that this parity file was written with (its checksum differs): it was edited since, or it belongs "
    "to another export"
)

Reader = Callable[[bytes, Sequence[str], npt.NDArray[np.float32]], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Difference:
    """How far one reading of an export is from the model.

    by : "rule" (our reading of the engine's documented rule) or the runtime's name.
    largest : the largest absolute difference of two scores; relative : the same over the size of the scores.
    rankings, rankings_changed : lists, and those in which two items changed places whose scores the model tells apart
        by more than the tolerance; near_ties : lists in which only closer ones did.
    """

    by: str
    rows: int
    largest: float
    relative: float
    rankings: int
    rankings_changed: int
    near_ties: int
    ok: bool


@dataclass(frozen=True)
class Verification:
    """What `verify_export` found: one Difference for the rule, one for the runtime if it is installed.

    same_file : whether this is the file, to the byte, that the parity file was written with (or the one beside it).
    """

    format: str
    tolerance: float
    readings: tuple[Difference, ...]
    same_file: bool

    @property
    def ok(self) -> bool:
        """Whether scores and rankings are the model's, in every reading."""
        return all(reading.ok for reading in self.readings)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}


def verify_export(
    file: str | os.PathLike[str], parity: str | os.PathLike[str] | Parity, *, tolerance: float = TOLERANCE
) -> Verification:
    """Score an exported file by its engine's rule, and by the engine's own runtime where one is installed.

    Scores may differ by `tolerance` times the size of the largest score (float32 engines round every sum).
    """
    if not 0 <= tolerance < 1:
        raise SettingError(f"tolerance must be at least 0 and below 1, but {tolerance!r} was given.")
    wanted = parity if isinstance(parity, Parity) else read_parity(parity)
    content = read_bytes(Path(file), MAX_BYTES, "Name the file that was exported.")
    name = str(wanted.facts["format"])
    if name not in TARGETS:
        raise ModelFileError(f"The parity file is for the format {name[:40]!r}. Known are: {', '.join(TARGETS)}.")
    target = TARGETS[name]
    same_file = _is_sealed(content, wanted)
    if target.trusting and not same_file:
        raise OtherFileError(f"{file} {OTHER_FILE}. Export the model again.")
    module = import_module(f"unskew.deploy.verify.{target.module}")
    readings = [("rule", module.score)]
    if target.runtime is not None and find_spec(target.runtime) is not None:
        readings.append((target.runtime, module.run))
    names = _engine_order(wanted)
    rows = np.zeros((len(wanted.rows), len(names)), dtype=np.float32)
    place = {feature: i for i, feature in enumerate(names)}
    rows[:, [place[feature] for feature in wanted.features]] = wanted.rows
    try:
        found = tuple(_compare(by, reader, content, names, rows, wanted, tolerance) for by, reader in readings)
    except ModelFileError as error:
        if same_file:
            raise
        raise OtherFileError(f"{error} {file} {OTHER_FILE}.") from None
    return Verification(format=name, tolerance=tolerance, readings=found, same_file=same_file)


def _is_sealed(content: bytes, parity: Parity) -> bool:
    beside = parity.facts.get("sha256_beside", [])
    known = [parity.facts.get("sha256"), *(beside if isinstance(beside, list) else [])]
    return digest(content) in known


def _engine_order(parity: Parity) -> list[str]:
    """RankLib knows features by number, in the order of the engine's feature set; others by name or in our order."""
    order = parity.facts.get("feature_order")
    if order is None:
        return list(parity.features)
    names = [str(name) for name in order] if isinstance(order, list) else []
    if len(set(names)) != len(names) or not set(parity.features) <= set(names):
        raise ModelFileError("The parity file's feature_order does not hold its features, each once.")
    return names


def _compare(
    by: str,
    reader: Reader,
    content: bytes,
    names: Sequence[str],
    rows: npt.NDArray[np.float32],
    parity: Parity,
    tolerance: float,
) -> Difference:
    with np.errstate(over="ignore", invalid="ignore"):
        got = reader(content, names, rows)
    if got.shape != parity.expected.shape:
        raise ModelFileError(f"The export gives {got.shape[0]} scores for {len(parity.expected)} rows.")
    off = np.abs(got - parity.expected)
    largest = float(off.max()) if np.isfinite(off).all() else float("inf")
    scale = max(1.0, float(np.abs(parity.expected).max()))
    changed, near = rankings_changed(parity.expected, got, parity.lists, tolerance * scale)
    return Difference(
        by=by,
        rows=len(rows),
        largest=largest,
        relative=largest / scale,
        rankings=len(np.unique(parity.lists)),
        rankings_changed=changed,
        near_ties=near,
        ok=largest <= tolerance * scale and changed == 0,
    )


def rankings_changed(
    expected: npt.NDArray[np.float64], got: npt.NDArray[np.float64], lists: IntArray, margin: float
) -> tuple[int, int]:
    """Lists in which an item overtook another that scores higher by more than `margin`; and by anything less.

    >>> rankings_changed(np.array([3.0, 2.0, 1.0]), np.array([3.0, 1.0, 2.0]), np.zeros(3), 0.1)
    (1, 0)
    """
    changed = near = 0
    order = np.lexsort((-expected, lists))
    for part in np.split(order, np.flatnonzero(np.diff(lists[order])) + 1):
        score, answer = expected[part], got[part]
        lowest = np.minimum.accumulate(answer)
        # Items are sorted: those ahead of an item by more than a margin are the first `ahead` ones.
        ahead_clearly = np.searchsorted(-score, -score - margin, side="left")
        ahead_at_all = np.searchsorted(-score, -score, side="left")
        clear, any_way = (
            bool(((ahead > 0) & (lowest[ahead - 1] < answer)).any()) for ahead in (ahead_clearly, ahead_at_all)
        )
        changed += clear
        near += any_way and not clear
    return changed, near
