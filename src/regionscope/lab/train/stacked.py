"""Many small networks of one architecture, trained together: their parameters are stacked, and all operations too."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regionscope.checks import read_device
from regionscope.errors import InputError
from regionscope.lab.config import Training
from regionscope.lab.data import Dataset, Split
from regionscope.lab.train.batches import batches_per_epoch
from regionscope.lab.train.check import check_data, check_outputs, parts
from regionscope.lab.train.evaluation import wrong_labels
from regionscope.lab.train.history import EpochRow, Progress, RunStatus, Trained
from regionscope.lab.train.optimiser import floats
from regionscope.lab.train.stack import Stack, stacked_forward
from regionscope.lab.train.stack_optimizer import stacked_optimizer

__all__ = ["train_together"]

_SHARED = ("epochs", "optimizer", "batch_size", "schedule", "loss", "precision", "evaluate_every")
_NUMBERS, _ROWS = 1 << 15, 16  # input entries (but no fewer rows) that are evaluated at once: caches like few
_CHUNK = 1 << 26  # bytes of inputs that are put in order at once
_PROGRESS = 0.5  # seconds


def train_together(
    models: Sequence[nn.Module],
    data: Split | Dataset,
    trainings: Training | Sequence[Training],
    *,
    seeds: Sequence[int] | None = None,
    device: torch.device | str = "cpu",
    on_progress: Callable[[Progress], object] | None = None,
) -> tuple[Trained, ...]:
    """Train ``models`` in place on the same data, each with its own settings and seed; one result for each.

    What may differ between members: initial weights, lr, momentum, weight_decay, and the seed, which sets the order of
    batches (0, 1, ... by default). What must be the same: the architecture, epochs, optimizer, batch_size, schedule,
    loss, precision and evaluate_every. A member's weights agree with those of ``train`` up to rounding. Refused: batch
    normalisation and dropout (whose state and draws belong to one network), augmentation and bf16.

    A member whose loss is NaN or infinite is "diverged" and does not disturb the others; it is looked for after each
    epoch. Seconds are those of all members together. Cost: 81 small networks in less than 8 times the time of one.
    """
    settings = _settings(models, trainings)
    chosen = list(range(len(models))) if seeds is None else list(seeds)
    if len(chosen) != len(models):
        raise InputError(f"{len(models)} models and {len(chosen)} seeds came; one seed for each model is needed.")
    train_set, test_set = parts(data)
    check_data(train_set, test_set)
    group = _Group(models, train_set, test_set, settings, chosen, read_device(device))
    return group.run(on_progress)


@dataclass
class _Member:
    """What happened to one network."""

    status: RunStatus
    history: list[EpochRow]


class _Group:
    """The stacked networks, their data and their optimiser."""

    def __init__(
        self, models: Sequence[nn.Module], train: Dataset, test: Dataset | None, settings: list[Training],
        seeds: list[int], device: torch.device,
    ) -> None:  # fmt: skip
        self.models, self.common = models, settings[0]
        dtype = floats(self.common)
        for model in models:
            model.to(device=device, dtype=dtype)
        self.inputs, self.labels = train.inputs.to(device, dtype), train.labels.to(device)
        self.test = None if test is None else (test.inputs.to(device, dtype), test.labels.to(device))
        self.classes = check_outputs(models[0], self.inputs[:1], train.n_classes)
        self.stack = Stack(models)
        self.forward = stacked_forward(models[0])
        self.optimizer = stacked_optimizer(self.stack, settings)
        self.orders = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.per_epoch = batches_per_epoch(len(self.inputs), self.common.batch_size, models[0])
        self.total = self.common.epochs * self.per_epoch
        self.members = [_Member("finished", []) for _ in models]
        self.loss_sums = torch.zeros(len(models), dtype=torch.float64, device=device)
        self.step = 0

    def run(self, on_progress: Callable[[Progress], object] | None) -> tuple[Trained, ...]:
        start = told = time.perf_counter()
        for epoch in range(1, self.common.epochs + 1):
            began = time.perf_counter()
            self._epoch()
            last = epoch == self.common.epochs
            self._note(epoch, began, evaluate=last or epoch % self.common.evaluate_every == 0)
            if on_progress is not None and (last or time.perf_counter() - told > _PROGRESS):
                told = time.perf_counter()
                mean = float(self.loss_sums.mean()) / len(self.inputs)
                on_progress(Progress(self.step, self.total, epoch, mean))
        self.stack.unload(self.models)
        seconds = time.perf_counter() - start
        return tuple(
            Trained(member.status, tuple(member.history), member.history[-1].step, seconds) for member in self.members
        )

    def _epoch(self) -> None:
        self.loss_sums.zero_()
        trained, fixed, m = list(self.stack.trained.values()), self.stack.fixed, len(self.models)
        for inputs, labels in self._batches():
            outputs = self.forward({**self.stack.trained, **fixed}, inputs)
            losses = self._losses(outputs, labels).reshape(m, -1).mean(1)
            gradients = torch.autograd.grad(losses.sum(), trained)
            self.optimizer.step(gradients, self._factor())
            self.loss_sums.add_(losses.detach(), alpha=labels.shape[1])
            self.step += 1

    def _losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """outputs (m, b, c), labels (m, b) -> losses, m times as many as each member has."""
        if self.common.loss == "mse":
            wanted = functional.one_hot(labels, self.classes).to(outputs.dtype)
            return functional.mse_loss(outputs, wanted, reduction="none")
        return functional.cross_entropy(outputs.flatten(0, 1), labels.flatten(), reduction="none")

    def _factor(self) -> float:
        """The share of the learning rate in this step."""
        if self.common.schedule == "constant":
            return 1.0
        return 0.5 * (1.0 + math.cos(math.pi * self.step / self.total))

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """(m, b, *shape) and (m, b), each member in its own order."""
        n, size = len(self.inputs), self.common.batch_size
        order = torch.stack([torch.randperm(n, generator=generator, device="cpu") for generator in self.orders])
        order = order.to(self.inputs.device)
        row = len(self.models) * self.inputs[0].numel() * self.inputs.element_size()
        together = size * max(1, _CHUNK // max(1, row * size))
        for chosen in order.split(together, dim=1):
            yield from zip(self.inputs[chosen].split(size, dim=1), self.labels[chosen].split(size, dim=1), strict=True)

    def _note(self, epoch: int, began: float, *, evaluate: bool) -> None:
        losses = (self.loss_sums / len(self.inputs)).tolist()
        finite = [math.isfinite(loss) and good for loss, good in zip(losses, self.stack.finite(), strict=True)]
        due = evaluate or not all(finite)
        train_errors = self._errors(self.inputs, self.labels) if due else None
        test_errors = self._errors(*self.test) if due and self.test is not None else None
        seconds = time.perf_counter() - began
        for i, member in enumerate(self.members):
            if member.status == "diverged":
                continue
            shown = evaluate or not finite[i]
            train_error = train_errors[i] if train_errors is not None and shown else None
            test_error = test_errors[i] if test_errors is not None and shown else None
            member.history.append(EpochRow(epoch, self.step, losses[i], train_error, test_error, seconds))
            member.status = "finished" if finite[i] else "diverged"

    def _errors(self, inputs: Tensor, labels: Tensor) -> list[float]:
        """Share of wrong labels of each member."""
        m = len(self.models)
        rows = max(_ROWS, _NUMBERS // (m * inputs[0].numel()))
        wrong = torch.zeros(m, dtype=torch.int64, device=inputs.device)
        with torch.no_grad():
            for part, wanted in zip(inputs.split(rows), labels.split(rows), strict=True):
                outputs = self.forward(self.stack.everything, part.expand(m, *part.shape))
                wrong += wrong_labels(outputs, wanted).sum(1)
        return [count / len(inputs) for count in wrong.tolist()]


def _settings(models: Sequence[nn.Module], trainings: Training | Sequence[Training]) -> list[Training]:
    """One for each model, alike where they must be."""
    if len(models) == 0:
        raise InputError("There are no models to train.")
    settings = [trainings] * len(models) if isinstance(trainings, Training) else list(trainings)
    if len(settings) != len(models):
        raise InputError(f"{len(models)} models and {len(settings)} trainings came; one for each model is needed.")
    for name in _SHARED:
        found = sorted({str(getattr(each, name)) for each in settings})
        if len(found) > 1:
            raise InputError(f"Networks that are trained together share {name}; it came as {' and '.join(found)}.")
    if any(each.augment != "none" or each.mixup for each in settings) or settings[0].precision == "bf16":
        raise InputError("Networks are trained together without augmentation, mixup and bf16; use train() for those.")
    return settings
