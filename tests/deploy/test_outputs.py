"""Where exports go and what they are checked against: nothing lost or half-written, feature sets of every shape."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from unskew.deploy.export import export
from unskew.deploy.feature_set import read_feature_set
from unskew.deploy.model import Model, load
from unskew.errors import ExportError, ModelFileError, OutputError

Models = dict[str, Model]

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def test_a_missing_folder_is_made_and_files_are_replaced(models: Models, tmp_path: Path) -> None:
    out = tmp_path / "new/deep/m.json"
    export(models["plain"], "elasticsearch", out, name="first")
    export(models["plain"], "elasticsearch", out, name="second")
    assert json.loads(out.read_text())["model"]["name"] == "second"
    assert sorted(path.name for path in out.parent.iterdir()) == ["m.definition.json", "m.json", "m.json.parity.json"]


@pytest.mark.parametrize(
    ("out", "parity", "message"),
    [
        ("folder", None, "a folder of that name"),
        ("m.json", "folder", "ends in .json or .parquet"),
        ("m.json", "folder.json", "a folder of that name"),
        ("m.json", "p.txt", "ends in .json or .parquet"),
        ("m.json", "m.json", "would both be"),
        ("m.json", "folder/../m.json", "would both be"),
        ("m.json", "m.definition.json", "would both be"),
        ("file/m.json", None, "it is a file|a file of that name"),
        ("pipe", None, "not an ordinary file"),
        ("features.json", None, "read for this export"),
        ("m.json", "features.json", "read for this export"),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_anything_is_written(
    models: Models, tmp_path: Path, out: str, parity: str | None, message: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    features = tmp_path / "features.json"
    features.write_text(json.dumps(list(models["plain"].feature_names)))
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    place = None if parity is None else tmp_path / parity
    with pytest.raises(OutputError, match=message):
        export(models["plain"], "elasticsearch", tmp_path / out, parity=place, feature_set=features)
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("name", ["model.txt", "manifest.json"])
def test_a_saved_model_is_not_exported_over_itself(models: Models, tmp_path: Path, name: str) -> None:
    models["plain"].save(tmp_path / "model")
    with pytest.raises(OutputError, match="read for this export"):
        export(tmp_path / "model", "lightgbm", tmp_path / "model" / name)
    assert load(tmp_path / "model").files == models["plain"].files


SET = {"name": "mine", "features": [{"name": "a", "params": [], "template": {}}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"featureset": SET}, "mine"),  # as it is sent
        (
            {"_id": "featureset-mine", "found": True, "_source": {"name": "mine", "featureset": SET}},
            "mine",
        ),  # as fetched
        ({"hits": {"hits": [{"_source": {"name": "mine", "featureset": SET}}]}}, "mine"),  # a list of one
        (SET, "mine"),
        ({"responseHeader": {"status": 0}, "features": SET["features"]}, None),  # Solr, as fetched
        ({"initArgs": {}, "managedList": [{"name": "a", "class": "x", "store": "s"}, {"name": "b"}]}, None),
        ([{"name": "a", "class": "x", "params": {}}, {"name": "b"}], None),  # Solr, as sent
        (["a", "b"], None),
        ({"featureset": {**SET, "name": 5}}, None),
    ],
)
def test_feature_sets_of_every_shape(tmp_path: Path, document: Any, name: str | None) -> None:
    (tmp_path / "set.json").write_text(json.dumps(document))
    found = read_feature_set(tmp_path / "set.json")
    assert (found.features, found.name) == (("a", "b"), name)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "names no features"),
        ({}, "names no features"),
        (None, "names no features"),
        (3, "names no features"),
        ("a", "names no features"),
        ({"featureset": {"features": []}}, "names no features"),
        ({"featureset": ["a"]}, "names no features"),
        ({"features": {"a": 1}}, "names no features"),
        (["a", 1], r"Feature 2 of the feature set .*set\.json has no name"),
        ([{"name": "a"}, {"title": "b"}], "Feature 2 .* has no name"),
        ([["a"]], "Feature 1 .* has no name"),
        ([{"name": ""}], "Feature 1 .* has no name"),
        ([{"name": None}], "Feature 1 .* has no name"),
        (["a", "a"], "'a' twice"),
        ({"hits": {"hits": [{"_source": SET}, {"_source": SET}]}}, "lists 2 sets"),
        ({"hits": {"hits": []}}, "lists 0 sets"),
        ({"_id": "featureset-mine", "found": False}, "no such feature set"),
    ],
)
def test_a_feature_set_of_another_shape_is_refused(tmp_path: Path, document: Any, message: str) -> None:
    (tmp_path / "set.json").write_text(json.dumps(document))
    with pytest.raises(ExportError, match=message):
        read_feature_set(tmp_path / "set.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "not JSON"), (b"\xff", "UTF-8|not JSON"), (b"[" * 99999, "deeply"), (b'["a", NaN]', "NaN")],
)
def test_a_feature_set_that_is_no_json(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "set.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=message):
        read_feature_set(tmp_path / "set.json")


def test_a_feature_set_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="Name the engine's feature-set file"):
        read_feature_set(tmp_path / "nothing.json")
    with pytest.raises(ModelFileError, match="not a file"):
        read_feature_set(tmp_path)


def test_names_may_be_given_as_they_are(models: Models, tmp_path: Path) -> None:
    names = list(models["plain"].feature_names)
    export(models["plain"], "solr", tmp_path / "m.json", feature_set=names)
    for wrong, message in ((names[:1], "does not have"), ([1], "has no name"), (7, "names no features")):
        with pytest.raises(ExportError, match=message):
            export(models["plain"], "solr", tmp_path / "m.json", feature_set=wrong)  # type: ignore[arg-type]
