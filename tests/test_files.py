"""Files and folders appear whole or not at all, whoever else writes there."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from unskew._files import atomic_folder, atomic_path, check_folder
from unskew.errors import OutputError


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "part").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(tmp_path / "a.txt") as file:
        file.write_text(str(1 // 0))
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "model") as folder:
        (folder / "part").write_text(str(1 // 0))
    assert (tmp_path / "a.txt").read_text() == (tmp_path / "model" / "part").read_text() == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.txt", "model"]


def test_a_failed_swap_puts_the_old_folder_back(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "part").write_text("old")
    with pytest.raises(OutputError, match="Cannot write"), atomic_folder(tmp_path / "model") as folder:
        shutil.rmtree(folder)  # then there is nothing to swap in
    assert (tmp_path / "model" / "part").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_an_error_that_names_the_target_is_not_wrapped_again(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught, atomic_path(tmp_path / "a.txt"):
        raise OutputError("Cannot write a.txt: the disk is full.")
    assert str(caught.value) == "Cannot write a.txt: the disk is full."


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="not an ordinary file"), atomic_path(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()


def test_a_linked_folder_is_written_through_the_link(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    (tmp_path / "current").symlink_to("v1")
    with atomic_folder(tmp_path / "current") as folder:
        (folder / "part").write_text("new")
    assert (tmp_path / "current").is_symlink()
    assert (tmp_path / "v1" / "part").read_text() == "new"


def test_two_writers_of_one_folder(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def write(text: str) -> None:
        try:
            for _ in range(50):
                with atomic_folder(tmp_path / "model") as folder:
                    (folder / "a").write_text(text)
                    (folder / "b").write_text(text)
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(text,)) for text in ("one", "two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failed
    assert (tmp_path / "model" / "a").read_text() == (tmp_path / "model" / "b").read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "model", tmp_path / "file" / "a" / "model"):
        with pytest.raises(OutputError, match="Cannot write"):
            check_folder(place)
    assert check_folder(tmp_path / "new" / "model") == tmp_path / "new" / "model"
    assert not (tmp_path / "new").exists()
