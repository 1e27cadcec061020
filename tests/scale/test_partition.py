"""A log in parts: whole queries, balanced, nothing lost, in any order, in bounded memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from unskew.cli import app, commands  # noqa: F401  (importing registers the commands)
from unskew.errors import ColumnError, DataError, FileFormatError, OutputError
from unskew.scale.partition import deal, partition_log


def _shuffled_log(queries: int = 300, seed: int = 0, *, text: bool = False) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(queries), rng.integers(1, 12, queries))
    frame = pl.DataFrame({"query_id": query, "position": rng.integers(1, 9, len(query)), "x": rng.random(len(query))})
    if text:
        frame = frame.with_columns(pl.format("q{}", "query_id").alias("query_id"))
    return frame.sample(fraction=1, shuffle=True, seed=seed)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_every_row_lands_once_and_queries_stay_whole(tmp_path: Path, parts: int, text: bool) -> None:
    frame = _shuffled_log(text=text)
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=100)
    written = partition_log(tmp_path / "log.parquet", tmp_path / "parts", parts=parts)
    files = sorted((tmp_path / "parts").iterdir())
    found = [pl.read_parquet(file) for file in files]
    assert len(found) == parts
    assert written.rows == tuple(part.height for part in found)
    assert pl.concat(found).sort("query_id", "position", "x").equals(frame.sort("query_id", "position", "x"))
    queries = [set(part["query_id"]) for part in found]
    assert sum(map(len, queries)) == frame["query_id"].n_unique() == sum(written.queries)
    assert max(written.rows) - min(written.rows) <= 11  # the longest query
    assert all(part["query_id"].is_sorted() for part in found)


def test_csv_and_folders_can_be_partitioned_too(tmp_path: Path) -> None:
    frame = _shuffled_log()
    frame.write_csv(tmp_path / "log.csv")
    (tmp_path / "days").mkdir()
    frame[:500].write_parquet(tmp_path / "days" / "a.parquet")
    frame[500:].write_parquet(tmp_path / "days" / "b.parquet")
    for source, out in ((tmp_path / "log.csv", "one"), (tmp_path / "days", "two")):
        assert sum(partition_log(source, tmp_path / out, parts=3).rows) == frame.height


def test_brackets_in_a_path_are_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "logs[1]").mkdir()
    frame = _shuffled_log()
    frame.write_parquet(tmp_path / "logs[1]" / "log[2].parquet")
    assert sum(partition_log(tmp_path / "logs[1]" / "log[2].parquet", tmp_path / "g[1]" / "p[2]").rows) == frame.height


def test_what_a_file_says_about_itself_goes_along(tmp_path: Path) -> None:
    facts = {"unskew": '{"format": 1, "max_grade": 4}'}
    _shuffled_log().write_parquet(tmp_path / "log.parquet", metadata=facts)
    partition_log(tmp_path / "log.parquet", tmp_path / "parts", parts=2)
    assert pl.read_parquet_metadata(tmp_path / "parts" / "part-00001.parquet")["unskew"] == facts["unskew"]


def test_the_number_of_parts_follows_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = _shuffled_log()
    frame.write_parquet(tmp_path / "log.parquet")
    monkeypatch.setattr("unskew.scale.partition.PART_BYTES", frame.height * 24 // 5)
    assert len(partition_log(tmp_path / "log.parquet", tmp_path / "parts").rows) in (5, 6)


def test_a_part_is_never_empty(tmp_path: Path) -> None:
    pl.DataFrame({"query_id": [1, 1, 2], "x": [0.1, 0.2, 0.3]}).write_parquet(tmp_path / "log.parquet")
    assert sorted(partition_log(tmp_path / "log.parquet", tmp_path / "parts", parts=7).rows) == [1, 2]


def test_dealing_gives_the_largest_to_the_emptiest() -> None:
    counts = np.random.default_rng(0).integers(0, 50, 1000)
    rows = np.bincount(deal(counts, 8), weights=counts)
    assert rows.max() - rows.min() <= 50


def test_bad_input_is_refused_by_name(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    _shuffled_log().write_parquet(log)
    with pytest.raises(ColumnError, match=r"no column 'topic'.*'query_id'"):
        partition_log(log, tmp_path / "parts", query="topic")
    (tmp_path / "cut.parquet").write_bytes(log.read_bytes()[:2000])
    with pytest.raises(FileFormatError, match=r"cut\.parquet"):
        partition_log(tmp_path / "cut.parquet", tmp_path / "parts")
    pl.DataFrame({"query_id": [1, None], "x": [0.1, 0.2]}).write_parquet(tmp_path / "none.parquet")
    with pytest.raises(DataError, match=r"1 rows of .*none.parquet have no 'query_id'"):
        partition_log(tmp_path / "none.parquet", tmp_path / "parts")
    assert not (tmp_path / "parts").exists()
    (tmp_path / "parts").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        partition_log(log, tmp_path / "parts")


def test_the_command(tmp_path: Path) -> None:
    _shuffled_log().write_parquet(tmp_path / "log.parquet")
    line = ["partition", str(tmp_path / "log.parquet"), "--out", str(tmp_path / "parts"), "--by", "query"]
    result = CliRunner().invoke(app, [*line, "--parts", "4", "--json"])
    assert result.exit_code == 0, result.output
    assert '"parts": 4' in result.stdout
    assert CliRunner().invoke(app, line).exit_code == 2


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_csv_of_other_separators_and_ids_with_leading_zeros(tmp_path: Path, mark: str) -> None:
    rows = [("query_id", "item_id", "position"), ("07", "1", "1"), ("7", "1", "1"), ("07", "2", "2")]
    (tmp_path / "log.csv").write_text("\n".join(mark.join(row) for row in rows) + "\n")
    written = partition_log(tmp_path / "log.csv", tmp_path / "parts")
    assert sum(written.queries) == 2
    frame = pl.read_parquet(tmp_path / "parts" / "*.parquet")
    assert frame.sort("query_id", "position").rows() == [("07", 1, 1), ("07", 2, 2), ("7", 1, 1)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"query_id,position,position\n1,1,2\n", "must be distinct"),
        (b"query_id,position,a\n1,1,2\n1,2\n", "was cut"),
        (b"query_id,position\n1,1\n1,2,3\n", "line 3 has 3 fields"),
        (b"\xfd7zXZ\x00aaaa", "xz"),
        (b"1 qid:1 1:1\n", "LETOR"),
        (gzip.compress(b"query_id,position\n1,1\n" * 999, mtime=0)[:-20], "cut short"),
    ],
)
def test_files_that_are_no_sound_csv(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "log.csv").write_bytes(content)
    with pytest.raises(DataError, match=said):
        partition_log(tmp_path / "log.csv", tmp_path / "parts")
    assert not (tmp_path / "parts").exists()
