"""Go the documented way on judged data and write down what was typed and what was printed.

python -m benchmarks.journey mq2008.txt.xz [more data …] --max-grade 2 --out docs/journey.md
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from unskew._files import atomic_path
from unskew.bench.store import versions

METHODS = ("naive", "cfc", "position", "default", "oracle")
# Columns of the terminal that the commands believe to write to.
WIDTH = "100"
_INTRO = """# The whole way, on real judged data

Judged data becomes a click log, methods learn from the clicks, and their rankings are held against the human grades
of queries that none of them saw. Below is what was typed and what was printed, unchanged; `make journey` does it
again. `default` is what `unskew fit` does when nobody names a method; `oracle` learns from the grades instead of the
clicks and marks what could be reached. This is one split and one draw of clicks: [RESULTS.md](../RESULTS.md) has
folds and tests."""


@dataclass(frozen=True)
class Step:
    """A command as it was typed, and what it printed."""

    words: tuple[str, ...]
    printed: str


class StepFailed(Exception):
    """A command of the way that ended with an error."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when the page was written, 1 when there is no data or a command failed; an old page then stays as it is."""
    options = _parser().parse_args(arguments)
    if not options.data:
        print("No judged data was named or found: nothing to do.", file=sys.stderr)
        return 1
    parts = []
    for data in options.data:
        try:
            steps = list(_walk(data, options))
        except StepFailed as error:
            print(error, file=sys.stderr)
            return 1
        parts.append(f"## {_name(data).partition('.')[0]}\n\n{_blocks(steps)}")
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    with atomic_path(options.out) as path:
        path.write_text("\n\n".join([_INTRO, *parts, f"Made with {made}."]) + "\n", encoding="utf-8")
    print(options.out)
    return 0


def commands(data: str, *, max_grade: int | None, methods: Sequence[str], preset: str) -> Iterator[list[str]]:
    """The commands, in the order of the README."""
    grade = [] if max_grade is None or _is_made_up(data) else ["--max-grade", str(max_grade)]
    size = [] if preset == "default" else ["--preset", preset]
    yield ["unskew", "simulate", _name(data), *grade, "--valid", "0.2", "--test", "0.2", "--out", "log.parquet"]
    for method in methods:
        fit = ["unskew", "fit", "log.parquet", "--valid", "log.valid.parquet", "--method", method]
        yield [*fit, *size, "--out", method]
    for method in methods:
        yield ["unskew", "rank", method, "log.test.parquet", "--out", f"{method}.parquet"]
    yield ["unskew", "evaluate", "log.test.parquet", *(f"{method}.parquet" for method in methods)]


def _walk(data: str, options: argparse.Namespace) -> Iterator[Step]:
    """Run the commands in a folder of their own, in which the data lies under its plain name."""
    with TemporaryDirectory(prefix="journey-") as name:
        folder = Path(name)
        if not _is_made_up(data):
            (folder / _name(data)).symlink_to(Path(data).resolve(strict=True))
        for words in commands(data, max_grade=options.max_grade, methods=options.methods, preset=options.preset):
            print(f"{_name(data)}: {shlex.join(words)}", file=sys.stderr)
            yield Step(tuple(words), _run(words, folder))


def _run(words: Sequence[str], folder: Path) -> str:
    """What the command printed, messages and result together as on a terminal."""
    command = [sys.executable, "-m", "unskew", *words[1:]]
    environment = {**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise StepFailed(f"'{shlex.join(words)}' ended with {done.returncode}:\n{done.stdout}")
    return done.stdout.replace(f"{folder}{os.sep}", "")


def _blocks(steps: Sequence[Step]) -> str:
    return "\n\n".join(f"    $ {shlex.join(step.words)}\n{_indented(step.printed)}".rstrip() for step in steps)


def _indented(printed: str) -> str:
    """Printed text as a block of Markdown that shows it as it is."""
    return "\n".join(f"    {line}".rstrip() for line in printed.strip("\n").splitlines())


def _is_made_up(data: str) -> bool:
    return data.partition(":")[0] == "synthetic"


def _name(data: str) -> str:
    return data if _is_made_up(data) else Path(data).name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.journey", description=__doc__)
    parser.add_argument("data", nargs="*", metavar="DATA", help="judged data: files, or synthetic[:queries]")
    parser.add_argument("--max-grade", type=int, help="the largest grade of the files")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=METHODS, help="by commas")
    parser.add_argument("--preset", default="default", help="as in `unskew fit`")
    parser.add_argument("--out", type=Path, default=Path("docs/journey.md"), help="the page to write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
