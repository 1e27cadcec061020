"""manifest.json: what a saved model is, where it came from, and the checksums of its files."""

from __future__ import annotations

import hashlib
import json
import math
import stat
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from unskew.deploy.lightgbm_text import MAX_BYTES
from unskew.deploy.scorers import MODEL_FILES
from unskew.deploy.strict_json import read_json
from unskew.errors import FeatureError, ModelFileError

FORMAT: Final = "unskew model"
# 1: checksums of the files. 2: a checksum of the manifest itself too.
FORMAT_VERSION: Final = 2
MANIFEST: Final = "manifest.json"
SEAL: Final = "manifest_sha256"
MAX_MANIFEST: Final = 1 << 26

_COPY = "Copy the whole model folder."
_LIBRARIES = {"lightgbm": "lightgbm", "xgboost": "xgboost-cpu", "net": "torch", "linear": "numpy"}
_REQUIRED: Final[Mapping[str, type]] = {
    "format": str,
    "format_version": int,
    "kind": str,
    "features": list,
    "files": dict,
}


def make_manifest(
    *, kind: str, features: Sequence[str], files: Mapping[str, bytes], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """The manifest of these files; `facts` (method, settings, data, candidates, …) must be JSON-able after `plain`."""
    _refuse_names(features)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "features": list(features),
        "files": {name: {"bytes": len(content), "sha256": digest(content)} for name, content in files.items()},
        "libraries": library_versions(kind),
        **plain(facts),
    }


def write_manifest(manifest: Mapping[str, Any]) -> bytes:
    """The content of manifest.json: what the manifest says, and the checksum of that."""
    document = {**plain(manifest), "format_version": FORMAT_VERSION}
    document[SEAL] = seal(document)
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def seal(manifest: Mapping[str, Any]) -> str:
    """The checksum of what a manifest says, however it is laid out; of its own entry nothing is counted."""
    said = {key: value for key, value in manifest.items() if key != SEAL}
    return digest(json.dumps(said, sort_keys=True, separators=(",", ":")).encode())


def read_manifest(folder: Path) -> dict[str, Any]:
    """The checked manifest of a saved model; says what to do if it cannot be used."""
    if not folder.is_dir():
        raise ModelFileError(
            f"There is no saved model at {folder}: a saved model is a folder with a {MANIFEST}. "
            "Write one with model.save(folder) or 'unskew fit LOG --out FOLDER'."
        )
    manifest = read_json(read_bytes(folder / MANIFEST, MAX_MANIFEST, _COPY), f"The manifest of {folder}")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{folder / MANIFEST} is not the manifest of a saved model.")
    for key, kind in _REQUIRED.items():
        if not isinstance(manifest.get(key), kind) or isinstance(manifest[key], bool):
            raise ModelFileError(f"The manifest of {folder} has no sound '{key}'. Save the model again.")
    if manifest["format_version"] < 1:
        raise ModelFileError(f"The manifest of {folder} has no sound 'format_version'. Save the model again.")
    if manifest["format_version"] > FORMAT_VERSION:
        raise ModelFileError(
            f"{folder} was written by a newer unskew (format {manifest['format_version']}, this one reads up to "
            f"{FORMAT_VERSION}). Upgrade with: pip install -U unskew"
        )
    features = manifest["features"]
    if not features or not all(isinstance(name, str) for name in features) or len(set(features)) != len(features):
        raise ModelFileError(f"The manifest of {folder} must name at least one feature, each once.")
    if manifest["kind"] not in MODEL_FILES:
        raise ModelFileError(f"The manifest of {folder} has the unknown kind {manifest['kind']!r}.")
    if list(manifest["files"]) != [MODEL_FILES[manifest["kind"]]]:
        raise ModelFileError(f"The manifest of {folder} should list the file '{MODEL_FILES[manifest['kind']]}' alone.")
    # Names in another order would go unnoticed and give other scores.
    if manifest.pop(SEAL, None) != seal(manifest) and manifest["format_version"] > 1:
        raise ModelFileError(
            f"{folder / MANIFEST} is not the manifest that was saved: its checksum differs. "
            "Save or copy the model again."
        )
    return manifest


def _refuse_names(features: Sequence[str]) -> None:
    if len(set(features)) != len(features):
        twice = next(name for i, name in enumerate(features) if name in features[:i])
        raise FeatureError(f"A model needs one name for each feature, but '{twice}' is there twice.")
    for name in features:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise FeatureError(f"The feature name {name!r} is no text that a file can hold. Rename it.") from None


def read_files(folder: Path, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The model's files, after checking that they are the ones that were saved."""
    files = {}
    for name, entry in manifest["files"].items():
        if not isinstance(entry, dict) or not isinstance(entry.get("bytes"), int):
            raise ModelFileError(f"The manifest of {folder} does not say how long '{name}' is. Save the model again.")
        content = read_bytes(folder / name, MAX_BYTES, _COPY)
        if len(content) != entry["bytes"]:
            raise ModelFileError(
                f"{folder / name} should have {entry['bytes']:,} bytes, but has {len(content):,}: "
                "it was cut short or edited. Save or copy the model again."
            )
        if digest(content) != entry.get("sha256"):
            raise ModelFileError(
                f"{folder / name} is not the file that was saved: its checksum differs. Save or copy the model again."
            )
        files[name] = content
    return files


def read_bytes(path: Path, limit: int, remedy: str = "Look at the path.") -> bytes:
    """The content of a regular file of at most `limit` bytes; `remedy` says what to do if there is none."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ModelFileError(f"{path} is not a file.")
        if found.st_size > limit:
            raise ModelFileError(f"{path} has {found.st_size:,} bytes, more than the {limit:,} that are read.")
        with path.open("rb") as file:
            return file.read(limit + 1)[:limit]
    except OSError as error:
        raise ModelFileError(f"Cannot read {path}: {error.strerror or error}. {remedy}") from error


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def library_versions(kind: str) -> dict[str, str]:
    """Versions of what made the model."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("unskew", "numpy", _LIBRARIES.get(kind, "numpy")):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def plain(value: Any) -> Any:
    """The value as JSON has it: arrays and numpy numbers unpacked, NaN and infinity as null, other objects by name."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "get_params") and not isinstance(value, type):
        return {"type": type(value).__name__, **plain(value.get_params(deep=False))}
    if is_dataclass(value) and not isinstance(value, type):
        shown = {item.name: getattr(value, item.name) for item in fields(value) if item.repr}
        return {"type": type(value).__name__, **plain(shown)}
    return getattr(value, "__name__", None) or f"{type(value).__name__}"
