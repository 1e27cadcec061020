"""Every format: the engine's rule gives the model's scores, on thresholds and beside them; or the export is refused."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.deploy.export import FORMATS, export
from unskew.deploy.feature_set import FeatureSet
from unskew.deploy.forest import forest_of, round_down
from unskew.deploy.formats.solr import SLACK, without_slack
from unskew.deploy.model import Model
from unskew.deploy.parity import read_parity
from unskew.deploy.verify.check import verify_export
from unskew.errors import ExportError, SettingError, UnskewWarning
from unskew.rankers.base import RankerState

Models = dict[str, Model]
KNOWS_MISSING = ["lightgbm", "elasticsearch", "opensearch", "solr", "vespa", "onnx", "treelite"]

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def _equal(model: Model, name: str, path: Path, **options: object) -> None:
    for package in {"onnx": ["onnx", "onnxruntime"], "treelite": ["treelite"]}.get(name, []):
        pytest.importorskip(package)
    done = export(model, name, path / f"model.{name}", **options)
    found = verify_export(done.path, done.parity)
    assert found.ok, found
    assert done.leaves_covered is None or done.leaves_covered == 1.0
    runtimes = {"lightgbm": "lightgbm", "onnx": "onnxruntime", "treelite": "treelite"}
    assert [reading.by for reading in found.readings] == ["rule", *([runtimes[name]] if name in runtimes else [])]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["plain", "forest"])
def test_trees_without_missing_values_go_everywhere(models: Models, tmp_path: Path, name: str, kind: str) -> None:
    _equal(models[kind], name, tmp_path)


@pytest.mark.parametrize("name", KNOWS_MISSING)
def test_learnt_ways_of_missing_values_are_kept(models: Models, tmp_path: Path, name: str) -> None:
    _equal(models["missing"], name, tmp_path)
    parity = read_parity(tmp_path / f"model.{name}.parity.json")
    assert np.isnan(parity.rows).any(axis=0).all()


@pytest.mark.parametrize("name", ["lightgbm", "treelite"])
def test_categories_are_kept_where_there_are_any(models: Models, tmp_path: Path, name: str) -> None:
    _equal(models["categorical"], name, tmp_path)


@pytest.mark.parametrize("name", ["elasticsearch", "opensearch", "solr", "onnx"])
def test_a_linear_score(models: Models, tmp_path: Path, name: str) -> None:
    _equal(models["linear"], name, tmp_path)


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("categorical", "elasticsearch", r"categorical.*attribute|categorical.*'age'.*lightgbm or treelite"),
        ("categorical", "solr", "categorical"),
        ("categorical", "onnx", "categorical"),
        ("zeros", "elasticsearch", "zero_as_missing"),
        ("zeros", "treelite", "zero_as_missing"),
        ("missing", "ranklib", "takes a missing value for 0.*missing='zero'"),
        ("linear", "vespa", "onnx"),
        ("linear", "ranklib", "onnx"),
        ("linear", "treelite", "onnx"),
        ("linear", "lightgbm", "onnx"),
    ],
)
def test_what_cannot_be_exact_is_refused(models: Models, tmp_path: Path, kind: str, name: str, reason: str) -> None:
    with pytest.raises(ExportError, match=reason):
        export(models[kind], name, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_missing_values_may_be_taken_for_zero_on_request(models: Models, tmp_path: Path) -> None:
    _equal(models["missing"], "ranklib", tmp_path, missing="zero")


def test_an_intercept_is_refused_where_there_is_none(tmp_path: Path) -> None:
    content = b'{"coefficients": [1.0], "intercept": 0.5}'
    model = Model.from_state(RankerState("linear", {"model.json": content}, ("a",), 1))
    for name in ("elasticsearch", "solr"):
        with pytest.raises(ExportError, match=r"no intercept.*onnx"):
            export(model, name, tmp_path / "model.json")
    _equal(model, "onnx", tmp_path)


def test_a_model_that_is_one_constant_goes_everywhere(tmp_path: Path, make_model: Callable[..., Model]) -> None:
    x = np.random.default_rng(0).normal(size=(100, 3))
    booster = lgb.train({"objective": "regression", "verbose": -1}, lgb.Dataset(x, label=np.full(100, 2.5)), 2)
    model = make_model(booster, names=("a", "b", "c"))
    for name in FORMATS:
        _equal(model, name, tmp_path)


def test_constants_between_trees_are_added_once(tmp_path: Path, models: Models) -> None:
    stump = "\n".join(["num_leaves=1", "num_cat=0", "leaf_value=0.75", "shrinkage=1", "", "", ""])
    text = models["plain"].files["model.txt"].decode()
    count = text.count("\nTree=")
    text = text.replace("end of trees", f"Tree={count}\n{stump}end of trees")
    model = Model.from_state(RankerState("lightgbm", {"model.txt": text.encode()}, models["plain"].feature_names, 5))
    shift = model.predict(np.zeros((1, 5))) - models["plain"].predict(np.zeros((1, 5)))
    assert shift == pytest.approx(0.75)
    for name in FORMATS:
        _equal(model, name, tmp_path)


def test_the_same_model_gives_the_same_bytes(models: Models, tmp_path: Path) -> None:
    for name in FORMATS:
        first = export(models["plain"], name, tmp_path / f"a.{name}", seed=3)
        again = export(models["plain"], name, tmp_path / f"b.{name}", seed=3)
        assert first.path.read_bytes() == again.path.read_bytes()
        assert first.parity.read_bytes() == again.parity.read_bytes()


def test_elasticsearch_gets_a_body_and_a_definition(models: Models, tmp_path: Path) -> None:
    features = tmp_path / "features.json"
    names = [{"name": name, "params": [], "template": {}} for name in models["plain"].feature_names]
    features.write_text(json.dumps({"featureset": {"name": "mine", "features": names}}))
    done = export(models["plain"], "elasticsearch", tmp_path / "m.json", name="corrected", feature_set=features)
    body = json.loads(done.path.read_text())
    assert body["model"]["name"] == "corrected"
    assert body["model"]["model"]["type"] == "model/xgboost+json"
    definition = json.loads((tmp_path / "m.definition.json").read_text())
    assert json.loads(body["model"]["model"]["definition"]) == definition
    assert "_ltr/_featureset/mine/_createmodel" in done.upload[0]
    assert set(definition[0]) == {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children"}
    assert verify_export(tmp_path / "m.definition.json", done.parity).ok
    features.write_text(json.dumps({"featureset": {"name": "mine", "features": names[:2]}}))
    with pytest.raises(ExportError, match=r"does not have: '.*Add them there"):
        export(models["plain"], "elasticsearch", tmp_path / "m.json", feature_set=features)


@pytest.mark.parametrize("name", ["elasticsearch", "solr"])
def test_a_linear_model_is_checked_against_the_feature_set(models: Models, tmp_path: Path, name: str) -> None:
    with pytest.raises(ExportError, match="does not have"):
        export(models["linear"], name, tmp_path / "m.json", feature_set=FeatureSet(("pagerank",)))


def test_ranklib_counts_in_the_order_of_the_feature_set(models: Models, tmp_path: Path) -> None:
    features = tmp_path / "features.json"
    features.write_text(json.dumps(["other", *reversed(models["plain"].feature_names), "last"]))
    _equal(models["plain"], "ranklib", tmp_path, feature_set=features)
    first, plain = (tmp_path / "model.ranklib").read_bytes(), tmp_path / "plain.xml"
    export(models["plain"], "ranklib", plain)
    assert plain.read_bytes() != first


def test_vespa_wants_rank_features(
    make_booster: Callable[..., lgb.Booster], make_model: Callable[..., Model], tmp_path: Path
) -> None:
    model = make_model(make_booster(trees=3), names=("click rate", "b", "c", "d", "e"))
    with pytest.raises(ExportError, match="rank features"):
        export(model, "vespa", tmp_path / "m.json")


def test_engines_that_fill_in_missing_values_are_pointed_out(models: Models, tmp_path: Path) -> None:
    with pytest.warns(UnskewWarning, match="gives a feature whose query matches nothing the value 0"):
        export(models["missing"], "elasticsearch", tmp_path / "m.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(models["plain"], "elasticsearch", tmp_path / "m.json")
    for kind, told in (("missing", "before 3.2 it counted as 0"), ("plain", "issue 378")):
        with pytest.warns(UnskewWarning, match=told):
            export(models[kind], "opensearch", tmp_path / "m.json")


def test_wrong_use_is_explained(models: Models, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="'elasticsearch'"):
        export(models["plain"], "lucene", tmp_path / "m")  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="fitted method"):
        export(object(), "solr", tmp_path / "m")
    with pytest.raises(ExportError, match="printable name"):
        export(models["plain"], "solr", tmp_path / "m", name="")


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_solrs_slack_is_taken_off(threshold: float) -> None:
    written, reached = without_slack(np.array([threshold], dtype=np.float32))
    assert written[0] + SLACK == reached[0]
    assert (reached[0] >= 0) == (threshold >= 0)  # zero, the commonest value, keeps its side
    if threshold > 1e-6:
        assert reached[0] == np.float32(threshold)
    else:  # below that float32 is finer than what the slack leaves: off by one step of the written number at most
        assert abs(float(reached[0]) - threshold) <= max(1e-12, 2e-7 * abs(float(written[0])))


@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False), st.floats(width=32, allow_nan=False))
def test_a_rounded_threshold_parts_float32_as_the_real_one(threshold: float, value: float) -> None:
    assert (np.float32(value) <= round_down(np.array([threshold]))[0]) == (value <= threshold)


@pytest.mark.parametrize("kind", ["plain", "missing", "categorical", "zeros", "forest"])
def test_a_forest_scores_as_its_model(models: Models, kind: str) -> None:
    model, rng = models[kind], np.random.default_rng(5)
    forest = forest_of(model)
    edges = forest.threshold[np.isfinite(forest.threshold)]
    odd = np.concatenate(
        [edges, np.nextafter(edges, np.float32(9)), np.float32([0, -0.0, 1e-36, -1e-35, np.nan, 1e-45])]
    )
    rows = rng.choice(odd, size=(2000, model.n_features)).astype(np.float32)
    rows[:, 3] = rng.integers(-2, 12, 2000)
    scores = forest.base + forest.value[forest.leaves(rows)].sum(axis=1)
    np.testing.assert_allclose(scores, model.predict(rows), rtol=0, atol=1e-12)


def test_a_net_goes_to_onnx_and_nowhere_else(small_net: RankerState, tmp_path: Path) -> None:
    model = Model.from_state(small_net)
    _equal(model, "onnx", tmp_path)
    for name in set(FORMATS) - {"onnx"}:
        with pytest.raises(ExportError, match="onnx"):
            export(model, name, tmp_path / "m")
    with pytest.raises(ExportError, match="ELU"):
        export(model, "solr", tmp_path / "m")


def test_xgboost_models_go_to_engines_too(tmp_path: Path) -> None:
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    data = xgb.DMatrix(x, (np.nan_to_num(x[:, 0]) > 0).astype(int))
    data.set_group([40] * 10)
    booster = xgb.train({"objective": "rank:ndcg", "max_depth": 4, "nthread": 1}, data, 20)
    names = ("a", "b", "c", "d")
    model = Model.from_state(RankerState("xgboost", {"model.json": bytes(booster.save_raw("json"))}, names, 4))
    for name in KNOWS_MISSING[1:]:
        _equal(model, name, tmp_path)
    with pytest.raises(ExportError, match="treelite or onnx"):
        export(model, "lightgbm", tmp_path / "m")
