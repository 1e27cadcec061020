"""Model: a fitted ranker with its control terms folded away. Plain features in, scores out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from unskew._files import atomic_folder, check_folder
from unskew.data.inputs import as_matrix
from unskew.deploy.manifest import MANIFEST, make_manifest, plain, read_files, read_manifest, write_manifest
from unskew.deploy.scorers import MODEL_FILES, Scorer, make_scorer
from unskew.errors import FeatureError, OutputError
from unskew.rankers.base import RankerState


@dataclass(frozen=True, eq=False)
class Model:
    """Scores plain features; larger is better. Safe to share between threads.

    kind : the ranker behind it ("lightgbm", "xgboost", "net", "linear").
    feature_names : the features it takes, in the order of an array's columns.
    files : the ranker's own open format, as it is saved.
    manifest : where it came from; manifest.json of a saved model.

    >>> state = RankerState("linear", {"model.json": b'{"coefficients": [1.0, 2.0], "intercept": 0}'}, ("a", "b"), 2)
    >>> Model.from_state(state).predict([[1, 1], [0, 3]]).tolist()
    [3.0, 6.0]
    """

    kind: str
    feature_names: tuple[str, ...]
    files: Mapping[str, bytes]
    manifest: Mapping[str, Any]
    _scorer: Scorer = field(repr=False)

    @classmethod
    def from_state(
        cls, state: RankerState, *, fixed: npt.ArrayLike | None = None, facts: Mapping[str, Any] | None = None
    ) -> Self:
        """Fold a fitted ranker's terms at `fixed` values (zero without them); `facts` go into the manifest."""
        from unskew.deploy.fold import fold

        folded, summary = fold(state, fixed)
        files = {MODEL_FILES[folded.kind]: next(iter(folded.files.values()))}
        known = {**(facts or {}), "info": folded.info, "folded": summary}
        manifest = make_manifest(kind=folded.kind, features=folded.columns, files=files, facts=known)
        return cls._read(manifest, files)

    @classmethod
    def from_method(cls, method: Any) -> Self:
        """The model of a fitted method (`unskew.method.Method`): what it learnt, over plain features."""
        from unskew.deploy.provenance import facts_of

        return cls.from_state(method.outcome_.state, fixed=method.outcome_.fixed, facts=facts_of(method))

    @classmethod
    def _read(cls, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> Self:
        kind, names = manifest["kind"], tuple(manifest["features"])
        info = manifest.get("info")
        scorer = make_scorer(kind, files[MODEL_FILES[kind]], len(names), info if isinstance(info, dict) else {})
        return cls(kind=kind, feature_names=names, files=files, manifest=manifest, _scorer=scorer)

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def takes_missing(self) -> bool:
        """Whether NaN is a value this model understands."""
        return self._scorer.takes_missing

    def predict(self, features: Any, *, first_row: int = 1) -> npt.NDArray[np.float64]:
        """(n,) scores: an array (n, d) in the order of `feature_names`, a frame or RankingData (matched by name).

        first_row : the number that a message gives to the first row, where these are a block of more.
        """
        matrix = as_matrix(features, self.feature_names)
        if matrix.shape[1] != self.n_features:  # a pandas frame gives every column of a name
            raise FeatureError(
                f"The model takes {self.n_features} features, but the frame has {matrix.shape[1]} columns of their "
                "names: some are there twice. Keep one of each."
            )
        if len(matrix) == 0:
            return np.empty(0)
        self._refuse_infinite(matrix, first_row)
        if not self.takes_missing:
            self._refuse_missing(matrix, first_row)
        return self._scorer.predict(matrix)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the model as a folder: manifest.json and the ranker's own open format. All of it, or nothing."""
        target = Path(path)
        check_target(target)
        with atomic_folder(target, overwrite=overwrite) as folder:
            for name, content in self.files.items():
                (folder / name).write_bytes(content)
            (folder / MANIFEST).write_bytes(write_manifest(self.manifest))

    def with_facts(self, **facts: Any) -> Self:
        """The same model, with more in its manifest about where it came from."""
        return replace(self, manifest={**self.manifest, **plain(facts)})

    def _refuse_infinite(self, matrix: npt.NDArray[np.float32], first_row: int) -> None:
        # Trees would take them for very large numbers, which no log they were fitted on may have.
        # The extremes tell without a mask the size of the matrix; NaN does not count.
        if np.isinf(np.fmin.reduce(matrix, axis=None)) or np.isinf(np.fmax.reduce(matrix, axis=None)):
            raise FeatureError(
                f"Features must be finite, but {self._first(np.isinf(matrix), 'infinite', first_row)}. "
                "Clip such values (float32 holds up to 3.4e38), or treat them as missing (NaN)."
            )

    def _refuse_missing(self, matrix: npt.NDArray[np.float32], first_row: int) -> None:
        missing = np.isnan(matrix)
        if missing.any():
            raise FeatureError(
                f"This model ({self.kind}) cannot take missing values, but "
                f"{self._first(missing, 'missing', first_row)}. Fill them in first."
            )

    def _first(self, wrong: npt.NDArray[np.bool_], kind: str, first_row: int) -> str:
        """The first feature with such values and its first such row, ready for a message."""
        columns = np.flatnonzero(wrong.any(axis=0))
        row = first_row + int(np.argmax(wrong[:, columns[0]]))
        more = len(columns) - 1
        others = f"; {more} more feature{'s are' if more > 1 else ' is'} so too" if more else ""
        return f"'{self.feature_names[columns[0]]}' is {kind} (first: row {row:,}){others}"

    def __reduce__(self) -> tuple[Any, ...]:
        # What the libraries hold cannot be copied; worker processes and deepcopy read the files anew.
        return type(self)._read, (self.manifest, self.files)

    def __repr__(self) -> str:
        return f"Model({self.kind}, {self.n_features} features)"


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a place where no model can be saved; asked before the training rather than after it."""
    target = Path(path)
    if target.is_dir():
        own = {MANIFEST, *MODEL_FILES.values()} if (target / MANIFEST).is_file() else set()
        # The folder is replaced as a whole, so whatever else lies in it would be lost.
        other = sorted(entry.name for entry in target.iterdir() if entry.name not in own)
        if other:
            raise OutputError(
                f"{target} is a folder with other things in it ({other[0]}"
                f"{' and more' if len(other) > 1 else ''}). Name another folder for the model, or move them."
            )
    check_folder(target)


def load(path: str | os.PathLike[str]) -> Model:
    """Load a saved model: `unskew.load("model/").predict(features)`.

    Nothing in the folder is executed, and only scoring code is imported. Raises ModelFileError, with what to do,
    if the folder is missing, cut short, edited or written by a newer version.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    return Model._read(manifest, read_files(folder, manifest))
