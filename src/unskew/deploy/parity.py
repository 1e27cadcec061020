"""The parity file: rows, the scores they must get, and which export they belong to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from unskew._files import atomic_path
from unskew._segments import IntArray
from unskew.deploy.manifest import digest, read_bytes
from unskew.deploy.strict_json import read_json
from unskew.errors import ModelFileError

MAX_BYTES = 1 << 31
PARITY_SUFFIXES: Final = (".json", ".parquet")
# Lists of drawn rows, which belong to no query, have this many.
DRAWN_LIST = 50
_AGAIN = "Name the parity file that the export wrote, or export the model again."
_EXPECTED, _LIST, _FACTS = "unskew:expected", "unskew:list", "unskew:facts"
_SEAL = "parity_sha256"


@dataclass(frozen=True, eq=False)
class Parity:
    """What an engine must answer.

    features : names of the columns of `rows`.
    rows : (n, d) float32; NaN is a missing value.
    lists : (n,) rows with the same number are ranked against each other.
    expected : (n,) the model's scores.
    facts : format, model name, sha256 of the exported file and of those beside it, share of leaves covered.
    """

    features: tuple[str, ...]
    rows: npt.NDArray[np.float32]
    lists: IntArray
    expected: npt.NDArray[np.float64]
    facts: Mapping[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON or as Parquet, by the ending of the path."""
        with atomic_path(path) as temporary:
            if Path(path).suffix == ".json":
                temporary.write_text(self._json(), encoding="utf-8")
            else:
                self._write_parquet(temporary)

    def seal(self) -> str:
        """The checksum of all that is said here, the same for JSON and Parquet."""
        told = json.dumps([dict(self.facts), self.features], sort_keys=True).encode()
        # Neither the sign of a zero nor the bits of a NaN survive a text.
        rows = np.where(np.isnan(self.rows), np.float32(np.nan), self.rows + np.float32(0))
        parts = (rows.astype("<f4"), self.lists.astype("<i8"), self.expected.astype("<f8"))
        return digest(b"".join([told, *(np.ascontiguousarray(part).tobytes() for part in parts)]))

    def _sealed_facts(self) -> dict[str, Any]:
        return {**self.facts, _SEAL: self.seal()}

    def _json(self) -> str:
        """One JSON document, a row a line; nine digits say a float32 exactly, and null is a missing value."""
        head = {"facts": self._sealed_facts(), "features": list(self.features), "lists": self.lists.tolist()}
        head["expected"] = self.expected.tolist()
        # One row at a time: as Python's numbers, all of them would take many times the room.
        rows = ["[" + ",".join("null" if x != x else f"{x:.9g}" for x in row.tolist()) + "]" for row in self.rows]
        text = json.dumps(head, ensure_ascii=False, allow_nan=False)
        return text[:-1] + ', "rows": [\n' + ",\n".join(rows) + "\n]}\n"

    def _write_parquet(self, path: Path) -> None:
        import polars as pl

        columns = {_LIST: self.lists, _EXPECTED: self.expected}
        columns |= {f"feature:{name}": self.rows[:, i] for i, name in enumerate(self.features)}
        facts = json.dumps(self._sealed_facts(), ensure_ascii=False, allow_nan=False)
        pl.DataFrame(columns).write_parquet(path, metadata={_FACTS: facts})


def read_parity(path: str | os.PathLike[str]) -> Parity:
    """Read a parity file, Parquet or JSON; a ModelFileError says what is wrong with it."""
    source = Path(path)
    if source.suffix not in PARITY_SUFFIXES:
        raise _wrong(source, f"such a file ends in {' or '.join(PARITY_SUFFIXES)}")
    if source.suffix == ".json":
        parity = _from_document(read_json(read_bytes(source, MAX_BYTES, _AGAIN), f"The parity file {source}"), source)
    else:
        parity = _from_parquet(source)
    if (parity.rows.ndim, parity.lists.ndim, parity.expected.ndim) != (2, 1, 1):
        raise _wrong(source, "its rows, lists or expected scores are nested otherwise")
    n_rows = len(parity.rows)
    if n_rows == 0 or len(parity.expected) != n_rows or len(parity.lists) != n_rows or not parity.features:
        raise _wrong(source, "its rows, lists and expected scores are not equally many")
    if len(set(parity.features)) != len(parity.features) or parity.rows.shape[1] != len(parity.features):
        raise _wrong(source, "its features do not fit its rows")
    if not np.isfinite(parity.expected).all() or np.isinf(parity.rows).any():
        raise _wrong(source, "it holds scores or features that are not finite")
    if not isinstance(parity.facts.get("format"), str):
        raise _wrong(source, "it does not say which format it belongs to")
    return _unsealed(parity, source)


def _unsealed(parity: Parity, source: Path) -> Parity:
    """The same without its seal, after comparing it; the first parity files had none."""
    facts = dict(parity.facts)
    seal = facts.pop(_SEAL, None)
    bare = replace(parity, facts=facts)
    if seal is not None and seal != bare.seal():
        raise _wrong(source, "its checksum differs, so it was edited or damaged")
    return bare


def _from_document(document: Any, source: Path) -> Parity:
    try:
        rows = np.array(
            [[np.nan if value is None else value for value in row] for row in document["rows"]], dtype=np.float64
        )
        with np.errstate(over="ignore"):
            return Parity(
                features=tuple(str(name) for name in document["features"]),
                rows=np.atleast_2d(rows.astype(np.float32)),
                lists=np.array(document["lists"], dtype=np.int64),
                expected=np.array(document["expected"], dtype=np.float64),
                facts=dict(document["facts"]),
            )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _wrong(source, f"it cannot be read ({type(error).__name__}: {error})") from None


def _from_parquet(source: Path) -> Parity:
    import polars as pl

    content = read_bytes(source, MAX_BYTES, _AGAIN)
    try:
        frame = pl.read_parquet(content)
        facts = read_json(pl.read_parquet_metadata(content).get(_FACTS, "{}"), f"The parity file {source}")
        names = [name for name in frame.columns if name.startswith("feature:")]
        return Parity(
            features=tuple(name.removeprefix("feature:") for name in names),
            rows=np.ascontiguousarray(frame.select(names).cast(pl.Float32).fill_null(float("nan")).to_numpy()),
            lists=frame[_LIST].cast(pl.Int64).to_numpy(),
            expected=frame[_EXPECTED].cast(pl.Float64).to_numpy(),
            facts=dict(facts),
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError, OSError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise _wrong(source, f"it cannot be read ({str(error)[:200]})") from None


def _wrong(source: Path, what: str) -> ModelFileError:
    return ModelFileError(f"{source} is not a sound parity file: {what}. Export the model again.")
