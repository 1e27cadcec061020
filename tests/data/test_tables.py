"""CSV as people write it: empty lines at the end, missing numbers spelled out."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import polars as pl
import pytest

from unskew.data.columns import LogColumns
from unskew.data.letor import read_letor
from unskew.data.tables import open_table
from unskew.data.validation import validate_log
from unskew.errors import ColumnError, DataError, FileFormatError
from unskew.scale.partition import partition_log
from unskew.sources import read_judged


def csv(folder: Path, text: str) -> pl.DataFrame:
    (folder / "a.csv").write_text(text)
    table = open_table(folder / "a.csv")
    assert table.height == table.take(list(table.schema)).height
    return table.take(list(table.schema))


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n\n\n"])
def test_empty_lines_at_the_end_are_no_rows(tmp_path: Path, end: str) -> None:
    assert csv(tmp_path, f"a,b\n1,x\n2,y{end}").rows() == [(1, "x"), (2, "y")]


def test_empty_lines_elsewhere_stay_visible(tmp_path: Path) -> None:
    assert csv(tmp_path, "a,b\n1,x\n\n2,y\n").height == 3


@pytest.mark.parametrize("spelled", ["nan", "NaN", "NAN"])
def test_missing_numbers_spelled_out(tmp_path: Path, spelled: str) -> None:
    frame = csv(tmp_path, f"a,b\n1.5,x\n{spelled},nan\n")
    assert frame["a"].is_nan().to_list() == [False, True]
    assert frame["b"].to_list() == ["x", "nan"]


def test_checks_of_two_tables_have_names_of_their_own(tidy_frame) -> None:
    frame = tidy_frame()
    keys = ["query_id", "session_id", "item_id", "position", "click"]
    features = frame.select("query_id", "item_id", "bm25", "age").unique(["query_id", "item_id"])
    outcome = validate_log(frame.select(keys), feature_table=features)
    names = [check.name for check in outcome.checks]
    assert len(set(names)) == len(names)
    assert outcome.status != "FAIL"
    empty = validate_log(frame.select(keys), feature_table=features.head(0))
    assert empty["features file: rows"].status == "FAIL"


def test_weights_that_are_all_zero(tidy_frame) -> None:
    frame = tidy_frame().with_columns(weight=pl.lit(0.0))
    assert validate_log(frame)["weight: some"].status == "FAIL"
    assert validate_log(frame, columns=LogColumns(weight=None)).status != "FAIL"


HEADER = "query_id,item_id,position\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"{HEADER}q,1,2\nq,1,2,3\n".encode(), r"line 3 has 4 fields, but the header has 3: 'q,1,2,3'\. Repair"),
        (f"{HEADER}q,1,2\n".encode() + b"\xe9,1,2\n", r"line 3 is not UTF-8 text: .*Save the file as UTF-8"),
        (f'{HEADER}"q,1,2\nq,2,3\n'.encode(), r"line 2 has a quotation mark that is not closed"),
        (f"{HEADER}q,1,2\n".encode("utf-16"), r"text in UTF-16: save it as UTF-8"),
        (f"{HEADER}q,1,2\n".replace("\n", "\r").encode(), r"lines with CR alone"),
        (b"7,7,1\n7,8,2\n", r"a\.csv: Column names must be distinct, but '7' .* header line missing"),
        (b"a,b,a\n7,8,2\n", r"a\.csv: Column names must be distinct, but 'a' .* Rename"),
        (b'{"query_id": 1}\n', r"is JSON\. Name a table"),
        (b"PK\x03\x04aaaa", r"is a zip archive"),
        (gzip.compress(HEADER.encode() * 99, mtime=0)[:-9], r"cut short.*Get the whole file again"),
    ],
)
def test_what_is_wrong_with_a_file_and_where(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DataError, match=said):
        open_table(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("header", "said"), [("query_id item_id", "separated by"), ("1,2.5,d7", "is the header missing")]
)
def test_a_header_that_is_none(tmp_path: Path, header: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n{header}\n")
    assert said in validate_log(tmp_path / "a.csv")["columns"].hint


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fields_may_be_separated_in_several_ways(tmp_path: Path, mark: str, start: str, end: str) -> None:
    text = start + end.join(mark.join(row) for row in (("a", "b"), ("1", "x"), ("2", "y"))) + end
    (tmp_path / "a.csv").write_bytes(text.encode())
    table = open_table(tmp_path / "a.csv")
    assert table.take(["a", "b"]).rows() == [(1, "x"), (2, "y")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of Unix")
def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (open_table, read_judged, read_letor):
        with pytest.raises(FileFormatError, match="is a pipe"):
            read(tmp_path / "pipe")


def test_a_name_that_is_almost_there(tmp_path: Path) -> None:
    (tmp_path / "log.csv").touch()
    with pytest.raises(FileFormatError, match=r"Did you mean '.*log\.csv'"):
        open_table(tmp_path / "logg.csv")


@pytest.mark.parametrize("packed", [False, True])
def test_leading_zeros_of_ids_are_kept(tmp_path: Path, packed: bool) -> None:
    """'7' and '007' are two articles of a shop; a feature may be written either way."""
    text = "query_id,item_id,relevance,month\n01,7,0,01\n01,007,1,02\n02,7,1,03\n"
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    data = read_judged(path)
    assert data.item_ids is not None
    assert data.item_ids.to_list() == ["7", "007", "7"]
    assert data.query_ids.to_list() == ["01", "02"]
    assert data.features.ravel().tolist() == [1, 2, 3]


def test_whole_numbers_stay_whole_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query_id,item_id,relevance,bm25\n1,7,0,0.5\n1,10,1,-0.25\n")
    assert read_judged(tmp_path / "a.csv").query_ids.to_list() == [1]


def test_a_log_where_everything_was_clicked(tidy_frame) -> None:
    check = validate_log(tidy_frame().with_columns(click=1))["click: some"]
    assert check.status == "WARN"
    assert "Every impression was clicked" in check.message


def test_a_parquet_file_with_a_column_twice(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table([[1, 2], [3, 4]], names=["query_id", "query_id"])
    parquet.write_table(table, tmp_path / "a.parquet")
    for read in (open_table, lambda path: partition_log(path, tmp_path / "parts")):
        with pytest.raises(ColumnError, match=r"a\.parquet: Column names must be distinct.*'query_id'"):
            read(tmp_path / "a.parquet")


def test_what_ids_are_made_of(tidy_frame) -> None:
    large = tidy_frame().with_columns(pl.col("session_id").cast(pl.Float64) + 2.0**60)
    check = validate_log(large)["session_id"]
    assert "floats too large to be exact" in check.message
    assert "integers or text" in check.hint
    written = validate_log(tidy_frame().with_columns(pl.col("click").cast(pl.String)))["click: numbers"]
    assert "numbers written as text" in written.message
