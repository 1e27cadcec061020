"""Writing files so that a reader never meets a half-written one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unskew.errors import OutputError

SWAP_ATTEMPTS = 20


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `target`; rename it to `target` on success, remove it on any failure.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as path:
    ...     _ = path.write_text("done")
    >>> [p.name for p in folder.iterdir()]
    ['a.txt']
    """
    target = Path(target)
    if target.is_dir():
        raise OutputError(f"Cannot write {target}: a folder of that name is there. Name another file.")
    if target.exists() and not target.is_file():  # renaming over a device or a pipe would remove it
        raise OutputError(f"Cannot write {target}: it is not an ordinary file. Name another file.")
    temporary = _reserve(target)
    try:
        yield temporary
        temporary.replace(target)
    except OutputError:
        raise
    except OSError as error:
        if error.filename is None or Path(error.filename) in (temporary, target) or error.errno == 28:
            raise OutputError(f"Cannot write {target}: {error.strerror or error}.") from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary folder beside `target`; swap it in on success, remove it on any failure.

    What was there before stays whole until the new folder is complete, and is moved aside only for the swap.
    """
    target = check_folder(target)
    if target.exists() and not overwrite:
        raise OutputError(f"Cannot write {target}: it exists already. Name another folder, or remove it.")
    temporary = _reserve(target, folder=True)
    try:
        yield temporary
        _swap(temporary, target)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"Cannot write {target}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_folder(target: str | os.PathLike[str]) -> Path:
    """Where a folder will be written; an error if it cannot be. To be asked before long work as well as after it."""
    target = Path(target)
    if target.is_symlink():  # the link stays, what it points at is replaced
        target = target.resolve()
    if target.exists() and not target.is_dir():
        raise OutputError(f"Cannot write the folder {target}: a file of that name is there. Name another folder.")
    parent = next(folder for folder in target.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        reason = "you may not write there" if parent.is_dir() else "it is a file"
        raise OutputError(f"Cannot write to {parent}: {reason}. Name another folder.")
    return target


def _swap(new: Path, target: Path) -> None:
    """Put a folder in the place of another; of two runs that do so at once, the later one stays."""
    old = new.with_name(f"{new.name}.old")
    try:
        for attempt in range(SWAP_ATTEMPTS):
            with suppress(FileNotFoundError):
                target.rename(old)
            try:
                new.rename(target)
                return
            except OSError:
                # Another run was quicker, or the disk says no: then what was there goes back.
                if attempt == SWAP_ATTEMPTS - 1 or not target.exists():
                    if old.exists() and not target.exists():
                        old.rename(target)
                    raise
                shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _reserve(target: Path, *, folder: bool = False) -> Path:
    parent = target.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{target.name}."
        if folder:
            created = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        else:
            handle, name = tempfile.mkstemp(prefix=prefix, suffix=target.suffix, dir=parent)
            os.close(handle)
            created = Path(name)
        # mkstemp makes private files; what a user asked for follows the user's umask.
        umask = os.umask(0)
        os.umask(umask)
        created.chmod((0o777 if folder else 0o666) & ~umask)
        return created
    except OSError as error:
        raise OutputError(
            f"Cannot write to {parent}: {error.strerror or error}. Name a folder you may write to."
        ) from error
