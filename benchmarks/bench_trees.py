"""A boosting round of PairD, whose lambdas are ours, against a round of LightGBM's own lambdarank."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Row, measure_both
from unskew.baselines.paird import PairDebiasedMART
from unskew.data.design import DesignMatrix
from unskew.data.lists import training_lists
from unskew.rankers.lambdamart import LambdaMART
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection

TOPIC = "trees"
AT_MOST = 4.0


def run(quick: bool) -> list[Row]:
    """Rows of the table; quick shrinks the input."""
    queries, rounds, repeat = (200, 5, 3) if quick else (2_000, 20, 5)
    data = synthetic_collection(queries, features=136)
    log = simulate(data, eta=1.0, passes=10)
    lists = training_lists(log)
    design = DesignMatrix(log.data.features, lists.row)
    fields = {"labels": lists.label, "sizes": lists.sizes, "weight": lists.weight, "cache": {}}
    size = f"{len(lists.row):,} entries of {len(lists.sizes):,} lists × {design.n_plain}"
    return [
        _round(design, fields, lists.position, {"leaves": 15, "min_rows": 50}, rounds, repeat, f"15 leaves, {size}"),
        _round(design, fields, lists.position, {"leaves": 255, "min_rows": 2}, rounds, repeat, f"255 leaves, {size}"),
    ]


def _round(
    design: DesignMatrix,
    fields: dict[str, Any],
    position: Any,
    settings: dict[str, Any],
    rounds: int,
    repeat: int,
    what: str,
) -> Row:
    """Time of `rounds` rounds less that of one, so that neither binning nor the search for pairs is counted.

    One thread each: LightGBM's threads on a busy machine wait for each other, which is not what is compared.
    """
    common = {"n_jobs": 1, "feature_fraction": 1.0, "bagging_fraction": 1.0, "l2": 0.0, **settings}

    def train(build: type, trees: int, **more: Any) -> None:
        build(trees=trees, **common).fit(design, **fields, **more)

    train(LambdaMART, 1)  # bins
    long = measure_both(
        lambda: train(PairDebiasedMART, rounds + 1, position=position), lambda: train(LambdaMART, rounds + 1), repeat
    )
    short = measure_both(lambda: train(PairDebiasedMART, 1, position=position), lambda: train(LambdaMART, 1), repeat)
    ours, peer = ((a - b) / rounds for a, b in zip(long, short))
    ratio = ours / peer
    return Row(
        TOPIC,
        f"PairD round, {what}",
        ours,
        "LightGBM lambdarank",
        peer,
        ratio=ratio,
        target=f"≤ {AT_MOST:g} ×",
        ok=ratio <= AT_MOST,
        note="ours / LightGBM's",
    )
