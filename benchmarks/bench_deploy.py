"""Deployment: folded against unfolded, folding against LightGBM's own load and save, a service's start, parity."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lightgbm as lgb
import numpy as np

from benchmarks.harness import Row, faster, measure_both
from unskew.control.estimator import ControlFunctionRanker
from unskew.deploy.export import FORMATS, export
from unskew.deploy.fold import fold_lightgbm
from unskew.deploy.model import Model, load
from unskew.deploy.parity import Parity, read_parity
from unskew.deploy.verify.check import verify_export
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection

TOPIC = "deploy"
FASTER, SMALLER, FOLD_RATIO, FOLD_SECONDS, START = 1.5, 0.7, 3.0, 2.0, 0.5


def run(quick: bool) -> list[Row]:
    """Rows of the table; quick shrinks the input."""
    method = _trained(quick)
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_folded(method, 10_000 if quick else 100_000),
            *_folding(50 if quick else 500),
            *_service(method.to_model(), Path(folder)),
            *_parity(method.to_model(), Path(folder), 5_000 if quick else 100_000),
        ]


def _trained(quick: bool) -> ControlFunctionRanker:
    """The paper's method with the default preset on data of MQ2007's width (46 features)."""
    data = synthetic_collection(150 if quick else 1_000, features=46)
    log = simulate(data, eta=1.0, passes=4)
    preset = "smoke" if quick else "default"
    return ControlFunctionRanker(preset=preset, transformation="minmax").fit(log, validation=data)


def _folded(method: ControlFunctionRanker, n: int) -> list[Row]:
    state = method.outcome_.state
    whole_text, folded_text = state.files["model.txt"], method.to_model().files["model.txt"]
    whole, folded = (lgb.Booster(model_str=text.decode()) for text in (whole_text, folded_text))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, state.n_plain)).astype(np.float32)
    wide = np.hstack([rows, np.zeros((n, len(state.columns) - state.n_plain), dtype=np.float32)])
    assert np.array_equal(folded.predict(rows), whole.predict(wide))
    ours, peer = measure_both(lambda: folded.predict(rows), lambda: whole.predict(wide))
    size = len(folded_text) / len(whole_text)
    splits = method.to_model().manifest["folded"]
    return [
        faster(
            TOPIC,
            f"predict, {n:,} rows × {state.n_plain} features",
            ours,
            "unfolded",
            peer,
            at_least=FASTER,
            note=f"{splits['splits']:,} splits folded to {splits['folded_splits']:,}; the same scores to the last bit",
        ),
        Row(
            TOPIC,
            "size of the model file",
            len(folded_text),
            "unfolded",
            len(whole_text),
            "bytes",
            size,
            f"≤ {SMALLER:g} ×",
            size <= SMALLER,
        ),
    ]


def big_model(trees: int) -> str:
    """A LightGBM text of that many trees of 255 leaves: ten trained ones, over and over."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 40))
    label = (x[:, :20] * x[:, 20:]).sum(axis=1) + rng.normal(size=len(x))
    params = {"objective": "regression", "num_leaves": 255, "min_data_in_leaf": 2, "verbose": -1}
    text = lgb.train(params, lgb.Dataset(x, label=label), 10).model_to_string()
    head, *blocks = text.split("\nTree=")
    blocks[-1], tail = blocks[-1].split("end of trees")
    bodies = [block.split("\n", 1)[1] for block in blocks]
    written = [f"Tree={i}\n{bodies[i % len(bodies)].rstrip()}\n\n\n" for i in range(trees)]
    sizes = "tree_sizes=" + " ".join(str(len(block)) for block in written)
    lines = [sizes if line.startswith("tree_sizes=") else line for line in head.splitlines()]
    return "\n".join(lines) + "\n\n" + "".join(written) + "end of trees" + tail


def _folding(trees: int) -> list[Row]:
    text = big_model(trees)
    fixed = dict.fromkeys(range(20, 40), 0.0)

    def load_and_save() -> None:
        lgb.Booster(model_str=text).model_to_string()

    ours, peer = measure_both(lambda: fold_lightgbm(text, fixed), load_and_save)
    what = f"fold {trees} trees × 255 leaves"
    ratio = ours / peer
    start = time.process_time()
    fold_lightgbm(text, fixed)
    busy = time.process_time() - start
    return [
        Row(TOPIC, what, ours, "load + save", peer, "s", ratio, f"≤ {FOLD_RATIO:g} ×", ratio <= FOLD_RATIO),
        Row(
            TOPIC,
            what,
            busy,
            unit="s",
            target=f"≤ {FOLD_SECONDS:g} s",
            ok=busy <= FOLD_SECONDS,
            note="processor time; one thread",
        ),
    ]


def _service(model: Model, folder: Path) -> list[Row]:
    """A fresh process: import, load, first score. Then the latency of one query's candidates, here."""
    model.save(folder / "model")
    script = (
        "import time; start = time.perf_counter()\n"
        "import unskew, numpy\n"
        f"model = unskew.load({str(folder / 'model')!r})\n"
        f"model.predict(numpy.zeros((1, {model.n_features})))\n"
        "print(time.perf_counter() - start, time.process_time())"
    )

    def start() -> tuple[float, float]:
        answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        clock, processor = answer.stdout.split()
        return float(processor), float(clock)

    seconds, clock = min(start() for _ in range(5))
    loaded = load(folder / "model")
    query = np.random.default_rng(0).normal(size=(100, model.n_features)).astype(np.float32)
    booster = lgb.Booster(model_str=model.files["model.txt"].decode())
    ours, peer = measure_both(
        lambda: [loaded.predict(query) for _ in range(200)],
        lambda: [booster.predict(query, num_threads=1) for _ in range(200)],
    )
    return [
        Row(
            TOPIC,
            "start, import, load, first score",
            seconds,
            unit="s",
            target=f"≤ {START:g} s",
            ok=seconds <= START,
            note=f"processor time of a fresh process; {clock:.2f} s by the clock",
        ),
        Row(TOPIC, "score one query of 100 items", ours / 200, "lightgbm", peer / 200, "s", peer / ours),
    ]


def _parity(model: Model, folder: Path, n: int) -> list[Row]:
    """Every format on n rows of a collection: the largest difference over the scores' size, and changed rankings."""
    data = synthetic_collection(max(20, n // 40), features=46, seed=7)
    matrix, lists = data.features[:n], data.query_of_row[:n]
    expected = model.predict(matrix)
    rows = []
    for name in FORMATS:
        done = export(model, name, folder / name)
        facts = read_parity(done.parity).facts
        found = verify_export(done.path, Parity(model.feature_names, matrix, lists, expected, facts))
        worst = max(reading.relative for reading in found.readings)
        changed = sum(reading.rankings_changed for reading in found.readings)
        note = f"by {', '.join(reading.by for reading in found.readings)}; {changed} rankings changed"
        what = f"{name}: relative difference, {len(matrix):,} rows"
        rows.append(Row(TOPIC, what, worst, unit="", target="≤ 1e-06", ok=found.ok, note=note))
    return rows
