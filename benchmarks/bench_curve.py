"""The position curve: how often its 90 % intervals hold the planted one, on logs that the click model can describe."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Row
from unskew._segments import offsets_of, ranks_within, segment_of
from unskew.control.click_fit import fit_clicks
from unskew.control.position_effect import position_curve
from unskew.data.clicks import ClickLog
from unskew.data.ranking import RankingData

TOPIC = "curve"
PASSES = 10
LAST = 10
# The positions of a log are in or out together: of 100 logs the share has a standard error of 0.03.
ENOUGH = 300


def run(quick: bool) -> list[Row]:
    """One row a planted severity."""
    return [_coverage(eta, 3 if quick else ENOUGH) for eta in (0.0, 1.0, 2.0)]


def planted_log(seed: int, eta: float, *, queries: int = 150) -> ClickLog:
    """P(click) = k^−η e^{f(x)}, f bent and with an interaction, under a linear ranker that shares a feature with f."""
    rng = np.random.default_rng(seed)
    offsets = offsets_of(rng.integers(4, 2 * LAST, queries))
    n = int(offsets[-1])
    x = rng.normal(size=(n, 5)).astype(np.float32)
    f = 0.56 * x[:, 0] + 0.42 * np.tanh(2 * x[:, 1]) + 0.28 * x[:, 0] * x[:, 2]
    position = np.tile(ranks_within(0.7 * x[:, 0] + 0.5 * x[:, 3], offsets), PASSES)
    rate = np.minimum(np.exp(-2.0 + np.tile(f, PASSES)) * position ** (-eta), 1)
    return ClickLog.from_arrays(
        RankingData.from_arrays(x, sizes=np.diff(offsets)),
        row=np.tile(np.arange(n), PASSES),
        session=np.repeat(np.arange(PASSES), n) * queries + np.tile(segment_of(offsets), PASSES),
        position=position,
        click=rng.random(len(rate)) < rate,
    )


def _coverage(eta: float, logs: int) -> Row:
    """The share of logs whose interval holds the planted examination, mean over positions 2 to 10."""
    inside = np.zeros((logs, LAST - 1))
    for seed in range(logs):
        fit = fit_clicks(planted_log(seed, eta), seed=seed, threads=1)
        curve = position_curve(fit.basis, fit.stack.effect, fit.stack.covariance, confidence=0.9)
        assert curve.low is not None
        assert curve.high is not None
        planted = curve.position[1:LAST] ** (-eta)
        inside[seed] = (curve.low[1:LAST] <= planted) & (planted <= curve.high[1:LAST])
    by_position = inside.mean(axis=0)
    covered = float(by_position.mean())
    note = f"positions 2 to {LAST}: {by_position.min():.2f} to {by_position.max():.2f}"
    what = f"90 % intervals that hold the planted curve, η = {eta:g}, {logs} logs"
    ok = 0.85 <= covered <= 0.95 if logs >= ENOUGH else None
    return Row(TOPIC, what, covered, unit="", target="0.85 to 0.95", ok=ok, note=note)
