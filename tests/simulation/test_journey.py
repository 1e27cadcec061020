"""Setting queries aside, and the files of a whole run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from unskew.cli.common import plain
from unskew.data import files
from unskew.data.files import read_judged_table, read_log
from unskew.data.ranking import RankingData
from unskew.errors import DataError, OutputError, SettingError
from unskew.simulation import journey
from unskew.simulation.journey import simulate_files
from unskew.simulation.split import split_queries
from unskew.simulation.synthetic import synthetic_collection


@pytest.fixture(scope="module")
def collection() -> RankingData:
    return synthetic_collection(120, features=10, typical=12)


def test_parts_have_no_query_in_common_and_lose_none(collection: RankingData) -> None:
    split = split_queries(collection, valid=0.25, test=0.1, seed=2)
    assert split.valid is not None
    assert split.test is not None
    ids = [part.query_ids.to_list() for part in (split.train, split.valid, split.test)]
    assert [len(part) for part in ids] == [78, 30, 12]
    assert sorted(sum(ids, [])) == list(range(120))  # noqa: RUF017
    assert split_queries(collection, valid=0.25, test=0.1, seed=2).test.query_ids.to_list() == ids[2]  # type: ignore[union-attr]
    assert split_queries(collection, valid=0.25, test=0.1, seed=3).test.query_ids.to_list() != ids[2]  # type: ignore[union-attr]


def test_nothing_asked_nothing_taken(collection: RankingData) -> None:
    assert split_queries(collection) == (collection, None, None)
    small = split_queries(collection, test=0.001)
    assert small.test is not None
    assert small.test.n_queries == 1
    assert small.valid is None


@pytest.mark.parametrize("shares", [(-0.1, 0), (0.5, 0.5), (0, 1.0), (float("nan"), 0)])
def test_bad_shares(collection: RankingData, shares: tuple[float, float]) -> None:
    with pytest.raises(SettingError, match="shares"):
        split_queries(collection, valid=shares[0], test=shares[1])


def test_too_few_queries(collection: RankingData) -> None:
    with pytest.raises(DataError, match="cannot be split"):
        split_queries(collection.take_queries([0, 1]), valid=0.3, test=0.3)


def test_files_of_a_run(collection: RankingData, tmp_path: Path) -> None:
    made = simulate_files(
        collection,
        tmp_path / "log.parquet",
        features=tmp_path / "features.parquet",
        valid=0.2,
        test=0.2,
        hidden=2,
        passes=3,
        noise=0.1,
    )
    names = ["features.parquet", "features.valid.parquet", "log.parquet", "log.test.parquet", "log.valid.parquet"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    log = read_log(tmp_path / "log.parquet", feature_table=tmp_path / "features.parquet")
    valid = read_log(tmp_path / "log.valid.parquet", feature_table=tmp_path / "features.valid.parquet")
    test = read_judged_table(tmp_path / "log.test.parquet")
    assert log.data.feature_names == valid.data.feature_names == test.feature_names
    assert log.data.n_features == 8
    parts = [set(part.query_ids.to_list()) for part in (log.data, valid.data, test)]
    assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
    trained = set(range(120)) - parts[0] - parts[1] - parts[2]
    assert len(trained) == len(made.simulation.production.trained_on)
    assert len(parts[1]) == len(parts[2]) == 24
    np.testing.assert_array_equal(log.click, made.simulation.log.click)
    assert valid.data.max_grade == test.max_grade == 4
    document = json.loads(json.dumps(plain(made.to_dict())))
    assert document["log"]["clicks"] == log.n_clicks
    assert document["production"]["ndcg@10"] == made.simulation.production.ndcg


def test_nothing_is_written_when_a_setting_is_wrong(collection: RankingData, tmp_path: Path) -> None:
    with pytest.raises(SettingError):
        simulate_files(collection, tmp_path / "log.parquet", valid=0.2, eta=-1.0)
    with pytest.raises(OutputError, match=r"\.parquet or \.csv"):
        simulate_files(collection, tmp_path / "log.txt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lost", ["log.parquet", "log.valid.parquet", "log.test.parquet", "features.parquet"])
def test_a_failure_in_the_middle_leaves_what_was_there(
    collection: RankingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Parts of two runs do not fit together, so they are replaced together or not at all."""

    def write(seed: int) -> None:
        out, features = tmp_path / "log.parquet", tmp_path / "features.parquet"
        simulate_files(collection, out, features=features, valid=0.2, test=0.2, passes=1, seed=seed)

    write(0)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    stream = files._stream

    def failing(sheet: files.Sheet, temporary: Path) -> None:
        stream(sheet, temporary)
        if sheet.path.name == lost:
            raise OutputError("the disk is full")

    monkeypatch.setattr(files, "_stream", failing)
    with pytest.raises(OutputError, match="the disk is full"):
        write(1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("features", ["log.parquet", "log.valid.parquet", "log.test.parquet"])
def test_every_part_needs_a_file_of_its_own(collection: RankingData, tmp_path: Path, features: str) -> None:
    with pytest.raises(OutputError, match="cannot both go"):
        simulate_files(collection, tmp_path / "log.parquet", features=tmp_path / features, valid=0.2, test=0.2)


def test_places_are_looked_at_before_the_work(
    collection: RankingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journey, "split_queries", None)  # the work, which must not begin
    (tmp_path / "file").touch()
    (tmp_path / "log.test.parquet").mkdir()
    for out, said in (("log.txt", "ends in"), ("file/log.parquet", "it is a file"), ("log.parquet", "a folder of")):
        with pytest.raises(OutputError, match=said):
            simulate_files(collection, tmp_path / out, test=0.2)
    with pytest.raises(OutputError, match="ends in"):
        simulate_files(collection, Path())


def test_a_production_sample_that_is_too_small_says_what_to_do(collection: RankingData, tmp_path: Path) -> None:
    out = tmp_path / "log.parquet"
    remark = simulate_files(collection, out, production=0.0001, passes=1).remark()
    assert remark is not None
    share = re.search(r"share of ([\d.]+) or more \(--production\)", remark)
    assert share is not None
    assert simulate_files(collection, out, production=float(share[1]), passes=1).remark() is None
    with pytest.raises(SettingError, match="--production"):
        simulate_files(collection, out, production=0)
    with pytest.raises(DataError, match="more queries, or smaller shares"):
        simulate_files(collection.take_queries([0, 1]), out, valid=0.3, test=0.3)
