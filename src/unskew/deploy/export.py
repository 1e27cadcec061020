"""export: a model as the file its search engine loads, and a parity file that proves the scores are the same."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from unskew._files import atomic_path
from unskew.data.inputs import as_matrix
from unskew.deploy.feature_set import FeatureSet, as_feature_set
from unskew.deploy.forest import forest_of
from unskew.deploy.formats.base import LARGEST, Request, Written
from unskew.deploy.manifest import MANIFEST, digest
from unskew.deploy.model import Model, load
from unskew.deploy.outputs import check_outputs
from unskew.deploy.parity import DRAWN_LIST, PARITY_SUFFIXES, Parity
from unskew.deploy.parity_rows import draw_rows
from unskew.deploy.scorers import MODEL_FILES
from unskew.deploy.targets import TARGETS, FormatName, MissingRule
from unskew.errors import ExportError, OutputError, UnskewWarning, check_choice

FORMATS: Final = tuple(TARGETS)
# Real rows and drawn rows of a parity file at most, and the values of either: with many features there are fewer rows.
MAX_REAL_ROWS = 10_000
MAX_DRAWN_ROWS = 20_000
MAX_VALUES = 4_000_000


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
    feature_set: str | os.PathLike[str] | FeatureSet | Sequence[str] | None = None,
    log: Any = None,
    rows: Any = None,
    missing: MissingRule = "exact",
    parity: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Exported:
    """Write a model as `format`, with a parity file beside it.

    model : a Model, a fitted method, or the folder of a saved model.
    name : the model's name inside the engine.
    feature_set : the engine's own feature-set file, or its names in order, to check the model's against.
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
    features = as_feature_set(feature_set)
    request = Request(TARGETS[format], ready, name, features, missing)
    written = _with_suffix_note(request, Path(path), _write(request))
    proof = _parity(request, written, log if log is not None else rows, seed)
    contents, proof_path = _contents(Path(path), written), _parity_path(path, parity)
    check_outputs([*contents, proof_path], _files_read(model, feature_set))
    for place, content in contents.items():
        with atomic_path(place) as temporary:
            temporary.write_bytes(content)
    proof.save(proof_path)
    for note in written.notes if request.target.surprises else ():
        warnings.warn(note, UnskewWarning, stacklevel=2)
    target, *beside = contents
    return Exported(
        format=format,
        path=target,
        beside=tuple(beside),
        parity=proof_path,
        parity_rows=len(proof.rows),
        leaves_covered=proof.facts.get("leaves_covered"),
        compares=request.target.compares,
        notes=written.notes,
        upload=(request.target.load_command(target, None if features is None else features.name),),
    )


def _write(request: Request) -> Written:
    """By the format's own module, imported when asked for: some need an extra."""
    written: Written = import_module(f"unskew.deploy.formats.{request.target.module}").write(request)
    return written


def _with_suffix_note(request: Request, path: Path, written: Written) -> Written:
    wanted = request.target.suffix
    if not request.target.needs_suffix or path.suffix == wanted:
        return written
    note = f"{request.engine} reads only files that end in {wanted}: rename {path.name} before loading it."
    return replace(written, notes=(*written.notes, note))


def _contents(path: Path, written: Written) -> dict[Path, bytes]:
    """What goes where: the export itself first, then the files beside it."""
    beside = {path.with_suffix(suffix): content for suffix, content in written.beside.items()}
    return {path: written.content, **beside}


def _parity_path(path: str | os.PathLike[str], parity: str | os.PathLike[str] | None) -> Path:
    if parity is None:
        return Path(f"{os.fspath(path)}.parity.json")
    if Path(parity).suffix not in PARITY_SUFFIXES:
        raise OutputError(f"A parity file ends in {' or '.join(PARITY_SUFFIXES)}, but {parity} does not.")
    return Path(parity)


def _files_read(model: Any, feature_set: Any) -> list[Path]:
    """The files of this export that are read, and so must not be written over."""
    read = [Path(feature_set)] if isinstance(feature_set, (str, os.PathLike)) else []
    if isinstance(model, (str, os.PathLike)):
        read += [Path(model) / file for file in (MANIFEST, *MODEL_FILES.values())]
    return read


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


def _parity(request: Request, written: Written, real: Any, seed: int) -> Parity:
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
    expected = model.predict(rows)
    _refuse_overflow(request, expected)
    facts: dict[str, Any] = {
        "format": request.target.name,
        "model": request.name,
        "sha256": digest(written.content),
        "sha256_beside": [digest(content) for content in written.beside.values()],
        "compares": request.target.compares,
        "real_rows": len(rows) - len(drawn),
        "leaves_covered": covered,
    }
    if request.target.name == "ranklib" and request.feature_set is not None:
        facts["feature_order"] = list(request.feature_set.features)
    return Parity(model.feature_names, rows, lists, expected, facts)


def _refuse_overflow(request: Request, expected: np.ndarray) -> None:
    """Refuse scores that the engine's numbers cannot hold."""
    limit = LARGEST if "float32" in request.target.total else np.finfo(np.float64).max
    if not (np.abs(expected) <= limit).all():
        raise ExportError(
            f"Scores of this model go up to {np.abs(expected).max():.3g}, more than {request.engine} can hold "
            f"({limit:.3g}). Train on labels of an ordinary size."
        )


def _real_rows(model: Model, real: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to MAX_REAL_ROWS rows, whole queries where the data has them, drawn at random."""
    limit = _row_limit(model, MAX_REAL_ROWS)
    if real is None:
        return np.empty((0, model.n_features), np.float32), np.empty(0, np.int64)
    data = getattr(real, "data", real) if hasattr(real, "session_offsets") else real
    matrix = as_matrix(data, model.feature_names)
    query = np.asarray(data.query_of_row) if hasattr(data, "query_of_row") else np.arange(len(matrix)) // DRAWN_LIST
    order = np.random.default_rng(seed).permutation(int(query.max()) + 1 if len(query) else 0)
    size = np.bincount(query, minlength=len(order))[order] if len(query) else np.empty(0, np.int64)
    chosen = order[: max(1, int(np.searchsorted(np.cumsum(size), limit, side="right")))]
    mine = np.isin(query, chosen)
    return matrix[mine][:limit], np.unique(query[mine], return_inverse=True)[1][:limit]


def _drawn_rows(request: Request, written: Written, keep_missing: bool, seed: int) -> tuple[np.ndarray, float | None]:
    model = request.model
    if model.kind in ("lightgbm", "xgboost"):
        limit = _row_limit(model, MAX_DRAWN_ROWS)
        drawn = draw_rows(forest_of(model), missing=keep_missing, reached=written.reached, limit=limit, seed=seed)
        return drawn.rows, drawn.covered
    rng = np.random.default_rng(seed)
    count = _row_limit(model, 1000)
    width = rng.choice([0.0, 0.1, 1.0, 3.0, 30.0], size=(count, 1))
    rows = width * rng.normal(size=(count, model.n_features))
    if model.kind == "net":  # spread as the net's own inputs are
        from unskew.rankers.net_scorer import NetScorer

        scaling = NetScorer.from_bytes(next(iter(model.files.values())), model.manifest["info"]).scaling
        tamed = np.clip(scaling.mean + scaling.scale * rows, -40, 40)
        rows = np.copysign(scaling.unit * np.expm1(np.abs(tamed)), tamed)
    return rows.astype(np.float32), None


def _row_limit(model: Model, most: int) -> int:
    return max(1, min(most, MAX_VALUES // model.n_features))
