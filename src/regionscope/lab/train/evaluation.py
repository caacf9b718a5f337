"""Loss and error of a classifier on a data set, a bounded batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

from regionscope.errors import InputError

__all__ = ["count_wrong", "evaluate", "wrong_labels"]


def _squares(logits: Tensor, wanted: Tensor) -> Tensor:
    goals = functional.one_hot(wanted, logits.shape[1]).to(logits.dtype)
    return functional.mse_loss(logits, goals, reduction="sum") / logits.shape[1]


def _entropies(logits: Tensor, wanted: Tensor) -> Tensor:
    return functional.cross_entropy(logits, wanted, reduction="sum")


_SUMS = {"cross_entropy": _entropies, "mse": _squares}  # over the examples of a batch
_NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 22}  # input entries in one batch


def evaluate(model: nn.Module, inputs: Tensor, labels: Tensor, *, loss: str = "cross_entropy") -> tuple[float, float]:
    """Mean loss and accuracy of ``model`` in eval mode; its mode is as before afterwards.

    loss: "cross_entropy", or "mse": the squared distance to the one-hot label, averaged over examples and classes. The
    data goes to the model's device a batch at a time. Cost: one forward pass.
    """
    if len(inputs) == 0:
        raise InputError("There is no data to evaluate on: inputs is empty.")
    if loss not in _SUMS:
        raise InputError(f"loss came as {loss!r}; it must be one of {', '.join(_SUMS)}.")
    total = torch.zeros((), dtype=torch.float64)
    right = torch.zeros((), dtype=torch.int64)
    for logits, wanted in _outputs(model, inputs, labels):
        total += _SUMS[loss](logits, wanted).double().cpu()
        right += (logits.argmax(dim=1) == wanted).sum().cpu()
    return float(total) / len(inputs), float(right) / len(inputs)


def count_wrong(
    model: nn.Module, inputs: Tensor, labels: Tensor, *, autocast: AbstractContextManager[object] | None = None
) -> float:
    """Share of wrong labels in eval mode. An output with a NaN is wrong. One wait for the device, at the end."""
    wrong = torch.zeros((), dtype=torch.int64, device=labels.device)
    with nullcontext() if autocast is None else autocast:
        for logits, wanted in _outputs(model, inputs, labels):
            wrong += wrong_labels(logits, wanted).sum().to(wrong.device)
    return float(wrong) / len(inputs)


def wrong_labels(logits: Tensor, wanted: Tensor) -> Tensor:
    """(..., n): whether the largest of the logits (..., n, c) is not the wanted one, or one of them is NaN."""
    largest, found = logits.max(dim=-1)  # NaN is larger than any number to max
    return (found != wanted) | largest.isnan()


def _outputs(model: nn.Module, inputs: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    first = next(model.parameters(), None)
    device, dtype = (inputs.device, inputs.dtype) if first is None else (first.device, first.dtype)
    rows = max(1, _NUMBERS.get(device.type, 1 << 20) // max(1, inputs[0].numel()))
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            for part, wanted in zip(inputs.split(rows), labels.split(rows), strict=True):
                yield model(part.to(device, dtype)), wanted.to(device)
    finally:
        for module, training in modes:
            module.training = training
