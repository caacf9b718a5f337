"""What training reports: while it runs, after each epoch, and at its end."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

from regionscope.extras import data_frame

RunStatus = Literal["finished", "diverged"]


@dataclass(frozen=True)
class EpochRow:
    """The state after epoch ``epoch`` (from 1) at step ``step``.

    loss: mean training loss over the epoch, each example with the weights at its step.
    train_error, test_error: share of wrong labels in eval mode with the weights at the end of the epoch, without
        augmentation; None if not evaluated (no test data, or between evaluations). seconds: duration of the epoch and
        its evaluation.
    """

    epoch: int
    step: int
    loss: float
    train_error: float | None
    test_error: float | None
    seconds: float


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a training: ``step`` of ``total_steps`` in ``epoch`` (from 1), and the loss of the last batch."""

    step: int
    total_steps: int
    epoch: int
    loss: float


@dataclass(frozen=True)
class Trained:
    """Result of a training.

    status: "finished", or "diverged" if the loss became NaN or infinite; the last row of the history shows when, and
        the weights are those at that step. steps: number of optimiser steps. seconds: wall-clock time, including
        sessions before a resume.
    """

    status: RunStatus
    history: tuple[EpochRow, ...]
    steps: int
    seconds: float

    def __repr__(self) -> str:
        last = self.history[-1] if self.history else None
        loss = "" if last is None else f", epochs={last.epoch}, loss={last.loss:.4g}"
        test = "" if last is None or last.test_error is None else f", test_error={last.test_error:.4g}"
        return f"Trained({self.status}{loss}{test}, steps={self.steps}, seconds={self.seconds:.3g})"

    def _repr_html_(self) -> str:
        """The last epochs and the curves, for a notebook."""
        from regionscope.plot import style
        from regionscope.plot.notebook import MOST_ROWS, Shown, shown_as_html, small_panel

        columns = ("epoch", "loss", "train_error", "test_error", "seconds")

        def draw(ax: Any) -> None:
            epochs = [row.epoch for row in self.history]
            for i, name in enumerate(columns[1:4]):
                values = [getattr(row, name) for row in self.history]
                if any(value is not None for value in values):
                    known = [math.nan if value is None else value for value in values]
                    ax.plot(epochs, known, ".-", color=style.hue(i), label=name.replace("_", " "))
            ax.set_xlabel("epoch")
            ax.legend(frameon=False, fontsize="small", loc="best")

        rows = [[getattr(row, name) for name in columns] for row in self.history[-MOST_ROWS:]]
        return shown_as_html(Shown(columns, rows, (lambda: small_panel(draw)) if self.history else None), self)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each epoch."""
        return data_frame(
            {field.name: [getattr(row, field.name) for row in self.history] for field in fields(EpochRow)}
        )

    @property
    def last(self) -> EpochRow:
        """The last row of the history."""
        return self.history[-1]
