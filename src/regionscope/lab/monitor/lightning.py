"""A Lightning callback around a ``Monitor``. Needs the ``track`` extra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from regionscope.extras import needed
from regionscope.lab.monitor.monitor import Monitor

__all__ = ["lightning_callback"]


def lightning_callback(monitor: Monitor, *, model: Callable[[Any], nn.Module] | None = None) -> Any:
    """A callback for ``Trainer(callbacks=[...])`` that measures before training, after each step and at the end.

    Steps are the trainer's ``global_step``. model: which part of the ``LightningModule`` to measure, such as
    ``lambda module: module.net``; the whole module by default. With several processes only the first one measures.
    A schedule in epochs takes its length from the trainer.
    """
    needed("lightning.pytorch", who="lightning_callback needs", library="lightning", extra="track")
    from lightning.pytorch import Callback

    class MonitorCallback(Callback):
        """Calls the monitor with the trainer's step."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if monitor.when.epoch_periods and monitor.steps_per_epoch is None:
                monitor.steps_per_epoch = int(trainer.num_training_batches)
            self._look(trainer, pl_module)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self._look(trainer, pl_module)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self._look(trainer, pl_module, last=True)

        def _look(self, trainer: Any, pl_module: Any, *, last: bool = False) -> None:
            if trainer.is_global_zero:
                monitor(int(trainer.global_step), pl_module if model is None else model(pl_module), last=last)

    return MonitorCallback()
