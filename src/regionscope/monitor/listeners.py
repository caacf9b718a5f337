"""Listeners that pass rows to other tools. Any callable that takes a ``Row`` is a listener too.

A listener that raises is dropped with a warning and training goes on; see ``Monitor``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regionscope.checks import read_path
from regionscope.errors import InputError
from regionscope.extras import import_extra
from regionscope.monitor.rows import Row, as_scalars


class TensorBoard:
    """Write rows as TensorBoard scalars; the standard error, where there is one, goes to ``name/stderr``."""

    def __init__(self, folder: str | Path) -> None:
        """Events go to ``folder``; needs the ``track`` extra."""
        events = import_extra(
            "torch.utils.tensorboard.writer", who="The TensorBoard listener needs", library="tensorboard", extra="track"
        )
        self._writer = events.SummaryWriter(str(read_path(folder)))

    def __call__(self, row: Row) -> None:
        for name, value in as_scalars([row]).items():
            self._writer.add_scalar(name, value, row.step)
        self._writer.flush()

    def close(self) -> None:
        """Finish the event file."""
        self._writer.close()


class WeightsAndBiases:
    """Log rows to a W&B run against their own axis, ``regionscope/step``.

    W&B drops numbers whose step is below the largest step logged so far; the separate axis avoids this.
    """

    AXIS = "regionscope/step"

    def __init__(self, run: Any) -> None:
        """``run`` is what ``wandb.init(...)`` returned; closing it stays with the caller."""
        if not (hasattr(run, "log") and hasattr(run, "define_metric")):
            raise InputError(
                f"Expected the run that wandb.init() returns, got {type(run).__name__}. Pass run = wandb.init(...)."
            )
        self._run = run
        self._known: set[str] = set()

    def __call__(self, row: Row) -> None:
        if row.name not in self._known:
            self._run.define_metric(row.name, step_metric=self.AXIS)
            self._run.define_metric(f"{row.name}/stderr", step_metric=self.AXIS)
            self._known.add(row.name)
        self._run.log({self.AXIS: row.step, **as_scalars([row])})
