"""A Lightning callback around a ``Monitor``. Needs the ``track`` extra."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import nn

from regionscope.checks import of_kind
from regionscope.errors import InputError
from regionscope.extras import needed
from regionscope.lab.monitor.monitor import Monitor
from regionscope.lab.monitor.rows import as_scalars


def lightning_callback(monitor: Monitor, *, model: Callable[[Any], nn.Module] | None = None) -> Any:
    """A callback for ``Trainer(callbacks=[...])`` that measures before training, after each step and at the end.

    New rows go to every logger of the trainer; the spread is ``name/spread``. Steps are the trainer's ``global_step``:
    optimiser steps, not batches. A schedule in epochs takes the length of an epoch from the trainer. With several
    processes only the first one measures. model: part of the ``LightningModule`` to measure, such as ``lambda module:
    module.net``; the whole module by default.
    """
    of_kind("monitor", monitor, Monitor, advice="Make one with rs.Monitor({name: function}, when=...)")
    needed("lightning.pytorch", who="lightning_callback needs", library="lightning", extra="track")
    from lightning.pytorch import Callback

    class LightningMonitor(Callback):
        """Calls the monitor with the trainer's step."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if monitor.when.epoch_periods and monitor.steps_per_epoch is None:
                monitor.steps_per_epoch = _steps_in_epoch(trainer)
            self._look(trainer, pl_module)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self._look(trainer, pl_module)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self._look(trainer, pl_module, last=True)

        def _look(self, trainer: Any, pl_module: Any, *, last: bool = False) -> None:
            if trainer.is_global_zero:
                step = int(trainer.global_step)
                rows = monitor(step, pl_module if model is None else model(pl_module), last=last)
                for logger in trainer.loggers if rows else ():
                    logger.log_metrics(as_scalars(rows), step=step)

    return LightningMonitor()


def _steps_in_epoch(trainer: Any) -> int:
    """Moves of the weights in an epoch: the last one may be over fewer batches than ``accumulate_grad_batches``."""
    batches: float = trainer.num_training_batches
    if not math.isfinite(batches):
        raise InputError(
            "Expected a trainer that knows the number of its batches for a schedule in epochs, got none. Pass "
            "steps_per_epoch to the monitor, or use a schedule in steps."
        )
    return math.ceil(batches / int(trainer.accumulate_grad_batches))
