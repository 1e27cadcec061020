"""The list of commands: importing this module registers them on the app, in the order of the help page."""

# ruff: noqa: F401, I001  (one import a line, in the order of the help page)
from __future__ import annotations

from unskew.cli import demo
from unskew.cli import datasets
from unskew.cli import simulate
from unskew.cli import validate
from unskew.cli import diagnose
from unskew.cli import fit
from unskew.cli import rank
from unskew.cli import evaluate
from unskew.cli import methods
from unskew.cli import bench
from unskew.cli import report
from unskew.cli import export
from unskew.cli import partition
