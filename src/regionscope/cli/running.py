"""What commands that run long share: stopping them, showing how far they are."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from regionscope.cli import output
from regionscope.lab.store import ENDED
from regionscope.lab.sweep import JobResult

_EVERY = 5.0  # seconds between two lines of progress


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C (or SIGTERM) came; the first asks for a clean stop, the second interrupts at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
        yield asked.is_set
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        typer.echo("Stopping: running runs save their state. Press Ctrl-C again to stop at once.", err=True)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class SweepProgress:
    """How far a sweep is, over the runs that had not ended before. begin: text until the first run tells its share."""

    def __init__(self, total: int, bar: Progress | None, *, lines: bool, begin: str = "") -> None:
        self.total, self.bar, self.lines = total, bar, lines
        self.ended = 0
        self.shares: dict[str, float] = {}
        self.start = time.monotonic()
        self.task = None if bar is None else bar.add_task("runs", total=total, label=begin)
        self.begun = not begin
        if lines and begin:
            typer.echo(begin, err=True)

    def outcome(self, outcome: JobResult) -> None:
        """A run ended, or stopped before its end: then it counts with the share that it has finished."""
        if outcome.skipped:
            self.total -= 1
            self._draw()
        elif outcome.status in (*ENDED, "failed"):
            self.shares.pop(outcome.key, None)
            self.ended += 1
            if self.lines:
                spent = time.monotonic() - self.start
                left = duration(spent / self.ended * (self.total - self.ended))
                typer.echo(f"{self.ended}/{self.total} {outcome.status}: {outcome.label} ({left} left)", err=True)
            self._draw(outcome.label)
        elif self.lines and outcome.key in self.shares:
            done = f"{self.shares[outcome.key]:.0%}"
            typer.echo(f"{self.ended}/{self.total} {outcome.status} at {done}: {outcome.label}", err=True)

    def share(self, key: str, share: float) -> None:
        """The finished share of a running run."""
        self.shares[key] = share
        self._draw(None if self.begun else "")
        self.begun = True

    def _draw(self, label: str | None = None) -> None:
        if self.bar is not None and self.task is not None:
            done = self.ended + sum(self.shares.values())
            self.bar.update(self.task, total=self.total, completed=done)
            if label is not None:
                self.bar.update(self.task, label=label)


@contextmanager
def shown_progress(total: int, wanted: bool | None, *, workers: bool = False) -> Iterator[SweepProgress]:
    """A bar on stderr where that is a terminal; lines where it is not and they are asked for; else nothing.

    workers: whether processes have to start first, which takes a while.
    """
    begin = "starting workers" if workers else ""
    console = Console(stderr=True)
    if not console.is_terminal or wanted is False:
        yield SweepProgress(total, None, lines=bool(wanted), begin=begin)
        return
    label = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # gives way to the others
    columns = (
        TextColumn("Runs"), BarColumn(20), TextColumn("{task.completed:.1f}/{task.total:.0f}"), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(), TextColumn("[dim]{task.fields[label]}", table_column=label),
    )  # fmt: skip
    with Progress(*columns, console=console, speed_estimate_period=900.0, expand=True) as bar:
        yield SweepProgress(total, bar, lines=False, begin=begin)


@contextmanager
def work_bar(what: str, wanted: bool | None) -> Iterator[Callable[[float], None]]:
    """A function of the finished share of the work, which is shown as by ``shown_progress``."""
    if wanted is False:
        yield lambda share: None
        return
    lines = wanted and not Console(stderr=True).is_terminal
    with _lines(what) if lines else output.progress_bar(what) as tell:
        yield tell


@contextmanager
def _lines(what: str) -> Iterator[Callable[[float], None]]:
    """A line on stderr about every five seconds, and one at the end."""
    start = last = time.monotonic()

    def tell(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if share > 0.0 and now - last >= _EVERY:
            last = now
            typer.echo(f"{what}: {share:.0%} ({duration((now - start) * (1 - share) / share)} left)", err=True)

    yield tell
    typer.echo(f"{what}: done in {duration(time.monotonic() - start)}", err=True)


class TrainingBar:
    """How far one training is, and what it measures. bar: None writes lines where ``tell`` is given."""

    def __init__(self, total: int, bar: Progress | None, tell: Callable[[float], None] | None) -> None:
        self.total, self.bar, self.tell = total, bar, tell
        self.task = None if bar is None else bar.add_task("Training", total=total, loss=float("nan"))
        self.named: set[str] = set()

    def __call__(self, epoch: int, loss: float) -> None:
        """So many epochs are done."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=epoch, loss=loss)
        elif self.tell is not None:
            self.tell(epoch / self.total)

    def measuring(self, name: str | None) -> None:
        """A measure begins, or None: it ended. A line comes for the first time of each."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description="Training" if name is None else f"Measuring {name}")
        elif self.tell is not None and name is not None and name not in self.named:
            self.named.add(name)
            typer.echo(f"Measuring {name}", err=True)


@contextmanager
def epochs_bar(total: int, wanted: bool | None) -> Iterator[TrainingBar]:
    """A bar over the epochs of one training, shown as by ``shown_progress``."""
    console = Console(stderr=True)
    if console.is_terminal and wanted is not False:
        columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
        loss = TextColumn("loss {task.fields[loss]:.4f}")
        with Progress(*columns, loss, TimeRemainingColumn(), console=console) as bar:
            yield TrainingBar(total, bar, None)
    elif wanted:
        with _lines("Training") as tell:
            yield TrainingBar(total, None, tell)
    else:
        yield TrainingBar(total, None, None)


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(7.2), duration(200), duration(5000)
    ('7 s', '3 min 20 s', '1 h 23 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
