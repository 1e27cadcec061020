"""Folding LightGBM texts: the folded model gives the score of the unfolded one, to the last bit."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unskew.deploy.fold import fold, fold_lightgbm
from unskew.deploy.lightgbm_text import read_text, write_text
from unskew.errors import ExportError, ModelFileError, SettingError
from unskew.rankers.base import RankerState

PLAIN, TERMS = 4, 3


def make_rows(rng: np.random.Generator, n: int, *, categories: int = 40) -> np.ndarray:
    """Rows with what breaks careless comparisons: missing, zeros, infinities, denormals, ties."""
    x = rng.normal(size=(n, PLAIN + TERMS)).round(1)
    odd = np.array([np.nan, 0.0, -0.0, 1e-36, -1e-36, 1e-35, 5e-324, -5e-324, np.inf, -np.inf, 1e300])
    hit = rng.random(x.shape) < 0.25
    x[hit] = rng.choice(odd, hit.sum())
    x[:, 0] = np.where(rng.random(n) < 0.1, np.nan, rng.integers(-1, categories, n))
    x[:, PLAIN] = rng.integers(0, categories, n)
    return x


def train(rng: np.random.Generator, *, categorical: bool, trees: int = 12, **params: Any) -> lgb.Booster:
    n = 600
    x = make_rows(rng, n)
    x[np.abs(x) > 1e3] = 3.0
    signal = np.nan_to_num(x[:, 1]) + np.nan_to_num(x[:, 5]) + (x[:, PLAIN] % 3) + np.nan_to_num(x[:, 0]) % 2
    y = signal + rng.normal(size=n)
    data = lgb.Dataset(x, label=y, categorical_feature=[0, PLAIN] if categorical else [], free_raw_data=False)
    settings = {
        "objective": "regression",
        "verbose": -1,
        "num_threads": 1,
        "min_data_in_leaf": 2,
        "min_data_per_group": 5,
        "cat_smooth": 1,
        "seed": int(rng.integers(1 << 30)),
        "feature_fraction_bynode": 0.4,
    }
    return lgb.train(settings | params, data, trees)


def at(x: np.ndarray, value: float) -> np.ndarray:
    whole = x.copy()
    whole[:, PLAIN:] = value
    return whole


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32 - 1),
    leaves=st.sampled_from([2, 3, 7, 31]),
    depth=st.sampled_from([-1, 1, 3]),
    categorical=st.booleans(),
    zero_as_missing=st.booleans(),
    use_missing=st.booleans(),
    forest=st.booleans(),
    value=st.sampled_from([0.0, -0.0, 0.5, -1.2, 1e-36]),
)
def test_folded_equals_unfolded_to_the_last_bit(
    seed: int,
    leaves: int,
    depth: int,
    categorical: bool,
    zero_as_missing: bool,
    use_missing: bool,
    forest: bool,
    value: float,
) -> None:
    rng = np.random.default_rng(seed)
    more = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6} if forest else {}
    booster = train(
        rng,
        categorical=categorical,
        num_leaves=leaves,
        max_depth=depth,
        zero_as_missing=zero_as_missing,
        use_missing=use_missing,
        **more,
    )
    text, summary = fold_lightgbm(booster.model_to_string(), dict.fromkeys(range(PLAIN, PLAIN + TERMS), value))
    folded = lgb.Booster(model_str=text.decode())
    rows = make_rows(rng, 400)
    np.testing.assert_array_equal(folded.predict(rows[:, :PLAIN]), booster.predict(at(rows, value)))
    assert folded.num_feature() == PLAIN
    assert summary.folded_splits == read_text(text).feature.size
    assert folded.model_to_string().encode() == text  # LightGBM reads and writes back the very same bytes


def test_a_model_without_terms_is_written_back_as_it_was() -> None:
    text = train(np.random.default_rng(1), categorical=True, num_leaves=15).model_to_string().encode()
    assert write_text(read_text(text)) == text


def test_contributions_still_add_up_to_the_score() -> None:
    rng = np.random.default_rng(2)
    booster = train(rng, categorical=False, num_leaves=15)
    text, _ = fold_lightgbm(booster.model_to_string(), dict.fromkeys(range(PLAIN, PLAIN + TERMS), 0.0))
    folded = lgb.Booster(model_str=text.decode())
    rows = make_rows(rng, 50)[:, :PLAIN]
    contributions = folded.predict(rows, pred_contrib=True)
    np.testing.assert_allclose(np.asarray(contributions).sum(axis=1), folded.predict(rows), rtol=1e-9)


def test_importances_are_those_of_the_splits_that_stay() -> None:
    booster = train(np.random.default_rng(3), categorical=False, num_leaves=15)
    text, summary = fold_lightgbm(booster.model_to_string(), dict.fromkeys(range(PLAIN, PLAIN + TERMS), 0.0))
    folded = lgb.Booster(model_str=text.decode())
    assert folded.feature_importance().sum() == summary.folded_splits < summary.splits
    before = booster.feature_importance("gain")
    assert summary.term_gain == pytest.approx(before[PLAIN:].sum() / before.sum(), rel=1e-4)
    assert next(iter(summary.top_terms)) == f"Column_{PLAIN + int(np.argmax(before[PLAIN:]))}"


def _stump(value: float) -> str:
    return (
        f"num_leaves=1\nnum_cat=0\nsplit_feature=\nsplit_gain=\nthreshold=\ndecision_type=\nleft_child=\nright_child=\n"
        f"leaf_value={value!r}\nleaf_weight=\nleaf_count=1\ninternal_value=\ninternal_weight=\ninternal_count=\n"
        "is_linear=0\nshrinkage=1\n\n\n"
    )


def _split(feature: int, low: float, high: float) -> str:
    return (
        f"num_leaves=2\nnum_cat=0\nsplit_feature={feature}\nsplit_gain=1\nthreshold=0.5\ndecision_type=2\n"
        f"left_child=-1\nright_child=-2\nleaf_value={low!r} {high!r}\nleaf_weight=1 1\nleaf_count=1 1\n"
        "internal_value=0\ninternal_weight=2\ninternal_count=2\nis_linear=0\nshrinkage=1\n\n\n"
    )


def text_of(*trees: str, average: bool = False) -> str:
    blocks = [f"Tree={number}\n{tree}" for number, tree in enumerate(trees)]
    sizes = " ".join(str(len(block)) for block in blocks)
    head = (
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=1\n"
        f"objective=regression\n{'average_output' + chr(10) if average else ''}feature_names=x t\n"
        f"feature_infos=[0:1] [0:1]\ntree_sizes={sizes}\n\n"
    )
    return head + "".join(blocks) + "end of trees\n\nfeature_importances:\n\nparameters:\n\nend of parameters\n"


@pytest.mark.parametrize(
    ("trees", "values"),
    [
        # Trees at the front are added into the first that splits; a zero one goes; another constant stays.
        (
            (_split(1, 0.1, 9), _split(1, 0.2, 9), _split(0, 1.0, 2.0), _split(1, 0.0, 9)),
            [0.1 + 0.2 + 1, 0.1 + 0.2 + 2],
        ),
        ((_split(0, 1.0, 2.0), _split(1, 0.3, 9)), [1.0, 2.0, 0.3]),
        ((_split(1, 0.1, 9), _split(1, 0.2, 9)), [0.1 + 0.2]),
        ((_split(1, 0.0, 9),), [0.0]),
        ((_stump(0.25), _split(0, 1.0, 2.0)), [1.25, 2.25]),
    ],
)
def test_trees_of_one_leaf_are_merged_where_no_bit_changes(trees: tuple[str, ...], values: list[float]) -> None:
    text, _ = fold_lightgbm(text_of(*trees), {1: 0.0})
    assert read_text(text).value.tolist() == values
    whole, folded = lgb.Booster(model_str=text_of(*trees)), lgb.Booster(model_str=text.decode())
    rows = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert folded.predict(rows[:, :1]).tolist() == whole.predict(rows).tolist()


def test_a_random_forest_keeps_its_number_of_trees() -> None:
    text, _ = fold_lightgbm(text_of(_split(1, 1.0, 2.0), _split(0, 3.0, 4.0), average=True), {1: 0.0})
    assert lgb.Booster(model_str=text.decode()).predict(np.zeros((1, 1))).tolist() == [2.0]


def test_names_with_spaces_and_doubles_fit_into_the_text() -> None:
    text, _ = fold_lightgbm(text_of(_split(0, 1.0, 2.0)), {1: 0.0}, ["a b", "t"])
    assert lgb.Booster(model_str=text.decode()).feature_name() == ["a_b"]


def test_fold_takes_the_values_the_terms_have_at_inference() -> None:
    state = RankerState("lightgbm", {"model.txt": text_of(_split(1, 1.0, 2.0)).encode()}, ("x", "t"), 1)
    at_zero, summary = fold(state)
    at_one, _ = fold(state, [1.0])
    assert read_text(at_zero.files["model.txt"]).value.tolist() == [1.0]
    assert read_text(at_one.files["model.txt"]).value.tolist() == [2.0]
    assert at_zero.columns == ("x",)
    assert summary["term_splits"] == 1.0
    with pytest.raises(SettingError, match="one finite value"):
        fold(state, [1.0, 2.0])
    with pytest.raises(ExportError, match="no open format"):
        fold(RankerState("memory", {}, ("x",), 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("left_child=-1", "left_child=0", "points back"),
        ("left_child=-1", "left_child=7", "outside its tree"),
        ("left_child=-1", "left_child=-2", "exactly one parent"),
        ("split_feature=0", "split_feature=2", "not among"),
        ("threshold=0.5", "threshold=nan", "not a number"),
        ("threshold=0.5", "threshold=0.5 0.5", "should have 1 entries"),
        ("leaf_value=1.0", "leaf_value=0x1", "not a number"),
        ("decision_type=2", "decision_type=1", "categories"),
        ("is_linear=0", "is_linear=1", "linear"),
        ("num_class=1", "num_class=2", "several outputs"),
        ("max_feature_idx=1", "max_feature_idx=9", "feature names"),
        ("end of trees", "", "cut short"),
        ("tree\n", "treee\n", "begin with"),
    ],
)
def test_a_text_that_is_not_sound_is_refused(old: str, new: str, message: str) -> None:
    text = text_of(_split(0, 1.0, 2.0))
    assert old in text
    with pytest.raises(ModelFileError, match=message):
        read_text(text.replace(old, new, 1))


def test_importances_by_gain_are_kept_by_gain() -> None:
    booster = train(np.random.default_rng(4), categorical=False, num_leaves=15, saved_feature_importance_type=1)
    text, _ = fold_lightgbm(booster.model_to_string(importance_type="gain"), dict.fromkeys(range(PLAIN, 7), 0.0))
    folded = lgb.Booster(model_str=text.decode())
    section = text.decode().split("feature_importances:\n")[1].split("\n\n")[0]
    written = dict(line.split("=") for line in section.splitlines())
    gain = dict(zip(folded.feature_name(), folded.feature_importance("gain").astype(int)))
    assert {name: int(value) for name, value in written.items()} == {name: g for name, g in gain.items() if g > 0}
