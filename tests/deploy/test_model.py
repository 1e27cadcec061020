"""The saved model: what it scores, what it refuses, what loading costs."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import unskew
from unskew.data.ranking import RankingData
from unskew.deploy.manifest import SEAL, digest, seal
from unskew.deploy.model import Model, load
from unskew.errors import FeatureError, ModelFileError, OutputError
from unskew.rankers.base import RankerState
from unskew.rankers.net_scorer import NetScorer

Models = dict[str, Model]


@pytest.mark.parametrize("kind", ["plain", "missing", "categorical", "zeros", "forest", "linear"])
def test_a_saved_model_scores_as_before(models: Models, candidates: np.ndarray, tmp_path: Path, kind: str) -> None:
    model = models[kind]
    model.save(tmp_path / "model")
    loaded = unskew.load(tmp_path / "model")
    assert loaded.feature_names == model.feature_names
    assert loaded.manifest == model.manifest
    np.testing.assert_array_equal(loaded.predict(candidates), model.predict(candidates))


def test_scores_are_lightgbms(make_booster: Callable[..., lgb.Booster], candidates: np.ndarray, models: Models) -> None:
    whole = np.hstack([candidates, np.zeros((len(candidates), 2), dtype=np.float32)])
    for kind, options in {"missing": {"missing": True}, "plain": {}}.items():
        expected = make_booster(**options).predict(whole, raw_score=True)
        np.testing.assert_array_equal(models[kind].predict(candidates), expected)


def test_a_random_forest_gives_its_mean(models: Models, candidates: np.ndarray) -> None:
    booster = lgb.Booster(model_str=models["forest"].files["model.txt"].decode())
    np.testing.assert_allclose(models["forest"].predict(candidates), booster.predict(candidates), rtol=1e-12)


def test_features_are_matched_by_name(models: Models, candidates: np.ndarray) -> None:
    model = models["plain"]
    expected = model.predict(candidates)
    shuffled = [3, 0, 4, 1, 2]
    names = [model.feature_names[i] for i in shuffled]
    frame = pl.DataFrame(dict(zip(names, candidates[:, shuffled].T))).with_columns(other=pl.lit("text"))
    data = RankingData.from_arrays(candidates[:, shuffled], sizes=[len(candidates)], feature_names=names)
    for given in (frame, frame.to_pandas(), frame.to_arrow(), data, candidates.astype(np.float64)):
        np.testing.assert_array_equal(model.predict(given), expected)
    assert model.predict(candidates[0]).tolist() == expected[:1].tolist()
    assert model.predict(candidates[:0]).shape == (0,)
    with pytest.raises(FeatureError, match="missing: 'pagerank'"):
        model.predict(frame.drop("pagerank"))
    with pytest.raises(FeatureError, match="takes 5 features"):
        model.predict(candidates[:, :4])
    for text in (pd.DataFrame({name: ["a"] for name in names}), frame.with_columns(pagerank=pl.lit("x")), [["a"] * 5]):
        with pytest.raises(FeatureError, match="numbers"):
            model.predict(text)
    gaps = frame.to_pandas().astype({"pagerank": "Float64"})
    gaps.loc[0, "pagerank"] = pd.NA
    hollow = candidates.copy()
    hollow[0, 1] = np.nan
    np.testing.assert_array_equal(models["missing"].predict(gaps), models["missing"].predict(hollow))


def test_missing_values_only_where_they_mean_something(models: Models, candidates: np.ndarray) -> None:
    hollow = candidates.copy()
    hollow[3, 1] = np.nan
    assert np.isfinite(models["missing"].predict(hollow)).all()
    with pytest.raises(FeatureError, match=r"pagerank.*row 4"):
        models["linear"].predict(hollow)


def test_a_net_is_folded_saved_and_loaded(small_net: RankerState, tmp_path: Path) -> None:
    model = Model.from_state(small_net)
    assert model.feature_names == ("a", "b", "c")
    assert 0 < model.manifest["folded"]["term_weight"] < 1
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    whole = NetScorer.from_bytes(small_net.files["model.safetensors"], small_net.info)
    zeros = np.zeros((50, 2), dtype=np.float32)
    np.testing.assert_array_equal(model.predict(rows), whole.predict(np.hstack([rows, zeros])))
    model.save(tmp_path / "net")
    np.testing.assert_array_equal(load(tmp_path / "net").predict(rows), model.predict(rows))
    rows[2, 0] = np.nan
    with pytest.raises(FeatureError, match="row 3"):
        model.predict(rows)


def test_many_threads_get_the_same_scores(models: Models, candidates: np.ndarray) -> None:
    model = models["missing"]
    expected = model.predict(candidates)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda start: model.predict(candidates[start::7]), [i % 7 for i in range(200)]))
    for i, answer in enumerate(answers):
        np.testing.assert_array_equal(answer, expected[i % 7 :: 7])


def test_scoring_imports_nothing_of_the_training_side(models: Models, tmp_path: Path) -> None:
    models["plain"].save(tmp_path / "model")
    script = (
        "import sys, numpy, unskew\n"
        f"unskew.load({str(tmp_path / 'model')!r}).predict(numpy.zeros((2, 5)))\n"
        "heavy = {'sklearn', 'pandas', 'polars', 'torch', 'scipy', 'lightgbm', 'xgboost'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert 'unskew.method' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_manifest_tells_where_a_model_came_from(models: Models, tmp_path: Path) -> None:
    models["plain"].save(tmp_path / "model")
    manifest = json.loads((tmp_path / "model/manifest.json").read_text())
    assert manifest["format_version"] == 2
    assert set(manifest["libraries"]) >= {"unskew", "numpy", "lightgbm"}
    assert manifest["folded"]["term_gain"] > 0.1
    assert manifest["files"]["model.txt"]["sha256"] == digest((tmp_path / "model/model.txt").read_bytes())


def test_saving_is_all_or_nothing(models: Models, tmp_path: Path) -> None:
    model = models["plain"]
    target = tmp_path / "model"
    model.save(target)
    model.save(target)  # a model may be replaced
    assert sorted(path.name for path in target.iterdir()) == ["manifest.json", "model.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with pytest.raises(OutputError, match="exists already"):
        model.save(target, overwrite=False)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.txt").write_text("years of work")
    with pytest.raises(OutputError, match="other things in it"):
        model.save(tmp_path / "thesis")
    assert (tmp_path / "thesis/chapter.txt").exists()


def _change(folder: Path, **values: object) -> None:
    """Edit the manifest as someone who makes the checksum fit: what is wrong must be found all the same."""
    path = folder / "manifest.json"
    document = json.loads(path.read_text()) | values
    path.write_text(json.dumps(document | {SEAL: seal(document)}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.txt").write_bytes((f / "model.txt").read_bytes()[:-9]), "cut short or edited"),
        (lambda f: (f / "model.txt").write_bytes((f / "model.txt").read_bytes()[:-1] + b"x"), "checksum differs"),
        (lambda f: (f / "model.txt").unlink(), "Copy the whole model folder"),
        (lambda f: (f / "manifest.json").unlink(), "Cannot read"),
        (lambda f: (f / "manifest.json").write_text("{"), "not JSON"),
        (lambda f: (f / "manifest.json").write_text("[" * 100_000), "nested too deeply"),
        (lambda f: (f / "manifest.json").write_text("{}"), "not the manifest"),
        (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe"), "not UTF-8|not JSON"),
        (lambda f: _change(f, format_version=99), r"newer unskew.*pip install -U"),
        (lambda f: _change(f, format_version=0), "format_version"),
        (lambda f: _change(f, kind="pickle"), "unknown kind"),
        (lambda f: _change(f, features=["a", "a"]), "each once"),
        (lambda f: _change(f, features=["a"]), "takes 5 features"),
        (lambda f: _change(f, files={"../../etc/passwd": {"bytes": 1, "sha256": ""}}), "alone"),
        (lambda f: _change(f, files={"model.txt": {"bytes": "many"}}), "how long"),
        (lambda f: ((f / "model.txt").unlink(), os.mkfifo(f / "model.txt")), "not a file"),
    ],
)
def test_a_damaged_folder_is_refused(
    models: Models, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    folder = tmp_path / "model"
    models["plain"].save(folder)
    damage(folder)
    with pytest.raises(ModelFileError, match=message):
        load(folder)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="unskew fit"):
        load(tmp_path / "nothing")


def _edit(folder: Path, old: str, new: str) -> None:
    path = folder / "manifest.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_an_edited_manifest_is_refused(models: Models, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    for old, new in [
        ('"age",', '"edge",'),
        ('"pagerank",\n    "attribute(price)"', '"attribute(price)",\n    "pagerank"'),
    ]:
        models["plain"].save(folder)
        _edit(folder, old, new)
        with pytest.raises(ModelFileError, match=r"manifest\.json is not the manifest that was saved: its checksum"):
            load(folder)
    models["plain"].save(folder)
    _edit(folder, SEAL, "other")  # taking the checksum out is an edit too
    with pytest.raises(ModelFileError, match="checksum differs"):
        load(folder)
    models["plain"].save(folder)
    _edit(folder, "\n", "\n ")  # laid out anew it says the same
    assert load(folder).manifest == models["plain"].manifest


def test_folders_of_the_first_format_still_load(models: Models, candidates: np.ndarray, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    models["plain"].save(folder)
    document = json.loads((folder / "manifest.json").read_text())
    del document[SEAL]
    (folder / "manifest.json").write_text(json.dumps(document | {"format_version": 1}))
    old = load(folder)
    np.testing.assert_array_equal(old.predict(candidates), models["plain"].predict(candidates))
    (folder / "model.txt").write_bytes(models["plain"].files["model.txt"].replace(b"leaf_value=", b"leaf_value=1", 1))
    with pytest.raises(ModelFileError, match="cut short or edited"):
        load(folder)
    old.save(folder)
    assert json.loads((folder / "manifest.json").read_text())["format_version"] == 2
    np.testing.assert_array_equal(load(folder).predict(candidates), models["plain"].predict(candidates))


def test_saving_again_keeps_what_a_user_put_into_the_folder(models: Models, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    models["plain"].save(folder)
    (folder / "notes.md").write_text("what we measured")
    with pytest.raises(OutputError, match=r"other things in it \(notes\.md\)"):
        models["plain"].save(folder)
    assert (folder / "notes.md").exists()


@pytest.mark.parametrize(
    "name", ["a\u200bb", "\ufeffquery", "a\x00b", "a\x1b[31m", "é ü", "", "a=b", "😀", "a\nb", 'a"b']
)
def test_any_text_is_a_feature_name(
    make_booster: Callable[..., lgb.Booster], make_model: Callable[..., Model], tmp_path: Path, name: str
) -> None:
    names = (name, "b", "c", "d", "e")
    model = make_model(make_booster(trees=3), names)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.feature_names == names
    rows = np.ones((2, 5), dtype=np.float32)
    np.testing.assert_array_equal(loaded.predict(pl.DataFrame(dict(zip(names, rows.T)))), model.predict(rows))


@pytest.mark.parametrize(
    ("names", "message"), [(("\ud800", *"bcde"), "Rename"), (("a", "a", *"cde"), "'a' is there twice")]
)
def test_names_that_no_file_can_hold_are_refused(
    make_booster: Callable[..., lgb.Booster], make_model: Callable[..., Model], names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(FeatureError, match=message):
        make_model(make_booster(trees=3), names)


def test_a_frame_with_a_column_twice_is_refused(models: Models, candidates: np.ndarray) -> None:
    names = models["plain"].feature_names
    twice = pd.DataFrame(np.hstack([candidates, candidates[:, :1]]), columns=[*names, names[0]])
    with pytest.raises(FeatureError, match="there twice"):
        models["plain"].predict(twice)


@pytest.mark.parametrize("kind", ["plain", "linear"])
def test_a_model_can_be_sent_to_another_process(models: Models, candidates: np.ndarray, kind: str) -> None:
    for again in (pickle.loads(pickle.dumps(models[kind])), copy.deepcopy(models[kind])):
        np.testing.assert_array_equal(again.predict(candidates), models[kind].predict(candidates))


FORKING = """
import os, signal, sys
import numpy as np
import unskew

rows = np.random.default_rng(0).normal(size=(20_000, {width}))
model = unskew.load({folder!r})
expected = model.predict(rows)  # by several threads, which a child does not have
child = os.fork()
if child == 0:
    signal.alarm(60)  # a child that waits for ever must not outlive the test
    same = (model.predict(rows) == expected).all() and (unskew.load({folder!r}).predict(rows[:9]) == expected[:9]).all()
    os._exit(0 if same else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def _scores_after_a_fork(model: Model, folder: Path) -> None:
    model.save(folder)
    script = FORKING.format(folder=str(folder), width=model.n_features)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env=os.environ | {"OMP_NUM_THREADS": "2"})


def test_a_forked_worker_scores_and_loads(models: Models, tmp_path: Path) -> None:
    _scores_after_a_fork(models["missing"], tmp_path / "model")


def test_a_forked_worker_scores_with_xgboost(tmp_path: Path) -> None:
    xgb = pytest.importorskip("xgboost")
    x = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    booster = xgb.train({"max_depth": 3, "nthread": 1}, xgb.DMatrix(x, x[:, 0]), 5)
    state = RankerState("xgboost", {"model.json": bytes(booster.save_raw("json"))}, ("a", "b", "c"), 3)
    _scores_after_a_fork(Model.from_state(state), tmp_path / "model")
