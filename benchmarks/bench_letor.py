"""LETOR text to a matrix against scikit-learn's loader, its peak memory, and the way back from the cache."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.harness import Row, faster, measure, peak_memory
from unskew.data.letor import read_letor

TOPIC = "letor"
FEATURES = 136


def run(quick: bool) -> list[Row]:
    """Rows of the table; quick shrinks the file."""
    with tempfile.TemporaryDirectory() as folder, _cache_in(Path(folder) / "cache"):
        path = write_file(Path(folder) / "mslr.txt", megabytes=8 if quick else 210)
        size = f"{path.stat().st_size / 1e6:,.0f} MB × {FEATURES} features"
        matrix = read_letor(path, cache=False).features.nbytes
        ours = measure(partial(parse, path), repeat=3)
        sklearn = measure(partial(peer, path), repeat=1)  # nearly a minute for the large file
        growth = peak_memory(partial(parse, path))
        read_letor(path)
        verified = measure(partial(from_cache, path), repeat=1)
        time.sleep(0 if quick else 3)  # from then on the files' times prove that nothing has changed
        from_cache(path)
        mapped = measure(partial(from_cache, path), repeat=5)
        return [
            faster(TOPIC, f"text to matrix, {size}", ours, "sklearn", sklearn, at_least=1 if quick else 6),
            Row(
                TOPIC,
                "peak memory of that, in matrices",
                growth,
                "matrix",
                float(matrix),
                "bytes",
                growth / matrix,
                "≤ 1.5 ×",
                quick or growth <= 1.5 * matrix,
                "growth of the resident size; the ratio is ours / matrix"
                + (" (fixed costs dominate)" if quick else ""),
            ),
            faster(
                TOPIC,
                f"from the cache, {size}",
                verified,
                "sklearn",
                sklearn,
                at_least=1 if quick else 50,
                note=f"first load, SHA-256 verified, matrix summed; later ones {mapped * 1e3:.0f} ms",
            ),
        ]


def parse(path: Path) -> None:
    """Text to matrix."""
    read_letor(path, cache=False)


def from_cache(path: Path) -> float:
    """Map the cached matrix and touch all of it."""
    return float(read_letor(path).features.sum())


def peer(path: Path) -> None:
    """scikit-learn's loader as its documentation shows it, with the query ids."""
    load_svmlight_file(str(path), query_id=True)


def write_file(path: Path, *, megabytes: int, seed: int = 0) -> Path:
    """A file of MSLR's shape: counts, lengths and scores with MSLR's number of digits, about 120 rows a query."""
    rng = np.random.default_rng(seed)
    rows = 4000
    counts = rng.geometric(0.3, size=(rows, FEATURES)) - 1
    scores = np.round(rng.gamma(2.0, 7.0, size=(rows, FEATURES)), 6)
    is_score = np.arange(FEATURES) % 5 > 1
    grades = rng.choice(5, p=[0.52, 0.32, 0.13, 0.02, 0.01], size=rows)
    lines = []
    for row in range(rows):
        values = [f"{scores[row, i]:.6f}" if is_score[i] else str(counts[row, i]) for i in range(FEATURES)]
        lines.append(" ".join(f"{i + 1}:{value}" for i, value in enumerate(values)))
    with path.open("w", newline="\n") as file:
        query = 0
        while file.tell() < megabytes * 1e6:
            # the same rows again under other queries: the parsers cannot tell
            file.writelines(f"{grades[row]} qid:{query + row // 120} {lines[row]} \n" for row in range(rows))
            query += rows // 120 + 1
    return path


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    before = os.environ.get("UNSKEW_CACHE")
    os.environ["UNSKEW_CACHE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["UNSKEW_CACHE"]
        else:
            os.environ["UNSKEW_CACHE"] = before
