"""LightGBM's own text, as it is saved.

How it compares: float64, left iff value <= threshold, and a sum in float64; missing values as every split says.
"""

from __future__ import annotations

from unskew.deploy.formats.base import Request, Written
from unskew.errors import ExportError


def write(request: Request) -> Written:
    if request.model.kind != "lightgbm":
        raise ExportError(
            f"A model of kind '{request.model.kind}' is not LightGBM's. Export it to "
            f"{'treelite or onnx' if request.model.kind == 'xgboost' else 'onnx'}."
        )
    return Written(content=request.model.files["model.txt"])
