"""One training in progress."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_instance, check_module, read_device, read_seed
from regionscope.errors import InputError
from regionscope.monitor.monitor import Monitor, no_trace, same_randomness
from regionscope.monitor.schedule import parse_schedule
from regionscope.network import device_and_dtype, same_modes
from regionscope_lab.config import Training
from regionscope_lab.data import Dataset, DataSplit
from regionscope_lab.train.batches import Batches, Randomness
from regionscope_lab.train.check import check_data, check_outputs, check_state, parts
from regionscope_lab.train.evaluation import error_share
from regionscope_lab.train.optimiser import REPLAYABLE, build_optimizer, float_type, loss_function, rate_schedule
from regionscope_lab.train.small_mlp import NumpyStep
from regionscope_lab.train.state import (
    EpochRow,
    RunStatus,
    Trained,
    TrainingProgress,
    TrainState,
    on_cpu,
    optimizer_tensors,
    restore_optimizer,
)
from regionscope_lab.train.step import CompiledStep, Replay, Run, TrainingStep, every_position, set_rate

_CHECK_EVERY = 256  # steps between two checks that the loss is finite
_PROGRESS_SECONDS = 0.5  # between two reports of progress


@dataclass(frozen=True)
class Hooks:
    """Functions to call during the training."""

    monitors: tuple[Monitor, ...] = ()
    save_state: Callable[[TrainState], object] | None = None
    state_every: float = 30.0
    on_checkpoint: Callable[[int, int, nn.Module], object] | None = None
    on_epoch: Callable[[EpochRow], object] | None = None
    on_progress: Callable[[TrainingProgress], object] | None = None


class Session:
    """The loop and what it holds: the model and data on their device, the optimiser, the generators, the history."""

    def __init__(
        self, model: nn.Module, train: Dataset, test: Dataset | None, training: Training, *, seed: int,
        device: torch.device | str | None, hooks: Hooks, replay: bool = False, compiled: bool = False,
        numpy: bool = False,
    ) -> None:  # fmt: skip
        check_data(train, test)
        self.model, self.training, self.seed, self.hooks = model, training, seed, hooks
        self.device = device_and_dtype(model)[0] if device is None else read_device(device)
        self._move_to_device(train, test)
        outputs = check_outputs(model, self.train_inputs[:1], train.n_classes)
        self.randomness = Randomness(seed, self.device)
        self.batches = Batches(self.train_inputs, self.train_labels, training, outputs, self.randomness, model)
        self.total = training.epochs * self.batches.per_epoch
        replay = replay and self.device.type == "cuda" and training.optimizer in REPLAYABLE
        self.optimizer = build_optimizer(training, model.parameters(), self.device, replay=replay)
        self.rate = rate_schedule(training, self.total)
        stepped = every_position(model, train) if training.loss == "next_token" else model
        parts = (stepped, self.optimizer, loss_function(training), self._autocast)
        self._advance: Run = TrainingStep(*parts)
        if replay:
            quick = CompiledStep(*parts) if compiled else None
            self._advance = Replay(self._advance, self.batches.examples(1), self.device, recorded=quick)
        self._small = NumpyStep(model, self.optimizer, training, self.device) if numpy else None
        self._advance = self._small or self._advance
        self.step = 0
        self.history: list[EpochRow] = []
        self._plain_rows: list[dict[str, Any]] = []
        self._earlier_seconds = self._earlier_epoch_seconds = 0.0  # before the training was resumed
        self._epoch_started_at = 0.0
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        self._read_schedules()

    def run(self, state: TrainState | None) -> Trained:
        """Train to the end, from the start or from ``state``."""
        with same_modes(self.model), self.randomness.in_use():
            self.model.train()
            self._begin(state)
            status = self._epochs()
        return Trained(status, tuple(self.history), self.step, self._seconds())

    def _move_to_device(self, train: Dataset, test: Dataset | None) -> None:
        """Bring model and data to their device, dtype and layout."""
        dtype = float_type(self.training)
        images = self.device.type == "cuda" and train.inputs.ndim == 4
        layout = torch.channels_last if images else torch.preserve_format
        self.model.to(device=self.device, dtype=dtype)
        if images:
            self.model.to(memory_format=layout)  # type: ignore[call-overload]
        self.train_inputs = train.inputs.to(self.device, dtype, memory_format=layout)
        self.train_labels = train.labels.to(self.device)
        self.test_inputs = None if test is None else test.inputs.to(self.device, dtype, memory_format=layout)
        self.test_labels = None if test is None else test.labels.to(self.device)

    def _read_schedules(self) -> None:
        """Steps at which a monitor measures or weights are stored."""
        per_epoch = self.batches.per_epoch
        self._monitored = [
            (monitor, set(monitor.when.steps(self.total, per_epoch=per_epoch))) for monitor in self.hooks.monitors
        ]
        self._stored = set(parse_schedule(self.training.checkpoints).steps(self.total, per_epoch=per_epoch))
        self._scheduled = self._stored.union(*(steps for _, steps in self._monitored))

    def _begin(self, state: TrainState | None) -> None:
        self._started_at = self._saved_at = self._reported_at = time.perf_counter()
        if state is not None:
            self._restore(state)
            if state.meta.get("unmeasured", False):
                self._measure()
        elif 0 in self._scheduled:
            self._run_scheduled()

    def _epochs(self) -> RunStatus:
        for epoch in range(self.step // self.batches.per_epoch, self.training.epochs):
            if self._fits():  # a state that was saved at the end
                break
            now = time.perf_counter()
            done = self.step - epoch * self.batches.per_epoch
            if done == 0:
                self.batches.shuffle()
                self.loss_sum.zero_()
                self._earlier_epoch_seconds = 0.0
            self._epoch_started_at = now - self._earlier_epoch_seconds
            finite = self._steps(epoch, done) and self._finite()
            self._end_of_epoch(epoch, finite=finite)
            if not finite:
                return "diverged"
            if self._is_due(self._scheduled):
                self._run_scheduled()
            if self._saved_at + self.hooks.state_every < time.perf_counter():
                self._save()
        return "finished"

    def _fits(self) -> bool:
        """Whether the last evaluation ends the training early."""
        error = self.history[-1].train_error if self.history else None
        return error is not None and error <= self.training.stop_at_error and self.training.stop_at_error > 0

    def _is_due(self, steps: Set[int]) -> bool:
        """Whether this step is one of ``steps``; an early end stands for the last step too."""
        return self.step in steps or (self.total in steps and self._fits())

    def _steps(self, epoch: int, done: int) -> bool:
        """The steps of an epoch after the first ``done``; False when the loss is no longer finite."""
        advance, rate, loss_sum = self._advance, self.rate, self.loss_sum
        clock, scheduled = time.perf_counter, self._scheduled
        last = (epoch + 1) * self.batches.per_epoch
        for inputs, targets in self.batches.after(done):
            if rate is not None:
                set_rate(self.optimizer, rate(self.step))
            loss = advance(inputs, targets)
            loss_sum.add_(loss, alpha=len(inputs))
            self.step += 1
            if self.step == last:
                break
            if (self.step % _CHECK_EVERY == 0 or self.step in scheduled) and not self._finite():
                return False
            if self.step in scheduled:
                self._run_scheduled()
            now = clock()
            if now - self._reported_at > _PROGRESS_SECONDS:
                self._report_progress(epoch, float(loss))
            if now - self._saved_at > self.hooks.state_every:
                self._save()
        return True

    def _run_scheduled(self) -> None:
        """Store and measure if this step is scheduled; first store, so that a measure that fails costs no training."""
        epoch = self.step // self.batches.per_epoch
        if self._is_due(self._stored):
            if self.hooks.on_checkpoint is not None:
                with same_randomness(self.device), no_trace(self.model) as private:
                    self.hooks.on_checkpoint(self.step, epoch, private)
            self._save(unmeasured=True)
        self._measure()

    def _measure(self) -> None:
        for monitor, steps in self._monitored:
            if self._is_due(steps):
                monitor.measure(self.step, self.model)

    def _end_of_epoch(self, epoch: int, *, finite: bool) -> None:
        seen = self.batches.examples(self.step - epoch * self.batches.per_epoch)
        due = not finite or (epoch + 1) % self.training.evaluate_every == 0 or epoch + 1 == self.training.epochs
        row = EpochRow(
            epoch + 1,
            self.step,
            float(self.loss_sum) / seen,
            self._error(self.train_inputs, self.train_labels) if due else None,
            self._error(self.test_inputs, self.test_labels) if due else None,
            time.perf_counter() - self._epoch_started_at,
        )
        self.history.append(row)
        if self.hooks.on_epoch is not None:
            with same_randomness():
                self.hooks.on_epoch(row)
        if self.step == self.total or self._fits() or self._reported_at + _PROGRESS_SECONDS < time.perf_counter():
            self._report_progress(epoch, row.loss)

    def _error(self, inputs: Tensor | None, labels: Tensor | None) -> float | None:
        if inputs is None or labels is None:
            return None
        return error_share(self.model, inputs, labels, autocast=self._autocast())

    def _finite(self) -> bool:
        """Whether the losses of this epoch and the weights are finite. Waits for the device."""
        self._settle()
        weights = torch.stack([value.detach().isfinite().all() for value in self.model.parameters()])
        return math.isfinite(float(self.loss_sum)) and bool(weights.all())

    def _settle(self) -> None:
        """Bring the weights to the model where the steps keep them elsewhere."""
        if self._small is not None:
            self._small.write()

    def _report_progress(self, epoch: int, loss: float) -> None:
        self._reported_at = time.perf_counter()
        if self.hooks.on_progress is not None:
            with same_randomness():
                self.hooks.on_progress(TrainingProgress(self.step, self.total, epoch + 1, loss))

    def _autocast(self) -> AbstractContextManager[object]:
        return (
            torch.autocast(self.device.type, dtype=torch.bfloat16)
            if self.training.precision == "bf16"
            else nullcontext()
        )

    def _seconds(self) -> float:
        return self._earlier_seconds + time.perf_counter() - self._started_at

    def _save(self, *, unmeasured: bool = False) -> None:
        """Pass the state to ``save_state``. unmeasured: the measures of this step are still to come."""
        self._saved_at = time.perf_counter()
        if self.hooks.save_state is None:
            return
        self._settle()
        tensors = {
            **{f"model.{name}": on_cpu(value) for name, value in self.model.state_dict().items()},
            **{f"optimizer.{name}": value for name, value in optimizer_tensors(self.optimizer).items()},
            **{f"random.{name}": value for name, value in self.randomness.state().items()},
            "order": on_cpu(self.batches.order),
            "loss_sum": on_cpu(self.loss_sum),
        }
        meta = {
            **self._identity(),
            "history": self._plain_history(),
            "seconds": self._seconds(),
            "epoch_seconds": time.perf_counter() - self._epoch_started_at,
            "unmeasured": unmeasured,
        }
        with same_randomness():
            self.hooks.save_state(TrainState(self.step, tensors, meta))

    def _plain_history(self) -> list[dict[str, Any]]:
        """The rows of the history as plain values; each is converted once, however often a state is saved."""
        done = len(self._plain_rows)
        self._plain_rows += [asdict(row) for row in self.history[done:]]
        return list(self._plain_rows)

    def _restore(self, state: TrainState) -> None:
        check_state(state, self._identity(), self.model)
        self.randomness.restore(state.part("random"))  # or it refuses, before anything has changed
        self.model.load_state_dict(state.part("model"))
        restore_optimizer(self.optimizer, state.part("optimizer"))
        if self._small is not None:
            self._small.read()
        self.batches.order = state.tensors["order"].to(self.device)
        self.loss_sum.copy_(state.tensors["loss_sum"])
        self.step = state.step
        self.history, self._plain_rows = [EpochRow(**row) for row in state.meta["history"]], []
        self._earlier_seconds = float(state.meta["seconds"])
        self._earlier_epoch_seconds = float(state.meta["epoch_seconds"])

    def _identity(self) -> dict[str, Any]:
        """What must be the same for a state to fit."""
        labels = zlib.crc32(on_cpu(self.train_labels).numpy().tobytes())
        return {"training": asdict(self.training), "seed": self.seed, "labels": [len(self.train_labels), labels]}


def train(
    model: nn.Module,
    data: DataSplit | Dataset,
    training: Training,
    *,
    seed: int = 0,
    device: torch.device | str | None = None,
    replay: bool = False,
    compiled: bool = False,
    numpy: bool = False,
    monitors: Sequence[Monitor] = (),
    state: TrainState | None = None,
    save_state: Callable[[TrainState], object] | None = None,
    state_every: float = 30.0,
    on_checkpoint: Callable[[int, int, nn.Module], object] | None = None,
    on_epoch: Callable[[EpochRow], object] | None = None,
    on_progress: Callable[[TrainingProgress], object] | None = None,
) -> Trained:
    """Train ``model`` in place on ``data.train`` and return the history, with errors on both parts.

    On a CPU the same model, data, settings, seed and number of threads give the same weights bit for bit, even if
    training is interrupted and resumed with ``state``, and independently of monitors and callbacks. All randomness
    comes from ``seed``: the order of batches, dropout and augmentation each have their own stream. The global random
    state and the train/eval mode of the model are restored; its device and dtype are those of the training. If the
    model has batch normalisation, a last batch of one example is left out.

    device: device to train on, such as "cuda"; the model's own by default. It holds all data. On CUDA, images are
        stored channels-last.
    replay: whether to record a step as a CUDA graph and replay it, which can double the speed of small batches and
        small networks. Only for models that run the same operations in every step: Python code runs once.
    compiled: whether to compile the recorded step (see ``CompiledStep``); only with ``replay``, and without effect on a
        CPU.
    numpy: whether to compute the steps with NumPy, which takes an eighth of the time for small chains of linear layers
        and ReLU with Adam on a CPU (see ``NumpyStep``); the same numbers up to rounding.
    monitors: monitors to call at their own schedules.
    state: state to resume from, with the same settings, seed, data and kind of device.
    save_state: called with the state every ``state_every`` seconds, at checkpoints and at the end.
    on_checkpoint: called with (step, epoch, model) at the schedule ``training.checkpoints``.
    on_epoch: called after each epoch, also for epochs that are repeated after a resume.
    on_progress: called about twice a second and at the end.

    A NaN or infinite loss ends the training with the status "diverged". The loss is checked every 256 steps and after
    each epoch, so that a GPU does not wait at every step. Cost: within a few per cent of a hand-written loop.
    """
    check_module(model, otherwise="Wrap the function in a module.")
    check_instance("train()", training, Training, advice="Write Training(epochs=10, lr=0.1)")
    if isinstance(monitors, Monitor) or not all(isinstance(monitor, Monitor) for monitor in monitors):
        raise InputError("Expected monitors to be a list of Monitor. Write monitors=[monitor].")
    read_seed(seed)
    hooks = Hooks(tuple(monitors), save_state, state_every, on_checkpoint, on_epoch, on_progress)
    train_set, test_set = parts(data)
    session = Session(
        model, train_set, test_set, training, seed=seed, device=device, hooks=hooks, replay=replay, compiled=compiled,
        numpy=numpy,
    )  # fmt: skip
    return session.run(state)
