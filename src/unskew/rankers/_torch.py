"""PyTorch, imported when first used: listing the methods or scoring a saved net must not need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unskew.errors import require_extra

if TYPE_CHECKING:
    import torch
else:

    class _Torch:
        """Stands in for the module and hands every attribute on."""

        def __getattr__(self, name: str) -> Any:
            return getattr(require_extra("torch", "neural", "A neural ranker"), name)

    torch = _Torch()

__all__ = ["torch"]
