"""Progress bars and progress lines, for commands that take a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import Progress as ProgressBar

from regionscope.types import Progress

_EVERY = 5.0  # seconds between two lines of progress


@contextmanager
def work_bar(what: str, wanted: bool | None = None) -> Iterator[Progress]:
    """A function of the finished share of the work, shown on stderr: a bar on a terminal, unless ``wanted`` is False.

    Elsewhere lines if ``wanted`` is True, else nothing.
    """
    console = Console(stderr=True)
    if wanted is False or (wanted is None and not console.is_terminal):
        yield lambda share: None
    elif not console.is_terminal:
        with progress_lines(what) as report:
            yield report
    else:
        with ProgressBar(console=console, transient=True) as bar:  # disappears at the end
            task = bar.add_task(what, total=1.0)
            yield lambda share: bar.update(task, completed=share)


@contextmanager
def progress_lines(what: str) -> Iterator[Progress]:
    """A line on stderr about every five seconds, and one at the end."""
    start = last = time.monotonic()

    def report(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if share > 0.0 and now - last >= _EVERY:
            last = now
            typer.echo(f"{what}: {_reached(share, now - start)}", err=True)

    yield report
    typer.echo(f"{what}: done in {duration(time.monotonic() - start)}", err=True)


def _reached(share: float, seconds: float) -> str:
    """The finished share and the time left, which the first percent of the work does not tell.

    >>> _reached(0.25, 30), _reached(1e-7, 60)
    ('25% (1 min 30 s left)', 'less than 1%')
    """
    return "less than 1%" if share < 0.01 else f"{share:.0%} ({duration(seconds * (1 - share) / share)} left)"


def duration(seconds: float) -> str:
    """A duration as text.

    >>> duration(7.2), duration(200), duration(5000)
    ('7 s', '3 min 20 s', '1 h 23 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
