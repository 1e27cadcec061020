"""Search over trials, rankers by name, the adapter, the XGBoost ranker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMRanker
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor

from unskew.baselines.naive import Naive
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.ranking import RankingData
from unskew.errors import ExportError, FeatureError, LogError, MissingExtraError, SettingError
from unskew.evaluation.judge import LabelJudge
from unskew.rankers import make as make_module
from unskew.rankers.adapter import SklearnRanker
from unskew.rankers.lambdamart import LambdaMART
from unskew.rankers.make import make_ranker
from unskew.rankers.search import Trial, search, trials_of

xgboost = pytest.importorskip("xgboost")

LISTS, ITEMS = 80, 6


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(LISTS * ITEMS, 4)).astype(np.float32)
    label = (x[:, 0] + 0.5 * rng.normal(size=len(x)) > 0.8).astype(int)
    sizes = np.full(LISTS, ITEMS)
    design = DesignMatrix(x)
    judge = LabelJudge(design, label, np.r_[0, np.cumsum(sizes)])
    return {"design": design, "label": label, "sizes": sizes, "judge": judge, "x": x}


def _log(world: dict[str, Any], passes: int = 3) -> ClickLog:
    data = RankingData.from_arrays(world["x"], sizes=world["sizes"])
    rows = np.tile(np.arange(len(world["x"])), passes)
    session = np.repeat(np.arange(LISTS * passes), ITEMS)
    position = np.tile(np.arange(1, ITEMS + 1), LISTS * passes)
    return ClickLog.from_arrays(
        data, row=rows, session=session, position=position, click=np.tile(world["label"], passes)
    )


def test_the_best_trial_wins(world: dict[str, Any]) -> None:
    grids = [LambdaMART(preset="smoke", n_jobs=1, trees=trees, learning_rate=(0.001, 0.3)) for trees in (1, 10)]
    given = [
        trial
        for k, ranker in enumerate(grids)
        for trial in trials_of(ranker, world["design"], world["label"], world["sizes"], setting={"grid": k})
    ]
    heard: list[str] = []
    best, trial, candidates = search(given, world["judge"], progress=lambda by, note: heard.append(note))
    assert [c.setting for c in candidates] == [
        {"grid": 0, "learning_rate": 0.001, "stage": 1},
        {"grid": 0, "learning_rate": 0.3, "stage": 1},
        {"grid": 1, "learning_rate": 0.001, "stage": 10},
        {"grid": 1, "learning_rate": 0.3, "stage": 10},
    ]
    scores = [c.score for c in candidates]
    assert best.judged_ == max(s for s in scores if s is not None)
    assert candidates[given.index(trial)].score == best.judged_
    assert len(heard) == 4
    assert heard[-1] == f"best {best.judged_:.4f}"
    assert not hasattr(grids[0], "booster_")  # what came in is untouched


def test_without_a_judge_the_first_trial_is_taken(world: dict[str, Any]) -> None:
    def trials() -> Iterator[Trial]:
        yield from trials_of(LambdaMART(preset="smoke", n_jobs=1), world["design"], world["label"], world["sizes"])
        raise AssertionError("the search went on")

    best, _, candidates = search(trials())
    assert best.stage_ == 20
    assert [c.score for c in candidates] == [None]
    with pytest.raises(SettingError, match="at least one trial"):
        search([])


def test_a_trial_may_bring_its_own_judge(world: dict[str, Any]) -> None:
    class Contrary(LabelJudge):
        def __call__(self, scores: Any) -> float:
            return 7.0

    own = Contrary(world["design"], world["label"], np.r_[0, np.cumsum(world["sizes"])])
    ranker = LambdaMART(preset="smoke", n_jobs=1)
    plain = trials_of(ranker, world["design"], world["label"], world["sizes"])
    judged = trials_of(ranker, world["design"], world["label"], world["sizes"], judge=own)
    _, trial, candidates = search([*plain, *judged], world["judge"])
    assert trial is judged[0]
    assert candidates[1].score == 7.0


def test_rankers_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_ranker("xgboost", preset="paper", random_state=3, n_jobs=1).get_params()["random_state"] == 3
    mine = LambdaMART(leaves=3)
    copy = make_ranker(mine, preset="paper")
    assert copy is not mine
    assert copy.get_params() == mine.get_params()
    assert isinstance(make_ranker(Ridge()), SklearnRanker)
    with pytest.raises(SettingError, match="'lambdamart', 'dnn', 'xgboost'"):
        make_ranker("svmrank")
    with pytest.raises(SettingError, match="fit and predict"):
        make_ranker(3)
    monkeypatch.setitem(make_module.RANKERS, "dnn", ("unskew.rankers.neural:NeuralRanker", "no_such_module", "neural"))
    with pytest.raises(MissingExtraError, match=r"pip install 'unskew\[neural\]'"):
        make_ranker("dnn")


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (Ridge(), "linear"),
        (LogisticRegression(), "memory"),
        (RandomForestRegressor(n_estimators=10, random_state=0), "memory"),
        (LGBMRanker(n_estimators=10, verbosity=-1, n_jobs=1), "lightgbm"),
        (xgboost.XGBRanker(n_estimators=10, n_jobs=1), "xgboost"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_any_estimator_ranks(world: dict[str, Any], estimator: Any, kind: str) -> None:
    ranker = SklearnRanker(estimator).fit(world["design"], world["label"], world["sizes"], judge=world["judge"])
    assert ranker.judged_ > 0.8
    assert ranker.state(list("abcd")).kind == kind
    method = Naive(ranker=estimator).fit(_log(world))
    scores = method.predict(world["x"])
    assert world["judge"](scores) > 0.8
    np.testing.assert_allclose(scores, method.outcome_.ranker.predict(world["design"]), atol=1e-5)
    if kind == "memory":
        with pytest.raises(ExportError, match=type(estimator).__name__):
            method.to_model()


def test_the_adapter_passes_lists_and_weights_as_each_library_wants_them(world: dict[str, Any]) -> None:
    seen: dict[str, Any] = {}

    class Spy(Ridge):
        def fit(self, X: Any, y: Any, group_id: Any = None, sample_weight: Any = None) -> Any:
            seen.update(group_id=group_id, weight=sample_weight)
            return super().fit(X, y, sample_weight)

    weight = np.repeat(np.arange(1, LISTS + 1), ITEMS).astype(np.float32)
    SklearnRanker(Spy()).fit(world["design"], world["label"], world["sizes"], weight=weight)
    np.testing.assert_array_equal(seen["group_id"], np.repeat(np.arange(LISTS), ITEMS))
    np.testing.assert_array_equal(seen["weight"], weight)
    SklearnRanker(Spy(), group_argument="none").fit(world["design"], world["label"], world["sizes"])
    assert seen == {"group_id": None, "weight": None}
    with pytest.raises(SettingError, match="sample_weight"):
        SklearnRanker(KNeighborsRegressor()).fit(world["design"], world["label"], world["sizes"], weight=weight)
    with pytest.raises(SettingError, match="positions"):
        SklearnRanker(Ridge()).fit(world["design"], world["label"], world["sizes"], position=np.ones(480, int))
    with pytest.raises(SettingError, match="'auto', 'group'"):
        SklearnRanker(Ridge(), group_argument="groups").fit(  # type: ignore[arg-type]
            world["design"], world["label"], world["sizes"]
        )


def test_estimators_that_cannot_take_missing_values_are_protected(world: dict[str, Any]) -> None:
    holes = world["x"].copy()
    holes[0, 0] = np.nan
    log = _log({**world, "x": holes})
    with pytest.raises(FeatureError, match="missing"):
        Naive(ranker=Ridge()).fit(log)


def test_xgboost_weights_lists(world: dict[str, Any]) -> None:
    """A list of weight 2 counts as two lists. XGBoost divides weights by their mean, so nothing but them may set a
    scale (no penalty), and features with few values keep the bins the same."""
    x = np.round(world["x"] * 2)
    twice = np.concatenate([np.arange(len(x)), np.arange(12 * ITEMS)])
    weight = np.ones(len(x), dtype=np.float32)
    weight[: 12 * ITEMS] = 2
    build = {"preset": "smoke", "n_jobs": 1, "min_hessian": 0.0, "l2": 0.0}
    heavy = make_ranker("xgboost", **build).fit(DesignMatrix(x), world["label"], world["sizes"], weight=weight)
    lists = np.full(LISTS + 12, ITEMS)
    long = make_ranker("xgboost", **build).fit(DesignMatrix(x, twice), world["label"][twice], lists)
    light = make_ranker("xgboost", **build).fit(DesignMatrix(x), world["label"], world["sizes"])
    scores = [ranker.predict(DesignMatrix(x)) for ranker in (heavy, long, light)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-3)
    assert np.abs(scores[0] - scores[2]).max() > 0.05


def test_xgboost_stages_and_terms(world: dict[str, Any]) -> None:
    ranker = make_ranker("xgboost", preset="smoke", n_jobs=1, trees=(2, 5, 15))
    ranker.fit(world["design"], world["label"], world["sizes"], judge=world["judge"])
    alone = make_ranker("xgboost", preset="smoke", n_jobs=1, trees=ranker.stage_)
    alone.fit(world["design"], world["label"], world["sizes"])
    np.testing.assert_allclose(ranker.predict(world["design"]), alone.predict(world["design"]), atol=1e-5)
    booster = xgboost.Booster(model_file=bytearray(ranker.state(list("abcd")).files["model.json"]))
    assert booster.num_boosted_rounds() == ranker.stage_
    assert ranker.gain_share() == 0
    with pytest.raises(SettingError, match="unbiased"):
        alone.fit(world["design"], world["label"], world["sizes"], position=np.ones(480, int))
    with pytest.raises(LogError, match="without gaps"):
        alone.set_params(unbiased=True).fit(
            world["design"], world["label"], world["sizes"], position=np.tile([2, 1, 3, 4, 5, 6], LISTS)
        )
