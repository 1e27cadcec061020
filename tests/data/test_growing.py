"""A matrix that grows in place: equal to stacking padded blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.data import _growing
from unskew.data._growing import GrowingMatrix, reorder_rows


@settings(max_examples=60, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), min_size=1, max_size=8), step=st.integers(4, 99)
)
def test_equals_stacking(shapes: list[tuple[int, int]], step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_growing, "_STEP_BYTES", step)
        rng = np.random.default_rng(0)
        blocks = [rng.random(shape).astype(np.float32) for shape in shapes]
        matrix = GrowingMatrix()
        for block in blocks:
            matrix.append(block)
        width = max(block.shape[1] for block in blocks)
        expected = np.concatenate([np.pad(block, ((0, 0), (0, width - block.shape[1]))) for block in blocks])
        np.testing.assert_array_equal(matrix.finish(), expected)


@pytest.mark.parametrize("width", [1, 3, 8, 40])
def test_reorder(width: int) -> None:
    rng = np.random.default_rng(width)
    matrix = rng.random((50, width)).astype(np.float32)
    order = rng.permutation(50)
    expected = matrix[order]
    reorder_rows(matrix, order)
    np.testing.assert_array_equal(matrix, expected)
