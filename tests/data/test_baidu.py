"""Baidu-ULTR: small files of the published layout, written here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unskew.data.baidu import feature_columns, read_baidu_annotations, read_baidu_clicks
from unskew.errors import ColumnError, FileFormatError, GradeError, LogError

FEATURES = ["bm25", "title_bm25", "tf", "tf_idf", "idf", "ql_dirichlet", "document_length", "abstract_length"]


def published(sessions: int = 4, *, seed: int = 0, annotated: bool = False) -> pl.DataFrame:
    """Rows as the click (or annotation) part has them, text and embeddings included."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, size=sessions)
    row = {
        "query_id": [f"q{seed}-{i}" for i in range(sessions)],
        "query_md5": ["x"] * sessions,
        "query_length": [3] * sessions,
        "n": sizes.tolist(),
        "url_md5": [[f"u{seed}-{i}-{j}" for j in range(n)] for i, n in enumerate(sizes)],
        "title": [[[1, 2]] * n for n in sizes],
        "query_document_embedding": [rng.normal(size=(n, 3)).tolist() for n in sizes],
        "media_type": [[7] * n for n in sizes],
        "displayed_time": [[1.5] * n for n in sizes],
        "serp_height": [[80] * n for n in sizes],
    }
    if annotated:
        row |= {"label": [rng.integers(0, 5, n).tolist() for n in sizes], "frequency_bucket": [2] * sessions}
    else:
        row |= {
            "position": [list(range(1, n + 1)) for n in sizes],
            "click": [[1] + [0] * (n - 1) for n in sizes],
        }
    row |= {name: [rng.normal(size=n).round(3).tolist() for n in sizes] for name in FEATURES}
    return pl.DataFrame(row)


WRITERS = {
    "parquet": lambda frame, path: frame.write_parquet(path),
    "feather": lambda frame, path: frame.write_ipc(path),
    "arrow": lambda frame, path: frame.write_ipc_stream(path),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_clicks(tmp_path: Path, kind: str) -> None:
    frames = [published(seed=0), published(3, seed=1)]
    paths = [tmp_path / f"train-{i}.{kind}" for i in range(2)]
    for frame, path in zip(frames, paths, strict=True):
        WRITERS[kind](frame, path)
    log = read_baidu_clicks(paths)
    assert log.n_sessions == 7
    assert log.n_clicks == 7
    assert set(log.data.feature_names) == set(FEATURES)
    assert log.data.n_rows == log.n_impressions == sum(frame["n"].sum() for frame in frames)
    whole = pl.concat(frames)
    for session in range(7):  # every impression has its own position, click and features
        start, end = log.session_offsets[session : session + 2]
        query = log.data.query_ids[int(log.session_query[session])]
        row = whole.row(by_predicate=pl.col("query_id") == query, named=True)
        assert log.position[start:end].tolist() == row["position"]
        assert log.click[start:end].tolist() == row["click"]
        items = [log.data.item_ids[int(i)] for i in log.row[start:end]]
        assert items == row["url_md5"]
        for name in FEATURES:
            column = log.data.features[log.row[start:end], log.data.feature_names.index(name)]
            np.testing.assert_array_equal(column, np.float32(row[name]))


def test_sessions_of_one_query_share_their_rows(tmp_path: Path) -> None:
    frame = published(1)
    twice = pl.concat([frame, frame.with_columns(click=pl.col("click").list.reverse())])
    twice.write_parquet(tmp_path / "train.parquet")
    log = read_baidu_clicks(tmp_path / "train.parquet")
    assert (log.n_sessions, log.data.n_queries, log.data.n_rows) == (2, 1, frame["n"][0])


def test_an_address_shown_twice_is_two_items(tmp_path: Path) -> None:
    frame = published(1).with_columns(url_md5=pl.lit(["same"] * int(published(1)["n"][0])))
    frame.write_parquet(tmp_path / "train.parquet")
    log = read_baidu_clicks(tmp_path / "train.parquet")
    assert sorted(log.data.item_ids.to_list())[:2] == ["same", "same#2"]


def test_annotations(tmp_path: Path) -> None:
    frame = published(5, annotated=True)
    frame.write_parquet(tmp_path / "test.parquet")
    data = read_baidu_annotations(tmp_path / "test.parquet", features=["bm25", "tf*"])
    assert data.feature_names == ("bm25", "tf", "tf_idf")
    assert data.max_grade == 4
    assert data.n_queries == 5
    assert data.grades.tolist() == frame["label"].explode().to_list()
    np.testing.assert_array_equal(data.features[:, 0], frame["bm25"].explode().to_numpy().astype(np.float32))


def test_features_by_name_or_pattern() -> None:
    schema = published(1).schema
    assert feature_columns(schema, ["title_bm25", "bm25"]) == ["bm25", "title_bm25"]
    assert feature_columns(schema, ["*_length"]) == ["document_length", "abstract_length"]
    with pytest.raises(ColumnError, match=r"no feature like 'bm26'\. Its list columns of numbers: bm25, title_bm25"):
        feature_columns(schema, ["bm25", "bm26"])


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    frame = published(3)

    def reading(changed: pl.DataFrame) -> None:
        changed.write_parquet(path)
        read_baidu_clicks(path)

    with pytest.raises(ColumnError, match="has no column 'click'"):
        reading(frame.drop("click"))
    with pytest.raises(ColumnError, match="no ranking feature such as bm25"):
        reading(frame.drop(FEATURES))
    with pytest.raises(ColumnError, match="column 'position' must hold a list per query"):
        reading(frame.with_columns(position=1))
    with pytest.raises(FileFormatError, match=r"row 1 \(query 'q0-0'\): its lists differ in length"):
        reading(frame.with_columns(click=pl.col("click").list.head(1)))
    with pytest.raises(LogError):
        reading(frame.with_columns(position=pl.col("position").list.eval(pl.element() * 0)))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FileFormatError, match="Is it cut short"):
        read_baidu_clicks(path)
    with pytest.raises(FileFormatError, match="There is no file"):
        read_baidu_clicks(tmp_path / "none.parquet")
    with pytest.raises(FileFormatError, match="No file"):
        read_baidu_clicks([])
    published(2, annotated=True).with_columns(label=pl.col("label").list.eval(pl.element() + 9)).write_parquet(path)
    with pytest.raises(GradeError):
        read_baidu_annotations(path)
