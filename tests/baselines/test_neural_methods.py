"""DLA, REM, PAL, UPE, MULTR: each loss against a literal loop, each curve against the one that made the clicks."""

from __future__ import annotations

import math
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch")

from unskew.baselines.dla import DLA  # noqa: E402
from unskew.baselines.multr import MULTR  # noqa: E402
from unskew.baselines.neural import NeuralMethod, Task, session_batches  # noqa: E402
from unskew.baselines.pal import PAL, log_one_minus_exp  # noqa: E402
from unskew.baselines.rem import REM, expectation, maximisation  # noqa: E402
from unskew.baselines.upe import UPE, confounder_loss, do_propensity, halves  # noqa: E402
from unskew.baselines.user_simulator import click_loss, gru_step, make_simulator, walk  # noqa: E402
from unskew.data.clicks import ClickLog  # noqa: E402
from unskew.data.design import DesignMatrix  # noqa: E402
from unskew.data.ranking import RankingData  # noqa: E402
from unskew.errors import FeatureError, LogError, SettingError  # noqa: E402
from unskew.rankers.batches import Batch  # noqa: E402
from unskew.rankers.net import Schedule, softmax_loss  # noqa: E402
from unskew.simulation.log import simulate  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")

METHODS: list[type[NeuralMethod]] = [DLA, REM, PAL, UPE, MULTR]

# Three sessions: a full one, a short one, one with a gap (nothing was shown at position 2).
SHOWN = [[1, 2, 3], [1, 2], [1, 3]]
CLICKS = [[1, 0, 1], [0, 1], [1, 0]]
WEIGHTS = [[1.0, 1.0, 1.0], [2.0, 2.0], [0.5, 0.5]]


def tiny_log(logging: bool = True) -> ClickLog:
    rng = np.random.default_rng(0)
    sizes = [len(shown) for shown in SHOWN]
    data = RankingData.from_arrays(rng.normal(size=(sum(sizes), 4)), sizes=sizes)
    return ClickLog.from_arrays(
        data,
        row=np.arange(sum(sizes)),
        session=np.repeat(np.arange(3), sizes),
        position=np.concatenate(SHOWN),
        click=np.concatenate(CLICKS),
        logging_score=rng.normal(size=sum(sizes)) if logging else None,
    )


def tiny(method: NeuralMethod, logging: bool = True) -> tuple[Batch, Any, Task, torch.Tensor, list[list[float]]]:
    """A batch of the three sessions, the method's towers, and scores as a tensor and as lists."""
    torch.manual_seed(0)
    log = tiny_log(logging)
    batches = session_batches(log, 10, np.random.default_rng(0), keep_empty=True)
    task = Task(log, batches, Schedule(1, 0.05, 1), 3)
    batch = batches.take(np.arange(3))
    weight = torch.zeros(3, 3)
    for i, values in enumerate(WEIGHTS):
        weight[i, : len(values)] = torch.tensor(values)
    batch = Batch(**{**batch.__dict__, "weight": weight})
    scores = [[0.4, -0.3, 0.9], [0.1, 0.2], [-0.5, 1.1]]
    return batch, method.towers(task), task, torch.tensor([value for row in scores for value in row]), scores


def cross_entropy(logit: list[list[float]], click: list[list[float]], weight: list[list[float]]) -> float:
    """Σ y w (−log softmax) / Σ y w, one click at a time."""
    above = below = 0.0
    for session in range(len(logit)):
        total = sum(math.exp(value) for value in logit[session])
        for i, value in enumerate(logit[session]):
            y = click[session][i] * weight[session][i]
            above -= y * math.log(math.exp(value) / total)
            below += y
    return above / below


def times(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    return [[x * y for x, y in zip(left, right)] for left, right in zip(a, b)]


class TestLosses:
    def test_dla(self) -> None:
        method = DLA(max_weight=2.5)
        batch, towers, _, f, s = tiny(method)
        e = [0.3, -0.2, -1.0]
        towers["e"].data = torch.tensor(e)
        at = [[e[k - 1] for k in shown] for shown in SHOWN]
        w = [[min(math.exp(e[0] - value), 2.5) for value in row] for row in at]
        v = [[min(math.exp(row[0] - value), 2.5) for value in row] for row in s]
        expected = cross_entropy(s, CLICKS, times(WEIGHTS, w)) + cross_entropy(at, CLICKS, times(WEIGHTS, v))
        assert math.exp(e[0] - e[2]) > 2.5  # the cap is at work
        assert method.loss(f, batch, towers).item() == pytest.approx(expected, rel=1e-5)

    def test_dla_starts_as_the_naive_ranker(self) -> None:
        batch, towers, _, f, _ = tiny(DLA())
        s = batch.spread(f.requires_grad_())
        naive = torch.autograd.grad(softmax_loss(s, batch.click, batch.weight), f)[0]
        assert torch.allclose(torch.autograd.grad(DLA().loss(f, batch, towers), f)[0], naive, atol=1e-7)

    def test_dla_weights_are_constants(self) -> None:
        """The ranker learns nothing from the exam loss: its scores enter that one as weights only."""
        batch, towers, _, f, _ = tiny(DLA())
        towers["e"].data = torch.tensor([0.5, 0.0, -0.5])
        e = towers["e"].detach()
        f = f.clone().requires_grad_()
        DLA().loss(f, batch, towers).backward()
        w = (e[0] - e[batch.position]).exp()
        alone = torch.autograd.grad(softmax_loss(batch.spread(f), batch.click, batch.weight * w), f)[0]
        assert f.grad is not None
        assert torch.allclose(f.grad, alone, atol=1e-7)

    def test_rem_equals_a_hand_computed_em_step(self) -> None:
        method = REM(step=0.05)
        batch, towers, _, f, s = tiny(method)
        theta = [0.9, 0.6, 0.3]
        towers["theta"].data = torch.tensor(theta)
        loss = total = 0.0
        seen, mass = [0.0] * 3, [0.0] * 3
        for shown, clicks, weights, scores in zip(SHOWN, CLICKS, WEIGHTS, s):
            for k, click, weight, score in zip(shown, clicks, weights, scores):
                gamma, t = 1 / (1 + math.exp(-score)), theta[k - 1]
                examined = 1.0 if click else t * (1 - gamma) / (1 - t * gamma)
                relevant = 1.0 if click else (1 - t) * gamma / (1 - t * gamma)
                loss -= weight * (relevant * math.log(gamma) + (1 - relevant) * math.log(1 - gamma))
                total += weight
                seen[k - 1] += weight * examined
                mass[k - 1] += weight
        assert method.loss(f, batch, towers).item() == pytest.approx(loss / total, rel=1e-5)
        moved = [0.95 * t + 0.05 * a / b for t, a, b in zip(theta, seen, mass)]
        np.testing.assert_allclose(towers["theta"].numpy(), moved, rtol=1e-6)

    def test_rem_is_stable_at_the_ends(self) -> None:
        examined, relevant = expectation(
            torch.tensor([1 - 1e-6, 1e-6]), torch.tensor([80.0, -80.0]), torch.tensor([0.0, 0.0])
        )
        assert torch.isfinite(torch.cat([examined, relevant])).all()
        same = maximisation(torch.tensor([0.5, 0.5]), torch.tensor([0]), torch.tensor([1.0]), torch.tensor([1.0]), 0.5)
        assert same.tolist() == pytest.approx([0.75, 0.5])  # a position that was not shown stays where it is

    def test_pal(self) -> None:
        method = PAL()
        batch, towers, _, f, s = tiny(method)
        a = [1.2, 0.1, -0.7]
        towers["a"].data = torch.tensor(a)
        loss = total = 0.0
        for shown, clicks, weights, scores in zip(SHOWN, CLICKS, WEIGHTS, s):
            for k, click, weight, score in zip(shown, clicks, weights, scores):
                p = 1 / (1 + math.exp(-a[k - 1])) / (1 + math.exp(-score))
                loss -= weight * math.log(p if click else 1 - p)
                total += weight
        assert method.loss(f, batch, towers).item() == pytest.approx(loss / total, rel=1e-5)

    def test_pal_list_wise(self) -> None:
        method = PAL(objective="softmax")
        batch, towers, _, f, s = tiny(method)
        logistic = [[-math.log1p(math.exp(-value)) for value in row] for row in s]
        assert method.loss(f, batch, towers).item() == pytest.approx(cross_entropy(logistic, CLICKS, WEIGHTS), rel=1e-5)

    def test_log_one_minus_exp(self) -> None:
        x = torch.tensor([-1e-6, -0.1, -0.7, -5.0, -90.0], dtype=torch.float64, requires_grad=True)
        expected = [math.log(-math.expm1(value)) for value in x.tolist()]
        out = log_one_minus_exp(x)
        np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-12, atol=1e-30)
        out.sum().backward()
        assert x.grad is not None
        assert torch.isfinite(x.grad).all()

    def test_upe(self) -> None:
        method = UPE()
        batch, towers, _, f, s = tiny(method)
        towers["position"]["table"].data = torch.randn(3, 64)
        towers["position"]["alpha"].data.fill_(0.6)
        e_of = self._propensity_logits(batch, towers)
        p = self._do_propensity(e_of)
        w = [[1 / p[k - 1] for k in shown] for shown in SHOWN]
        v = [[math.exp(sum(row) / len(row) - value) for value in row] for row in s]
        at = [[e_of[i][j][j] for j in range(len(shown))] for i, shown in enumerate(SHOWN)]
        expected = cross_entropy(s, CLICKS, times(WEIGHTS, w)) + cross_entropy(at, CLICKS, times(WEIGHTS, v))
        assert method.loss(f, batch, towers).item() == pytest.approx(expected, rel=1e-4)
        np.testing.assert_allclose(do_propensity(batch, towers, *halves(towers, batch.x)).detach(), p, rtol=1e-4)

    @staticmethod
    def _propensity_logits(batch: Batch, towers: Any) -> list[list[list[float]]]:
        """e of item i at the j-th place of its list, each computed on its own."""
        items, out = iter(batch.x), []
        for shown in SHOWN:
            rows = []
            for _ in shown:
                code = 0.6 * towers["item"](next(items))
                places = [towers["head"](code + towers["position"]["table"][k - 1]) for k in shown]
                rows.append([towers["out"](torch.nn.functional.leaky_relu(a)).item() for a in places])
            out.append(rows)
        return out

    @staticmethod
    def _do_propensity(e_of: list[list[list[float]]]) -> list[float]:
        here, top = [0.0] * 3, [0.0] * 3
        for shown, e in zip(SHOWN, e_of):
            n = len(shown)
            share = [0.0] * n
            for shift in range(n):
                logits = [e[(j + shift) % n][j] for j in range(n)]
                total = sum(math.exp(value) for value in logits)
                share = [old + math.exp(value) / total / n for old, value in zip(share, logits)]
            for j, k in enumerate(shown):
                here[k - 1] += share[j]
                top[k - 1] += share[0]
        return [a / b for a, b in zip(here, top)]

    def test_upe_confounder_is_the_logging_policy(self) -> None:
        batch, towers, _, _, _ = tiny(UPE())
        score = batch.logging_score
        assert score is not None
        e, target = [], []
        items = iter(batch.x)
        for i, shown in enumerate(SHOWN):
            raw = score[i, : len(shown)].numpy().astype(float)
            share = np.exp((raw - raw.mean()) / raw.std())
            target.append((share / share.sum()).tolist())
            code = [towers["head"](towers["item"](next(items))) for _ in shown]
            e.append([towers["out"](torch.nn.functional.leaky_relu(a)).item() for a in code])
        ones = [[1.0] * len(shown) for shown in SHOWN]
        assert confounder_loss(towers, batch).item() == pytest.approx(cross_entropy(e, target, ones), rel=1e-4)

    def test_upe_without_logging_scores_takes_the_order(self) -> None:
        batch, towers, _, _, _ = tiny(UPE(), logging=False)
        order = Batch(**{**batch.__dict__, "logging_score": -torch.log(batch.position + 1.0)})
        assert confounder_loss(towers, batch).item() == pytest.approx(confounder_loss(towers, order).item(), rel=1e-6)

    def test_upe_freezes_the_confounder(self) -> None:
        for joint in (False, True):
            method = UPE(joint=joint)
            batch, towers, task, f, _ = tiny(method)
            method.prepare(None, towers, task)
            towers.zero_grad()
            method.loss(f, batch, towers).backward()
            assert (towers["item"][0].weight.grad is not None) == joint
            assert towers["position"]["alpha"].grad is not None
            assert towers["position"]["table"].grad is not None

    def test_upe_strength_can_be_fixed(self) -> None:
        method = UPE(fixed_strength=True)
        batch, towers, _, f, _ = tiny(method)
        method.loss(f, batch, towers).backward()
        assert towers["position"]["alpha"].grad is None

    def test_multr(self, monkeypatch: pytest.MonkeyPatch) -> None:
        method = MULTR(preset="smoke", orders=4)
        batch, towers, _, f, s = tiny(method)
        e = [0.3, -0.2, -1.0]
        towers["examination"]["e"].data = torch.tensor(e)
        shown_clicks = [[0.0, 1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
        reordered = [[3.0, 1.0, 0.0], [2.0, 2.0], [1.0, 4.0]]

        def given(*_: Any) -> tuple[torch.Tensor, torch.Tensor]:
            tables = torch.zeros(2, 3, 3)
            for table, values in zip(tables, (shown_clicks, reordered)):
                for i, row in enumerate(values):
                    table[i, : len(row)] = torch.tensor(row)
            return tables[0], tables[1]

        monkeypatch.setattr(MULTR, "pseudo_clicks", given)
        at = [[e[k - 1] for k in shown] for shown in SHOWN]
        w = times(WEIGHTS, [[math.exp(e[0] - value) for value in row] for row in at])
        v = times(WEIGHTS, [[math.exp(row[0] - value) for value in row] for row in s])
        a, b = cross_entropy(s, CLICKS, w), cross_entropy(s, shown_clicks, w)
        c, d = cross_entropy(s, shown_clicks, WEIGHTS), cross_entropy(s, reordered, WEIGHTS)
        expected = cross_entropy(at, CLICKS, v) + (a - b + c + 4 * d) / 6
        assert method.loss(f, batch, towers).item() == pytest.approx(expected, rel=1e-5)


class TestSimulator:
    def test_gru_step_equals_pytorch(self) -> None:
        cell = torch.nn.GRUCell(5, 4)
        torch.nn.init.zeros_(cell.bias_hh)
        recur = torch.nn.Linear(4, 12, bias=False)
        recur.weight.data = cell.weight_hh.data
        x, h = torch.randn(7, 5), torch.randn(7, 4)
        assert torch.allclose(gru_step(recur, x @ cell.weight_ih.T + cell.bias_ih, h), cell(x, h), atol=1e-6)

    def test_padding_is_not_read(self) -> None:
        simulator = make_simulator(4, 3, (8,), 4)
        items, position = torch.randn(1, 3, 4), torch.arange(3)[None]
        clicks = torch.tensor([[1.0, 0.0, 0.0]])
        short, _ = walk(simulator, items[:, :2], position[:, :2], torch.ones(1, 2, dtype=torch.bool), told=clicks)
        mask = torch.tensor([[True, True, False]])
        padded, _ = walk(simulator, items, position, mask, told=clicks)
        assert torch.allclose(padded[:, :2], short, atol=1e-6)

    def test_orders_equal_lists_really_put_into_that_order(self) -> None:
        simulator = make_simulator(4, 3, (8,), 4)
        items, position = torch.randn(2, 3, 4), torch.arange(3).expand(2, 3)
        mask = torch.ones(2, 3, dtype=torch.bool)
        orders = torch.tensor(list(permutations(range(3)))[1:3])[:, None].expand(2, 2, 3).reshape(4, 3)
        torch.manual_seed(1)
        logits, clicks = walk(simulator, items, position, mask, order=orders)
        torch.manual_seed(1)
        moved = torch.stack([items[m % 2][orders[m]] for m in range(4)])
        literal = walk(simulator, moved, position.repeat(2, 1), mask.repeat(2, 1))
        assert torch.allclose(logits, literal[0], atol=1e-6)
        assert torch.equal(clicks, literal[1])

    def test_counted_clicks_give_the_loss_over_all_orders(self) -> None:
        """An item keeps its share of the softmax in every order, so that counts replace the re-ordered lists."""
        method = MULTR(preset="smoke", orders=5)
        batch, towers, _, f, s = tiny(method)
        _, counts = method.pseudo_clicks(batch, towers["simulator"])
        assert counts.sum() > 0
        assert not counts[~batch.mask].any()
        lists, clicks, weights = [], [], []
        for i, row in enumerate(s):
            for j in range(len(row)):
                for _ in range(int(counts[i, j])):  # every click as a list of its own, items rotated
                    lists.append(row[j:] + row[:j])
                    clicks.append([1.0] + [0.0] * (len(row) - 1))
                    weights.append([WEIGHTS[i][j]] * len(row))
        loss = softmax_loss(batch.spread(f), counts, batch.weight).item()
        assert loss == pytest.approx(cross_entropy(lists, clicks, weights), rel=1e-5)

    def test_learns_what_a_click_depends_on(self) -> None:
        """Clicks at the top only: after training, the simulator clicks there and nowhere else."""
        rng = np.random.default_rng(0)
        n, k = 300, 3
        data = RankingData.from_arrays(rng.normal(size=(n * k, 2)), sizes=[k] * n)
        position = np.tile(np.arange(1, k + 1), n)
        log = ClickLog.from_arrays(
            data,
            row=np.arange(n * k),
            session=np.repeat(np.arange(n), k),
            position=position,
            click=(position == 1) & (rng.random(n * k) < 0.5),
        )
        method = MULTR(preset="smoke", orders=8, simulator_share=120.0)
        batches = session_batches(log, 10, rng, keep_empty=False)
        task = Task(log, batches, Schedule(1, 0.05, 1), k)
        towers = method.towers(task)
        method.prepare(None, towers, task)
        shown, reordered = method.pseudo_clicks(batches.draw(), towers["simulator"])
        # Half of all sessions have a click; a simulator trained on those alone would click in every one.
        assert shown[:, 0].mean() == pytest.approx(0.5, abs=0.2)
        assert shown[:, 1:].mean() < 0.1
        assert reordered.sum(dim=1).mean() / 8 == pytest.approx(0.5, abs=0.25)

    def test_loss_counts_items_once(self) -> None:
        batch, towers, _, _, _ = tiny(MULTR(preset="smoke"))
        simulator = towers["simulator"]
        items = batch.spread(simulator["item"](batch.x), fill=0.0)
        logit, _ = walk(simulator, items, batch.position, batch.mask, told=batch.click)
        literal = 0.0
        for i, clicks in enumerate(CLICKS):
            for j, click in enumerate(clicks):
                p = 1 / (1 + math.exp(-logit[i, j].item()))
                literal -= WEIGHTS[i][j] * math.log(p if click else 1 - p)
        loss = click_loss(simulator, batch, teach=True, dropout=0.0)
        assert loss.item() == pytest.approx(literal / 3, rel=1e-5)


POSITIONS, ETA = 6, 1.0


@cache
def randomised() -> ClickLog:
    """A position-based model, P(click) = relevance / k, with lists in random order: nothing is confounded."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300 * POSITIONS, 4))
    grades = np.digitize(2 * x[:, 0] + x[:, 1] + 0.5 * rng.normal(size=len(x)), [-1.5, 0.5, 2.0])
    data = RankingData.from_arrays(x, sizes=[POSITIONS] * 300, grades=grades, max_grade=3)
    return simulate(data, eta=ETA, noise=0.1, passes=60, policy="random", seed=0)


@pytest.mark.parametrize(
    ("method", "tolerance"),
    [
        # The log has some 20,000 clicks, 1,400 of them at the lowest position: a standard error of 3 %. Each method
        # gets five of these, and the methods with noise of their own (online EM, few orders) a little more.
        (DLA(), 0.15),
        (PAL(), 0.15),
        (UPE(confounder_share=0.1), 0.15),
        (REM(), 0.2),
        (MULTR(preset="smoke", orders=2, simulator_share=0.2), 0.2),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_recovers_the_planted_curve(method: NeuralMethod, tolerance: float) -> None:
    method = clone(method).set_params(hidden=(32, 16), learning_rate=0.05, steps=250, n_jobs=1)
    curve = method.fit(randomised()).bias_
    assert curve.position.tolist() == list(range(1, POSITIONS + 1))
    np.testing.assert_allclose(curve.value, curve.position**-ETA, rtol=tolerance)


@pytest.mark.parametrize("method", METHODS)
class TestEveryMethod:
    def test_fit_is_reproducible_and_global_chance_is_untouched(self, method: type[NeuralMethod]) -> None:
        log = randomised().take_sessions(np.arange(200))
        before = torch.get_rng_state()
        fits = [method(preset="smoke", steps=5, n_jobs=1).fit(log, validation=log) for _ in range(2)]
        assert fits[0].outcome_.state.files == fits[1].outcome_.state.files
        assert np.array_equal(fits[0].bias_.value, fits[1].bias_.value)
        assert torch.equal(torch.get_rng_state(), before)
        scores = fits[0].outcome_.ranker.predict(DesignMatrix(log.data.features))
        assert np.isfinite(scores).all()
        assert fits[0].candidates_[0].setting["learning_rate"] == 0.05

    def test_settings(self, method: type[NeuralMethod]) -> None:
        one = method(learning_rate=0.02, list_size=5)
        assert clone(one).get_params() == one.get_params()
        assert repr(one) == f"{method.__name__}(learning_rate=0.02, list_size=5)"
        with pytest.raises(SettingError, match="preset"):
            method(preset="slow").fit(randomised())  # type: ignore[arg-type]

    def test_bad_input(self, method: type[NeuralMethod]) -> None:
        data = RankingData.from_arrays([[1.0, 0.0], [np.nan, 1.0]], sizes=[2])
        log = ClickLog.from_arrays(data, row=[0, 1], session=[0, 0], position=[1, 2], click=[1, 0])
        with pytest.raises(FeatureError, match="missing values"):
            method(preset="smoke", steps=1).fit(log)
        low = ClickLog.from_arrays(
            RankingData.from_arrays([[1.0], [2.0]], sizes=[2]),
            row=[0, 1],
            session=[0, 0],
            position=[1, 30],
            click=[0, 1],
        )
        if not method.keep_empty:
            with pytest.raises(LogError, match="first 10 positions"):
                method(preset="smoke", steps=1).fit(low)


def test_learning_rate_is_chosen_by_validation() -> None:
    log = randomised()
    method = DLA(preset="paper", hidden=(16,), steps=40, n_jobs=1).fit(log, validation=log)
    assert [candidate.setting["learning_rate"] for candidate in method.candidates_] == [0.01, 0.05]
    scores = [candidate.score for candidate in method.candidates_]
    assert method.outcome_.ranker.judged_ == max(scores)
