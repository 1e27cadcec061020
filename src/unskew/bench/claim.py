"""A claim: what is said about an experiment, and how to look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from unskew.bench.looks import Look, Verdict

Owner = Literal["paper", "ours"]


@dataclass(frozen=True)
class Claim:
    """What is claimed, and how to look at it.

    means : what each verdict says to a user; of : whose claim it is; about : what it is a claim about.
    """

    experiment: str
    text: str
    look: Look
    means: Mapping[Verdict, str]
    of: Owner = "paper"
    about: str = "cfc, as published"
