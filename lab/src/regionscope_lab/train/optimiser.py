"""The parts that settings name: optimiser, learning rate, loss, augmentation, precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regionscope.errors import InputError
from regionscope_lab.config import Training

REPLAYABLE = ("sgd", "adam", "adamw")
"""Optimisers whose step can be recorded as a CUDA graph."""


def build_optimizer(
    training: Training, parameters: Iterable[nn.Parameter], device: torch.device, *, replay: bool = False
) -> Any:
    """The optimiser of ``training``. Weight decay is L2 in the gradient, but decoupled for AdamW, as torch has it.

    replay: its step will be recorded, so its numbers lie on the GPU, the learning rate too.
    """
    chosen = [value for value in parameters if value.requires_grad]
    if not chosen:
        raise InputError("Expected a model with trainable parameters, got none. Set requires_grad of its parameters.")
    options: dict[str, Any] = {"lr": training.lr, "weight_decay": training.weight_decay}
    if device.type == "cuda":
        options["fused"] = True
    if replay:
        options["lr"] = torch.tensor(training.lr, dtype=torch.float32, device=device)
    if training.optimizer == "sgd":
        return torch.optim.SGD(chosen, momentum=training.momentum, **options)
    kinds: dict[str, type[torch.optim.Optimizer]] = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "adagrad": torch.optim.Adagrad,
    }
    if training.optimizer == "adagrad":
        options.pop("fused", None)  # only on the CPU
    elif replay:
        options["capturable"] = True
    return kinds[training.optimizer](chosen, **options)


def rate_schedule(training: Training, total: int) -> Callable[[int], float] | None:
    """step (from 0) -> rate; None where it stays. Cosine: lr / 2 (1 + cos(pi step / total)), in each step."""
    if training.schedule == "constant":
        return None
    half, turn = training.lr / 2, math.pi / total
    return lambda step: half * (1.0 + math.cos(turn * step))


def loss_targets(inputs: Tensor, labels: Tensor, training: Training, classes: int) -> Tensor:
    """What the loss compares with: labels (n,); one-hot rows (n, c) for the squared error; the token that follows each
    position, (n, l), for "next_token"."""
    if training.loss == "mse":
        return functional.one_hot(labels, classes).to(inputs.dtype)
    return torch.cat([inputs[:, 1:].long(), labels[:, None]], 1) if training.loss == "next_token" else labels


def loss_function(training: Training) -> Callable[[Tensor, Tensor], Tensor]:
    """(outputs (b, c), targets) -> mean loss. The squared error is averaged over examples and classes."""
    if training.loss == "next_token":
        return _over_positions
    return functional.mse_loss if training.loss == "mse" else functional.cross_entropy


def _over_positions(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy over the positions of sequences: outputs (b, l, c), targets (b, l)."""
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def float_type(training: Training) -> torch.dtype:
    """The dtype of weights and inputs; bf16 keeps them in float32 and computes in bfloat16 where that is safe."""
    return torch.float64 if training.precision == "float64" else torch.float32
