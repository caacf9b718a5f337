"""Callbacks around a ``Monitor`` for Lightning (extra ``track``) and Hugging Face (extra ``transformers``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import nn

from regionscope.checks import check_instance
from regionscope.errors import InputError
from regionscope.extras import import_extra
from regionscope.lab.monitor.monitor import Monitor
from regionscope.lab.monitor.rows import as_scalars

ModelPart = Callable[[Any], nn.Module]


def lightning_callback(monitor: Monitor, *, model: ModelPart | None = None) -> Any:
    """A callback for ``Trainer(callbacks=[...])`` that measures before training, after each step and at the end.

    New rows go to every logger of the trainer; the standard error is ``name/stderr``. Steps are the trainer's
    ``global_step``: optimiser steps, not batches. A schedule in epochs takes the length of an epoch from the trainer.
    With several processes only the first one measures. model: part of the ``LightningModule`` to measure, such as
    ``lambda module: module.net``; the whole module by default.
    """
    _check(monitor)
    import_extra("lightning.pytorch", who="lightning_callback needs", library="lightning", extra="track")
    from lightning.pytorch import Callback

    class LightningMonitor(Callback):
        """Calls the monitor with the trainer's step."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            _set_epoch(monitor, lambda: trainer.num_training_batches, trainer.accumulate_grad_batches)
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


def transformers_callback(monitor: Monitor, trainer: Any, *, model: ModelPart | None = None) -> Any:
    """A callback for ``trainer.add_callback(...)`` that measures before training, after each step and at the end.

    New rows go through ``trainer.log``, so they are in ``trainer.state.log_history`` and in every tool that the trainer
    reports to; the standard error is ``name/stderr``. Steps are the trainer's ``global_step``. A schedule in epochs
    takes the length of an epoch from the trainer. With several processes only the first one measures. model: part of
    the trainer's model to measure, such as ``lambda model: model.classifier``; the whole model by default. Select its
    outputs in the instruments: ``output="logits"``.
    """
    _check(monitor)
    import_extra("transformers", who="transformers_callback needs", library="transformers", extra="transformers")
    from transformers import TrainerCallback

    class TrainerMonitor(TrainerCallback):  # type: ignore[misc, unused-ignore]
        """Calls the monitor with the trainer's step."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            _set_epoch(monitor, lambda: len(kwargs["train_dataloader"]), args.gradient_accumulation_steps)
            self._look(state, kwargs["model"])

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._look(state, kwargs["model"])

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._look(state, kwargs["model"], last=True)

        def _look(self, state: Any, whole: nn.Module, *, last: bool = False) -> None:
            if state.is_world_process_zero:
                rows = monitor(int(state.global_step), whole if model is None else model(whole), last=last)
                if rows:
                    trainer.log(as_scalars(rows))

    return TrainerMonitor()


def _check(monitor: object) -> None:
    check_instance("monitor", monitor, Monitor, advice="Make one with rs.Monitor({name: function}, when=...)")


def _set_epoch(monitor: Monitor, batches: Callable[[], float], accumulated: int) -> None:
    """Steps in an epoch, where the schedule counts epochs: the last one may be over fewer than ``accumulated`` batches.

    batches: number of batches in an epoch; infinite or a TypeError where the trainer does not know it.
    """
    if not monitor.when.epoch_periods or monitor.steps_per_epoch is not None:
        return
    try:
        n = batches()
    except TypeError:
        n = math.inf
    if not math.isfinite(n):
        raise InputError(
            "Expected a trainer that knows the number of its batches for a schedule in epochs, got none. Pass "
            "steps_per_epoch to the monitor, or use a schedule in steps."
        )
    monitor.steps_per_epoch = math.ceil(n / int(accumulated))
