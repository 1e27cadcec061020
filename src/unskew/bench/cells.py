"""A cell: how clicks are made from judged data. Experiments differ in their cells and in what methods are told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from unskew._options import LoggingPolicy, ShockScope
from unskew.simulation.production import BASE_SHARE


@dataclass(frozen=True)
class Cell:
    """The settings of the simulator, as `unskew.simulate` takes them; the defaults are the paper's base case.

    >>> Cell(eta=2.0).said, Cell().said
    ('eta=2.0', 'base')
    """

    eta: float = 1.0
    noise: float = 0.0
    passes: int = 10
    production: float = BASE_SHARE
    landmarks: tuple[int, ...] = ()
    policy: LoggingPolicy = "production"
    hidden: int = 0
    shock: float = 0.0
    shock_moves_clicks: bool = False
    shock_per: ShockScope = "item"
    shock_share: float = 1.0

    def settings(self) -> dict[str, Any]:
        """For `simulate(data, **settings)`."""
        return dict(vars(self))

    def changed(self) -> dict[str, Any]:
        """The settings that differ from the base case."""
        base = vars(Cell())
        return {name: value for name, value in vars(self).items() if value != base[name]}

    @property
    def said(self) -> str:
        """What differs from the base case, in one line."""
        return ", ".join(f"{name}={value}" for name, value in self.changed().items()) or "base"

    @property
    def moves_items(self) -> bool:
        """Whether an item may be shown at several positions."""
        per_session = self.shock > 0 and self.shock_per == "session"
        return bool(self.landmarks) or self.policy != "production" or per_session

    def for_oracle(self) -> Cell:
        """The cell as the oracle sees it: which features there are, and no clicks.

        Cells that differ in their clicks alone have one oracle, which is then fitted once.
        """
        return replace(Cell(), passes=1, hidden=self.hidden, production=self.production if self.hidden else BASE_SHARE)
