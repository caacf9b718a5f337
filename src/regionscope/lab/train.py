"""One plain training loop for classifiers on tensors that fit in memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regionscope.errors import InputError, RegionscopeError

__all__ = ["Epoch", "Trained", "Training", "evaluate", "train"]


@dataclass(frozen=True, kw_only=True)
class Training:
    """How to train: Adam on the cross-entropy of shuffled mini-batches."""

    epochs: int = 100
    lr: float = 1e-3
    batch_size: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Epoch:
    """What a progress callback is told after epoch ``number`` (from 1): the mean training loss of that epoch."""

    number: int
    loss: float


@dataclass(frozen=True)
class Trained:
    """The history of one training run; ``losses`` (epochs,) is the mean training loss of each epoch."""

    training: Training
    losses: Tensor
    seconds: float


def train(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    training: Training | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Trained:
    """Train ``model`` in place on ``inputs`` (n, ...) and ``labels`` (n,) and return the history.

    The same model, data and seed give the same weights on the same machine. Randomness (shuffling, dropout) comes
    from ``training.seed`` alone; the global random state and the model's train/eval mode are as before afterwards.
    """
    training = Training() if training is None else training
    _check(inputs, labels, training)
    was_training = model.training
    optimizer = torch.optim.Adam(model.parameters(), lr=training.lr)
    losses: list[float] = []
    start = time.perf_counter()
    devices = [inputs.device] if inputs.is_cuda else []
    try:
        model.train()
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(training.seed)
            for number in range(1, training.epochs + 1):
                losses.append(_one_epoch(model, optimizer, inputs, labels, training.batch_size))
                if not math.isfinite(losses[-1]):
                    raise RegionscopeError(
                        f"Training diverged in epoch {number}: the loss is {losses[-1]}; lower lr (now {training.lr})."
                    )
                if on_epoch is not None:
                    on_epoch(Epoch(number, losses[-1]))
    finally:
        model.train(was_training)
    return Trained(training, torch.tensor(losses, dtype=torch.float64), time.perf_counter() - start)


def evaluate(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[float, float]:
    """Mean cross-entropy and accuracy of ``model`` in eval mode; its mode is as before afterwards."""
    was_training = model.training
    try:
        model.eval()
        with torch.no_grad():
            logits = model(inputs)
    finally:
        model.train(was_training)
    accuracy = (logits.argmax(dim=1) == labels).double().mean()
    return float(functional.cross_entropy(logits, labels)), float(accuracy)


def _one_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, labels: Tensor, batch_size: int
) -> float:
    total = torch.zeros((), dtype=torch.float64, device=inputs.device)
    for batch in torch.randperm(len(inputs), device=inputs.device).split(batch_size):
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(batch)
    return float(total) / len(inputs)


def _check(inputs: Tensor, labels: Tensor, training: Training) -> None:
    if len(inputs) == 0:
        raise InputError("There is no data to train on: inputs is empty.")
    if labels.shape != inputs.shape[:1]:
        raise InputError(
            f"labels must hold one class for each of the {len(inputs)} inputs, and has shape {tuple(labels.shape)}."
        )
    if not bool(torch.isfinite(inputs).all()):
        raise InputError("inputs holds NaN or infinite values; training needs finite numbers.")
    if training.epochs < 1 or training.batch_size < 1 or training.lr <= 0:
        raise InputError(f"epochs and batch_size must be at least 1 and lr positive, and they came as {training}.")
