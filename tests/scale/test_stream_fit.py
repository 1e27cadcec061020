"""Out of core, a log gives what it gives in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unskew.control.stage_one import fit_stage_one
from unskew.data.clicks import ClickLog
from unskew.data.columns import LogColumns
from unskew.data.frames import log_from_frame
from unskew.data.holdout import hold_out
from unskew.errors import ColumnError, FileFormatError, LogError, PartitionError
from unskew.evaluation.metrics import ndcg
from unskew.fitting import Fitted, fit_method
from unskew.rankers.lambdamart import LambdaMART
from unskew.scale.memory import in_memory_bytes
from unskew.scale.partition import partition_log
from unskew.scale.parts import as_log, check_whole, frames, held_queries, open_parts, queries_of, subset
from unskew.scale.spool import Spool
from unskew.scale.stream_fit import fit_streamed, fits_memory
from unskew.scale.streaming import stream_stage_one
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection


def _folder(frame: pl.DataFrame, tmp_path: Path, parts: int) -> Path:
    frame.sample(fraction=1, shuffle=True, seed=3).write_parquet(tmp_path / "shuffled.parquet")
    partition_log(tmp_path / "shuffled.parquet", tmp_path / f"parts{parts}", parts=parts)
    return tmp_path / f"parts{parts}"


def _turned(log: ClickLog, folder: Path) -> ClickLog:
    """The log with its queries in another order: the second half first, as files may have them."""
    spool, last = Spool(folder), log.data.n_queries // 2
    for keep in (np.arange(log.data.n_queries) >= last, np.arange(log.data.n_queries) < last):
        part = subset(log, keep)
        assert part is not None
        spool.append(part)
    return spool.finish().log


def _quality(fitted: Fitted, frame: pl.DataFrame) -> float:
    data = log_from_frame(frame).data
    assert data.grades is not None
    return float(np.nanmean(ndcg(data.grades, fitted.method.predict(data), data.offsets, at=10)))


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_streamed_and_in_memory_fits_agree(
    tmp_path: Path, scale_log: pl.DataFrame, scale_test_log: pl.DataFrame, scale_ranker: LambdaMART, parts: int
) -> None:
    settings = {"method": "cfc", "ranker": scale_ranker, "seed": 0, "n_jobs": 1}
    memory = fit_method(log_from_frame(scale_log), **settings)
    streamed = fit_streamed(_folder(scale_log, tmp_path, parts), batch=1000, **settings)
    one, other = memory.method.stage_one_, streamed.method.stage_one_
    np.testing.assert_allclose(other.model.coefficients, one.model.coefficients, rtol=1e-6)
    assert other.statistics.sd == pytest.approx(one.statistics.sd, rel=1e-9)
    assert other.r2 == pytest.approx(one.r2, rel=1e-9)
    assert streamed.method.transformation_.name == memory.method.transformation_.name
    scores = [[candidate.score for candidate in fitted.method.candidates_] for fitted in (memory, streamed)]
    np.testing.assert_allclose(*scores, atol=0.005)
    assert _quality(streamed, scale_test_log) == pytest.approx(_quality(memory, scale_test_log), abs=0.005)
    assert streamed.method.get_params()["stage_one"] == "ridge"
    streamed.method.save(tmp_path / "model")


def test_debiased_clicks_choose_the_same_way(tmp_path: Path, scale_log: pl.DataFrame) -> None:
    """The same order of queries: the same lists, bins and trees, to the last digit."""
    frame = scale_log.drop("relevance").sort("query_id", maintain_order=True)
    frame.write_parquet(tmp_path / "log.parquet")
    settings = {"method": "cfc", "preset": "smoke", "n_jobs": 1}
    memory = fit_method(log_from_frame(frame), **settings)
    streamed = fit_streamed(tmp_path / "log.parquet", batch=1000, **settings)
    scores = [[candidate.score for candidate in fitted.method.candidates_] for fitted in (memory, streamed)]
    np.testing.assert_allclose(*scores, atol=1e-9)


@pytest.mark.parametrize("method", ["naive", "position"])
def test_other_methods_stream_too(tmp_path: Path, scale_log: pl.DataFrame, method: str) -> None:
    settings = {"method": method, "preset": "smoke", "seed": 0, "n_jobs": 1}
    memory = fit_method(log_from_frame(scale_log), **settings)
    streamed = fit_streamed(_folder(scale_log, tmp_path, 2), batch=1000, **settings)
    data = log_from_frame(scale_log).data
    # Queries held out are counted; the log has no checksum then, rather than one that disowns it.
    assert streamed.method.fingerprint_ == {**memory.method.fingerprint_, "sha256": None}
    one, other = memory.method.predict(data), streamed.method.predict(data)
    assert np.corrcoef(one, other)[0, 1] > 0.999


@pytest.mark.parametrize(
    ("method", "eta", "chosen"),
    [("full-cfc", 1.0, "full-cfc"), ("default", 1.0, "full-cfc"), ("default", 0.0, "naive")],
)
def test_methods_that_hold_out_themselves_get_the_clicks_they_get_in_memory(
    tmp_path: Path, method: str, eta: float, chosen: str
) -> None:
    """Nothing is held out for them, and where `default` is naive the very same queries are."""
    log = simulate(synthetic_collection(100, longest=15, typical=10, features=8, seed=1), eta=eta, seed=1)
    log.write(tmp_path / "log.parquet")
    log = ClickLog.read(tmp_path / "log.parquet")
    settings = {"method": method, "preset": "smoke", "seed": 0, "n_jobs": 1}
    memory, streamed = fit_method(log, **settings), fit_streamed(tmp_path / "log.parquet", batch=1000, **settings)
    assert streamed.info.name == memory.info.name == chosen
    assert streamed.chosen_on == memory.chosen_on
    assert streamed.method.outcome_.extra.get("clicks") == memory.method.outcome_.extra.get("clicks")
    assert streamed.method.fingerprint_ == memory.method.fingerprint_
    np.testing.assert_array_equal(streamed.method.predict(log.data), memory.method.predict(log.data))


def test_queries_in_another_order_are_held_out_alike(tmp_path: Path, scale_log: pl.DataFrame) -> None:
    log = log_from_frame(scale_log)
    turned = _turned(log, tmp_path)
    for one, other in zip(hold_out(log, seed=5), hold_out(turned, seed=5, by_id=True), strict=True):
        assert one is not None
        assert other is not None
        assert set(log.data.query_ids.gather(one.queries)) == set(turned.data.query_ids.gather(other.queries))


@pytest.mark.parametrize("rank_target", ["global", "per_list", "raw"])
def test_stage_one_of_a_stream_is_that_of_the_whole(scale_log: pl.DataFrame, tmp_path: Path, rank_target: str) -> None:
    log = log_from_frame(scale_log)
    spool = Spool(tmp_path)
    for start in range(0, log.data.n_queries, 37):
        keep = np.zeros(log.data.n_queries, dtype=bool)
        keep[start : start + 37] = True
        part = subset(log, keep)
        assert part is not None
        spool.append(part)
    spooled = spool.finish()
    expected = np.empty(log.data.n_rows)
    streamed = stream_stage_one(spooled.batches, rank_target=rank_target, expected=expected)  # type: ignore[arg-type]
    whole = fit_stage_one(log, rank_target=rank_target)  # type: ignore[arg-type]
    np.testing.assert_allclose(streamed.model.coefficients, whole.model.coefficients, rtol=1e-9)
    np.testing.assert_allclose(streamed.expected, whole.expected, rtol=1e-9)
    np.testing.assert_allclose(streamed.statistics.histogram, whole.statistics.histogram, atol=1e-5)
    for name in ("weight", "mean", "scatter", "mean_absolute", "minimum", "maximum"):
        found, wanted = getattr(streamed.statistics, name), getattr(whole.statistics, name)
        assert found == pytest.approx(wanted, rel=1e-8, abs=1e-9), name


def test_the_spool_is_the_log(tmp_path: Path, scale_log: pl.DataFrame) -> None:
    log = log_from_frame(scale_log.with_columns(weight=pl.lit(2.0)))
    spool = Spool(tmp_path)
    spool.append(log)
    back = spool.finish().log
    for name in ("row", "session_offsets", "position", "click", "weight"):
        np.testing.assert_array_equal(getattr(back, name), getattr(log, name))
    np.testing.assert_array_equal(back.data.features, log.data.features)
    assert isinstance(back, ClickLog)
    assert not back.data.features.flags.owndata


def test_the_same_queries_are_held_out(scale_log: pl.DataFrame) -> None:
    log = log_from_frame(scale_log)
    _, held = hold_out(log, seed=5)
    assert held is not None
    ids = log.data.query_ids
    chosen = held_queries([ids[200:], ids[:200]], seed=5)
    assert chosen is not None
    assert set(chosen) == set(ids.gather(held.queries))


def test_batches_hold_whole_queries(tmp_path: Path, scale_log: pl.DataFrame) -> None:
    scale_log.sort("query_id", maintain_order=True).write_parquet(tmp_path / "log.parquet", row_group_size=333)
    parts = open_parts(tmp_path / "log.parquet", LogColumns())
    found = list(frames(parts, 0, batch=500))
    assert len(found) > 10
    assert sum(frame["query_id"].n_unique() for frame in found) == scale_log["query_id"].n_unique()
    assert sum(frame.height for frame in found) == scale_log.height


def test_features_that_change_in_one_batch_give_every_batch_a_row_an_impression(
    tmp_path: Path, scale_log: pl.DataFrame
) -> None:
    last = scale_log["query_id"].max()
    noise = pl.when(pl.col("query_id") == last).then(pl.col("position") * 0.01).otherwise(0.0)
    frame = scale_log.with_columns((pl.col("f0") + noise).cast(pl.Float32)).sort("query_id", maintain_order=True)
    frame.write_parquet(tmp_path / "log.parquet")
    settings = {"method": "cfc", "preset": "smoke", "n_jobs": 1, "transformation": "minmax"}
    memory = fit_method(log_from_frame(frame), **settings)
    streamed = fit_streamed(tmp_path / "log.parquet", batch=1000, **settings)
    one, other = memory.method.stage_one_.model, streamed.method.stage_one_.model
    np.testing.assert_allclose(other.coefficients, one.coefficients, rtol=1e-6)


class TestBadParts:
    def test_half_a_query(self, tmp_path: Path, scale_log: pl.DataFrame) -> None:
        ordered = scale_log.sort("query_id", maintain_order=True)
        ordered[:1000].write_parquet(tmp_path / "a.parquet")
        ordered[1000:].write_parquet(tmp_path / "b.parquet")
        with pytest.raises(PartitionError, match=r"a\.parquet ends in the middle of query '20', which goes on in b"):
            fit_streamed(tmp_path, method="naive")

    def test_a_query_in_two_parts(self, tmp_path: Path, scale_log: pl.DataFrame) -> None:
        for name in ("a", "b"):
            scale_log.write_parquet(tmp_path / f"{name}.parquet")
        with pytest.raises(PartitionError, match=r"query '\d+' is in both a\.parquet and b\.parquet"):
            fit_streamed(tmp_path, method="naive")

    def test_a_column_missing_in_one_file(self, tmp_path: Path, scale_log: pl.DataFrame) -> None:
        for number in range(20):
            part = scale_log.filter(pl.col("query_id") % 20 == number)
            part.drop("f1" if number == 13 else []).write_parquet(tmp_path / f"part-{number:05d}.parquet")
        with pytest.raises(FileFormatError, match=r"part-00013\.parquet lacks 'f1'"):
            fit_streamed(tmp_path, method="naive")

    def test_a_truncated_file(self, tmp_path: Path, scale_log: pl.DataFrame) -> None:
        folder = _folder(scale_log, tmp_path, 3)
        file = folder / "part-00001.parquet"
        file.write_bytes(file.read_bytes()[:-100])
        with pytest.raises(FileFormatError, match=r"part-00001\.parquet cannot be read"):
            fit_streamed(folder, method="naive")

    def test_a_bad_value_is_told_with_its_file(self, tmp_path: Path, scale_log: pl.DataFrame) -> None:
        folder = _folder(scale_log, tmp_path, 3)
        file = folder / "part-00002.parquet"
        pl.read_parquet(file).with_columns(pl.col("position") - 1).write_parquet(file)
        with pytest.raises(LogError, match=r"part-00002\.parquet: position must be 1 or greater"):
            fit_streamed(folder, method="naive")

    def test_a_large_file_that_is_not_sorted(self, tmp_path: Path, scale_log: pl.DataFrame) -> None:
        scale_log.sample(fraction=1, shuffle=True, seed=0).write_parquet(tmp_path / "log.parquet")
        with pytest.raises(PartitionError, match=r"(?s)log\.parquet is not sorted by query.*unskew partition"):
            fit_streamed(tmp_path / "log.parquet", method="naive", batch=1000)

    def test_no_click_at_all(self, tmp_path: Path, scale_log: pl.DataFrame) -> None:
        scale_log.with_columns(click=pl.lit(0)).write_parquet(tmp_path / "log.parquet")
        with pytest.raises(LogError, match="no click at all"):
            fit_streamed(tmp_path / "log.parquet", method="naive")

    def test_a_column_missing_everywhere(self, tmp_path: Path, scale_log: pl.DataFrame) -> None:
        scale_log.drop("click").write_parquet(tmp_path / "log.parquet")
        with pytest.raises(ColumnError, match="no column 'click'"):
            fit_streamed(tmp_path / "log.parquet", method="naive")


def test_nothing_is_left_behind(tmp_path: Path, scale_log: pl.DataFrame) -> None:
    scale_log.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "scratch").mkdir()
    fit_streamed(tmp_path / "log.parquet", method="naive", preset="smoke", n_jobs=1, scratch=tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_memory_decides(tmp_path: Path, scale_log: pl.DataFrame) -> None:
    scale_log.write_parquet(tmp_path / "log.parquet")
    need = in_memory_bytes(scale_log.height, 3)
    assert fits_memory(tmp_path / "log.parquet", LogColumns(), memory=need)[0]
    assert not fits_memory(tmp_path / "log.parquet", LogColumns(), memory=need - 1)[0]


def test_whole_queries_pass(scale_log: pl.DataFrame, tmp_path: Path) -> None:
    folder = _folder(scale_log, tmp_path, 4)
    parts = open_parts(folder, LogColumns())
    check_whole([queries_of(parts, number) for number in range(4)], parts.files)
    log = as_log(parts, next(frames(parts, 0)), parts.files[0])
    assert log.data.feature_names == ("f0", "f1", "f2")
