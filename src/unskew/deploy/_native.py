"""LightGBM and XGBoost through their C interfaces, for scoring alone.

Importing either Python package takes seconds (they bring scikit-learn and pandas along); their shared libraries
load in milliseconds. A service that only scores wants the latter.
"""

from __future__ import annotations

import ctypes
import json
import os
import weakref
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unskew.errors import MissingExtraError, ModelFileError

Scores = npt.NDArray[np.float64]
FloatMatrix = npt.NDArray[np.float32]

# Rows a call: keeps the buffers of the libraries small and the counts within 32 bits.
BLOCK = 1 << 20
# Below this many rows a second thread costs more than it brings.
SMALL = 512

_FLOAT32, _RAW_SCORE = 0, 1


class _Process:
    """What this process may do.

    forked : in the child of a fork the libraries' threads are gone, but they would wait for them for ever.
    """

    forked = False


def _after_fork() -> None:
    _Process.forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class NativeLightGBM:
    """A LightGBM model that scores float32 rows: the raw sum of its trees. Safe to use from several threads.

    `text` must have passed `lightgbm_text.read_text`: the library itself trusts what it reads.
    """

    def __init__(self, text: bytes, n_features: int) -> None:
        self._library = _lightgbm()
        self.n_features = n_features
        handle, iterations = ctypes.c_void_p(), ctypes.c_int()
        self._check(self._library.LGBM_BoosterLoadModelFromString(text, ctypes.byref(iterations), ctypes.byref(handle)))
        self._handle = handle
        weakref.finalize(self, self._library.LGBM_BoosterFree, handle)

    def predict(self, matrix: FloatMatrix) -> Scores:
        out = np.empty(len(matrix))
        for start in range(0, len(matrix), BLOCK):
            self._predict(matrix[start : start + BLOCK], out[start : start + BLOCK])
        return out

    def _predict(self, rows: FloatMatrix, out: Scores) -> None:
        written = ctypes.c_int64()
        self._check(
            self._library.LGBM_BoosterPredictForMat(
                self._handle,
                rows.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_int(_FLOAT32),
                ctypes.c_int32(rows.shape[0]),
                ctypes.c_int32(self.n_features),
                ctypes.c_int(1),  # row after row
                ctypes.c_int(_RAW_SCORE),
                ctypes.c_int(0),  # from the first tree
                ctypes.c_int(-1),  # to the last
                b"verbosity=-1 num_threads=1" if len(rows) < SMALL or _Process.forked else b"verbosity=-1",
                ctypes.byref(written),
                out.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
            )
        )

    def _check(self, code: int) -> None:
        if code:
            raise ModelFileError(f"LightGBM refused the model: {self._library.LGBM_GetLastError().decode()}")


class NativeXGBoost:
    """An XGBoost model that scores float32 rows: the margin. Safe to use from several threads."""

    _config = json.dumps(
        {
            "type": 1,  # the margin
            "training": False,
            "iteration_begin": 0,
            "iteration_end": 0,
            "strict_shape": False,
            "cache_id": 0,
            "missing": float("nan"),
        }
    ).encode()

    def __init__(self, content: bytes, n_features: int) -> None:
        self._library = _xgboost()
        self.n_features = n_features
        handle = ctypes.c_void_p()
        self._check(self._library.XGBoosterCreate(None, ctypes.c_uint64(0), ctypes.byref(handle)))
        self._handle = handle
        weakref.finalize(self, self._library.XGBoosterFree, handle)
        self._spare_threads()
        self._check(self._library.XGBoosterLoadModelFromBuffer(handle, content, ctypes.c_uint64(len(content))))

    def predict(self, matrix: FloatMatrix) -> Scores:
        out = np.empty(len(matrix))
        for start in range(0, len(matrix), BLOCK):
            out[start : start + BLOCK] = self._predict(matrix[start : start + BLOCK])
        return out

    def _predict(self, rows: FloatMatrix) -> npt.NDArray[np.float32]:
        self._spare_threads()
        place = {
            "data": (rows.ctypes.data, True),
            "shape": rows.shape,
            "strides": None,
            "typestr": "<f4",
            "version": 3,
        }
        shape, dimensions = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64()
        result = ctypes.POINTER(ctypes.c_float)()
        self._check(
            self._library.XGBoosterPredictFromDense(
                self._handle,
                json.dumps(place).encode(),
                self._config,
                None,
                ctypes.byref(shape),
                ctypes.byref(dimensions),
                ctypes.byref(result),
            )
        )
        # The result lies in memory of this thread, until its next call.
        return np.ctypeslib.as_array(result, shape=(len(rows),)).copy()

    def _spare_threads(self) -> None:
        if _Process.forked:
            # Reading a model knows only this setting, which older versions do not have.
            self._library.XGBSetGlobalConfig(b'{"nthread": 1}')
            self._check(self._library.XGBoosterSetParam(self._handle, b"nthread", b"1"))

    def _check(self, code: int) -> None:
        if code:
            raise ModelFileError(f"XGBoost refused the model: {self._library.XGBGetLastError().decode()[:300]}")


@cache
def _lightgbm() -> ctypes.CDLL:
    library = _load("lightgbm", ["lib_lightgbm.so", "lib_lightgbm.dylib", "lib_lightgbm.dll"], "pip install lightgbm")
    library.LGBM_GetLastError.restype = ctypes.c_char_p
    return library


@cache
def _xgboost() -> ctypes.CDLL:
    names = ["libxgboost.so", "libxgboost.dylib", "xgboost.dll"]
    library = _load("xgboost", names, "pip install 'unskew[xgboost]'")
    library.XGBGetLastError.restype = ctypes.c_char_p
    return library


def _load(package: str, names: Sequence[str], install: str) -> ctypes.CDLL:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            f"Scoring this model needs the package '{package}', which is not installed.\nInstall it with: {install}"
        )
    home = Path(spec.origin).parent
    found = [home / folder / name for folder in ("lib", "bin", ".") for name in names]
    for path in found:
        if path.is_file():
            return ctypes.CDLL(str(path))
    raise MissingExtraError(f"The package '{package}' is installed without its library. Install it again: {install}")
