"""One run at a time on a folder."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unskew.errors import OutputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = "run.lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, or say which process does.

    The operating system holds it for us and lets go when the process ends, however it ends, so that the lock of a
    killed run never has to be removed. The file says who has it.
    """
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise OutputError(f"Cannot write to {folder}: {error.strerror or error}. Name another folder.") from error
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OutputError(
                    f"{folder} is in use: {_holder(path)}\nWait for it, or name another folder."
                ) from None
        text = json.dumps({"pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")})
        os.truncate(handle, 0)
        os.pwrite(handle, text.encode(), 0)
        yield
        os.truncate(handle, 0)
    finally:
        os.close(handle)


def _holder(path: Path) -> str:
    try:
        found = json.loads(path.read_text())
        return f"process {found['pid']} has been running on it since {found['since']}."
    except (OSError, ValueError, KeyError, TypeError):
        return "another process is running on it."
