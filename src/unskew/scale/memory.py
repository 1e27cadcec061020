"""How much memory there is, and how much a fit would take."""

from __future__ import annotations

import os
import re
import resource
import sys
from pathlib import Path

from unskew.errors import SettingError

# What a fit may take of the memory that is free, when nobody says.
SHARE = 0.6
# Bytes an impression besides its features: keys as numbers, lists, residuals, labels, scores and their temporaries
# (measured: docs/scale.md).
KEY_BYTES = 170
# Binned columns: the plain ones, and the plain ones joined with the control terms.
BINNED_COPIES = 3
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def parse_size(text: str) -> int:
    """Bytes from '6GB', '500 MB' or a plain number.

    >>> parse_size("1.5GB"), parse_size("2048")
    (1500000000, 2048)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if found is None or float(found[1]) == 0:
        raise SettingError(f"A size must look like 6GB or 500MB, but {text!r} was given.")
    return int(float(found[1]) * _UNITS[found[2]])


def free_memory() -> int:
    """Bytes that can be had without swapping; a container's limit counts."""
    free = _available()
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            free = min(free, int(Path(file).read_text()))
        except (OSError, ValueError):  # no such limit, or "max"
            continue
    return free


def _available() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def in_memory_bytes(rows: int, features: int) -> int:
    """What a fit of a log held in memory takes at its peak, about.

    >>> in_memory_bytes(1_000_000, 18)
    296000000
    """
    return rows * ((4 + BINNED_COPIES) * features + KEY_BYTES)


def peak_memory() -> int:
    """The most bytes this process ever held."""
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def readable(size: float) -> str:
    """Bytes for people.

    >>> readable(5_600_000_000), readable(12_000_000)
    ('5.6 GB', '12 MB')
    """
    unit, name = (1e9, "GB") if size >= 1e9 else (1e6, "MB")
    return f"{size / unit:.3g} {name}"
