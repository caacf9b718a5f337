"""Loss and error of a classifier on a data set, a bounded batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

from regionscope.checks import check_labels, one_of
from regionscope.errors import InputError
from regionscope.network import device_and_dtype, untouched


def one_hot_mse(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Squared distance to the one-hot labels, averaged (or summed) over examples and classes."""
    one_hot = functional.one_hot(labels, logits.shape[1]).to(logits.dtype)
    return functional.mse_loss(logits, one_hot, reduction=reduction)


def _summed_loss(loss: str, logits: Tensor, labels: Tensor) -> Tensor:
    """The loss summed over the examples of a batch."""
    if loss == "mse":
        return one_hot_mse(logits, labels, "sum") / logits.shape[1]
    return functional.cross_entropy(logits, labels, reduction="sum")


_LOSSES = ("cross_entropy", "mse")
_NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 22}  # input entries in one batch, of tokens those of their embeddings


def evaluate(model: nn.Module, inputs: Tensor, labels: Tensor, *, loss: str = "cross_entropy") -> tuple[float, float]:
    """Mean loss and accuracy of ``model`` in eval mode; modes and buffers do not change.

    An output with a NaN counts as wrong. loss: "cross_entropy", or "mse": the squared distance to the one-hot label,
    averaged over examples and classes. The data moves to the model's device batch by batch. Cost: one forward pass, and
    two synchronisations with the device.
    """
    if len(inputs) == 0:
        raise InputError("Expected at least one input to evaluate on, got none. Pass inputs with their labels.")
    one_of("loss", loss, _LOSSES)
    n, device = len(inputs), device_and_dtype(model, like=inputs)[0]
    with untouched(model, precise=False) as private:
        total = torch.zeros((), dtype=torch.float64, device=device)
        wrong = torch.zeros((), dtype=torch.int64, device=device)
        for i, (logits, batch_labels) in enumerate(_outputs(private, inputs, labels)):
            if i == 0:
                check_labels(labels, logits.shape[1])
            total += _summed_loss(loss, logits, batch_labels)
            wrong += wrong_labels(logits, batch_labels).sum()
    return float(total) / n, (n - int(wrong)) / n


def error_share(
    model: nn.Module, inputs: Tensor, labels: Tensor, *, autocast: AbstractContextManager[object] | None = None
) -> float:
    """Share of wrong labels in eval mode. An output with a NaN is wrong. One wait for the device, at the end."""
    with untouched(model, precise=False) as private, nullcontext() if autocast is None else autocast:
        wrong = torch.zeros((), dtype=torch.int64, device=device_and_dtype(model, like=inputs)[0])
        for logits, batch_labels in _outputs(private, inputs, labels):
            wrong += wrong_labels(logits, batch_labels).sum()
    return float(wrong) / len(inputs)


def wrong_labels(logits: Tensor, labels: Tensor) -> Tensor:
    """(..., n): whether the largest of the logits (..., n, c) is not that of the label, or one of them is NaN."""
    largest, predicted = logits.max(dim=-1)  # NaN is larger than any number to max
    return (predicted != labels) | largest.isnan()


def _outputs(model: nn.Module, inputs: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits and labels on the model's device, batch by batch."""
    device, dtype = device_and_dtype(model, like=inputs)
    width = max((module.embedding_dim for module in model.modules() if isinstance(module, nn.Embedding)), default=1)
    rows = max(1, _NUMBERS.get(device.type, 1 << 20) // max(1, inputs[0].numel() * width))
    for batch, batch_labels in zip(inputs.split(rows), labels.split(rows), strict=True):
        yield model(batch.to(device, dtype, copy=True)), batch_labels.to(device)  # it may write into its inputs
