"""Scores and ranks of candidates: what `unskew rank` does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._files import atomic_path
from unskew.data.files import pair_columns
from unskew.data.inputs import as_matrix
from unskew.data.ranking import RankingData
from unskew.data.tables import open_table, parquet_files, reading
from unskew.deploy.model import Model
from unskew.errors import ColumnError, DataError, FeatureError, OutputError
from unskew.sources import read_judged

# Rows whose features are in memory at once when a Parquet file is ranked.
BLOCK = 1 << 16


def rank_candidates(
    model: Model, source: Any, *, query: str = "query_id", item: str = "item_id", block: int = BLOCK
) -> pl.DataFrame:
    """query_id, item_id, score and rank (1 = best) of every candidate, in the order of the source.

    source : RankingData, a frame, or whatever `read_judged` takes; grades are not needed. Features are matched by name,
        and other columns are left alone. A Parquet file is scored block by block and never held whole.
    Ties keep the order of the source.

    >>> from unskew.rankers.base import RankerState
    >>> state = RankerState("linear", {"model.json": b'{"coefficients": [2.0], "intercept": 0}'}, ("x",), 1)
    >>> frame = pl.DataFrame({"query_id": [7, 7], "item_id": ["a", "b"], "x": [0.5, 1.0]})
    >>> rank_candidates(Model.from_state(state), frame)["rank"].to_list()
    [2, 1]
    """
    if isinstance(source, (str, os.PathLike)) and not _is_table(Path(source)):
        source = read_judged(source, missing="keep" if model.takes_missing else "refuse")
    if isinstance(source, RankingData):
        keys = pair_columns(source).select("query_id", "item_id")
        matrix = as_matrix(source, model.feature_names)
        scores = [model.predict(matrix[start : start + block]) for start in _starts(source.n_rows, block)]
        return _ranked(keys, np.concatenate(scores))
    table = open_table(source)
    if table.height == 0:
        raise DataError(f"{table.source} has no row, so there is nothing to rank.")
    keys = _keys(table.take([name for name in (query, item) if name in table.schema]), query, item, table.source)
    _refuse_missing(model, list(table.schema), table.source)
    files = parquet_files(Path(source)) if isinstance(source, (str, os.PathLike)) else None
    if files is not None:
        scores = _by_block(model, files, table.height, block)
    else:
        scores = [model.predict(table.take(list(model.feature_names)))]
    return _ranked(keys, np.concatenate(scores))


def write_ranking(ranking: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a ranking as Parquet or CSV, by the ending of the path."""
    target = Path(path)
    if target.suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise OutputError(f"Cannot write {target}: name a file that ends in .parquet or .csv.")
    with atomic_path(target) as temporary:
        if target.suffix.lower() == ".csv":
            ranking.write_csv(temporary)
        else:
            ranking.write_parquet(temporary)


def _by_block(model: Model, files: list[Path], height: int, block: int) -> list[npt.NDArray[np.float64]]:
    with reading(files[0], "a Parquet file"):
        scan = pl.scan_parquet(files, glob=False, hive_partitioning=False).select(list(model.feature_names))
        return [model.predict(scan.slice(start, block).collect()) for start in _starts(height, block)]


def _starts(total: int, block: int) -> range:
    return range(0, max(1, total), block)


def _ranked(keys: pl.DataFrame, scores: npt.NDArray[np.float64]) -> pl.DataFrame:
    scored = keys.with_columns(pl.Series("score", scores))
    place = pl.col("score").rank("ordinal", descending=True).over("query_id").cast(pl.Int32)
    return scored.with_columns(place.alias("rank"))


def _keys(frame: pl.DataFrame, query: str, item: str, source: str) -> pl.DataFrame:
    if query not in frame.columns:
        raise ColumnError(f"{source} needs a column with the query's id; '{query}' is not there. Name it with --query.")
    names = frame[query].alias("query_id")
    if names.has_nulls():
        row = int(names.is_null().arg_true()[0]) + 1
        raise DataError(f"{query} must not be missing, but {names.null_count():,} rows have none (first: row {row}).")
    if item in frame.columns:
        return pl.DataFrame([names, frame[item].alias("item_id")])
    # As for judged data without ids: items are named by their place in the query, from 1.
    return pl.DataFrame([names]).with_columns((pl.int_range(pl.len()).over("query_id") + 1).alias("item_id"))


def _refuse_missing(model: Model, have: list[str], source: str) -> None:
    lacking = [name for name in model.feature_names if name not in set(have)]
    if lacking:
        shown = ", ".join(f"'{name}'" for name in lacking[:5]) + (" …" if len(lacking) > 5 else "")
        raise FeatureError(f"{source} lacks {len(lacking)} of the model's {model.n_features} features: {shown}.")


def _is_table(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() in (".parquet", ".pq", ".csv", ".tsv", ".arrow", ".feather")
