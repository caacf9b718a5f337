"""A Hugging Face ``TrainerCallback`` around a ``Monitor``. Needs the ``transformers`` extra."""

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


def transformers_callback(monitor: Monitor, trainer: Any, *, model: Callable[[Any], nn.Module] | None = None) -> Any:
    """A callback for ``trainer.add_callback(...)`` that measures before training, after each step and at the end.

    New rows go through ``trainer.log``, so they are in ``trainer.state.log_history`` and in every tool that the trainer
    reports to; the spread is ``name/spread``. Steps are the trainer's ``global_step``. A schedule in epochs takes the
    length of an epoch from the trainer. With several processes only the first one measures. model: part of the
    trainer's model to measure, such as ``lambda model: model.classifier``; the whole model by default. Select its
    outputs in the instruments: ``output="logits"``.
    """
    of_kind("monitor", monitor, Monitor, advice="Make one with rs.Monitor({name: function}, when=...)")
    needed("transformers", who="transformers_callback needs", library="transformers", extra="transformers")
    from transformers import TrainerCallback

    class TrainerMonitor(TrainerCallback):  # type: ignore[misc, unused-ignore]
        """Calls the monitor with the trainer's step."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if monitor.when.epoch_periods and monitor.steps_per_epoch is None:
                monitor.steps_per_epoch = _steps_in_epoch(args, kwargs["train_dataloader"])
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


def _steps_in_epoch(args: Any, loader: Any) -> int:
    """Moves of the weights in an epoch."""
    try:
        batches = len(loader)
    except TypeError as error:
        raise InputError(
            "Expected a trainer that knows the number of its batches for a schedule in epochs, got none. Pass "
            "steps_per_epoch to the monitor, or use a schedule in steps."
        ) from error
    return math.ceil(batches / int(args.gradient_accumulation_steps))
