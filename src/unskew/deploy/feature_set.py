"""The features an engine has: read from its own feature-set or feature-store file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.deploy.manifest import read_bytes
from unskew.deploy.strict_json import read_json
from unskew.errors import ExportError

MAX_BYTES = 1 << 26


@dataclass(frozen=True)
class FeatureSet:
    """Names of an engine's features, in its order, and the set's own name if the file has one."""

    features: tuple[str, ...]
    name: str | None = None

    def check(self, wanted: Sequence[str], where: str) -> None:
        """Refuse a model that asks for features the engine does not have."""
        lacking = [name for name in wanted if name not in set(self.features)]
        if lacking:
            shown = ", ".join(f"'{name}'" for name in lacking[:5]) + (" …" if len(lacking) > 5 else "")
            raise ExportError(
                f"The model asks for {len(lacking)} features that {where} does not have: {shown}. "
                "Add them there, or rename the columns the model is trained on."
            )


def read_feature_set(path: str | os.PathLike[str]) -> FeatureSet:
    """Read a feature set of Elasticsearch or OpenSearch (as sent or as fetched), a Solr feature store, or names.

    >>> _names([{"name": "bm25"}, {"name": "pagerank"}])
    ('bm25', 'pagerank')
    """
    document = read_json(
        read_bytes(Path(path), MAX_BYTES, "Name the engine's feature-set file, or leave it out."),
        f"The feature set {path}",
    )
    name = None
    for key in ("_source", "featureset"):
        if isinstance(document, dict) and isinstance(document.get(key), dict):
            document = document[key]
    if isinstance(document, dict):
        name = document.get("name") if isinstance(document.get("name"), str) else None
        document = document.get("features")
    names = _names(document)
    if not names or len(set(names)) != len(names):
        raise ExportError(
            f"{path} names no features, or one twice. Expected a feature set "
            '({"featureset": {"name": ..., "features": [{"name": ...}, ...]}}), a Solr feature store, or names.'
        )
    return FeatureSet(names, name)


def _names(entries: Any) -> tuple[str, ...]:
    if not isinstance(entries, list):
        return ()
    names = [entry.get("name") if isinstance(entry, dict) else entry for entry in entries]
    sound = [name for name in names if isinstance(name, str) and name]
    return tuple(sound) if len(sound) == len(names) else ()
