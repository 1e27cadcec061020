"""Is the correction identified on this log? Numbers first, then plain words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from unskew._options import RankTarget
from unskew._segments import FloatArray, IntArray, offsets_of, ranks_within, segment_mean
from unskew._words import percent
from unskew.control.heteroskedasticity import Heteroskedasticity, spread_test
from unskew.control.placements import placements
from unskew.control.spread_curve import SpreadCurve, spread_curve
from unskew.control.stage_one import StageOne, fit_stage_one
from unskew.control.statistics import ResidualStatistics
from unskew.data.clicks import ClickLog
from unskew.data.soundness import warn_about

Level = Literal["fine", "weak", "bad"]


@dataclass(frozen=True)
class Finding:
    """One thing to know: how it stands, what was seen, what to do about it."""

    level: Level
    about: str
    text: str


@dataclass(frozen=True)
class ClickCurve:
    """Clicks by position: (k,) positions, impressions and click rates."""

    position: IntArray
    impressions: npt.NDArray[np.float64]
    rate: npt.NDArray[np.float64]

    @property
    def counted(self) -> bool:
        """Whether a row must stand for several impressions: its clicks are then no share of anything."""
        return bool(self.rate.max(initial=0.0) > 1)


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """What stage one explained, whether its residuals can identify anything, and what that means.

    r2 : share of the rank's variance that the features explain; rank_correlation : mean within-query Spearman
    correlation of expected and logged rank; moved_share : items seen at more than one position.
    curves : the residuals' scatter by expected rank, and by the feature that changes it most.
    """

    r2: float
    rank_correlation: float
    moved_share: float
    residuals: ResidualStatistics
    skewness: float
    excess_kurtosis: float
    spread: Heteroskedasticity
    curves: tuple[SpreadCurve, ...]
    clicks: ClickCurve
    control_gain_share: float | None
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Level:
        """The worst level among the findings."""
        levels = [finding.level for finding in self.findings]
        return "bad" if "bad" in levels else "weak" if "weak" in levels else "fine"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; the fine histogram is left out."""
        residuals = asdict(self.residuals)
        residuals.pop("histogram")
        return {
            "verdict": self.verdict,
            "findings": [asdict(finding) for finding in self.findings],
            "stage_one": {"r2": self.r2, "within_query_rank_correlation": self.rank_correlation},
            "residuals": {
                **residuals,
                "variance": self.residuals.variance,
                "sd": self.residuals.sd,
                "skewness": self.skewness,
                "excess_kurtosis": self.excess_kurtosis,
            },
            "heteroskedasticity": self.spread.to_dict(),
            "items_seen_at_several_positions": self.moved_share,
            "clicks_by_position": {
                "position": self.clicks.position.tolist(),
                "impressions": self.clicks.impressions.tolist(),
                "rate": self.clicks.rate.tolist(),
            },
            "control_gain_share": self.control_gain_share,
        }


def diagnose(
    log: ClickLog,
    *,
    stage_one: StageOne | None = None,
    learner: Any = "ridge",
    rank_target: RankTarget = "global",
    gain_share: float | None = None,
    seed: int = 0,
) -> Diagnostics:
    """Look at stage one, its residuals and the clicks of a log."""
    if stage_one is None:
        warn_about(log)
        stage_one = fit_stage_one(log, learner=learner, rank_target=rank_target, random_state=seed)
    shown = placements(log)
    residual = stage_one.residual(log, shown.row, shown.position)
    spread = spread_test(log, row=shown.row, residual=residual, expected=stage_one.expected[shown.row], seed=seed)
    seen = np.bincount(shown.row, minlength=log.data.n_rows)
    moved = float((seen[seen > 0] > 1).mean())
    measured = Diagnostics(
        r2=stage_one.r2,
        rank_correlation=_within_query_correlation(log, stage_one.expected),
        moved_share=moved,
        residuals=stage_one.statistics,
        skewness=float(stats.skew(residual)) if np.ptp(residual) > 0 else 0.0,
        excess_kurtosis=float(stats.kurtosis(residual)) if np.ptp(residual) > 0 else 0.0,
        spread=spread,
        curves=_curves(log, shown.row, residual, stage_one.expected, spread.largest_feature),
        clicks=click_curve(log),
        control_gain_share=gain_share,
        findings=(),
    )
    return Diagnostics(**{**measured.__dict__, "findings": tuple(_findings(measured))})


def _curves(
    log: ClickLog, row: IntArray, residual: FloatArray, expected: FloatArray, feature: str
) -> tuple[SpreadCurve, ...]:
    curves = [spread_curve("expected rank", expected[row], residual)]
    if feature:
        column = log.data.features[row, log.data.feature_names.index(feature)]
        curves.append(spread_curve(feature, column, residual))
    return tuple(curves)


def click_curve(log: ClickLog) -> ClickCurve:
    """Impressions and click rate at every position that was shown."""
    weight = np.ones(log.n_impressions) if log.weight is None else log.weight.astype(np.float64)
    shown = np.bincount(log.position, weights=weight).astype(np.float64)
    clicked = np.bincount(log.position, weights=weight * log.click)
    positions = np.flatnonzero(shown)
    return ClickCurve(positions, shown[positions], clicked[positions] / shown[positions])


def _within_query_correlation(log: ClickLog, expected: FloatArray) -> float:
    """Mean Spearman correlation of expected and logged rank over the sessions' queries (one session a query)."""
    _, first = np.unique(log.session_query, return_index=True)
    part = log.take_sessions(first)
    sizes = np.diff(part.session_offsets)
    offsets = offsets_of(sizes)
    logged = ranks_within(-part.position.astype(np.float64), offsets).astype(np.float64)
    predicted = ranks_within(-expected[part.row], offsets).astype(np.float64)
    means = np.repeat((sizes + 1) / 2, sizes)
    products = segment_mean((logged - means) * (predicted - means), offsets)
    scale = (sizes.astype(np.float64) ** 2 - 1) / 12
    usable = sizes > 1
    return float((products[usable] / scale[usable]).mean()) if usable.any() else 0.0


def _findings(d: Diagnostics) -> list[Finding]:
    found = [_stage_one_finding(d), _spread_finding(d), _shape_finding(d), _variation_finding(d), _click_finding(d)]
    if d.control_gain_share is not None:
        found.append(_gain_finding(d.control_gain_share))
    return found


def _stage_one_finding(d: Diagnostics) -> Finding:
    inside = f"rank correlation in a query {d.rank_correlation:.2f}"
    seen = f"the features explain {percent(d.r2)} of the rank's variance ({inside})"
    if d.r2 > 0.95:
        return Finding(
            "weak",
            "stage one",
            f"Nearly nothing is left over: {seen}. Residuals this small can correct little; "
            "an explicit position effect (method 'full-cfc' or 'position') has more to work with.",
        )
    if d.r2 < 0.02:
        return Finding(
            "fine",
            "stage one",
            f"Positions look almost random given the features: {seen}. Clicks are then hardly confounded by features.",
        )
    return Finding("fine", "stage one", f"{seen[0].upper()}{seen[1:]}; the rest is residual.")


def _spread_finding(d: Diagnostics) -> Finding:
    s = d.spread
    if s.found:
        return Finding(
            "fine",
            "identification",
            f"The residuals' spread varies with {s.n_rejected} of {s.n_tested} features (Fligner–Killeen on one item "
            f"per query, Holm-corrected; largest ratio of variances between decile groups {s.largest_ratio:.1f} for "
            f"'{s.largest_feature}'). The condition that the control terms rest on holds.",
        )
    if s.n_tested == 0:
        return Finding(
            "weak",
            "identification",
            f"Whether the residuals' spread varies with a feature could not be tested: one item per query makes "
            f"{s.n_items:,}, too few to group. Ask again on a log of some hundred queries.",
        )
    return Finding(
        "bad",
        "identification",
        f"No feature changes the residuals' spread (0 of {s.n_tested} after Holm's correction, one item per query). "
        "The interaction terms have nothing to identify a correction with: prefer a method with a position effect "
        "('full-cfc', 'position'), or collect some randomised positions.",
    )


def _shape_finding(d: Diagnostics) -> Finding:
    near_normal = abs(d.skewness) < 0.5 and abs(d.excess_kurtosis) < 1
    shape = f"skewness {d.skewness:.2f}, excess kurtosis {d.excess_kurtosis:.2f}"
    if near_normal:
        text = f"Residuals are close to normal ({shape}): normal_pdf and inverse_mills fit their assumption."
    else:
        text = f"Residuals are not normal ({shape}): minmax and hazard do not assume that they are."
    return Finding("fine", "shape of the residuals", text)


def _variation_finding(d: Diagnostics) -> Finding:
    if d.moved_share > 0.01:
        seen = f"{percent(d.moved_share)} of the items were seen at more than one position"
        text = f"{seen}: the position effect can be checked."
        return Finding("fine", "variation of position", text)
    return Finding(
        "weak",
        "variation of position",
        "Every item always stood at the same position, so bias along the features' own direction cannot be told from "
        "relevance by residuals alone. Swapping a few results at random, even for 1 % of the traffic, would help.",
    )


def _click_finding(d: Diagnostics) -> Finding:
    c = d.clicks
    top, low = c.rate[0], c.rate[-1]
    half = int(np.searchsorted(-c.rate, -top / 2))
    if top > 0 and c.rate[c.position > 1].size and np.average(c.rate[1:], weights=c.impressions[1:]) < 0.8 * top:
        place = f" and halves by position {c.position[half]}" if half < len(c.rate) else ""
        first, last = (f"{top:.3g}", f"{low:.2g}") if c.counted else (percent(top, 1), percent(low, 2))
        what = "number of clicks on an item" if c.counted else "click rate"
        text = f"The {what} falls from {first} at position {c.position[0]} to {last} at {c.position[-1]}{place}."
        return Finding("fine", "clicks by position", text)
    return Finding(
        "weak",
        "clicks by position",
        "The click rate does not fall with position: there may be no position bias here to correct.",
    )


def _gain_finding(share: float) -> Finding:
    if share > 0.5:
        text = (
            f"The control columns take {percent(share)} of the ranker's gain; all of it is set to zero at inference, "
            "so much of what was learnt is thrown away. Compare with centred=True, separate=True."
        )
        return Finding("weak", "use of the control terms", text)
    return Finding(
        "fine", "use of the control terms", f"The control columns take {percent(share)} of the ranker's gain."
    )
