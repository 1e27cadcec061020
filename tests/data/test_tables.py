"""CSV as people write it: empty lines at the end, missing numbers spelled out."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from unskew.data.columns import LogColumns
from unskew.data.tables import open_table
from unskew.data.validation import validate_log


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
