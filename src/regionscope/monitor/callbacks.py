"""Callbacks around a ``Monitor`` for Lightning (extra ``track``) and Hugging Face (extra ``transformers``)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from regionscope.checks import check_instance, read_path
from regionscope.errors import InputError
from regionscope.extras import import_extra
from regionscope.monitor.monitor import Monitor
from regionscope.monitor.rows import Row, as_scalars

ModelPart = Callable[[Any], nn.Module]


def lightning_callback(monitor: Monitor, *, model: ModelPart | None = None) -> Any:
    """A callback for ``Trainer(callbacks=[...])`` that measures before training, after each step and at the end.

    New rows go to every logger of the trainer; the standard error is ``name/stderr``. Steps are the trainer's
    ``global_step``: optimiser steps, not batches. With manual optimisation a batch can have several of them; the
    monitor then measures after the first batch that reaches a step of the schedule. A schedule in epochs measures at
    the end of the trainer's epochs, unless the monitor has ``steps_per_epoch``. The last row is that of the last step,
    before another callback replaces the weights (by averages, for example). A training that resumes from a checkpoint
    measures the steps after it again. With several processes only the first one measures. model: part of the
    ``LightningModule`` to measure, such as ``lambda module: module.net``; the whole module by default.
    """
    _check(monitor)
    import_extra("lightning.pytorch", who="lightning_callback needs", library="lightning", extra="track")
    from lightning.pytorch import Callback

    class LightningMonitor(Callback):
        """Calls the monitor with the trainer's step."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self._due_steps = _DueSteps(monitor, int(trainer.global_step))
            if trainer.is_global_zero and trainer.global_step > 0:  # resumed from a checkpoint
                monitor.drop_after(int(trainer.global_step))
            self._measure(trainer, pl_module, due=self._due_steps.start())

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self._measure(trainer, pl_module, due=self._due_steps.step(int(trainer.global_step)))

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            epoch, step = int(trainer.current_epoch) + 1, int(trainer.global_step)
            stops = trainer.should_stop and epoch >= (trainer.min_epochs or 0) and step >= (trainer.min_steps or 0)
            last = stops or epoch == trainer.max_epochs or step == trainer.max_steps
            self._measure(trainer, pl_module, due=last or self._due_steps.epoch(epoch))

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self._measure(trainer, pl_module, due=True)

        def _measure(self, trainer: Any, pl_module: Any, *, due: bool) -> None:
            if due and trainer.is_global_zero:
                step = int(trainer.global_step)
                rows = monitor.measure(step, pl_module if model is None else model(pl_module))
                for logger in trainer.loggers if rows else ():
                    logger.log_metrics(as_scalars(rows), step=step)

    return LightningMonitor()


def transformers_callback(monitor: Monitor, trainer: Any, *, model: ModelPart | None = None) -> Any:
    """A callback for ``trainer.add_callback(...)`` that measures before training, after each step and at the end.

    New rows go through ``trainer.log``, so they are in ``trainer.state.log_history`` and in every tool that the trainer
    reports to; the standard error is ``name/stderr``. Steps are the trainer's ``global_step``. A schedule in epochs
    measures at the end of the trainer's epochs, unless the monitor has ``steps_per_epoch``. With
    ``load_best_model_at_end``, the last row is that of the last step, not of the best model. A training that resumes
    from a checkpoint measures the steps after it again. With several processes only the first one measures.
    model: part of the trainer's model to measure, such as ``lambda model: model.classifier``; the whole model by
    default. Select its outputs in the instruments: ``output="logits"``.
    """
    _check(monitor)
    import_extra("transformers", who="transformers_callback needs", library="transformers", extra="transformers")
    from transformers import TrainerCallback

    class TrainerMonitor(TrainerCallback):  # type: ignore[misc, unused-ignore]
        """Calls the monitor with the trainer's step."""

        _training = False

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._training = True
            self._due_steps, self._epoch = _DueSteps(monitor, int(state.global_step)), int(state.epoch or 0)
            if state.is_world_process_zero and state.global_step > 0:
                monitor.drop_after(int(state.global_step))
            self._measure(state, kwargs["model"], due=self._due_steps.start())

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            due = self._due_steps.step(int(state.global_step))
            self._measure(state, kwargs["model"], due=due or control.should_training_stop)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._epoch += 1
            self._measure(
                state, kwargs["model"], due=self._due_steps.epoch(self._epoch) or control.should_training_stop
            )

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            # The weights of the last step are gone once the trainer has loaded the best model.
            self._measure(state, kwargs["model"], due=self._training and control.should_training_stop)

        on_save = on_evaluate

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._training = False
            step, best = int(state.global_step), getattr(state, "best_global_step", None)
            if not args.load_best_model_at_end or state.best_model_checkpoint is None or best == step:
                self._measure(state, kwargs["model"], due=True)
            elif state.is_world_process_zero and monitor.wants(step, last=True):
                warnings.warn(
                    f"The last step {step} has no row: the trainer stopped early and has loaded its best model. Add "
                    "the callback of the monitor after the one that stops the training.",
                    stacklevel=2,
                )

        def _measure(self, state: Any, whole: nn.Module, *, due: bool) -> None:
            if due and state.is_world_process_zero:
                rows = monitor.measure(int(state.global_step), whole if model is None else model(whole))
                if rows:
                    should_log = trainer.control.should_log
                    trainer.log(as_scalars(rows))
                    trainer.control.should_log = should_log  # or the trainer would leave out its own loss

    return TrainerMonitor()


def _check(monitor: object) -> None:
    check_instance("monitor", monitor, Monitor, advice="Make one with rs.Monitor({name: function}, when=...)")


class _DueSteps:
    """When to measure: after the steps of the schedule, and at the end of the trainer's epochs for its epochs.

    A monitor with ``steps_per_epoch`` counts its epochs in steps. first: the step at which the training starts.
    """

    def __init__(self, monitor: Monitor, first: int) -> None:
        self._per_epoch = monitor.steps_per_epoch
        self._epochs = monitor.when.epoch_periods if self._per_epoch is None else ()
        self._steps = replace(monitor.when, epoch_periods=()) if self._epochs else monitor.when
        self._reached = first - 1

    def start(self) -> bool:
        """Whether to measure before the first step; epoch 0 ends before step 1."""
        return self.step(self._reached + 1) or (self._reached == 0 and bool(self._epochs))

    def step(self, step: int) -> bool:
        """Whether a step of the schedule has been reached since the last call."""
        passed, self._reached = range(self._reached + 1, step + 1), step
        return any(self._steps.includes(step, per_epoch=self._per_epoch) for step in passed)

    def epoch(self, epoch: int) -> bool:
        """Whether to measure at the end of this epoch, counted from 1."""
        return any(epoch % period == 0 for period in self._epochs)


# Listeners that pass rows to other tools. Any callable that takes a ``Row`` is a listener too.
#
# A listener that raises is dropped with a warning and training goes on; see ``Monitor``.


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
