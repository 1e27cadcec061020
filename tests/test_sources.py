"""One name, any source: files by content, registered collections of every published layout, the synthetic one."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData
from unskew.errors import DataError, FileFormatError, GradeError, SettingError, UnskewWarning
from unskew.sources import read_judged, read_splits

LETOR = "2 qid:1 1:0.5 2:3\n0 qid:1 2:1\n1 qid:2 1:4\n"
FRAME = pl.DataFrame({"query_id": [1, 1, 2], "item_id": [1, 2, 3], "relevance": [2, 0, 1], "bm25": [0.5, 0.0, 4.0]})


def letor_rows(features: int, grades: int, *, queries: int = 6, seed: int = 0, extra: str = "") -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for query in range(queries):
        for _ in range(3):
            cells = " ".join(f"{i}:{rng.random():.4f}" for i in range(1, features + 1) if rng.random() < 0.7)
            lines.append(f"{rng.integers(grades + 1)} qid:{query} {cells}{extra}\n")
    return "".join(lines)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.xz", "a", "a.letor"])
def test_letor_by_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(lzma.compress(LETOR.encode()) if name.endswith("xz") else LETOR.encode())
    data = read_judged(str(path), max_grade=4)
    assert (data.n_queries, data.n_rows, data.n_features, data.max_grade) == (2, 3, 2, 4)


def test_compressed_letor_with_commas_among_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(LETOR.encode(), mtime=0x2C2C2C2C))  # the time is written as four commas
    assert read_judged(path, max_grade=4).n_queries == 2


def test_a_synthetic_collection_beyond_any_memory() -> None:
    with pytest.raises(SettingError, match="would not fit into memory"):
        read_judged("synthetic:999999999999")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text(LETOR)

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileFormatError, match=r"a\.txt cannot be read: Permission denied"):
        read_judged(path)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "no_suffix_parquet", "no_suffix_csv"])
def test_tables(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    FRAME.write_parquet(path) if "parquet" in name else FRAME.write_csv(path)
    data = read_judged(path)
    assert data.feature_names == ("bm25",)
    assert data.grades.tolist() == [2, 0, 1]


def test_frames_and_data_pass_through() -> None:
    data = read_judged(FRAME.rename({"relevance": "stars"}), relevance="stars")
    assert data.grades.tolist() == [2, 0, 1]
    assert read_judged(data) is data


def test_columns_of_tables_only(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    FRAME.rename({"query_id": "qid"}).write_csv(path)
    assert read_judged(path, query="qid").n_queries == 2
    (tmp_path / "a.txt").write_text(LETOR)
    with pytest.raises(SettingError, match="query= names a column of a table"):
        read_judged(tmp_path / "a.txt", query="qid")
    with pytest.raises(SettingError, match="query= names a column of a table"):
        read_judged("synthetic", query="qid")


def test_synthetic() -> None:
    assert read_judged("synthetic:30").n_queries == 30
    assert read_judged("synthetic").n_queries == 200
    one, other = read_judged("synthetic:5", seed=1), read_judged("synthetic:5", seed=2)
    assert not np.array_equal(one.features, other.features)
    with pytest.raises(SettingError, match="synthetic:500"):
        read_judged("synthetic:many")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mslr-web01k/fold1", "Did you mean 'mslr-web10k'"),
        ("sinthetic:20", "no data set is called so"),
        ("{folder}/trian.txt", "Did you mean '{folder}/train.txt'"),
        ("/nowhere/at/all.txt", "Name a file .LETOR text, Parquet, CSV., synthetic"),
    ],
)
def test_unknown_names_get_a_suggestion(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "train.txt").write_text(LETOR)
    with pytest.raises(FileFormatError, match=message.format(folder=tmp_path)):
        read_judged(name.format(folder=tmp_path))


def test_mslr_and_letor4_layout(tmp_path: Path) -> None:
    for folder, features, grades in [("MSLR-WEB10K", 136, 4), ("MQ2007", 46, 2)]:
        for seed, split in enumerate(("train", "vali", "test")):
            path = tmp_path / folder / "Fold2" / f"{split}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            comment = " #docid = GX-1 inc = 1" if folder == "MQ2007" else " \r"
            path.write_text(letor_rows(features, grades, seed=seed, extra=comment), newline="")
    splits = read_splits("mslr-web10k/fold2", data_dir=tmp_path)
    assert [part.n_features for part in (splits.train, splits.valid, splits.test)] == [136] * 3
    assert splits.train.max_grade == 4
    assert not np.array_equal(splits.valid.features, splits.test.features)
    with pytest.warns(UnskewWarning, match="docids occur twice|occur twice in a query"):
        assert read_judged("mq2007/fold2/test", data_dir=tmp_path).max_grade == 2
    with pytest.raises(DataError, match="was not found in"):
        read_judged("mslr-web10k/fold3", data_dir=tmp_path)


def test_a_part_of_a_published_file_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "MSLR-WEB10K" / "Fold1" / "train.txt"
    path.parent.mkdir(parents=True)
    path.write_text(letor_rows(136, 4))
    with pytest.warns(UnskewWarning, match="has 18 rows, but mslr-web10k/fold1/train as published has 723,412"):
        assert read_judged("mslr-web10k/fold1", data_dir=tmp_path).n_rows == 18


def test_grades_beyond_the_collections_maximum(tmp_path: Path) -> None:
    (tmp_path / "mq2008.txt").write_text(LETOR.replace("2 qid", "3 qid"))
    with pytest.raises(GradeError, match="line 1: the grade must lie between 0 and 2, but 3"):
        read_judged("mq2008/all", data_dir=tmp_path)


@pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")
def test_istella_layout_with_its_sentinels(tmp_path: Path) -> None:
    huge = " 219:1.79769313486231570e+308"
    for seed, split in enumerate(("train", "vali", "test")):
        path = tmp_path / "istella-s-letor" / "sample" / f"{split}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(letor_rows(218, 4, seed=seed) + letor_rows(218, 4, seed=seed + 9, extra=huge))
    raw = read_splits("istella-s", data_dir=tmp_path)
    assert raw.train.n_features == 220
    assert raw.train.features.max() == 1e9
    scaled = read_splits("istella-s", data_dir=tmp_path, scale=True)
    for part in (scaled.train, scaled.valid, scaled.test):
        assert np.abs(part.features).max() <= 1
    np.testing.assert_allclose(scaled.train.features[:, :218].max(axis=0), 1, atol=1e-6)
    assert (scaled.train.features[:, 219] == 0).all()  # never seen: constant


@pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")
def test_yahoo_layout(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"set1.{split}.txt").write_text(letor_rows(50, 4) + "1 qid:99 700:0.5\n")
    splits = read_splits("yahoo-set1", data_dir=tmp_path)
    assert splits.test.n_features == 700
    assert splits.test.features[-1, 699] == 0.5


def test_baidu_layout(tmp_path: Path) -> None:
    folder = tmp_path / "baidu-ultr_uva-mlm-ctr"
    (folder / "clicks").mkdir(parents=True)
    (folder / "annotations").mkdir()
    keys = {"query_id": [f"q{i}" for i in range(9)], "url_md5": [["a", "b"]] * 9, "bm25": [[0.5, i] for i in range(9)]}
    clicks = pl.DataFrame({**keys, "position": [[1, 2]] * 9, "click": [[0, 1]] * 9})
    clicks.write_parquet(folder / "clicks" / "train-0.parquet")
    judged = pl.DataFrame({**keys, "label": [[4, 0]] * 9, "frequency_bucket": [1] * 9})
    judged.write_ipc(folder / "annotations" / "test.feather")
    splits = read_splits("baidu-ultr", data_dir=tmp_path)
    assert isinstance(splits.train, ClickLog)
    assert (splits.valid.n_queries, splits.test.n_queries) == (3, 6)  # a third, as in the paper's table
    assert not set(splits.valid.query_ids) & set(splits.test.query_ids)
    assert read_judged("baidu-ultr/valid", data_dir=tmp_path).query_ids.equals(splits.valid.query_ids)
    with pytest.raises(SettingError, match="is a click log, not judged data"):
        read_judged("baidu-ultr", data_dir=tmp_path)
    judged[:2].write_ipc(folder / "annotations" / "val.feather")
    assert read_judged("baidu-ultr/valid", data_dir=tmp_path).n_queries == 2
    assert read_judged("baidu-ultr/test", data_dir=tmp_path).n_queries == 9


def test_whole_collections_have_no_splits(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="Split it by query"):
        read_splits("mq2008/all", data_dir=tmp_path)


def test_public_name() -> None:
    import unskew

    assert unskew.read_judged is read_judged
    assert isinstance(unskew.read_judged("synthetic:3"), RankingData)
