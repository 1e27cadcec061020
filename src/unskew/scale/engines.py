"""Where a fit happens: in memory, out of core, or on a cluster; by what fits, unless somebody says."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unskew._options import Engine
from unskew.data.columns import LogColumns
from unskew.errors import SettingError
from unskew.fitting import Fitted
from unskew.registry import make_method, resolve
from unskew.scale.memory import readable

# The referee and the full control function need the log in one place. A cluster fits the published correction with
# terms that are zero without a residual, which do no harm. (Trees of their own would keep LightGBM to one worker.)
CLUSTER_DEFAULT = "cfc"
SAFE = {"centred": True}


def choose_engine(
    engine: Engine,
    path: Path,
    columns: LogColumns,
    *,
    memory: int | None = None,
    feature_table: Path | None = None,
    say: Callable[[str], None],
) -> Engine:
    """The engine asked for, or for "auto" the one that fits the memory; says why it leaves memory."""
    if feature_table is not None and engine in ("stream", "dask"):
        raise SettingError(
            f"The engine '{engine}' reads logs with their features inline, but --features names a second table. "
            "Join the two tables first."
        )
    if engine != "auto":
        return engine
    if feature_table is not None:
        return "memory"
    from unskew.scale.stream_fit import fits_memory

    fits, need, budget = fits_memory(path, columns, memory=memory)
    if fits:
        return "memory"
    say(
        f"In memory this fit would take about {readable(need)}, more than the {readable(budget)} set aside for it: "
        "fitting out of core. (--memory sets the limit, --engine memory insists.)"
    )
    return "stream"


def fit_on_dask(
    path: Path,
    *,
    columns: LogColumns,
    validation: Any = None,
    scheduler: str | None = None,
    workers: int = 2,
    threads: int = 1,
    say: Callable[[str], None],
    method: str = "default",
    ranker: Any = None,
    seed: int = 0,
    progress: Callable[..., None] | None = None,
    **settings: Any,
) -> Fitted:
    """Fit a method by name on a cluster; without a scheduler's address on a local one, closed afterwards.

    validation : the path of a second log in parts, judged data in memory, or None to hold out queries of the log.
    """
    from unskew.scale.cluster import connect
    from unskew.scale.dask_fit import DaskLog

    if method == "default":
        method, settings = CLUSTER_DEFAULT, {**SAFE, **settings}
        say(
            "On a cluster the default is cfc with centred terms: the referee and the full control function need the "
            "log in one place (--engine stream)."
        )
    info = resolve(method)
    model = make_method(info.name, ranker=ranker, random_state=seed, **settings)
    if "progress" in model.get_params(deep=False):
        model.set_params(progress=progress)
    with connect(scheduler, workers=workers, threads=threads, say=say) as client:
        started = time.perf_counter()
        model.fit(DaskLog(Path(path).resolve(), client, columns, say), validation=validation)  # type: ignore[arg-type]
        seconds = time.perf_counter() - started
    chosen_on = "queries of the log, held out" if validation is None else "the validation data given"
    return Fitted(model, info, ranker or info.rankers[0], f"{chosen_on}, judged in the workers", seconds)
