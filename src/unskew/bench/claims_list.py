"""All claims, the paper's first."""

from __future__ import annotations

from unskew.bench.claims_ours import OURS
from unskew.bench.claims_paper import PAPER

CLAIMS = (*PAPER, *OURS)
