"""The cache of parsed text: served when the source is unchanged, rebuilt whenever anything is in doubt."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from unskew.data import cache, letor
from unskew.data._letor_file import parse_file
from unskew.data.letor import read_letor
from unskew.errors import FeatureError, GradeError, UnskewWarning

TEXT = "".join(f"{i % 3} qid:{i // 5} 1:{i}.5 3:{i % 7} #docid = d{i}\n" for i in range(200))


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were parsed, one entry a time."""
    done: list[Path] = []

    def counted(path: Path, rules: object) -> object:
        done.append(path)
        return parse_file(path, rules)

    monkeypatch.setattr(letor, "parse_file", counted)
    monkeypatch.setattr(cache, "SMALLEST_SOURCE", 1)
    return done


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNSKEW_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "rows.txt"
    path.write_text(TEXT)
    return path


def entry(source: Path) -> Path:
    (only,) = (source.parent / "cache" / "parsed").iterdir()
    return only


def test_second_load_is_mapped_and_equal(source: Path, parses: list) -> None:
    first, second = read_letor(source), read_letor(source)
    assert len(parses) == 1
    np.testing.assert_array_equal(first.features, second.features)
    np.testing.assert_array_equal(first.grades, second.grades)
    np.testing.assert_array_equal(first.offsets, second.offsets)
    assert first.query_ids.equals(second.query_ids)
    assert first.item_ids.equals(second.item_ids)
    assert (second.query_ids.name, second.item_ids.name) == ("query_id", "item_id")
    assert first.feature_names == second.feature_names
    assert first.max_grade == second.max_grade
    assert second.features.dtype == np.float32
    assert type(second.features) is np.ndarray
    assert isinstance(second.features.base, np.memmap)
    assert not second.features.flags.writeable


def test_loads_like_any_other_data(source: Path, parses: list) -> None:
    read_letor(source)
    data = read_letor(source)
    part = data.take_queries([3, 0])
    assert part.query_ids.to_list() == [3, 0]
    assert part.features[0, 0] == 15.5


@pytest.mark.parametrize("settled", [True, False])
def test_a_changed_source_is_never_served_stale(
    source: Path, parses: list, settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_SETTLED_NS", -(10**18) if settled else 10**18)
    read_letor(source)
    stat = source.stat()
    time.sleep(0.05)  # longer than the tick of the file system's clock
    source.write_text(TEXT.replace("1:7.5", "1:8.5"))  # the same size …
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # … and the same time
    assert source.stat().st_size == stat.st_size
    assert source.stat().st_mtime_ns == stat.st_mtime_ns
    assert read_letor(source).features[7, 0] == 8.5
    assert len(parses) == 2
    assert entry(source).is_dir()  # the old entry was replaced


def test_a_source_that_changed_within_the_clocks_tick_is_noticed(source: Path, parses: list) -> None:
    read_letor(source)
    source.write_text(TEXT.replace("1:7.5", "1:8.5"))
    assert read_letor(source).features[7, 0] == 8.5


def test_a_touched_or_replaced_source_with_the_same_contents_is_served(source: Path, parses: list) -> None:
    read_letor(source)
    os.utime(source)
    read_letor(source)
    copy = source.with_name("copy")
    copy.write_text(TEXT)
    copy.replace(source)
    read_letor(source)
    assert len(parses) == 1


def test_old_seals_are_trusted_without_reading(source: Path, parses: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_SETTLED_NS", 30_000_000)
    read_letor(source)
    time.sleep(0.06)
    read_letor(source)  # verified by its contents, and sealed again

    def refuse(path: Path) -> str:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(cache, "sha256_of", refuse)
    read_letor(source)
    assert len(parses) == 1


DAMAGES = {
    "a flipped byte": lambda f: f.write_bytes(
        f.read_bytes()[:-9] + bytes([f.read_bytes()[-9] ^ 1]) + f.read_bytes()[-8:]
    ),
    "cut": lambda f: f.write_bytes(f.read_bytes()[: f.stat().st_size // 2]),
    "empty": lambda f: f.write_bytes(b""),
    "gone": lambda f: f.unlink(),
    "a folder": lambda f: (f.unlink(), f.mkdir()),
}


@pytest.mark.parametrize("name", ["features.npy", "offsets.npy", "grades.npy", "query_ids.arrow", "item_ids.arrow"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("settled", [True, False])
def test_damaged_files_are_noticed_and_rebuilt(
    source: Path, parses: list, name: str, damage: str, settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_SETTLED_NS", -(10**18) if settled else 10**18)
    expected = read_letor(source)
    time.sleep(0.02)
    DAMAGES[damage](entry(source) / name)
    again = read_letor(source)
    assert len(parses) == 2
    np.testing.assert_array_equal(again.features, expected.features)
    read_letor(source)
    assert len(parses) == 2  # what was rebuilt is whole


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"sha256": "", "body": "{}"}', "null"])
def test_a_damaged_manifest_is_noticed(source: Path, parses: list, content: str) -> None:
    read_letor(source)
    (entry(source) / "manifest.json").write_text(content)
    read_letor(source)
    assert len(parses) == 2


def test_an_edited_manifest_is_noticed(source: Path, parses: list) -> None:
    read_letor(source)
    path = entry(source) / "manifest.json"
    document = json.loads(path.read_text())
    document["body"] = document["body"].replace('"max_grade": 2', '"max_grade": 4')
    path.write_text(json.dumps(document))
    assert read_letor(source).max_grade == 2
    assert len(parses) == 2


def test_settings_and_versions_have_entries_of_their_own(
    source: Path, parses: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_letor(source).n_features == 3
    assert read_letor(source, n_features=9).n_features == 9
    assert read_letor(source).n_features == 3
    monkeypatch.setattr(letor, "PARSER_VERSION", 99)
    read_letor(source)
    assert len(parses) == 3


def test_the_maximum_grade_is_checked_on_cached_data_too(source: Path, parses: list) -> None:
    assert read_letor(source, max_grade=4).max_grade == 4
    assert read_letor(source).max_grade == 2
    with pytest.raises(GradeError, match="line 3: the grade must lie between 0 and 1, but 2"):
        read_letor(source, max_grade=1)


def test_notes_are_told_again(source: Path, parses: list) -> None:
    source.write_text("0 qid:1 1:1\n0 qid:2 1:1\n0 qid:1 1:1\n")
    for _ in range(2):
        with pytest.warns(UnskewWarning, match="regrouped"):
            assert read_letor(source).notes
    assert len(parses) == 1


def test_bad_files_leave_nothing_behind(source: Path, parses: list) -> None:
    source.write_text(TEXT + "0 qid:1 1:x\n")
    with pytest.raises(FeatureError):
        read_letor(source)
    assert not (source.parent / "cache").exists()


def test_a_cache_that_cannot_be_written_does_not_stop_the_work(
    source: Path, parses: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = source.parent / "blocked"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setenv("UNSKEW_CACHE", str(blocked))
    with pytest.warns(UnskewWarning, match="not cached"):
        assert read_letor(source).n_rows == 200


def test_small_sources_and_cache_off_are_not_kept(source: Path) -> None:
    read_letor(source)
    assert not (source.parent / "cache").exists()


def test_cache_off(source: Path, parses: list) -> None:
    read_letor(source, cache=False)
    assert not (source.parent / "cache").exists()


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNSKEW_CACHE", str(tmp_path / "mine"))
    assert cache.cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("UNSKEW_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_folder() == tmp_path / "xdg" / "unskew"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder() == Path.home() / ".cache" / "unskew"


def test_clear(source: Path, parses: list) -> None:
    read_letor(source)
    cache.clear_cache()
    read_letor(source)
    assert len(parses) == 2
