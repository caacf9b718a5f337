"""Progress bars, for commands that take a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress as ProgressBar

from regionscope.types import Progress


@contextmanager
def work_bar(what: str) -> Iterator[Progress]:
    """A function of the finished share of the work, shown as a bar on stderr if that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda share: None
        return
    with ProgressBar(console=console, transient=True) as bar:  # disappears at the end
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)
