"""A matrix that grows row by row, and can be reordered, without a second copy of itself in memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray

_STEP_BYTES = 2 << 20


class GrowingMatrix:
    """Rows appended to one float32 matrix; columns that a block of rows lacks are 0.

    The matrix lives in one allocation that the system extends in place, by a sixteenth at a time, so that at no time
    two copies of it exist.

    >>> matrix = GrowingMatrix()
    >>> matrix.append(np.ones((1, 1), np.float32))
    >>> matrix.append(np.ones((1, 2), np.float32))
    >>> matrix.finish()
    array([[1., 0.],
           [1., 1.]], dtype=float32)
    """

    def __init__(self) -> None:
        self._flat = np.zeros(0, dtype=np.float32)
        self.rows = 0
        self.width = 0

    def append(self, block: npt.NDArray[np.float32]) -> None:
        """Add the rows of `block` (rows, up to or beyond the present width)."""
        self.widen(block.shape[1])
        start, end = self.rows * self.width, (self.rows + len(block)) * self.width
        self._reserve(end)
        self._flat[start:end].reshape(len(block), self.width)[:, : block.shape[1]] = block
        self.rows += len(block)

    def widen(self, width: int) -> None:
        """Give every row `width` columns, the new ones 0; from the last row to the first, in place."""
        if width <= self.width:
            return
        old, self.width = self.width, width
        self._reserve(self.rows * width)
        step = max(_STEP_BYTES // (4 * width), 1)
        for end in range(self.rows, 0, -step):
            start = max(end - step, 0)
            moved = self._flat[start * old : end * old].reshape(end - start, old).copy()
            target = self._flat[start * width : end * width].reshape(end - start, width)
            target[:, :old] = moved
            target[:, old:] = 0

    def finish(self) -> npt.NDArray[np.float32]:
        """The matrix (rows, width); nothing can be appended afterwards."""
        flat, self._flat = self._flat, np.zeros(0, dtype=np.float32)
        flat.resize(self.rows * self.width, refcheck=False)
        return flat.reshape(self.rows, self.width)

    def _reserve(self, size: int) -> None:
        # resize fills what it adds with zeros, which makes it resident: small steps keep the surplus small.
        if size > self._flat.size:
            step = max(self._flat.size // 16, _STEP_BYTES // 4)
            self._flat.resize(max(size, self._flat.size + step), refcheck=False)


def reorder_rows(matrix: npt.NDArray[np.float32], order: IntArray) -> None:
    """Put the rows into the given order, in place, a few columns at a time.

    >>> matrix = np.arange(6, dtype=np.float32).reshape(3, 2)
    >>> reorder_rows(matrix, np.array([2, 0, 1]))
    >>> matrix
    array([[4., 5.],
           [0., 1.],
           [2., 3.]], dtype=float32)
    """
    step = max(matrix.shape[1] // 8, 1)
    for start in range(0, matrix.shape[1], step):
        columns = matrix[:, start : start + step]
        columns[:] = columns[order]
