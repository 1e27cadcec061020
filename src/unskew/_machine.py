"""What this machine lets us use."""

from __future__ import annotations

import os


def cores() -> int:
    """The cores this process may use.

    >>> cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def native_threads(n_jobs: int | None) -> int:
    """scikit-learn's n_jobs as LightGBM and XGBoost count threads: 0 means all.

    >>> native_threads(None), native_threads(-1), native_threads(2)
    (0, 0, 2)
    """
    return 0 if n_jobs is None or n_jobs < 1 else n_jobs
