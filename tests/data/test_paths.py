"""A path is a path, whatever it looks like to a shell."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from unskew.data.csv_files import scan_csv
from unskew.data.files import read_log
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection


@pytest.mark.parametrize("folder", ["g[1]", "a*b", "what?"])
def test_a_csv_file_in_a_folder_that_looks_like_a_pattern(folder: str, tmp_path: Path) -> None:
    log = simulate(synthetic_collection(20, longest=8, typical=6, features=8), seed=0)
    path = tmp_path / folder / "log.csv"
    path.parent.mkdir()
    log.to_frame().write_csv(path)
    assert read_log(path).n_clicks == log.n_clicks
    assert scan_csv(path).select(pl.len()).collect().item() == log.n_impressions
