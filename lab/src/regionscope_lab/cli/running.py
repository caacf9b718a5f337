"""Progress of trainings and sweeps, and Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar
from rich.table import Column

from regionscope.cli.option_names import in_options
from regionscope.types import Progress
from regionscope_lab.store import ENDED
from regionscope_lab.sweep import JobResult

_EVERY = 5.0  # seconds between two lines of progress


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """A function that says whether Ctrl-C was pressed (or SIGTERM sent). A second Ctrl-C interrupts at once."""
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
    """The progress of a sweep, over the runs that had not ended before.

    bar: None writes a line for each run if ``lines``. begin: text to show until the first run reports its share.
    """

    def __init__(self, total: int, bar: ProgressBar | None, *, lines: bool, begin: str = "") -> None:
        self.total, self.bar, self.lines = total, bar, lines
        self.ended = 0
        self.shares: dict[str, float] = {}
        self.start = time.monotonic()
        self.task = None if bar is None else bar.add_task("runs", total=total, label=begin)
        self.begun = not begin
        if lines and begin:
            typer.echo(begin, err=True)

    def outcome(self, outcome: JobResult) -> None:
        """Show that a run ended. One that stopped before its end counts with its finished share."""
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
        """Show the finished share of a run."""
        self.shares[key] = share
        if self.lines and not self.begun:
            typer.echo(f"workers started in {duration(time.monotonic() - self.start)}", err=True)
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
    """The progress of a sweep of ``total`` runs, on stderr: a bar on a terminal, unless ``wanted`` is False.

    Elsewhere lines if ``wanted`` is True, else nothing. workers: whether processes have to start first.
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
    with ProgressBar(*columns, console=console, speed_estimate_period=900.0, expand=True) as bar:
        yield SweepProgress(total, bar, lines=False, begin=begin)


class TrainingBar:
    """The progress of one training, and the measure that runs. bar: None writes lines if ``report`` is given."""

    def __init__(self, total: int, bar: ProgressBar | None, report: Progress | None) -> None:
        self.total, self.bar, self.report = total, bar, report
        self.task = None if bar is None else bar.add_task("Training", total=total, loss=float("nan"))
        self.named: set[str] = set()

    def __call__(self, epoch: int, loss: float) -> None:
        """Show that training has finished ``epoch`` epochs."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=epoch, loss=loss)
        elif self.report is not None:
            self.report(epoch / self.total)

    def measuring(self, name: str | None) -> None:
        """Show the measure that begins; None when it ended. Lines name each measure once."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description="Training" if name is None else f"Measuring {name}")
        elif self.report is not None and name is not None and name not in self.named:
            self.named.add(name)
            typer.echo(f"Measuring {name}", err=True)


@contextmanager
def epochs_bar(total: int, wanted: bool | None) -> Iterator[TrainingBar]:
    """A bar over the epochs of one training, shown as by ``shown_progress``."""
    console = Console(stderr=True)
    if console.is_terminal and wanted is not False:
        columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
        loss = TextColumn("loss {task.fields[loss]:.4f}")
        with ProgressBar(*columns, loss, TimeRemainingColumn(), console=console) as bar:
            yield TrainingBar(total, bar, None)
    elif wanted:
        with progress_lines("Training") as report:
            yield TrainingBar(total, None, report)
    else:
        yield TrainingBar(total, None, None)


def print_failed(outcomes: Iterable[JobResult]) -> None:
    """A line on stderr for each run that failed."""
    for outcome in outcomes:
        if outcome.status == "failed":
            typer.echo(f"failed: {outcome.label} ({outcome.key}): {in_options(outcome.message)}", err=True)


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
