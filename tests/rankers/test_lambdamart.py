"""LambdaMART: shared bins, stages, positions, terms, the text it is kept in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.base import clone

from unskew._segments import IntArray
from unskew.data.design import DesignMatrix, FloatMatrix
from unskew.errors import DataError, NotFittedError, SettingError
from unskew.evaluation.judge import LabelJudge
from unskew.rankers.binned import binned
from unskew.rankers.lambdamart import LambdaMART

LISTS, ITEMS, PLAIN, TERMS = 150, 10, 6, 4


@dataclass(frozen=True, eq=False)
class ArrayTerms:
    """Terms that lie in memory; counts how often they are asked for."""

    values: FloatMatrix
    names: tuple[str, ...]

    def fill(self, out: FloatMatrix, x: FloatMatrix, row: IntArray, entry: IntArray) -> None:
        out[:] = self.values[entry]


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    n = LISTS * ITEMS
    x = rng.normal(size=(n, PLAIN)).astype(np.float32)
    x[:, 3:] *= rng.random((n, PLAIN - 3)) < 0.1  # sparse columns, which LightGBM bundles
    terms = rng.normal(size=(n, TERMS)).astype(np.float32)
    position = np.tile(np.arange(1, ITEMS + 1), LISTS)
    chance = 1 / (1 + np.exp(-(2 * x[:, 0] + terms[:, 1] - 1)))
    return {
        "x": x,
        "terms": ArrayTerms(terms, tuple("abcd")),
        "label": (rng.random(n) < chance / position).astype(int),
        "sizes": np.full(LISTS, ITEMS),
        "position": position,
    }


def _small(**settings: Any) -> LambdaMART:
    return LambdaMART(**{"preset": "smoke", "n_jobs": 1, **settings})


def _judge(world: dict[str, Any], terms: Any = None) -> LabelJudge:
    offsets = np.arange(0, LISTS * ITEMS + 1, ITEMS)
    return LabelJudge(DesignMatrix(world["x"], terms=terms), world["label"], offsets)


def test_equals_lightgbm_on_the_wide_matrix(world: dict[str, Any]) -> None:
    design = DesignMatrix(world["x"], terms=world["terms"])
    ours = _small(trees=15, leaves=9, min_rows=3, l2=0.5).fit(design, world["label"], world["sizes"])
    wide = design[:]
    data = lgb.Dataset(
        wide, world["label"], group=world["sizes"], params={"verbosity": -1, "feature_pre_filter": False}
    )
    params = {
        "objective": "lambdarank",
        "num_leaves": 9,
        "min_data_in_leaf": 3,
        "lambda_l2": 0.5,
        "learning_rate": 0.2,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "feature_pre_filter": False,
        "verbosity": -1,
    }
    theirs = lgb.train(params, data, 15)
    np.testing.assert_array_equal(ours.predict(design), theirs.predict(wide))


def test_a_shared_cache_changes_nothing(world: dict[str, Any]) -> None:
    x, label, sizes = world["x"], world["label"], world["sizes"]
    rows = np.arange(len(x))
    other = ArrayTerms(world["terms"].values[:, ::-1].copy(), tuple("abcd"))
    designs = [DesignMatrix(x, rows, terms) for terms in (world["terms"], other, None)]
    cache: dict[Any, Any] = {}
    for design in (*designs, *designs):
        for rate in (0.1, 0.3):
            shared = _small(learning_rate=rate).fit(design, label, sizes, cache=cache)
            alone = _small(learning_rate=rate).fit(DesignMatrix(x, rows, design.terms), label, sizes)
            np.testing.assert_array_equal(shared.predict(design), alone.predict(design))


def test_positions_do_not_stay_in_a_shared_cache(world: dict[str, Any]) -> None:
    design, label, sizes = DesignMatrix(world["x"]), world["label"], world["sizes"]
    cache: dict[Any, Any] = {}
    before = _small().fit(design, label, sizes, cache=cache).predict(design)
    aware = _small().fit(design, label, sizes, position=world["position"], cache=cache)
    after = _small().fit(design, label, sizes, cache=cache)
    np.testing.assert_array_equal(before, after.predict(design))
    assert np.abs(aware.predict(design) - before).max() > 0.01
    assert after.position_effect_ is None
    assert sorted(aware.position_effect_) == list(range(1, ITEMS + 1))


def test_plain_bins_are_built_once(world: dict[str, Any]) -> None:
    cache: dict[Any, Any] = {}
    rows = np.arange(len(world["x"]))
    first = binned(DesignMatrix(world["x"], rows, world["terms"]), cache=cache)
    assert first.num_feature() == PLAIN + TERMS
    assert binned(DesignMatrix(world["x"], rows, world["terms"]), cache=cache) is first
    plain = [value[0] for key, value in cache.items() if key[0] == "lightgbm plain"]
    other = ArrayTerms(world["terms"].values, tuple("efgh"))
    assert binned(DesignMatrix(world["x"], rows, other), cache=cache) is not first
    assert [value[0] for key, value in cache.items() if key[0] == "lightgbm plain"] == plain
    assert plain[0].num_feature() == PLAIN


def test_bins_come_from_distinct_rows(world: dict[str, Any]) -> None:
    x, label, sizes = world["x"], world["label"], world["sizes"]
    rows = np.concatenate([np.arange(len(x)), np.arange(40)])  # some lists are there twice
    once, twice = DesignMatrix(x), DesignMatrix(x, rows)
    weight = np.ones(len(x), dtype=np.float32)
    weight[:40] = 2
    heavy = _small(min_rows=1).fit(once, label, sizes, weight=weight)
    long = _small(min_rows=1).fit(twice, label[rows], np.r_[sizes, sizes[:4]])
    np.testing.assert_allclose(heavy.predict(once), long.predict(once), atol=1e-7)


def test_one_training_answers_every_number_of_trees(world: dict[str, Any]) -> None:
    design, label, sizes = DesignMatrix(world["x"]), world["label"], world["sizes"]
    judge = _judge(world)
    values = {k: judge(_small(trees=k).fit(design, label, sizes).predict(design)) for k in (3, 9, 20)}
    ranker = _small(trees=(20, 3, 9)).fit(design, label, sizes, judge=judge)
    assert ranker.stage_ == max(values, key=lambda k: values[k])
    assert ranker.judged_ == pytest.approx(max(values.values()))
    np.testing.assert_allclose(
        ranker.predict(design), _small(trees=ranker.stage_).fit(design, label, sizes).predict(design), atol=1e-12
    )
    assert _small(trees=(3, 9)).fit(design, label, sizes).stage_ == 9


def test_threads_do_not_change_the_model(world: dict[str, Any]) -> None:
    design = DesignMatrix(world["x"], terms=world["terms"])
    one, two = (_small(n_jobs=k, trees=30).fit(design, world["label"], world["sizes"]) for k in (1, 2))
    np.testing.assert_array_equal(one.predict(design), two.predict(design))


def test_separate_terms_never_share_a_tree(world: dict[str, Any]) -> None:
    design = DesignMatrix(world["x"], terms=world["terms"])

    def mixed(ranker: LambdaMART) -> int:
        frame = ranker.fit(design, world["label"], world["sizes"]).booster_.trees_to_dataframe()
        plain = frame.dropna(subset=["split_feature"]).assign(
            term=lambda f: ~f["split_feature"].str.startswith("Column_")
        )
        return int((plain.groupby("tree_index")["term"].nunique() > 1).sum())

    assert mixed(_small(trees=20)) > 0
    separate = _small(trees=20, separate_terms=True)
    assert mixed(separate) == 0
    assert 0 < separate.gain_share() < 1


def test_state_is_the_chosen_model_with_named_columns(world: dict[str, Any]) -> None:
    design = DesignMatrix(world["x"], terms=world["terms"])
    zero = ArrayTerms(np.zeros_like(world["terms"].values), tuple("abcd"))
    ranker = _small(trees=(5, 20)).fit(design, world["label"], world["sizes"], judge=_judge(world, zero))
    names = ["title match", "b:m", "f3", "f4", "f5", "f6", "control:a", "control:b", "control,c", "control[d]"]
    state = ranker.state(names)
    assert state.columns == tuple(names)
    assert state.n_plain == PLAIN
    assert state.info["gain_share_of_terms"] == pytest.approx(ranker.gain_share())
    read = lgb.Booster(model_str=state.files["model.txt"].decode())
    assert read.num_trees() == ranker.stage_
    assert read.feature_name()[:2] == ["title_match", "b_m"]
    np.testing.assert_array_equal(read.predict(design[:]), ranker.predict(design))
    with pytest.raises(DataError, match="10 columns"):
        ranker.state(names[:3])


def test_names_that_collide_stay_apart(world: dict[str, Any]) -> None:
    ranker = _small(trees=3).fit(DesignMatrix(world["x"]), world["label"], world["sizes"])
    state = ranker.state(["a b", "a_b", "c", "d", "e", "f"])
    assert len(set(lgb.Booster(model_str=state.files["model.txt"].decode()).feature_name())) == PLAIN


def test_grid_and_settings() -> None:
    paper = LambdaMART(preset="paper")
    assert [ranker.learning_rate for ranker in paper.grid()] == [0.05, 0.1]
    assert paper.setting("leaves") == 255
    assert paper.setting("trees") == (100, 300, 500)
    assert len(LambdaMART(learning_rate=0.3).grid()) == 1
    assert clone(LambdaMART(leaves=3)).get_params()["leaves"] == 3
    with pytest.raises(SettingError, match="'default', 'paper', 'smoke'"):
        LambdaMART(preset="quick").grid()  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="at least one"):
        LambdaMART(learning_rate=()).grid()


def test_lightgbms_logger_is_given_back(world: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    before = lgb.basic._LOGGER
    _small(trees=2).fit(DesignMatrix(world["x"]), world["label"], world["sizes"], position=world["position"])
    assert lgb.basic._LOGGER is before
    assert capfd.readouterr().out == ""


def test_wrong_input_is_named(world: dict[str, Any]) -> None:
    design, label, sizes = DesignMatrix(world["x"]), world["label"], world["sizes"]
    with pytest.raises(DataError, match="do not match"):
        _small().fit(design, label[:-1], sizes)
    with pytest.raises(DataError, match="do not match"):
        _small().fit(design, label, sizes[:-1])
    for wrong in (label + 0.5, label - 1, label * 31):
        with pytest.raises(DataError, match="whole labels from 0 to 30"):
            _small().fit(design, wrong, sizes)
    with pytest.raises(DataError, match="10,000"):
        _small().fit(DesignMatrix(np.zeros((10_001, 1), np.float32)), np.zeros(10_001), np.array([10_001]))
    with pytest.raises(NotFittedError):
        _small().predict(design)


def test_nothing_to_learn_scores_zero(world: dict[str, Any]) -> None:
    design = DesignMatrix(world["x"])
    ranker = _small().fit(design, np.zeros(len(world["x"])), world["sizes"], judge=_judge(world))
    assert (ranker.predict(design) == 0).all()
    assert ranker.gain_share() == 0
    assert lgb.Booster(model_str=ranker.state(list("abcdef")).files["model.txt"].decode()).num_trees() <= 1


def test_presets_adapt_to_what_there_is(world: dict[str, Any]) -> None:
    design, label, sizes = DesignMatrix(world["x"]), world["label"], world["sizes"]
    alone = LambdaMART(n_jobs=1).fit(design, label, sizes)
    assert alone.stage_ == 100
    assert alone.booster_.params["min_data_in_leaf"] == LISTS * ITEMS // 50
    assert (
        LambdaMART(n_jobs=1, min_rows=40, trees=2).fit(design, label, sizes).booster_.params["min_data_in_leaf"] == 40
    )
    judged = LambdaMART(n_jobs=1).fit(design, label, sizes, judge=_judge(world))
    assert judged.booster_.current_iteration() == 300
    with pytest.raises(SettingError, match="trees must be 1 or more"):
        _small(trees=0).fit(design, label, sizes)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """LightGBM tells its position effect to the log alone; what it is made to say must not reach anybody else."""
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    design, sizes, position = DesignMatrix(x), np.full(20, 10), np.tile(np.arange(1, 11), 20)
    labels, weight, cache = (x[:, 0] > 0).astype(int), np.ones(200, dtype=np.float32), {}
    for rate in (0.1, 0.2):
        ranker = LambdaMART(preset="smoke", learning_rate=rate, n_jobs=1)
        ranker.fit(design, labels, sizes, weight=weight, position=position, cache=cache)
        assert ranker.position_effect_
    LambdaMART(preset="smoke", n_jobs=1).fit(design, labels, sizes, weight=weight)
    assert capfd.readouterr() == ("", "")
