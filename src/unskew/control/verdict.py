"""A verdict: what the referee found on a log, in words and numbers, and what follows from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.control.caution import Caution
from unskew.control.click_fit import ClickFit
from unskew.control.click_model import QueryClicks
from unskew.control.confounded import against_words, agreement, bounded, taken_examination
from unskew.control.evidence import Budget, Specification
from unskew.control.interventions import Interventions
from unskew.control.position_effect import PositionBasis
from unskew.control.referee_words import MIDDLE, MOVED_TO_TASTE, moved_words, position_words, terms_words, use_words
from unskew.control.stack import Stack, fit_stack

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """What the referee found, and the method it recommends.

    method, settings : what to fit; text : why, in words.
    specifications : the table; interventions : what moved items say, None if no item was moved.
    severity, severity_error : η of the position effect and its standard error; None where the examination was given.
    caution : what the recommended fit would leave to relevance, seen on the queries that were looked at.
    agreement : correlation of f with the production ranker's order, if it has one; against : whether f runs against it.
    half : whether half of the position effect is taken for examination, since something moved items and clicks alike.
    given : the examination by position, where it was; about_terms : what `text` says of the control terms.
    """

    method: str
    settings: dict[str, Any]
    text: str
    specifications: tuple[Specification, ...]
    severity: float | None
    severity_error: float | None
    interventions: Interventions | None
    queries: int
    clicks: float
    budget: Budget
    fit: ClickFit | None = field(default=None, repr=False, compare=False)
    given: tuple[float, ...] | None = field(default=None, repr=False)
    caution: Caution | None = field(default=None, repr=False)
    about_terms: str = field(default="", repr=False)
    agreement: float | None = None
    against: bool = False
    half: bool = False

    @property
    def position_found(self) -> bool:
        return self["position"].found

    def __getitem__(self, name: str) -> Specification:
        return next(one for one in self.specifications if one.name == name)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, without the fitted parts."""
        known = {name: value for name, value in self.__dict__.items() if name not in ("fit", "about_terms")}
        known["specifications"] = [{**asdict(one), "found": one.found} for one in self.specifications]
        known["interventions"] = None if self.interventions is None else self.interventions.to_dict()
        known["budget"] = asdict(self.budget)
        known["position_found"] = self.position_found
        known["caution"] = None if self.caution is None else asdict(self.caution)
        return known


@dataclass(frozen=True, eq=False)
class Findings:
    """What was found on a log.

    told : the verdict beside the moved items' examination; known : an examination that was given.
    against : whether relevance runs against the production ranker; vetoed : whether it would beside what moved items
        say, so that they do not count.
    """

    fit: ClickFit
    position: Specification
    terms: list[Specification]
    moved: Interventions | None
    told: Verdict | None
    known: Floats | None
    against: bool
    vetoed: bool

    @property
    def method(self) -> str:
        """Naive where no position effect is there to be corrected."""
        sure = self.known is not None or self.told is not None
        return "full-cfc" if self.position.found or sure else "naive"

    @property
    def best(self) -> Specification | None:
        """The control terms that add most, if any add something to a correction."""
        there = [one for one in self.terms if one.found and self.method != "naive"]
        return max(there, key=lambda one: one.gain, default=None)

    @property
    def half(self) -> bool:
        """Whether terms, or relevance against the ranker, leave only bounds of the examination: the middle is taken."""
        doubted = self.best is not None or (self.against and self.method != "naive")
        return doubted and self.known is None and self.told is None and bounded(self.fit)

    def settings(self, longest: int) -> dict[str, Any]:
        """Settings of the method, beside what was given."""
        if self.told is not None:
            return {"examination": self.told.given, **self.told.settings}
        if self.half:
            terms = "shift" if self.moved is None else "moves"
            return {"terms": terms, "examination": taken_examination(self.fit, longest)}
        return {} if self.best is None else _settings_of(self.best.name)


def verdict_of(found: Findings, nothing: Specification, budget: Budget, *, same: bool, longest: int) -> Verdict:
    """The findings in words, and what follows from them; `same`: fitting what is recommended is no other fit."""
    fit, told, given = found.fit, found.told, found.known
    settings = found.settings(longest)
    about_terms = terms_words(
        found.terms,
        used=found.method != "naive",
        sure=not found.half,
        shuffle=found.moved is None or not found.moved.refuted,
        given=given is not None,
    )
    table = (nothing, found.position, *found.terms)
    if told is not None:
        table = (*table[:2], *(one.beside("moved items") for one in told.specifications[1:]))
    estimated = given is None
    return Verdict(
        method=found.method,
        settings=settings,
        text=_text(found, settings, about_terms),
        specifications=table,
        severity=fit.stack.severity if estimated else None,
        severity_error=fit.stack.severity_error if estimated else None,
        interventions=found.moved,
        queries=fit.table.n_queries,
        clicks=float(fit.table.totals.sum()),
        budget=budget,
        fit=(fit if told is None else told.fit) if same else None,
        given=None if given is None else tuple(given.tolist()),
        caution=fit.caution if found.method == "full-cfc" and "examination" not in settings else None,
        about_terms=about_terms,
        agreement=agreement(fit),
        against=found.half and found.against,
        half=found.half,
    )


def _text(found: Findings, settings: dict[str, Any], about_terms: str) -> str:
    """What was found, one finding after the other, and what to use."""
    beside = None if found.known is None else _beside_given(found.fit)
    checked = "" if found.known is not None else moved_words(found.moved, by_chance=not found.half)
    of_moved = found.told is not None
    lines = [position_words(found.fit, found.position, beside=beside, overruled=of_moved)]
    lines += [about_terms, checked] if found.told is None else [checked, found.told.about_terms]
    lines.append(MOVED_TO_TASTE if found.vetoed else "")
    if found.half and found.against:
        lines += [against_words(agreement(found.fit)), MIDDLE if found.best is None else ""]
    lines.append(use_words(found.method, settings, of_moved=of_moved))
    return " ".join(line for line in lines if line)


def _beside_given(fit: ClickFit) -> Stack:
    """The position effect that the clicks still show beside the examination that was given; it should be none."""
    table = fit.used
    return fit_stack(PositionBasis.up_to(table.longest), table.position, QueryClicks.of(table), fit.parts)


def _settings_of(name: str) -> dict[str, Any]:
    what = name.removeprefix("position + ")
    if what in ("T", "shift", "moves"):
        return {"terms": what, "transformation": "minmax"} if what == "T" else {"terms": what}
    return {"terms": "phi", "transformation": what.removeprefix("Φ(").removesuffix(")")}


def nothing_told(clicks: float, why: str) -> Verdict:
    """A log that cannot tell anything, and `why` it cannot, is left as it is."""
    nothing = Specification("none", 0.0)
    position = replace(nothing, name="position", against="none")
    return Verdict(
        method="naive",
        settings={},
        text=f"{why} So nothing is corrected here. {use_words('naive', {}, of_moved=False)}",
        specifications=(nothing, position),
        severity=None,
        severity_error=None,
        interventions=None,
        queries=0,
        clicks=clicks,
        budget=Budget(),
    )
