"""Where an export may be written: checked before the work, so that nothing is half-written or written over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from unskew._files import check_folder
from unskew.errors import OutputError


def check_outputs(outputs: Sequence[Path], inputs: Iterable[Path]) -> None:
    """Refuse files that cannot be written, that are one and the same, or that the work itself reads."""
    read = {path.resolve() for path in inputs}
    met: dict[Path, Path] = {}
    for path in outputs:
        if path.is_dir():
            raise OutputError(f"Cannot write {path}: a folder of that name is there. Name a file.")
        if path.exists() and not path.is_file():
            raise OutputError(f"Cannot write {path}: it is not an ordinary file. Name another file.")
        check_folder(path.parent)
        place = path.resolve()
        if place in read:
            raise OutputError(f"Cannot write {path}: it is read for this export and would be lost. Name another file.")
        if place in met:
            raise OutputError(f"Two files of this export would both be {path}. Name another one for the parity file.")
        met[place] = path
