"""One small log for every engine: planted features, a production ranking with shocks, clicks that decay.

A cluster has the bins of memory. What is left to differ is how LightGBM's min_rows and XGBoost's weights of lists act
in several workers: the test NDCG of either was at most 0.0025 from memory. The best transformation leads by 0.012. The
number of trees is fixed: choosing between 30 and 60 on 120 queries would add 0.006.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unskew.rankers.lambdamart import LambdaMART

FEATURES = 3


def make_scale_log(queries: int = 240, items: int = 8, sessions: int = 6, seed: int = 0) -> pl.DataFrame:
    """A log of text-free ids; every session shows all items of its query, ordered by a noisy production score."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(queries, items, FEATURES)).astype(np.float32)
    grade = np.clip(np.round(1.2 + x[..., 0] + 0.7 * x[..., 1] + 0.3 * rng.normal(size=(queries, items))), 0, 4)
    score = (0.4 * x[..., 0] + x[..., 2])[:, None] + 0.8 * rng.normal(size=(queries, sessions, items))
    position = (-score).argsort(axis=2).argsort(axis=2) + 1
    chance = grade[:, None] / 4 / np.sqrt(position)
    click = rng.random(position.shape) < chance
    query, session, item = np.meshgrid(np.arange(queries), np.arange(sessions), np.arange(items), indexing="ij")
    shape = (queries, sessions, items)
    columns = {
        "query_id": query,
        "session_id": query * sessions + session,
        "item_id": item,
        "position": position,
        "click": click.astype(np.int8),
        "relevance": np.broadcast_to(grade[:, None].astype(np.int8), shape),
    }
    features = {f"f{i}": np.broadcast_to(x[:, None, :, i], shape) for i in range(FEATURES)}
    return pl.DataFrame({name: values.ravel() for name, values in (columns | features).items()})


@pytest.fixture(scope="session")
def scale_log() -> pl.DataFrame:
    return make_scale_log(600)


@pytest.fixture(scope="session")
def one_session_log() -> pl.DataFrame:
    return make_scale_log(800, sessions=1, seed=3)


@pytest.fixture(scope="session")
def scale_test_log() -> pl.DataFrame:
    return make_scale_log(1000, seed=1).with_columns(pl.col("query_id") + 100_000, pl.col("session_id") + 1_000_000)


@pytest.fixture(scope="session")
def scale_ranker() -> LambdaMART:
    return LambdaMART(preset="smoke", trees=60, learning_rate=0.1, min_rows=100, l2=5.0, n_jobs=1)


@pytest.fixture
def doomed_cluster() -> Iterator[Any]:
    """Two workers for one test that kills some; nothing is asked of the cluster afterwards, and nobody else uses it."""
    pytest.importorskip("distributed")
    from unskew.scale.cluster import connect

    with connect(workers=2, dashboard=False) as client:
        yield client


@pytest.fixture
def deadly(tmp_path: Path) -> Callable[[Any, str, str, str], Path]:
    """Make a function of a module deadly in every worker: the first worker that comes to the deed kills itself there.

    The deed happens inside the task, so no clock decides whether it hits. It is done once on the whole cluster: who
    creates the file that is returned dies, and the file says who it was.
    """

    def arm(client: Any, module: str, name: str, how: str) -> Path:
        grave = tmp_path / f"grave of {name}"

        # Defined here, so that it travels by value: workers do not know this file.
        def poison() -> None:
            import importlib
            import os
            import signal

            from distributed import get_worker

            home = importlib.import_module(module)
            sound = getattr(home, name)
            calls: list[int] = []

            def die() -> None:
                try:
                    with grave.open("x") as file:
                        file.write(get_worker().address)
                        file.flush()
                        os.fsync(file.fileno())
                except FileExistsError:
                    return
                os.kill(os.getpid(), signal.SIGKILL)

            def at_once(*args: Any, **more: Any) -> Any:
                die()
                return sound(*args, **more)

            def in_the_second_training(*args: Any, **more: Any) -> Any:
                calls.append(1)

                def after_a_tree(number: int) -> None:
                    if len(calls) == 2 and number == 3:
                        die()

                if module == "lightgbm":
                    more["callbacks"] = [lambda env: after_a_tree(env.iteration)]
                else:

                    class AfterATree(home.callback.TrainingCallback):
                        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                            after_a_tree(epoch)
                            return False

                    more["callbacks"] = [AfterATree()]
                return sound(*args, **more)

            setattr(home, name, {"at once": at_once, "second training": in_the_second_training}[how])

        client.run(poison)
        return grave

    return arm
