"""export: a model as the file its search engine loads, and a parity file that proves the scores are the same."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from unskew._files import atomic_path
from unskew.data.inputs import as_matrix
from unskew.deploy.feature_set import FeatureSet, read_feature_set
from unskew.deploy.forest import forest_of
from unskew.deploy.formats.base import Format, FormatName, MissingRule, Request, Written
from unskew.deploy.manifest import digest
from unskew.deploy.model import Model, load
from unskew.deploy.parity import DRAWN_LIST, Parity
from unskew.deploy.parity_rows import draw_rows
from unskew.errors import ExportError, UnskewWarning, check_choice

# format → where it lives; imported when asked for, since some need an extra
FORMATS: Final[dict[str, str]] = {
    "lightgbm": "lightgbm_file:LIGHTGBM",
    "elasticsearch": "elasticsearch:ELASTICSEARCH",
    "opensearch": "elasticsearch:OPENSEARCH",
    "solr": "solr:SOLR",
    "ranklib": "ranklib:RANKLIB",
    "vespa": "vespa:VESPA",
    "onnx": "onnx_file:ONNX",
    "treelite": "treelite_file:TREELITE",
}
# Real rows that go into a parity file at most.
MAX_REAL_ROWS = 10_000


@dataclass(frozen=True)
class Exported:
    """What was written: the file, the files beside it, the parity file, notes and the commands to copy."""

    format: FormatName
    path: Path
    beside: tuple[Path, ...]
    parity: Path
    parity_rows: int
    leaves_covered: float | None
    compares: str
    notes: tuple[str, ...]
    upload: tuple[str, ...]


def export(
    model: Any,
    format: FormatName,
    path: str | os.PathLike[str],
    *,
    name: str = "unskew",
    feature_set: str | os.PathLike[str] | FeatureSet | None = None,
    log: Any = None,
    rows: Any = None,
    missing: MissingRule = "exact",
    parity: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Exported:
    """Write a model as `format`, with a parity file beside it.

    model : a Model, a fitted method, or the folder of a saved model.
    name : the model's name inside the engine.
    feature_set : the engine's own feature-set file, to check the names against.
    log, rows : a ClickLog, RankingData, frame or array whose rows go into the parity file, beside the drawn ones.
    missing : "exact" refuses an engine that cannot follow this model's missing values; "zero" takes them for 0.
    parity : where the parity file goes (.json or .parquet); without it, beside the export.

    >>> import tempfile
    >>> from unskew.rankers.base import RankerState
    >>> state = RankerState("linear", {"model.json": b'{"coefficients": [1.0], "intercept": 0}'}, ("a",), 1)
    >>> done = export(Model.from_state(state), "solr", tempfile.mkdtemp() + "/model.json", name="mine")
    >>> done.parity.name
    'model.json.parity.json'
    """
    check_choice("format", format, get_args(FormatName))
    check_choice("missing", missing, get_args(MissingRule))
    ready = _as_model(model)
    if not name or not name.isprintable():
        raise ExportError(f"A model needs a printable name inside the engine, but got {name!r}.")
    features = read_feature_set(feature_set) if isinstance(feature_set, (str, os.PathLike)) else feature_set
    request = Request(ready, name, features, missing)
    writer = find_format(format)
    written = writer.write(request)
    target = Path(path)
    proof = _parity(request, writer, written, log if log is not None else rows, seed)
    proof_path = Path(parity) if parity is not None else target.with_name(target.name + ".parity.json")
    beside = _write_all(target, written)
    proof.save(proof_path)
    for note in written.notes if _is_warning(request, format) else ():
        warnings.warn(note, UnskewWarning, stacklevel=2)
    return Exported(
        format=format,
        path=target,
        beside=beside,
        parity=proof_path,
        parity_rows=len(proof.rows),
        leaves_covered=proof.facts.get("leaves_covered"),
        compares=writer.compares,
        notes=written.notes,
        upload=tuple(command.replace("{file}", str(target)) for command in written.upload),
    )


def find_format(name: str) -> Format:
    """The format of that name; importing it may need an extra."""
    module, constant = FORMATS[name].split(":")
    return getattr(import_module(f"unskew.deploy.formats.{module}"), constant)


def _as_model(model: Any) -> Model:
    if isinstance(model, Model):
        return model
    if isinstance(model, (str, os.PathLike)):
        return load(model)
    if hasattr(model, "to_model"):
        return model.to_model()
    raise ExportError(
        f"export takes a Model, a fitted method or the folder of a saved model, but got {type(model).__name__}."
    )


def _write_all(target: Path, written: Written) -> tuple[Path, ...]:
    beside = []
    for suffix, content in written.beside.items():
        place = target.with_suffix(suffix)
        with atomic_path(place) as temporary:
            temporary.write_bytes(content)
        beside.append(place)
    with atomic_path(target) as temporary:
        temporary.write_bytes(written.content)
    return tuple(beside)


def _parity(request: Request, writer: Format, written: Written, real: Any, seed: int) -> Parity:
    """Real rows, if given, then drawn ones, with the model's scores."""
    model = request.model
    keep_missing = model.takes_missing and request.missing == "exact"
    rows, lists = _real_rows(model, real, seed)
    drawn, covered = _drawn_rows(request, written, keep_missing, seed)
    first = int(lists.max()) + 1 if len(lists) else 0
    lists = np.concatenate([lists, first + np.arange(len(drawn)) // DRAWN_LIST])
    rows = np.ascontiguousarray(np.concatenate([rows, drawn]))
    if not keep_missing:
        rows = np.where(np.isnan(rows), np.float32(0), rows)
    facts: dict[str, Any] = {
        "format": writer.name,
        "model": request.name,
        "sha256": digest(written.content),
        "compares": writer.compares,
        "real_rows": len(rows) - len(drawn),
        "leaves_covered": covered,
    }
    if writer.name == "ranklib" and request.feature_set is not None:
        facts["feature_order"] = list(request.feature_set.features)
    return Parity(model.feature_names, rows, lists, model.predict(rows), facts)


def _real_rows(model: Model, real: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to MAX_REAL_ROWS rows, whole queries where the data has them, drawn at random."""
    if real is None:
        return np.empty((0, model.n_features), np.float32), np.empty(0, np.int64)
    data = getattr(real, "data", real) if hasattr(real, "session_offsets") else real
    matrix = as_matrix(data, model.feature_names)
    query = np.asarray(data.query_of_row) if hasattr(data, "query_of_row") else np.arange(len(matrix)) // DRAWN_LIST
    order = np.random.default_rng(seed).permutation(int(query.max()) + 1 if len(query) else 0)
    size = np.bincount(query, minlength=len(order))[order] if len(query) else np.empty(0, np.int64)
    chosen = order[: max(1, int(np.searchsorted(np.cumsum(size), MAX_REAL_ROWS, side="right")))]
    mine = np.isin(query, chosen)
    return matrix[mine][:MAX_REAL_ROWS], np.unique(query[mine], return_inverse=True)[1][:MAX_REAL_ROWS]


def _drawn_rows(request: Request, written: Written, keep_missing: bool, seed: int) -> tuple[np.ndarray, float | None]:
    model = request.model
    if model.kind in ("lightgbm", "xgboost"):
        drawn = draw_rows(forest_of(model), missing=keep_missing, reached=written.reached, seed=seed)
        return drawn.rows, drawn.covered
    rng = np.random.default_rng(seed)
    width = rng.choice([0.0, 0.1, 1.0, 3.0, 30.0], size=(1000, 1))
    rows = width * rng.normal(size=(1000, model.n_features))
    if model.kind == "net":  # spread as the net's own inputs are
        from unskew.rankers.net_scorer import NetScorer

        scaling = NetScorer.from_bytes(next(iter(model.files.values())), model.manifest["info"]).scaling
        tamed = np.clip(scaling.mean + scaling.scale * rows, -40, 40)
        rows = np.copysign(scaling.unit * np.expm1(np.abs(tamed)), tamed)
    return rows.astype(np.float32), None


def _is_warning(request: Request, format: str) -> bool:
    """Notes about missing values and thresholds are warnings in engines that could surprise; others only inform."""
    return format in ("elasticsearch", "opensearch", "solr")
