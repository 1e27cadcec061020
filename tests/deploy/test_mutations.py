"""Thousands of edited, cut and hostile files: a typed error or a sound answer; never a crash, never a hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

from unskew.deploy.export import export
from unskew.deploy.model import Model, load
from unskew.deploy.parity import Parity, read_parity
from unskew.deploy.scorers import make_scorer
from unskew.deploy.verify.check import verify_export
from unskew.errors import ModelFileError, UnskewError
from unskew.rankers.base import RankerState

pytestmark = pytest.mark.filterwarnings("ignore")

WORDS = [
    b"-1", b"0", b"1", b"2", b"7", b"99999999999", b"-99999999999999999999", b"1e999", b"nan", b"inf", b"-", b"",
    b"null", b"true", b'"x"', b"[", b"]", b"{", b"}", b"[]", b"{}", b"=", b" ", b"\n", b"\x00", b"\xff", b"<", b">",
    b"</split>", b"<!DOCTYPE x>", b"&a;", b"Tree=0", b"end of trees", b"1 1", b"0x10", b"1_0", b"[" * 3000,
]  # fmt: skip


def mutations(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Bytes flipped, cut off, doubled or moved; numbers and words replaced by others."""
    rng = np.random.default_rng(seed)
    numbers = [i for i, c in enumerate(content) if chr(c).isdigit()]
    for _ in range(count):
        text = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(text)))
            length = int(rng.integers(1, 30))
            way = int(rng.integers(6))
            if way == 0:
                text[at] ^= 1 << int(rng.integers(8))
            elif way == 1:
                del text[at : at + length]
            elif way == 2:
                text[at:at] = WORDS[int(rng.integers(len(WORDS)))]
            elif way == 3:
                text[at:at] = text[max(0, at - 200) : max(0, at - 200) + length * 5]
            elif way == 4:
                del text[at:]
            else:
                place = min(numbers[int(rng.integers(len(numbers)))], len(text) - 1)
                text[place : place + 1] = WORDS[int(rng.integers(12))]
            if not text:
                text = bytearray(b"\n")
        yield bytes(text)


@pytest.fixture(scope="module")
def small(make_booster: Callable[..., lgb.Booster], make_model: Callable[..., Model]) -> Model:
    return make_model(make_booster(trees=3, num_leaves=5, rows=200, missing=True))


@pytest.fixture(scope="module")
def small_plain(make_booster: Callable[..., lgb.Booster], make_model: Callable[..., Model]) -> Model:
    return make_model(make_booster(trees=3, num_leaves=5, rows=200))


def _first_rows(parity: Parity, count: int = 40) -> Parity:
    return Parity(
        parity.features, parity.rows[:count], parity.lists[:count], parity.expected[:count], dict(parity.facts)
    )


@pytest.mark.parametrize("name", ["elasticsearch", "solr", "ranklib", "vespa", "lightgbm"])
def test_mutated_exports(small: Model, small_plain: Model, tmp_path: Path, name: str) -> None:
    done = export(small_plain if name == "ranklib" else small, name, tmp_path / "model")
    source = done.beside[0] if done.beside else done.path  # the definition itself, not its escaped copy
    parity = _first_rows(read_parity(done.parity))
    refused = told = 0
    for content in mutations(source.read_bytes(), 700, seed=1):
        done.path.write_bytes(content)
        try:
            found = verify_export(done.path, parity)
        except UnskewError:
            refused += 1
        else:
            told += not found.ok
            assert found.ok or found.readings[0].largest > 0
    assert refused > 100
    assert told > 10  # numbers that were changed without breaking the format are found as differences


@pytest.mark.parametrize("name", ["onnx", "treelite"])
def test_mutated_binary_exports(small: Model, tmp_path: Path, name: str) -> None:
    done = export(small, name, tmp_path / "model")
    parity = _first_rows(read_parity(done.parity))
    whole = done.path.read_bytes()
    for content in mutations(whole, 300, seed=2):
        done.path.write_bytes(content)
        if content != whole:
            with pytest.raises(ModelFileError):
                verify_export(done.path, parity)


def test_mutated_parity_files(small: Model, tmp_path: Path) -> None:
    done = export(small, "solr", tmp_path / "model")
    _first_rows(read_parity(done.parity)).save(done.parity)
    for content in mutations(done.parity.read_bytes(), 500, seed=3):
        done.parity.write_bytes(content)
        try:
            verify_export(done.path, done.parity)
        except UnskewError:
            continue


@pytest.mark.parametrize("kind", ["lightgbm", "linear", "categorical"])
def test_mutated_models_that_no_checksum_protects(
    small: Model, make_booster: Callable[..., lgb.Booster], make_model: Callable[..., Model], kind: str
) -> None:
    model = small
    if kind == "linear":
        content = b'{"coefficients": [0.5, -1.25, 2.0], "intercept": 0.25}'
        model = Model.from_state(RankerState("linear", {"model.json": content}, ("a", "b", "c"), 3))
    if kind == "categorical":
        model = make_model(make_booster(trees=3, num_leaves=6, rows=400, categorical=True))
    (content,) = model.files.values()
    rows = np.random.default_rng(0).normal(size=(20, model.n_features)).astype(np.float32) * 3
    refused = loaded = 0
    for changed in mutations(content, 1000, seed=4):
        try:
            scores = make_scorer(model.kind, changed, model.n_features, {}).predict(rows)
        except UnskewError:
            refused += 1
        else:
            loaded += 1
            assert scores.shape == (20,)
            assert np.isfinite(scores).all()
    assert refused > 200
    assert loaded > 20


def test_a_mutated_folder(small: Model, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    small.save(folder)
    for content in mutations(small.files["model.txt"], 100, seed=7):
        (folder / "model.txt").write_bytes(content)
        if content != small.files["model.txt"]:
            with pytest.raises(ModelFileError, match=r"cut short or edited|checksum differs"):
                load(folder)


def test_mutated_xgboost_models() -> None:
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype(np.float32)
    booster = xgb.train({"max_depth": 3, "nthread": 1}, xgb.DMatrix(x, x[:, 0] + x[:, 1] ** 2), 3)
    state = RankerState("xgboost", {"model.json": bytes(booster.save_raw("json"))}, tuple("abcd"), 4)
    loaded = 0
    for content in mutations(Model.from_state(state).files["model.json"], 500, seed=5):
        try:
            make_scorer("xgboost", content, 4, {}).predict(x[:20])
            loaded += 1
        except UnskewError:
            continue
    assert loaded > 10


def test_mutated_nets(small_net: RankerState) -> None:
    (content,) = Model.from_state(small_net).files.values()
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    loaded = 0
    for changed in mutations(content, 500, seed=8):
        try:
            make_scorer("net", changed, 3, small_net.info).predict(rows)
            loaded += 1
        except UnskewError:
            continue
    # Some get through as harmless; how many depends on the net's last bits, and so on the processor.
    assert loaded > 2


@pytest.mark.parametrize("version", [1, 2])
def test_mutated_manifests(small: Model, tmp_path: Path, version: int) -> None:
    folder = tmp_path / "model"
    small.save(folder)
    whole = (folder / "manifest.json").read_bytes()
    if version == 1:  # nothing protects what this one says
        whole = whole.replace(b'"format_version": 2', b'"format_version": 1')
    expected = small.predict(np.ones((3, 5)))
    loaded = 0
    for content in mutations(whole, 500, seed=6):
        (folder / "manifest.json").write_bytes(content)
        try:
            model = load(folder)
        except ModelFileError:
            continue
        loaded += 1
        np.testing.assert_array_equal(model.predict(np.ones((3, 5))), expected)
        assert version == 1 or model.manifest == small.manifest
    assert loaded > (5 if version == 1 else 0)
