"""The neural ranker: its loss, its inputs, its numpy twin, its chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch")

from unskew.data.design import DesignMatrix, ZeroTerms  # noqa: E402
from unskew.errors import FeatureError, LogError, ModelFileError, NotFittedError, SettingError  # noqa: E402
from unskew.rankers.batches import Batches, cut_lists, fit_scaling  # noqa: E402
from unskew.rankers.net import adagrad, design_scores, make_net, net_tensors, softmax_loss  # noqa: E402
from unskew.rankers.net_scorer import MODEL_FILE, NetScorer, fold_net, write_tensors  # noqa: E402
from unskew.rankers.neural import NeuralRanker  # noqa: E402


class Given:
    """Terms that are handed over, one row an entry."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = np.asarray(values, np.float32)
        self.names = tuple(f"t{i}" for i in range(self.values.shape[1]))

    def fill(self, out: np.ndarray, x: np.ndarray, row: np.ndarray, entry: np.ndarray) -> None:
        out[:] = self.values[entry]


def made_up(lists: int = 60, items: int = 6, features: int = 5, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Features, clicks that follow the first feature, sizes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(lists * items, features)).astype(np.float32)
    click = (rng.random(len(x)) < 1 / (1 + np.exp(2 - 2 * x[:, 0]))).astype(np.int32)
    return x, click, np.full(lists, items)


def with_terms(separate: bool = False) -> tuple[NeuralRanker, DesignMatrix]:
    x, click, sizes = made_up()
    terms = np.random.default_rng(1).normal(size=(len(x), 3)) * [1, 50, 0.01] + [0, 20, 0]
    design = DesignMatrix(x, terms=Given(terms))
    ranker = NeuralRanker(preset="smoke", separate_terms=separate).fit(design, click, sizes)
    return ranker, design


class TestLists:
    def test_cut_keeps_the_top_and_drops_lists_without_a_click_there(self) -> None:
        label = np.array([0, 0, 1, 1, 0, 0])
        lists = cut_lists(label, np.array([3, 3]), list_size=2)
        assert lists.start.tolist() == [3]
        assert lists.size.tolist() == [2]

    def test_cut_goes_by_position_where_it_is_known(self) -> None:
        lists = cut_lists(np.array([1, 0, 1]), np.array([3]), list_size=4, position=np.array([2, 4, 9]))
        assert lists.size.tolist() == [2]
        assert lists.deepest == 4

    def test_whole_lists_end_at_a_hundred(self) -> None:
        assert cut_lists(np.ones(130), np.array([130]), list_size=None).width == 100

    def test_no_click_at_the_top_is_refused(self) -> None:
        with pytest.raises(LogError, match="first 2 positions"):
            cut_lists(np.array([0, 0, 1]), np.array([3]), list_size=2)

    def test_a_merged_list_is_drawn_as_often_as_its_sessions_were(self) -> None:
        x, weight = np.eye(4, dtype=np.float32), np.float32([3, 3, 1, 1])
        lists = cut_lists(np.array([1, 0, 1, 0]), np.array([2, 2]), list_size=10, weight=weight)
        assert lists.weight is None
        batches = Batches(DesignMatrix(x), lists, fit_scaling(DesignMatrix(x)), np.random.default_rng(0), size=40_000)
        batch = batches.draw()
        first = (batch.x[::2].argmax(dim=1) == 0).float().mean().item()
        # Standard error of the share is 0.002; five of them.
        assert first == pytest.approx(0.75, abs=0.011)

    def test_weights_inside_a_list_remain(self) -> None:
        lists = cut_lists(np.array([1, 0]), np.array([2]), list_size=10, weight=np.float32([4, 1]))
        assert lists.weight is not None
        assert lists.weight.tolist() == [1, 0.25]

    def test_padding(self) -> None:
        x = np.arange(5, dtype=np.float32)[:, None]
        design = DesignMatrix(x)
        lists = cut_lists(np.array([1, 0, 0, 1, 0]), np.array([3, 2]), list_size=10)
        batch = Batches(design, lists, fit_scaling(design), np.random.default_rng(0)).take(np.array([1, 0]))
        assert batch.mask.tolist() == [[True, True, False], [True, True, True]]
        assert batch.click.tolist() == [[1, 0, 0], [1, 0, 0]]
        assert batch.position.tolist() == [[0, 1, 0], [0, 1, 2]]
        spread = batch.spread(torch.arange(5.0))
        assert spread.tolist() == [[0, 1, -math.inf], [2, 3, 4]]
        assert batch.pack(spread).tolist() == [0, 1, 2, 3, 4]


def test_loss_equals_a_literal_loop() -> None:
    rng = np.random.default_rng(0)
    sizes = [3, 1, 4]
    scores = rng.normal(size=(3, 4))
    label, weight = rng.integers(0, 3, (3, 4)).astype(float), rng.random((3, 4))
    above, below = 0.0, 0.0
    for i, n in enumerate(sizes):
        total = sum(math.exp(scores[i, j]) for j in range(n))
        for j in range(n):
            above -= label[i, j] * weight[i, j] * math.log(math.exp(scores[i, j]) / total)
            below += label[i, j] * weight[i, j]
        scores[i, n:], label[i, n:] = -np.inf, 0
    loss = softmax_loss(torch.tensor(scores), torch.tensor(label), torch.tensor(weight))
    assert loss.item() == pytest.approx(above / below, rel=1e-12)


def test_adagrad_equals_pytorch() -> None:
    ours, theirs = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    movers = [
        adagrad(ours, 0.05).optimiser,
        torch.optim.Adagrad(theirs.parameters(), 0.05, initial_accumulator_value=0.1),
    ]
    for step in range(5):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        for layer, mover in zip((ours, theirs), movers):
            mover.zero_grad()
            layer(x).square().sum().backward()
            mover.step()
    assert torch.allclose(ours.weight, theirs.weight, atol=1e-7)


def test_padding_leaves_no_trace_in_the_gradient() -> None:
    score = torch.tensor([[0.5, -0.2, -torch.inf]], requires_grad=True)
    softmax_loss(score, torch.tensor([[1.0, 0, 0]]), torch.ones(1, 3)).backward()
    assert score.grad is not None
    assert torch.isfinite(score.grad).all()
    assert score.grad[0, 2] == 0


class TestScaling:
    def test_matches_numpy(self) -> None:
        x = np.random.default_rng(0).lognormal(3, 2, size=(1000, 2)).astype(np.float32) * [-1e-9, 1e9]
        x = x.astype(np.float32)
        scaling = fit_scaling(DesignMatrix(x, row=np.repeat(np.arange(1000), 2)))
        u = np.sign(x) * np.log1p(np.abs(x.astype(float)) / np.abs(x.astype(float)).mean(axis=0))
        np.testing.assert_allclose(scaling.plain(x), (u - u.mean(axis=0)) / u.std(axis=0), atol=1e-4)

    def test_constant_features_become_zero_and_outliers_are_clipped(self) -> None:
        x = np.float32([[7, 0, 0]] * 999 + [[7, 1e9, 0]])
        out = fit_scaling(DesignMatrix(x)).plain(x)
        assert (np.abs(out[:, [0, 2]]) < 1e-5).all()
        assert out.max() == 10

    def test_terms_are_not_centred(self) -> None:
        x = np.zeros((100, 1), np.float32)
        terms = np.random.default_rng(0).normal(40, 2, size=(100, 1))
        scaling = fit_scaling(DesignMatrix(x, terms=Given(terms)))
        assert scaling.terms(np.zeros((1, 1), np.float32)).item() == 0
        scaled = scaling.terms(terms[:20].astype(np.float32))
        np.testing.assert_array_equal(scaling.terms(-terms[:20].astype(np.float32)), -scaled)

    def test_missing_values_are_refused(self) -> None:
        x, click, sizes = made_up()
        x[7, 2] = np.nan
        with pytest.raises(FeatureError, match="feature number 3"):
            NeuralRanker(preset="smoke").fit(DesignMatrix(x), click, sizes)
        ranker = NeuralRanker(preset="smoke").fit(DesignMatrix(np.nan_to_num(x)), click, sizes)
        with pytest.raises(FeatureError, match="item 8"):
            ranker.predict(DesignMatrix(x))


class TestTerms:
    def test_zero_terms_leave_the_plain_inputs_as_they_are(self) -> None:
        """With terms at zero, the first layer sees exactly what a net that never had terms would see."""
        ranker, design = with_terms()
        x = design.features
        scorer = NetScorer.from_bytes(write_tensors(ranker.tensors_), ranker.info_)
        plain = {k: v for k, v in ranker.tensors_.items() if not k.startswith("terms.")}
        plain["input.term_unit"] = plain["input.term_scale"] = np.zeros(0, np.float32)
        without = NetScorer.from_bytes(write_tensors(plain), ranker.info_)
        zeros = np.zeros((len(x), 3), np.float32)
        np.testing.assert_array_equal(scorer.predict(np.hstack([x, zeros])), without.predict(x))

    @pytest.mark.parametrize("separate", [False, True])
    def test_folding_is_zero_terms(self, separate: bool) -> None:
        ranker, design = with_terms(separate)
        names = ("a", "b", "c", "d", "e", "t0", "t1", "t2")
        folded = fold_net(ranker.state(names))
        assert folded.columns == names[:5]
        scorer = NetScorer.from_bytes(folded.files[MODEL_FILE], folded.info)
        at_zero = ranker.predict(DesignMatrix(design.features, terms=ZeroTerms(names[5:])))
        np.testing.assert_allclose(scorer.predict(design.features), at_zero, atol=1e-5)
        assert np.abs(at_zero - ranker.predict(design)).max() > 1e-3

    @pytest.mark.parametrize("separate", [False, True])
    def test_folding_at_fixed_values(self, separate: bool) -> None:
        ranker, design = with_terms(separate)
        state = ranker.state([f"c{i}" for i in range(8)])
        fixed = np.array([0.7, 33.0, -0.02])
        folded = fold_net(state, fixed)
        scorer = NetScorer.from_bytes(folded.files[MODEL_FILE], folded.info)
        there = ranker.predict(DesignMatrix(design.features, terms=Given(np.tile(fixed, (len(design), 1)))))
        np.testing.assert_allclose(scorer.predict(design.features), there, atol=1e-5)
        with pytest.raises(FeatureError, match="3 terms"):
            fold_net(state, [1.0])

    def test_separate_terms_only_shift_the_score(self) -> None:
        ranker, design = with_terms(separate=True)
        x = design.features
        same = Given(np.tile([0.5, 10.0, 0.01], (len(x), 1)))
        shift = ranker.predict(DesignMatrix(x, terms=same)) - ranker.predict(
            DesignMatrix(x, terms=ZeroTerms(same.names))
        )
        assert np.ptp(shift) < 1e-5
        assert abs(shift[0]) > 1e-4


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("terms", [0, 3])
def test_numpy_scores_equal_torch(terms: int, separate: bool) -> None:
    rng = np.random.default_rng(3)
    x = rng.lognormal(0, 2, size=(5000, 20)).astype(np.float32)
    design = DesignMatrix(x, terms=Given(rng.normal(size=(5000, terms))) if terms else None)
    net = make_net(20, terms, (64, 32), separate_terms=separate)
    with torch.no_grad():
        for weight in net.parameters():
            weight += 0.3 * torch.randn_like(weight)
    scaling = fit_scaling(design)
    info = {"layers": [20, 64, 32, 1], "epsilon": 1e-5, "clip": scaling.clip}
    scorer = NetScorer.from_bytes(write_tensors(net_tensors(net, scaling)), info)
    expected = design_scores(net, scaling, design)
    assert expected.std() > 0.1
    np.testing.assert_allclose(scorer.predict(design[:]), expected, atol=1e-5 * max(1, np.abs(expected).max()))


class TestRanker:
    def test_learns_and_beats_chance(self) -> None:
        x, click, sizes = made_up(lists=200)
        ranker = NeuralRanker(preset="smoke").fit(DesignMatrix(x), click, sizes)
        assert np.corrcoef(ranker.predict(DesignMatrix(x)), x[:, 0])[0, 1] > 0.8

    def test_one_feature_is_enough(self) -> None:
        """A layer norm across an item's features would wipe a single one out."""
        x, click, sizes = made_up(features=1, lists=200)
        ranker = NeuralRanker(preset="smoke").fit(DesignMatrix(x), click, sizes)
        assert np.corrcoef(ranker.predict(DesignMatrix(x)), x[:, 0])[0, 1] > 0.8

    def test_same_seed_same_bytes_and_nothing_global_changes(self) -> None:
        x, click, sizes = made_up()
        before, threads = torch.get_rng_state(), torch.get_num_threads()
        fits = [NeuralRanker(preset="smoke", n_jobs=1).fit(DesignMatrix(x), click, sizes) for _ in range(2)]
        other = NeuralRanker(preset="smoke", n_jobs=1, random_state=1).fit(DesignMatrix(x), click, sizes)
        names = list("abcde")
        assert fits[0].state(names).files == fits[1].state(names).files
        assert fits[0].state(names).files != other.state(names).files
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == threads

    def test_position_effect_takes_the_bias_and_is_left_behind(self) -> None:
        """Clicks that depend on position alone: the effect must explain them and the score must not."""
        rng = np.random.default_rng(0)
        lists, items = 3000, 5
        x = rng.normal(size=(lists * items, 2)).astype(np.float32)
        position = np.tile(np.arange(1, items + 1), lists)
        click = (rng.random(len(x)) < 0.5 / position).astype(np.int32)
        ranker = NeuralRanker(preset="smoke", steps=200)
        ranker.fit(DesignMatrix(x), click, np.full(lists, items), position=position)
        effect = np.exp([ranker.position_effect_[k] for k in range(1, items + 1)])
        np.testing.assert_allclose(effect, 1 / np.arange(1, items + 1), rtol=0.15)

    def test_the_best_checkpoint_is_kept(self) -> None:
        x, click, sizes = made_up()

        class Downhill:
            features = DesignMatrix(x)
            calls = 0

            def __call__(self, scores: np.ndarray) -> float:
                self.calls += 1
                self.first = scores if self.calls == 1 else self.first
                return -self.calls

        judge = Downhill()
        ranker = NeuralRanker(preset="smoke").fit(DesignMatrix(x), click, sizes, judge=judge)
        assert judge.calls > 1
        assert (ranker.stage_, ranker.judged_) == (20, -1)
        np.testing.assert_allclose(ranker.predict(DesignMatrix(x)), judge.first, atol=1e-5)

    def test_exponential_gain(self) -> None:
        x, _, sizes = made_up()
        grades = np.random.default_rng(0).integers(0, 4, len(x))
        fits = [
            NeuralRanker(preset="smoke", gain="exponential").fit(DesignMatrix(x), grades, sizes),
            NeuralRanker(preset="smoke").fit(DesignMatrix(x), 2**grades - 1, sizes),
        ]
        np.testing.assert_array_equal(*(fit.predict(DesignMatrix(x)) for fit in fits))

    def test_grid_and_settings(self) -> None:
        assert [entry.learning_rate for entry in NeuralRanker(preset="paper").grid()] == [0.01, 0.05]
        only = NeuralRanker(learning_rate=0.02)
        assert [entry.learning_rate for entry in only.grid()] == [0.02]
        assert clone(only).get_params() == only.get_params()
        x, click, sizes = made_up()
        with pytest.raises(SettingError, match="steps=0"):
            NeuralRanker(steps=0).fit(DesignMatrix(x), click, sizes)
        with pytest.raises(SettingError, match="'default', 'paper', 'smoke'"):
            NeuralRanker(preset="fast").grid()  # type: ignore[arg-type]
        with pytest.raises(NotFittedError):
            NeuralRanker().predict(DesignMatrix(x))

    def test_damaged_files_are_named(self) -> None:
        x, click, sizes = made_up()
        state = NeuralRanker(preset="smoke").fit(DesignMatrix(x), click, sizes).state(list("abcde"))
        with pytest.raises(ModelFileError, match="cut short"):
            NetScorer.from_bytes(state.files[MODEL_FILE][:-8], state.info)
        with pytest.raises(ModelFileError, match="lacks"):
            NetScorer.from_bytes(write_tensors({"a": np.zeros(1, np.float32)}), state.info)
        scorer = NetScorer.from_bytes(state.files[MODEL_FILE], state.info)
        with pytest.raises(FeatureError, match="5 columns"):
            scorer.predict(np.zeros((2, 4), np.float32))


def test_scoring_needs_no_torch() -> None:
    import subprocess
    import sys

    code = """
import sys
from importlib.machinery import ModuleSpec
import numpy as np

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == "torch" else None

    def create_module(self, spec):
        raise ImportError(spec.name)

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, NoTorch())
import unskew.rankers.net_scorer, unskew.rankers.neural, unskew.baselines.multr, unskew.baselines.upe
from unskew.data.design import DesignMatrix
from unskew.errors import MissingExtraError
try:
    unskew.rankers.neural.NeuralRanker().fit(DesignMatrix(np.eye(2, dtype="f4")), np.ones(2), np.array([2]))
except MissingExtraError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "unskew[neural]" in out.stdout


def test_scaling_is_pure() -> None:
    x = np.float32([[1, 2], [3, 5]])
    fit_scaling(DesignMatrix(x)).plain(x)
    assert x.tolist() == [[1, 2], [3, 5]]
