"""Parity files and their verification: what is covered, what is found."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lightgbm as lgb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.data.ranking import RankingData
from unskew.deploy.export import FORMATS, export
from unskew.deploy.forest import forest_of
from unskew.deploy.model import Model
from unskew.deploy.parity import Parity, read_parity
from unskew.deploy.parity_rows import draw_rows
from unskew.deploy.verify.check import rankings_changed, verify_export
from unskew.errors import ModelFileError, SettingError

Models = dict[str, Model]

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


@pytest.mark.parametrize("kind", ["plain", "missing", "categorical", "zeros"])
def test_drawn_rows_take_every_split_both_ways_and_stand_on_thresholds(models: Models, kind: str) -> None:
    forest = forest_of(models[kind])
    drawn = draw_rows(forest, seed=1)
    ends = np.unique(forest.leaves(drawn.rows))
    children = np.concatenate([forest.left, forest.right])
    in_trees = children[children >= forest.n_nodes] - forest.n_nodes
    # A leaf that no value can reach (x <= 1 below x > 2) is the only one that may be left out.
    assert len(ends) >= 0.98 * len(in_trees)
    assert drawn.covered == 1.0
    used = np.unique(forest.feature)
    for feature in used:
        values = drawn.rows[:, feature]
        assert np.isnan(values).any()
        assert (values == 0).any()
        nodes = [n for n in np.flatnonzero(forest.feature == feature) if n not in forest.categories]
        if nodes:
            assert np.isin(values, forest.threshold[nodes]).any()
    no_gaps = draw_rows(forest, missing=False, seed=1)
    assert not np.isnan(no_gaps.rows).any()
    assert len(draw_rows(forest, limit=300).rows) <= 300


def test_real_rows_come_first_and_keep_their_queries(models: Models, candidates: np.ndarray, tmp_path: Path) -> None:
    data = RankingData.from_arrays(candidates, sizes=[100] * 5, feature_names=models["plain"].feature_names)
    done = export(models["plain"], "solr", tmp_path / "m.json", log=data)
    parity = read_parity(done.parity)
    assert parity.facts["real_rows"] == 500
    np.testing.assert_array_equal(parity.rows[:500], candidates)
    assert np.bincount(parity.lists[:500]).tolist() == [100] * 5
    np.testing.assert_array_equal(parity.expected, models["plain"].predict(parity.rows))


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_a_parity_file_comes_back_as_it_was(models: Models, tmp_path: Path, suffix: str) -> None:
    done = export(models["missing"], "vespa", tmp_path / "m.json", parity=tmp_path / f"p.{suffix}")
    whole = read_parity(done.parity)
    again = export(models["missing"], "vespa", tmp_path / "m.json")
    other = read_parity(again.parity)
    np.testing.assert_array_equal(whole.rows, other.rows)
    np.testing.assert_array_equal(whole.expected, other.expected)
    np.testing.assert_array_equal(whole.lists, other.lists)
    assert (whole.features, whole.facts) == (other.features, other.facts)
    assert verify_export(done.path, done.parity).ok


def test_a_changed_leaf_or_threshold_is_found(models: Models, tmp_path: Path) -> None:
    done = export(models["plain"], "elasticsearch", tmp_path / "m.json")
    trees = json.loads((tmp_path / "m.definition.json").read_text())
    changed = tmp_path / "changed.json"
    node = trees[0]
    while "children" in node:
        node = node["children"][0]
    node["leaf"] += 0.01
    changed.write_text(json.dumps(trees))
    found = verify_export(changed, done.parity)
    assert not found.ok
    assert found.readings[0].largest == pytest.approx(0.01, rel=1e-3)
    node["leaf"] -= 0.01
    # The smallest step there is: a value on the threshold now goes the other way.
    trees[0]["split_condition"] = float(np.nextafter(np.float32(trees[0]["split_condition"]), np.float32(-np.inf)))
    changed.write_text(json.dumps(trees))
    assert not verify_export(changed, done.parity).ok


def test_binary_files_must_be_the_ones_that_were_written(models: Models, tmp_path: Path) -> None:
    for name in ("onnx", "treelite"):
        done = export(models["plain"], name, tmp_path / f"m.{name}")
        content = bytearray(done.path.read_bytes())
        content[len(content) // 2] ^= 1
        done.path.write_bytes(content)
        with pytest.raises(ModelFileError, match="checksum differs"):
            verify_export(done.path, done.parity)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": []}, "sound parity file"),
        ({"rows": [[1, 2]]}, "sound parity file"),
        ({"expected": [1]}, "equally many"),
        ({"features": ["a"] * 5}, "do not fit"),
        ({"facts": {}}, "which format"),
        ({"facts": {"format": "lucene"}}, "Known are"),
        ({"lists": ["x"]}, "cannot be read"),
        ({"lists": [[0]]}, "nested otherwise"),
        ({"expected": [[1]]}, "nested otherwise"),
        ({"rows": [[[1]]]}, "nested otherwise"),
    ],
)
def test_a_parity_file_that_is_not_sound_is_refused(
    models: Models, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    done = export(models["plain"], "solr", tmp_path / "m.json")
    done.parity.write_text(json.dumps(json.loads(done.parity.read_text()) | change))
    with pytest.raises(ModelFileError, match=message):
        verify_export(done.path, done.parity)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=25),
    st.sampled_from([0.0, 0.5, 1.5]),
)
def test_changed_rankings_are_those_a_comparison_of_all_pairs_finds(
    entries: list[tuple[int, int, int]], margin: float
) -> None:
    lists, expected, got = (np.array(column, dtype=float) for column in zip(*entries))
    clear, close = set(), set()
    for (a, x, u), (b, y, v) in itertools.permutations(entries, 2):
        if a == b and x > y and u < v:
            (clear if x - y > margin else close).add(a)
    assert rankings_changed(expected, got, lists.astype(int), margin) == (len(clear), len(close - clear))


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_an_edited_parity_file_is_refused(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    done = export(models["missing"], "vespa", tmp_path / "m.json", parity=tmp_path / f"p.{suffix}")
    parity = read_parity(done.parity)
    seal = parity.seal()
    first = parity.rows.copy()
    first[0, 0] = 7
    edits: list[dict[str, object]] = [
        {"expected": parity.expected + 1},
        {"rows": first},
        {"lists": parity.lists[::-1].copy()},
        {"features": parity.features[::-1]},
        {"facts": {**parity.facts, "sha256": "0" * 64}},
    ]
    for edit in edits:
        changed = replace(parity, **edit)  # type: ignore[arg-type]
        assert changed.seal() != seal
        with monkeypatch.context() as patched:  # what an editor who leaves the checksum alone would write
            patched.setattr(Parity, "seal", lambda self: seal)
            changed.save(done.parity)
        with pytest.raises(ModelFileError, match="checksum differs, so it was edited"):
            verify_export(done.path, done.parity)
    parity.save(done.parity)
    assert verify_export(done.path, done.parity).ok


def test_a_cut_parity_file_is_refused(models: Models, tmp_path: Path) -> None:
    for suffix in ("json", "parquet"):
        done = export(models["plain"], "solr", tmp_path / "m.json", parity=tmp_path / f"p.{suffix}")
        whole = done.parity.read_bytes()
        for share in (0.0, 0.1, 0.5, 0.99):
            done.parity.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(ModelFileError):
                verify_export(done.path, done.parity)


def test_parity_files_without_a_checksum_are_still_read(models: Models, tmp_path: Path) -> None:
    done = export(models["plain"], "solr", tmp_path / "m.json")
    document = json.loads(done.parity.read_text())
    del document["facts"]["parity_sha256"], document["facts"]["sha256_beside"]
    done.parity.write_text(json.dumps(document))
    found = verify_export(done.path, done.parity)
    assert found.ok
    assert found.same_file


def test_a_file_is_told_from_the_one_that_was_exported(models: Models, tmp_path: Path) -> None:
    done = export(models["plain"], "elasticsearch", tmp_path / "m.json")
    assert verify_export(done.path, done.parity).same_file
    assert verify_export(done.beside[0], done.parity).same_file
    done.path.write_text(json.dumps(json.loads(done.path.read_text()), indent=1))  # the same model, laid out anew
    found = verify_export(done.path, done.parity)
    assert found.ok
    assert not found.same_file
    other = export(models["linear"], "elasticsearch", tmp_path / "other.json")
    assert not verify_export(other.path, done.parity).ok
    solr = export(models["plain"], "solr", tmp_path / "solr.json")
    with pytest.raises(ModelFileError, match=r"solr\.json is not the file .* belongs to another export"):
        verify_export(solr.path, done.parity)


@pytest.mark.parametrize("tolerance", [-1.0, 1.0, float("nan"), float("inf")])
def test_a_tolerance_that_proves_nothing_is_refused(models: Models, tmp_path: Path, tolerance: float) -> None:
    done = export(models["plain"], "solr", tmp_path / "m.json")
    with pytest.raises(SettingError, match="tolerance"):
        verify_export(done.path, done.parity, tolerance=tolerance)


def test_many_features_mean_fewer_rows(
    make_model: Callable[..., Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unskew.deploy.export.MAX_VALUES", 400_000)
    rng, width = np.random.default_rng(0), 2000
    x = rng.normal(size=(300, width)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    params = {"objective": "regression", "num_leaves": 31, "min_data_in_leaf": 2, "verbose": -1, "num_threads": 1}
    booster = lgb.train(params | {"feature_fraction": 0.02}, lgb.Dataset(x, label=rng.normal(size=300)), 40)
    done = export(make_model(booster, tuple(f"f{i}" for i in range(width))), "solr", tmp_path / "m.json", rows=x)
    parity = read_parity(done.parity)
    assert parity.facts["real_rows"] == 200
    assert len(parity.rows) == 400
    assert done.leaves_covered is not None
    assert 0 < done.leaves_covered < 1
    assert verify_export(done.path, done.parity).ok


def test_one_feature_is_enough(make_model: Callable[..., Model], tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(100, 1))
    booster = lgb.train({"objective": "regression", "verbose": -1}, lgb.Dataset(x, label=x[:, 0]), 3)
    for name in FORMATS:
        done = export(make_model(booster, ("bm25",)), name, tmp_path / f"m.{name}")
        assert verify_export(done.path, done.parity).ok


def test_a_parquet_file_that_is_no_parity_file(models: Models, tmp_path: Path) -> None:
    done = export(models["plain"], "solr", tmp_path / "m.json")
    columns = {"unskew:list": [0], "unskew:expected": [1.0], "feature:a": [1.0]}
    for frame in (pl.DataFrame(columns), pl.DataFrame({"a": [1]}), pl.DataFrame({**columns, "feature:a": ["x"]})):
        frame.write_parquet(tmp_path / "p.parquet")
        with pytest.raises(ModelFileError, match="sound parity file"):
            verify_export(done.path, tmp_path / "p.parquet")
