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
        have = set(self.features)
        lacking = [name for name in wanted if name not in have]
        if lacking:
            shown = ", ".join(f"'{name}'" for name in lacking[:5]) + (" …" if len(lacking) > 5 else "")
            raise ExportError(
                f"The model asks for {len(lacking)} features that {where} does not have: {shown}. "
                "Add them there, or rename the columns the model is trained on."
            )


def as_feature_set(given: Any) -> FeatureSet | None:
    """A feature set from a path, from names, or as it is."""
    if given is None or isinstance(given, FeatureSet):
        return given
    if isinstance(given, (str, os.PathLike)):
        return read_feature_set(given)
    return FeatureSet(_names(list(given) if isinstance(given, (list, tuple)) else given, "The feature set"))


def read_feature_set(path: str | os.PathLike[str]) -> FeatureSet:
    """Read a feature set of Elasticsearch or OpenSearch (as sent or as fetched), a Solr feature store, or names.

    >>> _names([{"name": "bm25"}, {"name": "pagerank"}], "The feature set")
    ('bm25', 'pagerank')
    """
    what = f"The feature set {os.fspath(path)}"
    remedy = "Name the engine's feature-set file, or leave it out."
    document = _only_hit(read_json(read_bytes(Path(path), MAX_BYTES, remedy), what), what)
    if isinstance(document, dict) and document.get("found") is False:
        raise ExportError(f"{what} is the engine's answer that there is no such feature set.")
    for key in ("_source", "featureset"):
        if isinstance(document, dict) and isinstance(document.get(key), dict):
            document = document[key]
    name = None
    if isinstance(document, dict):
        name = document.get("name") if isinstance(document.get("name"), str) else None
        # Solr keeps its stores on disk as a managed list.
        document = document.get("features", document.get("managedList"))
    return FeatureSet(_names(document, what), name)


def _only_hit(document: Any, what: str) -> Any:
    """The one set in an answer that lists all of an engine's sets; anything else as it is."""
    hits = document.get("hits") if isinstance(document, dict) else None
    if not isinstance(hits, dict) or not isinstance(hits.get("hits"), list):
        return document
    if len(hits["hits"]) != 1:
        raise ExportError(
            f"{what} lists {len(hits['hits'])} sets, and one is needed. Fetch it alone: GET _ltr/_featureset/NAME"
        )
    return hits["hits"][0]


def _names(entries: Any, what: str) -> tuple[str, ...]:
    if not isinstance(entries, list) or not entries:
        raise ExportError(
            f"{what} names no features. Expected a feature set, a Solr feature store, or a list of names: "
            '{"featureset": {"name": ..., "features": [{"name": ...}, ...]}}'
        )
    names: dict[str, None] = {}
    for number, entry in enumerate(entries, start=1):
        name = entry.get("name") if isinstance(entry, dict) else entry
        if not isinstance(name, str) or not name:
            raise ExportError(f"Feature {number} of {_lower(what)} has no name, but {str(entry)[:60]!r}.")
        if name in names:
            raise ExportError(f"{what} has the feature '{name[:60]}' twice. Give it the features of one set or store.")
        names[name] = None
    return tuple(names)


def _lower(what: str) -> str:
    return what[0].lower() + what[1:]
