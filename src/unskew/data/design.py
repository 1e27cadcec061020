"""DesignMatrix: what a ranker is trained on, built block by block and never held twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray

FloatMatrix = npt.NDArray[np.float32]


class Terms(Protocol):
    """Extra columns computed from the plain ones, for any entries of a design."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def fill(self, out: FloatMatrix, x: FloatMatrix, row: IntArray, entry: IntArray) -> None:
        """Write the columns of some entries: x their plain features, row their rows, entry their numbers."""
        ...


@dataclass(frozen=True, eq=False)
class DesignMatrix:
    """Plain features gathered by row, followed by extra terms (control terms, a Heckman ratio).

    features : (rows, d) float32, stored once and shared.
    row : (n,) the row behind every entry, or None for all rows in order.
    terms : the extra columns, or None.

    >>> design = DesignMatrix(np.eye(2, dtype=np.float32), row=np.array([1, 1, 0]))
    >>> design.shape, design[1:].tolist()
    ((3, 2), [[0.0, 1.0], [1.0, 0.0]])
    """

    features: FloatMatrix
    row: IntArray | None = None
    terms: Terms | None = None

    @property
    def n_plain(self) -> int:
        return self.features.shape[1]

    @property
    def n_terms(self) -> int:
        return 0 if self.terms is None else len(self.terms.names)

    @property
    def shape(self) -> tuple[int, int]:
        entries = self.features.shape[0] if self.row is None else len(self.row)
        return entries, self.n_plain + self.n_terms

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, wanted: slice | IntArray) -> FloatMatrix:
        """The entries as a float32 matrix: plain columns first, terms after them."""
        if self.terms is None:
            return self.plain(wanted)
        out = np.empty((self._count(wanted), self.shape[1]), dtype=np.float32)
        out[:, : self.n_plain] = self.plain(wanted)
        entry = np.arange(len(self))[wanted]
        row = entry if self.row is None else self.row[wanted]
        self.terms.fill(out[:, self.n_plain :], out[:, : self.n_plain], row, entry)
        return out

    def plain(self, wanted: slice | IntArray) -> FloatMatrix:
        """The plain columns of some entries."""
        return self.features[wanted] if self.row is None else self.features[self.row[wanted]]

    def extra(self, wanted: slice | IntArray) -> FloatMatrix:
        """The terms of some entries."""
        out = np.empty((self._count(wanted), self.n_terms), dtype=np.float32)
        if self.terms is not None:
            entry = np.arange(len(self))[wanted]
            row = entry if self.row is None else self.row[wanted]
            self.terms.fill(out, self.plain(wanted), row, entry)
        return out

    def _count(self, wanted: slice | IntArray) -> int:
        return len(range(*wanted.indices(len(self)))) if isinstance(wanted, slice) else len(wanted)


@dataclass(frozen=True)
class ZeroTerms:
    """Terms that are all zero: what a corrected model sees at inference (Φ = 0)."""

    names: tuple[str, ...]

    def fill(self, out: FloatMatrix, x: FloatMatrix, row: IntArray, entry: IntArray) -> None:
        out[:] = 0


@dataclass(frozen=True)
class FixedTerms:
    """Terms with one value for all entries, each its own."""

    names: tuple[str, ...]
    values: npt.NDArray[np.floating]

    def fill(self, out: FloatMatrix, x: FloatMatrix, row: IntArray, entry: IntArray) -> None:
        out[:] = self.values
