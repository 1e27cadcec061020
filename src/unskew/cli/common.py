"""What every command shares: its options, its two ways of speaking, its exit codes."""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from unskew.errors import OutputError, UnskewError, UnskewWarning

OK, SAYS_NO, WRONG_USE = 0, 1, 2

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, messages on standard error.")]
Seed = Annotated[int, typer.Option("--seed", help="Everything random follows from it.", min=0)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


class _Console(Console):
    """A console that falls silent when nobody reads it any more (`| head`): the work and its exit code go on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _to_nowhere(self.file)


def _to_nowhere(stream: IO[str]) -> None:
    """Let what is written from now on, and what still waits to be, go nowhere."""
    with suppress(OSError):  # a stream of a test has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


# Names of people's files and columns may hold brackets, so text is never read as markup: style is given as `Text`.
out = _Console(highlight=False, markup=False)
err = _Console(stderr=True, highlight=False, markup=False)


@dataclass(frozen=True)
class Voice:
    """How a command speaks: a JSON document or text on standard output, messages on standard error."""

    json: bool = False
    quiet: bool = False

    def say(self, message: Any) -> None:
        """A line, shown as it is, or a styled `Text` or a table for people; silent under --json and --quiet."""
        if not self.json and not self.quiet:
            out.print(visible(message) if isinstance(message, str) else message)

    def verbatim(self, line: str) -> None:
        """A line to copy, neither wrapped nor styled; silent under --json and --quiet."""
        if not self.json and not self.quiet:
            out.print(line, soft_wrap=True)

    def note(self, message: str) -> None:
        """A remark beside the result, on standard error."""
        if not self.quiet:
            err.print(message, style="dim")

    def result(self, document: dict[str, Any]) -> None:
        """The machine-readable result, printed only under --json."""
        if not self.json:
            return
        narrow = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
        try:
            sys.stdout.write(json.dumps(plain(document), ensure_ascii=narrow, allow_nan=False) + "\n")
            sys.stdout.flush()  # a full disk is an error of this command, not of the interpreter's end
        except BrokenPipeError:
            _to_nowhere(sys.stdout)

    @contextmanager
    def progress(self, title: str, total: int | None = None) -> Iterator[Callable[..., None]]:
        """A progress bar when a terminal is attached, none when not; call it to advance (by=1, note="")."""
        if self.quiet or not err.is_terminal:
            yield lambda by=1, note="": None
            return
        title_column, note_column = (
            TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[note]}")
        )
        columns = (title_column, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), note_column)
        with Progress(*columns, console=err, transient=True) as bar:
            task = bar.add_task(title, total=total, note="")
            yield lambda by=1, note="": bar.update(task, advance=by, note=note)


def visible(text: str) -> str:
    """Text from a file, safe to show: control characters, which can change a terminal, as escapes.

    >>> visible("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return text.translate(_CONTROLS)


_CONTROLS = {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)] if chr(code) != "\n"}


def refuse_overwriting(outputs: Iterable[Path], *inputs: str | Path) -> None:
    """Refuse an output that would take the place of what is read."""
    for output, source in product(outputs, map(Path, inputs)):
        if output.exists() and source.exists() and output.samefile(source):
            raise OutputError(f"{output} is read by this command, and would be replaced by it. Name another output.")


def plain(value: Any) -> Any:
    """The value as JSON has it: numpy scalars and arrays unpacked, NaN and infinity as null, paths as text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn library errors into short messages and exit codes; warnings into one line each on standard error."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> None:
        debug, quiet = bool(options.get("debug")), bool(options.get("quiet"))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default", UnskewWarning)
                warnings.showwarning = functools.partial(_show_warning, quiet=quiet)
                code = function(*args, **options)
        except UnskewError as error:
            _fail(str(getattr(error, "for_cli", error)), debug)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            err.print("Stopped. Nothing half-written was left behind.")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            raise typer.Exit(OK) from None
        except MemoryError:
            _fail("Not enough memory for this work on this machine. Work on a part of the data.", debug)
        except OSError as error:  # a file that may not be read, a disk that went away
            place = f"{error.filename}: " if error.filename is not None else ""
            _fail(f"{place}{error.strerror or error}.", debug)
        except Exception as error:
            _fail(
                f"Unexpected {type(error).__name__}: {error}\nThis is a defect of unskew; --debug shows where.", debug
            )
        else:
            if isinstance(code, int) and code != OK:
                raise typer.Exit(code)

    return run


def _fail(message: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    err.print(f"Error: {visible(message)}", style="red", soft_wrap=True)
    raise typer.Exit(WRONG_USE)


def _show_warning(
    message: Warning | str, category: type[Warning], *rest: Any, quiet: bool = False, **more: Any
) -> None:
    if not quiet and issubclass(category, UnskewWarning):
        err.print(f"Warning: {visible(str(message))}", style="yellow", soft_wrap=True)
