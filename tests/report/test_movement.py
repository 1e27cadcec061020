"""What a model moves: against a plain loop, and known cases."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.report.movement import movement, origins_panel


def random_log(seed: int = 0) -> ClickLog:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 15, 20)
    data = RankingData.from_arrays(rng.normal(size=(sizes.sum(), 2)), sizes=sizes)
    row, session, position = [], [], []
    for number in range(60):
        query = rng.integers(20)
        shown = rng.permutation(np.arange(data.offsets[query], data.offsets[query + 1]))
        row += shown.tolist()
        session += [number] * len(shown)
        position += range(1, len(shown) + 1)
    return ClickLog.from_arrays(
        data,
        row=row,
        session=session,
        position=position,
        click=rng.integers(0, 2, len(row)),
        weight=rng.random(len(row)) + 0.1,
    )


def test_against_a_plain_loop() -> None:
    log = random_log()
    scores = np.random.default_rng(1).normal(size=log.data.n_rows)
    found = movement(log, scores)
    for query in np.unique(found.query):
        rows = found.row[found.query == query]
        mean = {r: np.average(log.position[log.row == r], weights=log.weight[log.row == r]) for r in rows}
        before = {r: 1 + sum(mean[other] < mean[r] for other in rows) for r in rows}
        after = {r: 1 + sum(scores[other] > scores[r] for other in rows) for r in rows}
        mine = found.query == query
        assert found.before[mine].tolist() == [before[r] for r in rows]
        assert found.after[mine].tolist() == [after[r] for r in rows]
        assert found.clicks[mine] == pytest.approx([(log.click * log.weight)[log.row == r].sum() for r in rows])
    assert found.shift == pytest.approx(1 / np.log2(1 + found.after) - 1 / np.log2(1 + found.before))


def same_length_log(items: int, queries: int = 4) -> ClickLog:
    data = RankingData.from_arrays(np.arange(items * queries)[:, None], sizes=[items] * queries)
    return ClickLog.from_arrays(
        data,
        row=np.arange(items * queries),
        session=np.repeat(np.arange(queries), items),
        position=np.tile(np.arange(1, items + 1), queries),
        click=np.ones(items * queries, dtype=int),
    )


@pytest.mark.parametrize(
    ("items", "kept", "top"),
    [
        (1, 1.0, "top 1"),
        (3, 0.0, "top 1"),
        (8, 0.0, "top 4"),
        (12, 0.0, "top 6"),
        (20, 0.0, "top ten"),
        (25, 0.0, "top ten"),
    ],
)
def test_a_list_turned_around_keeps_nothing_of_its_top(items: int, kept: float, top: str) -> None:
    """Ten of ten places are kept by any model, so that of short lists only the upper half is looked at."""
    log = same_length_log(items)
    turned = movement(log, log.data.features[:, 0].astype(float))
    assert (turned.kept, turned.top) == (kept, top)
    assert movement(log, -log.data.features[:, 0].astype(float)).kept == 1.0


def test_lists_of_several_lengths_have_tops_of_their_own() -> None:
    log = random_log()
    found = movement(log, np.random.default_rng(1).normal(size=log.data.n_rows))
    assert found.top == "top half"
    top = [0, 0]
    for query in np.unique(found.query):
        mine = found.query == query
        half = max(1, mine.sum() // 2)
        top[0] += ((found.after <= half) & (found.before <= half) & mine).sum()
        top[1] += half
    assert found.kept == pytest.approx(top[0] / top[1])
    assert "top half" in origins_panel(found).text


def test_scores_that_agree_or_tie_move_nothing() -> None:
    log = random_log()
    still = movement(log, np.zeros(log.data.n_rows))
    assert (still.before == still.after).all()
    assert still.kept == 1.0
    assert still.strongest(5, up=True).size == still.strongest(5, up=False).size == 0


def test_the_strongest_are_the_strongest_of_their_queries() -> None:
    log = random_log()
    found = movement(log, np.random.default_rng(2).normal(size=log.data.n_rows))
    up = found.strongest(100, up=True)
    assert len(np.unique(found.query[up])) == len(up)
    assert (np.diff(found.shift[up]) <= 0).all()
    best = [found.shift[found.query == query].max() for query in np.unique(found.query)]
    assert found.shift[up] == pytest.approx(sorted((b for b in best if b > 0), reverse=True))


def test_origins_add_up_to_one() -> None:
    log = random_log()
    spec = origins_panel(movement(log, np.random.default_rng(2).normal(size=log.data.n_rows))).chart.to_dict()
    drawn = next(iter(spec["datasets"].values())) if "datasets" in spec else spec["data"]["values"]
    assert sum(row["share"] for row in drawn) == pytest.approx(1)
