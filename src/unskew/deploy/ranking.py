"""Scores and ranks of candidates: what `unskew rank` does."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew.data.column_checks import first_text, not_ids
from unskew.data.columns import ROLES, as_ids, is_number
from unskew.data.files import pair_columns, write_frame
from unskew.data.inputs import as_matrix
from unskew.data.ranking import RankingData
from unskew.data.tables import Table, open_table, parquet_files, reading_parts
from unskew.deploy.model import Model
from unskew.errors import ColumnError, DataError, FeatureError, UnskewWarning
from unskew.sources import TABLES, is_table, read_judged

# Rows whose features are in memory at once when a Parquet file is ranked.
BLOCK = 1 << 16


def rank_candidates(
    model: Model, source: Any, *, query: str = "query_id", item: str = "item_id", block: int = BLOCK
) -> pl.DataFrame:
    """query_id, item_id, score and rank (1 = best) of every candidate, in the order of the source.

    source : RankingData, a frame, or whatever `read_judged` takes; grades are not needed. Features are matched by name,
        and other columns are left alone. A Parquet file is scored block by block and never held whole.
    Ties keep the order of the source. Rows that repeat an item of their query are ranked once, with a warning.

    >>> from unskew.rankers.base import RankerState
    >>> state = RankerState("linear", {"model.json": b'{"coefficients": [2.0], "intercept": 0}'}, ("x",), 1)
    >>> frame = pl.DataFrame({"query_id": [7, 7], "item_id": ["a", "b"], "x": [0.5, 1.0]})
    >>> rank_candidates(Model.from_state(state), frame)["rank"].to_list()
    [2, 1]
    """
    if isinstance(source, (str, os.PathLike)) and not _is_table(Path(source)):
        named: dict[str, Any] = {part: name for part, name in (("query", query), ("item", item)) if name != ROLES[part]}
        source = read_judged(source, missing="keep" if model.takes_missing else "refuse", **named)
    if isinstance(source, RankingData):
        keys = pair_columns(source).select("query_id", "item_id")
        scores = _scores(model, as_matrix(source, model.feature_names), block)
        return _ranked(_once(keys.with_columns(pl.Series("score", scores)), "the data"))
    table = open_table(source)
    if table.height == 0:
        raise DataError(f"{table.source} has no row, so there is nothing to rank.")
    _refuse_features(model, table)
    keys = _keys(table, query, item)
    files = parquet_files(Path(source)) if isinstance(source, (str, os.PathLike)) else None
    if files is None:
        scores = _scores(model, as_matrix(table.take(list(model.feature_names)), model.feature_names), block)
    else:
        scores = _by_block(model, files, table.height, block)
    return _ranked(_once(keys.with_columns(pl.Series("score", scores)), table.source))


def write_ranking(ranking: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a ranking as Parquet or CSV, by the ending of the path."""
    write_frame(ranking, path)


def _scores(model: Model, matrix: npt.NDArray[np.float32], block: int) -> npt.NDArray[np.float64]:
    """(rows,) scores, a block at a time; messages number the rows of the whole."""
    return np.concatenate(
        [model.predict(matrix[start : start + block], first_row=start + 1) for start in _starts(len(matrix), block)]
    )


def _by_block(model: Model, files: list[Path], height: int, block: int) -> npt.NDArray[np.float64]:
    """The same from Parquet, which is never held whole."""
    with reading_parts(files, files[0] if len(files) == 1 else files[0].parent):
        scan = pl.scan_parquet(files, glob=False, hive_partitioning=False).select(list(model.feature_names))
        return np.concatenate(
            [model.predict(scan.slice(start, block).collect(), first_row=start + 1) for start in _starts(height, block)]
        )


def _starts(total: int, block: int) -> range:
    return range(0, max(1, total), block)


def _ranked(scored: pl.DataFrame) -> pl.DataFrame:
    place = pl.col("score").rank("ordinal", descending=True).over("query_id").cast(pl.Int32)
    return scored.with_columns(place.alias("rank"))


def _once(scored: pl.DataFrame, source: str) -> pl.DataFrame:
    """Every item of a query once: a click log shows the same ones again and again."""
    pair = ["query_id", "item_id"]
    distinct = scored.unique(pair, keep="first", maintain_order=True)
    repeated = scored.height - distinct.height
    if repeated == 0:
        return scored
    twice = scored.unique([*pair, "score"], maintain_order=True)
    if twice.height > distinct.height:
        first = twice.filter(twice.select(pair).is_duplicated()).row(0, named=True)
        raise DataError(
            f"An item needs one score in its query, but {twice.height - distinct.height:,} rows of {source} give an "
            f"item another one than an earlier row (first: query '{first['query_id']}', item '{first['item_id']}'): "
            "its features differ between rows. Keep one row of each query and item, the one to rank by."
        )
    warnings.warn(
        f"{repeated:,} of {scored.height:,} rows of {source} repeat an item of their query, as a click log does; "
        f"each item was ranked once.",
        UnskewWarning,
        stacklevel=3,
    )
    return distinct


def _keys(table: Table, query: str, item: str) -> pl.DataFrame:
    """query_id and item_id of every row."""
    if query not in table.schema:
        listed = ", ".join(f"'{name}'" for name in list(table.schema)[:8])
        raise ColumnError(
            f"{table.source} needs a column with the query's id; '{query}' is not there. Its columns are {listed}. "
            "Name it with --query."
        )
    if item not in table.schema and item != "item_id":
        raise ColumnError(f"{table.source} has no column '{item}'. Name the column with the item's id with --item.")
    names = _ids(table, query).alias("query_id")
    if item in table.schema:
        return pl.DataFrame([names, _ids(table, item).alias("item_id")])
    # As for judged data without ids: items are named by their place in the query, from 1.
    return pl.DataFrame([names]).with_columns((pl.int_range(pl.len()).over("query_id") + 1).alias("item_id"))


def _ids(table: Table, column: str) -> pl.Series:
    found = table.ids(column)
    ids = as_ids(found)
    if ids is None:
        raise ColumnError(
            f"{table.source}: {column} must be integers or text, but the column holds {not_ids(found)}. "
            "Turn it into integers or text."
        )
    missing = ids.is_null()
    if missing.any():
        count, row = ids.null_count(), int(missing.arg_true()[0]) + 1
        rows = "1 row has" if count == 1 else f"{count:,} rows have"
        raise DataError(
            f"{table.source}: {column} must not be missing, but {rows} none (first: row {row:,}). "
            "Name every query and item, or leave those rows out."
        )
    return ids


def _refuse_features(model: Model, table: Table) -> None:
    """Refuse a table that lacks features of the model, or has them as something other than numbers."""
    lacking = [name for name in model.feature_names if name not in table.schema]
    if lacking:
        shown = ", ".join(f"'{name}'" for name in lacking[:5]) + (" …" if len(lacking) > 5 else "")
        raise FeatureError(
            f"{table.source} lacks {len(lacking)} of the model's {model.n_features} features: {shown}. "
            "Candidates need the columns that the model was fitted on, under the same names."
        )
    text = [name for name in model.feature_names if not is_number(table.schema[name])]
    if text:
        raise FeatureError(
            f"Features must be numbers, but column '{text[0]}' of {table.source} is of type "
            f"{table.schema[text[0]]}{first_text(table, text[0])}. Turn it into numbers."
        )


def _is_table(path: Path) -> bool:
    """Whether a source is a table; a name that is no file may be that of a collection."""
    return is_table(path) if path.exists() else path.suffix.lower() in TABLES
