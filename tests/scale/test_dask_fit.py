"""On a cluster of real processes a log gives what it gives in memory, also when a process dies."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

from unskew import load
from unskew.cli import app, commands  # noqa: F401  (importing registers the commands)
from unskew.control.debias import fit_click_on_residual
from unskew.control.estimator import ControlFunctionRanker
from unskew.control.transformations import fit_transformation
from unskew.data.frames import log_from_frame
from unskew.data.holdout import hold_out
from unskew.errors import ClusterError, FileFormatError, LogError, MissingExtraError, PartitionError, SettingError
from unskew.evaluation.metrics import ndcg
from unskew.rankers.lambdamart import LambdaMART
from unskew.rankers.make import make_ranker
from unskew.registry import make_method
from unskew.scale import dask_fit
from unskew.scale.cluster import connect, tree_merge
from unskew.scale.dask_fit import DaskLog
from unskew.scale.judging import judge_part
from unskew.scale.part_work import LoadedPart
from unskew.scale.partition import partition_log
from unskew.scale.parts import subset
from unskew.scale.streaming import Counts, merged

pytest.importorskip("distributed")
TRIED = ("minmax", "normal_pdf")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    said: list[str] = []
    with connect(workers=2, say=said.append) as client:
        assert "Dashboard: http" in said[0]
        yield client


def _parts(frame: pl.DataFrame, tmp_path: Path, parts: int) -> Path:
    frame.write_parquet(tmp_path / "log.parquet")
    partition_log(tmp_path / "log.parquet", tmp_path / "parts", parts=parts)
    return tmp_path / "parts"


def _quality(model: ControlFunctionRanker, frame: pl.DataFrame) -> float:
    data = log_from_frame(frame).data
    assert data.grades is not None
    return float(np.nanmean(ndcg(data.grades, model.predict(data), data.offsets, at=10)))


@pytest.fixture(scope="module")
def in_memory(scale_log: pl.DataFrame, scale_ranker: LambdaMART) -> ControlFunctionRanker:
    return ControlFunctionRanker(ranker=scale_ranker, transformation=TRIED).fit(log_from_frame(scale_log))


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_cluster_and_memory_agree(
    tmp_path: Path,
    scale_log: pl.DataFrame,
    scale_test_log: pl.DataFrame,
    scale_ranker: LambdaMART,
    in_memory: ControlFunctionRanker,
    cluster: Any,
    parts: int,
) -> None:
    folder = _parts(scale_log, tmp_path, parts)
    model = ControlFunctionRanker(ranker=scale_ranker, transformation=TRIED).fit(DaskLog(folder, cluster))
    one, other = in_memory.stage_one_, model.stage_one_
    np.testing.assert_allclose(other.model.coefficients, one.model.coefficients, rtol=1e-6)
    assert other.statistics.sd == pytest.approx(one.statistics.sd, rel=1e-9)
    assert other.r2 == pytest.approx(one.r2, rel=1e-9)
    assert model.transformation_.name == in_memory.transformation_.name
    assert _quality(model, scale_test_log) == pytest.approx(_quality(in_memory, scale_test_log), abs=0.005)
    whole = in_memory.fingerprint_  # with what was held out
    for name in ("queries", "rows", "features", "sessions", "impressions", "clicks"):
        assert model.fingerprint_[name] == whole[name]
    assert model.fingerprint_["sha256"] is None  # rather than one that disowns the log
    model.save(tmp_path / "model")
    if parts == 1:  # one worker has everything: the same bins, lists and trees
        frame = scale_test_log.select("f0", "f1", "f2")
        np.testing.assert_allclose(model.predict(frame), in_memory.predict(frame), rtol=1e-9)


@pytest.mark.parametrize("parts", [1, 3])
def test_xgboost_on_a_cluster_and_in_memory_agree(
    tmp_path: Path, scale_log: pl.DataFrame, scale_test_log: pl.DataFrame, cluster: Any, parts: int
) -> None:
    pytest.importorskip("xgboost")
    from unskew.rankers.xgb import XGBoostRanker

    ranker = XGBoostRanker(preset="smoke", trees=60, learning_rate=0.1, l2=5.0, n_jobs=1)
    settings: dict[str, Any] = {"ranker": ranker, "transformation": "minmax"}
    memory = ControlFunctionRanker(**settings).fit(log_from_frame(scale_log))
    model = ControlFunctionRanker(**settings).fit(DaskLog(_parts(scale_log, tmp_path, parts), cluster))
    frame = scale_test_log.select("f0", "f1", "f2")
    assert _quality(model, scale_test_log) == pytest.approx(_quality(memory, scale_test_log), abs=0.012)
    model.save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").predict(frame), model.predict(frame), rtol=1e-5, atol=1e-6)
    if parts == 1:
        np.testing.assert_allclose(model.predict(frame), memory.predict(frame), rtol=1e-6)


@pytest.mark.parametrize("ranker", ["lambdamart", "xgboost"])
def test_several_workers_grow_the_trees_of_one(
    tmp_path: Path, one_session_log: pl.DataFrame, scale_test_log: pl.DataFrame, cluster: Any, ranker: str
) -> None:
    """Leaves of any size and lists that all weigh 1: with the same bins nothing is left to differ but rounding."""
    pytest.importorskip({"lambdamart": "lightgbm"}.get(ranker, ranker))
    more = {"min_rows": 1} if ranker == "lambdamart" else {}
    base = make_ranker(ranker, preset="smoke", n_jobs=1, trees=60, learning_rate=0.1, l2=5.0, **more)
    memory = ControlFunctionRanker(ranker=base, transformation="minmax").fit(log_from_frame(one_session_log))
    folder = _parts(one_session_log, tmp_path, 4)
    model = ControlFunctionRanker(ranker=base, transformation="minmax").fit(DaskLog(folder, cluster))
    assert _quality(model, scale_test_log) == pytest.approx(_quality(memory, scale_test_log), abs=0.0005)
    assert model.candidates_[0].score == pytest.approx(memory.candidates_[0].score, abs=0.002)


@pytest.mark.parametrize("ranker", ["lambdamart", "xgboost"])
def test_the_command_fits_on_a_cluster(tmp_path: Path, scale_log: pl.DataFrame, cluster: Any, ranker: str) -> None:
    pytest.importorskip({"lambdamart": "lightgbm"}.get(ranker, ranker))
    folder = _parts(scale_log, tmp_path, 2)
    options = ["--ranker", ranker, "--preset", "smoke", "--transformation", "minmax", "--engine", "dask", "--json"]
    line = ["fit", str(folder), "--out", str(tmp_path / "model"), "--scheduler", cluster.scheduler.address, *options]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert (document["engine"], document["method"], document["ranker"]) == ("dask", "cfc", ranker)
    assert "Dashboard: http" in " ".join(result.stderr.split())
    assert load(tmp_path / "model").feature_names == ("f0", "f1", "f2")


def test_debiased_clicks_judge_in_the_workers(tmp_path: Path, scale_log: pl.DataFrame, cluster: Any) -> None:
    """One part, one worker, trained alike: the judge's values differ by what bins do, not by how parts add up."""
    frame = scale_log.drop("relevance")
    settings: dict[str, Any] = {"preset": "smoke", "transformation": "minmax", "n_jobs": 1}
    memory = ControlFunctionRanker(**settings).fit(log_from_frame(frame))
    model = ControlFunctionRanker(**settings).fit(DaskLog(_parts(frame, tmp_path, 3), cluster))
    assert model.candidates_[0].score == pytest.approx(memory.candidates_[0].score, rel=0.15)


def test_parts_of_a_judgement_add_up(scale_log: pl.DataFrame, scale_ranker: LambdaMART, tmp_path: Path) -> None:
    log = log_from_frame(scale_log)
    for tune_on in ("grades", "clicks", "debiased"):
        model = ControlFunctionRanker(ranker=scale_ranker, transformation="minmax", tune_on=tune_on)  # type: ignore[arg-type]
        model.fit(log)
        reference = fit_transformation("minmax", model.stage_one_.statistics)
        clicks = None
        if tune_on == "debiased":
            residual = model.stage_one_.residual(model.log_, model.log_.row, model.log_.position)
            clicks = fit_click_on_residual(model.log_, reference(residual))
        _, valid = hold_out(log, seed=0)
        assert valid is not None
        pieces = []
        for third in range(3):
            keep = np.arange(log.data.n_queries) % 3 == third
            keep &= np.isin(np.arange(log.data.n_queries), valid.queries)
            pieces.append(
                judge_part(
                    LoadedPart(None, subset(log, keep)),
                    model,
                    clone(scale_ranker),
                    model.outcome_.ranker.booster_.model_to_string().encode(),
                    [model.outcome_.ranker.stage_],
                    model.transformation_,
                    model.stage_one_,
                    clicks,
                    reference,
                )
            )
        found = merged(piece for piece in pieces if piece is not None)
        assert found.values[0] == pytest.approx(model.candidates_[0].score, abs=2e-3), tune_on  # ties are broken anew


def test_a_worker_killed_during_the_statistics(
    tmp_path: Path, scale_log: pl.DataFrame, doomed_cluster: Any, deadly: Callable[..., Path]
) -> None:
    """It dies while it holds parts that the pass needs: they are read again, and the sums are the same."""
    method = ControlFunctionRanker()
    _, parts = dask_fit._load(DaskLog(_parts(scale_log, tmp_path, 6), doomed_cluster), seed=0, split=True)
    whole = dask_fit._stage_one(doomed_cluster, parts, method)
    grave = deadly(doomed_cluster, "unskew.scale.streaming", "gram_of", "at once")
    again = dask_fit._stage_one(doomed_cluster, parts, method)
    assert grave.exists()
    np.testing.assert_allclose(again.model.coefficients, whole.model.coefficients, rtol=1e-9)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("ranker", "library"), [("lambdamart", "lightgbm"), ("xgboost", "xgboost")])
def test_a_worker_killed_during_training(
    tmp_path: Path,
    scale_log: pl.DataFrame,
    doomed_cluster: Any,
    deadly: Callable[..., Path],
    ranker: str,
    library: str,
) -> None:
    """The second candidate's training loses a worker: it is trained again, the first candidate is kept."""
    pytest.importorskip(library)
    said: list[str] = []
    log = DaskLog(_parts(scale_log, tmp_path, 4), doomed_cluster, say=said.append)
    grave = deadly(doomed_cluster, library, "train", "second training")
    model = ControlFunctionRanker(ranker=ranker, preset="smoke", transformation=TRIED).fit(log)
    assert grave.exists()
    assert grave.read_text() in said[0]
    assert "1 finished candidates are kept" in said[0]
    assert [candidate.setting["transformation"] for candidate in model.candidates_] == list(TRIED)


def test_bad_parts_are_named_from_the_workers(tmp_path: Path, scale_log: pl.DataFrame, cluster: Any) -> None:
    folder = _parts(scale_log, tmp_path, 3)
    first = pl.read_parquet(folder / "part-00000.parquet")
    first.head(20).write_parquet(folder / "part-00003.parquet")
    with pytest.raises(PartitionError, match=r"in both part-00000\.parquet and part-00003\.parquet"):
        ControlFunctionRanker().fit(DaskLog(folder, cluster))
    (folder / "part-00003.parquet").write_bytes((folder / "part-00000.parquet").read_bytes()[:500])
    with pytest.raises(FileFormatError, match=r"part-00003\.parquet cannot be read"):
        ControlFunctionRanker().fit(DaskLog(folder, cluster))


def test_a_log_without_any_weight_is_refused(tmp_path: Path, scale_log: pl.DataFrame, cluster: Any) -> None:
    scale_log.with_columns(weight=pl.lit(0.0)).write_parquet(tmp_path / "part-0.parquet")
    with pytest.raises(LogError, match="weight above 0"):
        ControlFunctionRanker().fit(DaskLog(tmp_path, cluster))


def test_what_a_cluster_cannot_fit_is_refused(tmp_path: Path, cluster: Any) -> None:
    log = DaskLog(tmp_path, cluster)
    with pytest.raises(SettingError, match="cfc, cfc-s and cfc-bc"):
        make_method("naive").fit(log)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="stage one is ridge"):
        ControlFunctionRanker(stage_one="svm").fit(log)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="lambdamart or xgboost"):
        ControlFunctionRanker(ranker=Ridge()).fit(log)  # type: ignore[arg-type]


def test_xgboost_without_its_extra_is_named(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match=r"unskew\[xgboost\]"):
        ControlFunctionRanker(ranker="xgboost").fit(DaskLog(tmp_path, cluster))  # type: ignore[arg-type]


def test_xgboosts_own_unbiased_training_is_refused(tmp_path: Path, cluster: Any) -> None:
    pytest.importorskip("xgboost")
    from unskew.rankers.xgb import XGBoostRanker

    with pytest.raises(SettingError, match="unbiased training does not work on a cluster"):
        ControlFunctionRanker(ranker=XGBoostRanker(unbiased=True)).fit(DaskLog(tmp_path, cluster))  # type: ignore[arg-type]


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unskew.scale.cluster.CONNECT_SECONDS", 1)
    with pytest.raises(ClusterError, match=r"tcp://127\.0\.0\.1:9 cannot be reached"), connect("tcp://127.0.0.1:9"):
        pass
    with pytest.raises(ClusterError, match="nonsense cannot be reached"), connect("nonsense"):
        pass


def test_statistics_merge_in_a_tree(cluster: Any) -> None:
    counts = [Counts(1, 2, 3, 4, 5, first=number, last=number) for number in range(1, 21)]
    total = tree_merge(cluster, cluster.scatter(counts))
    assert total == Counts(20, 40, 60, 80, 100, first=1, last=20)
