"""Run the benchmarks and print one table: python -m benchmarks [topic …] [--quick] [--json FILE]."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.harness import Row

TOPICS = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
# Gigabytes of disk and memory: only by name (make bench-scale).
BY_NAME_ONLY = {"scale"}
UNITS = {"s": (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)), "bytes": (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))}


def main() -> int:
    """0 when every target is met, 1 when one is missed or a benchmark fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and memory beside the peers.")
    listed = f"any of: {', '.join(TOPICS)}; all but {', '.join(sorted(BY_NAME_ONLY))} by default"
    parser.add_argument("topics", nargs="*", metavar="topic", help=listed)
    parser.add_argument("--quick", action="store_true", help="small inputs: does it run, not how fast is it")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    options = parser.parse_args()
    unknown = [topic for topic in options.topics if topic not in TOPICS]
    if unknown:
        parser.error(f"no such topic: {', '.join(unknown)} (there are: {', '.join(TOPICS)})")
    console, rows, failed = Console(), [], False
    if not console.is_terminal:
        console.width = 140
    for topic in options.topics or [topic for topic in TOPICS if topic not in BY_NAME_ONLY]:
        try:
            with console.status(f"{topic} …"):
                rows += import_module(f"benchmarks.bench_{topic}").run(options.quick)
        except Exception as error:
            failed = True
            console.print(f"{topic}: {type(error).__name__}: {error}", style="red", markup=False)
    console.print(as_table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return int(failed or any(row.ok is False for row in rows))


def as_table(rows: list[Row]) -> Table:
    """The rows for the terminal."""
    table = Table()
    table.add_column("topic", no_wrap=True)
    table.add_column("what")
    for name in ("unskew", "peer", "ratio", "target", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        peer = "" if row.peer is None else f"{row.peer_name} {amount(row.peer, row.unit)}"
        mark = {True: "[green]ok[/green]", False: "[red]missed[/red]", None: ""}[row.ok]
        ratio = "" if row.ratio is None else f"{row.ratio:.3g} ×"
        what = escape(row.what) + (f"\n[dim]{escape(row.note)}[/dim]" if row.note else "")
        table.add_row(row.topic, what, amount(row.ours, row.unit), peer, ratio, row.target, mark)
    return table


def amount(value: float, unit: str) -> str:
    """A time or a size in a readable unit; anything else as it is."""
    for name, size in UNITS.get(unit, ()):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.4g} {unit}".strip()


if __name__ == "__main__":
    sys.exit(main())
