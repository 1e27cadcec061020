"""The registry: names, files wherever a person may have unpacked them, archives, and what is said when they lack."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from unskew.data import datasets, published
from unskew.data.datasets import archive_state, find, parse_name, status
from unskew.data.published import DATASETS, SPLITS
from unskew.errors import DataError, SettingError


def lay(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("0 qid:1 1:1\n")


def of(name: str, statuses: list[datasets.Status]) -> datasets.Status:
    return next(entry for entry in statuses if entry.dataset.name == name)


def test_what_is_registered_is_what_was_published() -> None:
    # datasets as the paper's appendix counts them
    counts = {
        name: [DATASETS[name].parts[part][split] for split in SPLITS]
        for name, part in [("mslr-web10k", "fold1"), ("istella-s", ""), ("yahoo-set1", ""), ("baidu-ultr", "")]
    }
    assert [(s.queries, s.rows) for s in counts["mslr-web10k"]] == [(6000, 723412), (2000, 235260), (2000, 241521)]
    assert [(s.queries, s.rows) for s in counts["istella-s"]] == [(19245, 2043304), (7211, 684076), (6562, 681250)]
    assert [(s.queries, s.rows) for s in counts["yahoo-set1"]] == [(19944, 473134), (2994, 71083), (6983, 165660)]
    assert [(s.queries, s.rows) for s in counts["baidu-ultr"]] == [(1779017, 14526276), (1727, 136513), (3455, 261009)]
    assert {name: entry.n_features for name, entry in DATASETS.items()} == {
        "mslr-web10k": 136,
        "istella-s": 220,
        "yahoo-set1": 700,
        "baidu-ultr": None,
        "mq2007": 46,
        "mq2008": 46,
    }
    assert {name for name, entry in DATASETS.items() if entry.scaling == "log"} == {"istella-s"}
    assert {name for name, entry in DATASETS.items() if entry.max_grade == 2} == {"mq2007", "mq2008"}


def test_names() -> None:
    assert str(parse_name("MSLR-WEB10K/Fold3/Test")) == "mslr-web10k/fold3/test"
    assert str(parse_name("mslr-web10k/test")) == "mslr-web10k/fold1/test"
    assert str(parse_name("yahoo-set1/validation")) == "yahoo-set1/valid"
    assert str(parse_name("mq2008/all")) == "mq2008/all"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mslr-web10", "Did you mean 'mslr-web10k'"),
        ("nothing-like-it", "Known: mslr-web10k, istella-s"),
        ("mslr-web10k/fold6", "fold1, fold2, fold3, fold4, fold5, train, valid, test"),
        ("istella-s/fold1", "names no part of istella-s. Use istella-s/… with train, valid, test"),
        ("istella-s/test/more", "names no part"),
    ],
)
def test_wrong_names(name: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse_name(name)


@pytest.mark.parametrize("folder", ["MSLR-WEB10K", "mslr-web10k", "."])
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_found_under_any_case_and_compression(tmp_path: Path, folder: str, suffix: str) -> None:
    base = tmp_path / "MSLR-WEB10K" if folder == "." else tmp_path
    lay(base / folder, f"Fold1/vali.txt{suffix}")
    (found,) = find("mslr-web10k/fold1/valid", base)
    assert found.name == f"vali.txt{suffix}"


def test_folds_of_another_collection_are_not_taken(tmp_path: Path) -> None:
    lay(tmp_path, "MQ2007/Fold1/train.txt", "Fold1/train.txt")
    assert [entry.dataset.name for entry in status(tmp_path) if entry.found] == ["mq2007"]
    with pytest.raises(DataError, match=r"expected MSLR-WEB10K/Fold1/train.txt.\nDownload MSLR-WEB10K.zip"):
        find("mslr-web10k", tmp_path)


def test_files_of_their_own_name_may_lie_anywhere(tmp_path: Path) -> None:
    lay(tmp_path, "set1.train.txt", "mq2008.txt.xz")
    assert find("yahoo-set1", tmp_path) == (tmp_path / "set1.train.txt",)
    assert of("yahoo-set1", status(tmp_path)).state == "partly"
    assert of("mq2008", status(tmp_path)).state == "found"


def test_status(tmp_path: Path) -> None:
    lay(tmp_path, *(f"istella-s-letor/sample/{name}.txt" for name in ("train", "vali", "test")))
    entry = of("istella-s", status(tmp_path))
    assert entry.state == "found"
    assert list(entry.found) == ["istella-s/train", "istella-s/valid", "istella-s/test"]
    assert entry.missing == ()
    assert of("mslr-web10k", status(tmp_path)).state == "missing"
    assert len(of("mslr-web10k", status(tmp_path)).missing) == 15


def test_parts_of_tables_are_found_together(tmp_path: Path) -> None:
    lay(
        tmp_path,
        "baidu-ultr/clicks/train-1.parquet",
        "baidu-ultr/clicks/train-0.parquet",
        "baidu-ultr/clicks/readme.md",
    )
    assert [path.name for path in find("baidu-ultr", tmp_path)] == ["train-0.parquet", "train-1.parquet"]


def test_archives_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"an archive"
    small = published.Archive("MSLR-WEB10K.zip", len(content), sha256(content).hexdigest())
    monkeypatch.setitem(DATASETS, "mslr-web10k", replace(DATASETS["mslr-web10k"], archive=small))
    assert of("mslr-web10k", status(tmp_path)).archive_state == "absent"
    path = tmp_path / "MSLR-WEB10K.zip"
    for written, state in [(content, "good"), (content[:-1], "wrong size"), (content[:-1] + b"x", "wrong checksum")]:
        path.write_bytes(written)
        assert of("mslr-web10k", status(tmp_path)).archive_state == state
    assert archive_state(path, small, verify=False) == "good"


def test_where_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"--data-dir .* UNSKEW_DATA"):
        find("mslr-web10k")
    lay(tmp_path, "MSLR-WEB10K/Fold1/train.txt")
    monkeypatch.setenv("UNSKEW_DATA", str(tmp_path))
    assert find("mslr-web10k")
    with pytest.raises(DataError, match="There is no data folder"):
        find("mslr-web10k", tmp_path / "none")
