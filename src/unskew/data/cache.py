"""Parsed text kept in a form that the next load maps into memory instead of parsing.

An entry is a folder: the arrays as .npy, the ids as Arrow, and a manifest. It belongs to one source file and one set of
reader settings. Every file of it, and the source itself, is *sealed* with its size, times, inode and SHA-256:

- times and inode as sealed, and the seal made well after the last change: nobody has written to the file since (the
  system sets the change time itself, it cannot be put back), so it is trusted without being read;
- otherwise the file is read and its SHA-256 decides. A source that differs is parsed again, and so is one whose entry
  is damaged, incomplete or of another version.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unskew._files import atomic_folder, atomic_path
from unskew.data.ranking import RankingData
from unskew.errors import OutputError, UnskewWarning

# Smaller sources are parsed faster than a cache is worth.
SMALLEST_SOURCE = 1 << 20
# File systems keep times to a few milliseconds at worst (two seconds on FAT): a younger change might not show.
_SETTLED_NS = 2_500_000_000
_FORMAT = 1
_MANIFEST = "manifest.json"
_ARRAYS = ("features", "offsets", "grades")
_IDS = ("query_ids", "item_ids")


@dataclass(frozen=True)
class Seal:
    """What a file was when its contents were last known: size, times, inode, SHA-256, and when that was."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    sha256: str
    checked_ns: int

    def verified(self, path: Path) -> Seal | None:
        """A seal that is good from now on if the file still has the sealed contents, else None."""
        if self.untouched(path):
            return self
        if path.stat().st_size != self.size:
            return None
        fresh = seal(path)
        return fresh if fresh.sha256 == self.sha256 else None

    def untouched(self, path: Path) -> bool:
        """Whether the file's times alone prove that."""
        if os.name == "nt":  # the change time is the creation time there, and proves nothing
            return False
        settled = self.checked_ns - self.ctime_ns > _SETTLED_NS
        return settled and _identity(path) == (self.size, self.mtime_ns, self.ctime_ns, self.inode, self.device)


def cache_folder() -> Path:
    """Where parsed files are kept: UNSKEW_CACHE, else `unskew` in the user's cache folder."""
    named = os.environ.get("UNSKEW_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "unskew"


def clear_cache() -> None:
    """Remove everything that was kept."""
    shutil.rmtree(cache_folder() / "parsed", ignore_errors=True)


def cached(source: Path, settings: Mapping[str, Any], build: Callable[[], RankingData]) -> RankingData:
    """What was parsed from `source` under `settings`, mapped from the cache; built and kept if it is not there."""
    if not source.is_file() or source.stat().st_size < SMALLEST_SOURCE:
        return build()
    settings = {"format": _FORMAT, **settings}
    entry = _entry(source, settings)
    data = _load(entry, source)
    if data is not None:
        return data
    before = seal(source)
    data = build()
    if _identity(source) == (before.size, before.mtime_ns, before.ctime_ns, before.inode, before.device):
        try:
            _store(entry, data, before)
        except OutputError as error:
            if _load(entry, source) is None:  # not merely another process that was quicker
                warnings.warn(f"What was parsed is not cached. {error}", UnskewWarning, stacklevel=3)
    return data


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's contents, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _identity(path: Path) -> tuple[int, int, int, int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev


def seal(path: Path) -> Seal:
    """The file as it is now. The times are taken first: what changes while it is read breaks the seal."""
    checked = time.time_ns()
    identity = _identity(path)
    return Seal(*identity, sha256=sha256_of(path), checked_ns=checked)


def _entry(source: Path, settings: Mapping[str, Any]) -> Path:
    """The folder of a source under settings: a changed source replaces its entry instead of adding one."""
    key = json.dumps([str(source.resolve()), settings], sort_keys=True)
    return cache_folder() / "parsed" / f"{source.name[:40]}-{hashlib.sha256(key.encode()).hexdigest()[:20]}"


def _store(entry: Path, data: RankingData, source: Seal) -> None:
    with atomic_folder(entry) as folder:
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(data, name), allow_pickle=False)
        for name in _IDS:
            if getattr(data, name) is not None:
                getattr(data, name).to_frame(name).write_ipc(folder / f"{name}.arrow", compression="uncompressed")
        manifest = {
            "source": asdict(source),
            "files": {path.name: asdict(seal(path)) for path in sorted(folder.iterdir())},
            "feature_names": data.feature_names,
            "max_grade": data.max_grade,
            "notes": data.notes,
        }
        _write_manifest(folder, manifest)


def _load(entry: Path, source: Path) -> RankingData | None:
    """The entry's data, or None if there is none that is whole and belongs to the source as it is now."""
    try:
        manifest = _read_manifest(entry)
        seals = {source: Seal(**manifest["source"])}
        seals |= {entry / name: Seal(**fields) for name, fields in manifest["files"].items()}
        verified = {path: old.verified(path) for path, old in seals.items()}
        if None in verified.values():
            return None
        data = _map(entry, manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pl.exceptions.PolarsError):
        return None
    if verified != seals:
        _reseal(entry, source, manifest, verified)
    return data


def _map(entry: Path, manifest: dict[str, Any]) -> RankingData:
    parts: dict[str, Any] = {
        name: np.asarray(np.load(entry / f"{name}.npy", mmap_mode="r", allow_pickle=False)) for name in _ARRAYS
    }
    for name in _IDS:
        if f"{name}.arrow" in manifest["files"]:
            parts[name] = pl.read_ipc(entry / f"{name}.arrow")[name].rename(name.removesuffix("s"))
    return RankingData._trusted(
        **parts,
        feature_names=tuple(manifest["feature_names"]),
        max_grade=manifest["max_grade"],
        notes=tuple(manifest["notes"]),
    )


def _reseal(entry: Path, source: Path, manifest: dict[str, Any], seals: dict[Path, Seal | None]) -> None:
    """Keep the new seals of what was just read and found unchanged, so that the next load need not read it."""
    if not all(new and new.untouched(path) for path, new in seals.items()):
        return  # too young to be trusted by its times
    fields = {path: asdict(new) for path, new in seals.items() if new}
    manifest["source"] = fields.pop(source)
    manifest["files"] = {path.name: new for path, new in fields.items()}
    try:
        _write_manifest(entry, manifest)
    except OutputError:
        return  # a cache that cannot be written still serves


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    body = json.dumps(manifest)
    with atomic_path(folder / _MANIFEST) as path:
        path.write_text(json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), "body": body}))


def _read_manifest(entry: Path) -> dict[str, Any]:
    document = json.loads((entry / _MANIFEST).read_text())
    if hashlib.sha256(document["body"].encode()).hexdigest() != document["sha256"]:
        raise ValueError("The manifest was changed.")
    manifest: dict[str, Any] = json.loads(document["body"])
    return manifest
