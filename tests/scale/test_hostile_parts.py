"""What memory refuses is refused in parts too, with the file or column named; full disks say so."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unskew.data.columns import LogColumns
from unskew.data.frames import log_from_frame
from unskew.errors import DataError, FileFormatError, LogError, OutputError, PartitionError, UnskewError
from unskew.scale import partition as partitioning
from unskew.scale import stream_fit as streaming
from unskew.scale.partition import partition_log
from unskew.scale.parts import check_whole, open_parts
from unskew.scale.scan import scan_stage_one
from unskew.scale.sound import sound_log
from unskew.scale.stream_fit import _mapped, _spooled, _temporary


def one_list_a_query(queries: int = 40, first: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(first)
    query = np.repeat(np.arange(first, first + queries), 5)
    return pl.DataFrame(
        {
            "query_id": query,
            "item_id": np.tile(np.arange(5), queries),
            "position": np.tile(np.arange(1, 6), queries),
            "click": (rng.random(5 * queries) < 0.3).astype(int),
            "f0": rng.normal(size=5 * queries),
            "f1": rng.normal(size=5 * queries),
        }
    )


TEXT = pl.col("f0").cast(pl.String)
BAD = {
    "numbers as text": (one_list_a_query().with_columns(f0=TEXT), {}),
    "words": (one_list_a_query().with_columns(f0=pl.lit("title")), {}),
    "dates": (one_list_a_query().with_columns(f0=pl.lit(3).cast(pl.Date)), {}),
    "categories": (one_list_a_query().with_columns(f0=TEXT.cast(pl.Categorical)), {}),
    "lists": (one_list_a_query().with_columns(f0=pl.concat_list("f0", "f1")), {}),
    "the position as a feature": (one_list_a_query(), {"features": ["position", "f0"]}),
    "the click as a feature": (one_list_a_query(), {"features": ["click", "f0"]}),
    "a feature twice": (one_list_a_query(), {"features": ["f0", "f0"]}),
    "a feature that is not there": (one_list_a_query(), {"features": ["f0", "nope"]}),
    "no features": (one_list_a_query().drop("f0", "f1"), {}),
    "scores as text": (one_list_a_query().with_columns(logging_score=TEXT), {}),
    "scores as dates": (one_list_a_query().with_columns(logging_score=pl.lit(3).cast(pl.Date)), {}),
    "scores too large": (one_list_a_query().with_columns(logging_score=pl.lit(3.4028235e38)), {}),
}


@pytest.mark.parametrize("name", BAD)
def test_what_memory_refuses_parts_refuse(tmp_path: Path, name: str) -> None:
    frame, given = BAD[name]
    frame.write_parquet(tmp_path / "log.parquet")
    with pytest.raises(DataError) as expected:
        log_from_frame(frame, **given)
    columns = LogColumns(**given)
    for read in (
        lambda: scan_stage_one(tmp_path / "log.parquet", columns=columns),
        lambda: _spooled(
            open_parts(tmp_path / "log.parquet", columns), tmp_path / "s", seed=0, split=False, batch=1000
        ),
    ):
        with pytest.raises(type(expected.value)):
            read()


def test_ids_of_128_bits_are_left_to_the_careful_reader(tmp_path: Path) -> None:
    frame = one_list_a_query().with_columns(pl.col("query_id").cast(pl.Int128))
    assert sound_log(frame, LogColumns(), ["f0", "f1"]) is None
    log_from_frame(frame)


def test_arrays_of_a_quick_log_cannot_be_changed() -> None:
    log = sound_log(one_list_a_query(), LogColumns(), ["f0", "f1"])
    assert log is not None
    for array in (log.row, log.position, log.click, log.session_offsets, log.data.features):
        assert not array.flags.writeable


def test_a_part_may_weigh_nothing_and_another_be_empty(tmp_path: Path) -> None:
    for number, weight in enumerate((0.0, 1.0)):
        part = one_list_a_query(first=100 * number).with_columns(weight=pl.lit(weight))
        part.write_parquet(tmp_path / f"part-{number}.parquet")
    part.clear().write_parquet(tmp_path / "part-2.parquet")
    parts = open_parts(tmp_path, LogColumns())
    train, _ = _spooled(parts, tmp_path / "s", seed=0, split=False, batch=1000)
    assert train.log.data.n_queries == 80
    part.with_columns(weight=pl.lit(0.0)).write_parquet(tmp_path / "part-1.parquet")
    with pytest.raises(LogError, match="weight above 0"):
        _spooled(open_parts(tmp_path, LogColumns()), tmp_path / "s2", seed=0, split=False, batch=1000)


def test_a_large_file_that_is_not_sorted_says_so(tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    with pytest.raises(PartitionError, match="not sorted by query: the rows of query '2'"):
        check_whole([pl.Series([1, 2]), pl.Series([2, 3])], [file, file])


@pytest.mark.parametrize("reader", ["partition", "memory"])
def test_the_damaged_file_of_a_folder_is_named(tmp_path: Path, reader: str) -> None:
    for number in range(3):
        one_list_a_query(4_000, first=10_000 * number).write_parquet(tmp_path / f"part-{number}.parquet")
    damaged = tmp_path / "part-1.parquet"
    content = bytearray(damaged.read_bytes())
    content[50_000:150_000] = bytes(100_000)  # pages, not the footer
    damaged.write_bytes(content)
    read = {"partition": lambda: partition_log(tmp_path, tmp_path / "out"), "memory": lambda: log_from_frame(tmp_path)}
    with pytest.raises(FileFormatError, match=r"part-1\.parquet"):
        read[reader]()


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device (os error 28)")


def test_a_full_disk_is_not_blamed_on_the_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_list_a_query().write_parquet(tmp_path / "log.parquet")
    monkeypatch.setattr(partitioning, "_spill", _full)
    with pytest.raises(OutputError, match="out: No space left on device"):
        partition_log(tmp_path / "log.parquet", tmp_path / "out")


@pytest.mark.skipif(sys.platform != "linux", reason="a limit on the size of files")
def test_scratch_without_room_names_the_folder(tmp_path: Path) -> None:
    """With a limit on file sizes, as a full disk would: no bus error, and no bare number of bytes."""
    one_list_a_query(4_000).write_parquet(tmp_path / "log.parquet")
    script = f"""
import resource, signal
from pathlib import Path
from unskew.errors import OutputError
from unskew.scale.stream_fit import _mapped, fit_streamed
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for work in (
    lambda: fit_streamed({str(tmp_path / "log.parquet")!r}, method="cfc", scratch={str(tmp_path)!r}),
    lambda: _mapped(Path({str(tmp_path / "expected")!r}), 20_000),
):
    try:
        work()
    except OutputError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("Set TMPDIR to a folder with more room") == 2
    assert done.stdout.count(str(tmp_path)) == 2


def test_a_bad_scratch_folder_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.raises(OutputError, match=r"TMPDIR is .*nowhere"):
        _temporary()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert _temporary().is_dir()


def test_too_little_room_is_said_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_list_a_query().write_parquet(tmp_path / "log.parquet")
    parts = open_parts(tmp_path / "log.parquet", LogColumns())
    room = parts.n_rows * (4 * 2 + streaming.SPOOL_KEYS)
    free = type("Usage", (), {"free": room + 1})
    monkeypatch.setattr(streaming.shutil, "disk_usage", lambda folder: free)
    with streaming._scratch([parts], tmp_path):
        pass
    with pytest.raises(UnskewError, match="MB are free"), streaming._scratch([parts, parts], tmp_path):
        pass


def test_mapped_numbers_start_at_zero(tmp_path: Path) -> None:
    assert not _mapped(tmp_path / "expected", 5).any()
