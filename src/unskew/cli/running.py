"""How a long run tells how far it is: a live line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from unskew.cli.common import err

if TYPE_CHECKING:
    from unskew.bench.run import Progress

# Seconds between two lines in a file or a pipe.
EVERY = 30.0


@contextmanager
def running(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Give a function that hears about progress."""
    if quiet:
        yield lambda progress: None
        return
    if err.is_terminal:
        with Live(console=err, transient=True, refresh_per_second=4) as live:
            yield lambda progress: live.update(Text(line(progress, err.width), "dim"))
        return
    last = [-EVERY]

    def tell(progress: Progress) -> None:
        now = time.monotonic()
        if now - last[0] >= EVERY:
            last[0] = now
            err.print(line(progress), style="dim", soft_wrap=True)

    yield tell


def line(progress: Progress, width: int = 200) -> str:
    """Progress in one line.

    >>> from unskew.bench.run import Progress
    >>> line(Progress(9, 3, 1, ("cfc/lambdamart base fold 1 seed 0",), 125.0))
    '3 of 9 done, 1 failed, about 2 min left · running: cfc/lambdamart base fold 1 seed 0'
    """
    failed = f", {progress.failed} failed" if progress.failed else ""
    now = f" · running: {', '.join(progress.running)}" if progress.running else ""
    return f"{progress.done} of {progress.total} done{failed}, {said(progress.left)}{now}"[:width]


def said(seconds: float | None) -> str:
    """Remaining time in words that do not promise more than is known.

    >>> said(None), said(20), said(4000)
    ('remaining time not known yet', 'less than a minute left', 'about 1 h 7 min left')
    """
    if seconds is None:
        return "remaining time not known yet"
    if seconds < 50:
        return "less than a minute left"
    minutes = round(seconds / 60)
    return f"about {minutes} min left" if minutes < 60 else f"about {minutes // 60} h {minutes % 60} min left"
