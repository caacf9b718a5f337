"""Loss and error of a classifier on a data set, a bounded batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

from regionscope.checks import check_labels
from regionscope.errors import InputError
from regionscope.network import home, untouched


def _squares(logits: Tensor, wanted: Tensor) -> Tensor:
    goals = functional.one_hot(wanted, logits.shape[1]).to(logits.dtype)
    return functional.mse_loss(logits, goals, reduction="sum") / logits.shape[1]


def _entropies(logits: Tensor, wanted: Tensor) -> Tensor:
    return functional.cross_entropy(logits, wanted, reduction="sum")


_SUMS = {"cross_entropy": _entropies, "mse": _squares}  # over the examples of a batch
_NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 22}  # input entries in one batch, of tokens those of their embeddings


def evaluate(model: nn.Module, inputs: Tensor, labels: Tensor, *, loss: str = "cross_entropy") -> tuple[float, float]:
    """Mean loss and accuracy of ``model`` in eval mode; modes and buffers do not change.

    An output with a NaN counts as wrong. loss: "cross_entropy", or "mse": the squared distance to the one-hot label,
    averaged over examples and classes. The data moves to the model's device batch by batch. Cost: one forward pass, and
    two synchronisations with the device.
    """
    if len(inputs) == 0:
        raise InputError("Expected at least one input to evaluate on, got none. Check that the data set is not empty.")
    if loss not in _SUMS:
        raise InputError(f"Expected loss to be one of {', '.join(_SUMS)}, got {loss!r}.")
    n, device = len(inputs), home(model, like=inputs)[0]
    with untouched(model, precise=False) as private:
        total = torch.zeros((), dtype=torch.float64, device=device)
        wrong = torch.zeros((), dtype=torch.int64, device=device)
        for i, (logits, wanted) in enumerate(_outputs(private, inputs, labels)):
            if i == 0:
                check_labels(labels, logits.shape[1])
            total += _SUMS[loss](logits, wanted)
            wrong += wrong_labels(logits, wanted).sum()
    return float(total) / n, (n - int(wrong)) / n


def error_share(
    model: nn.Module, inputs: Tensor, labels: Tensor, *, autocast: AbstractContextManager[object] | None = None
) -> float:
    """Share of wrong labels in eval mode. An output with a NaN is wrong. One wait for the device, at the end."""
    with untouched(model, precise=False) as private, nullcontext() if autocast is None else autocast:
        wrong = torch.zeros((), dtype=torch.int64, device=home(model, like=inputs)[0])
        for logits, wanted in _outputs(private, inputs, labels):
            wrong += wrong_labels(logits, wanted).sum()
    return float(wrong) / len(inputs)


def wrong_labels(logits: Tensor, wanted: Tensor) -> Tensor:
    """(..., n): whether the largest of the logits (..., n, c) is not the wanted one, or one of them is NaN."""
    largest, found = logits.max(dim=-1)  # NaN is larger than any number to max
    return (found != wanted) | largest.isnan()


def _outputs(model: nn.Module, inputs: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(logits, labels) on the model's device, so many rows at a time."""
    device, dtype = home(model, like=inputs)
    width = max((each.embedding_dim for each in model.modules() if isinstance(each, nn.Embedding)), default=1)
    rows = max(1, _NUMBERS.get(device.type, 1 << 20) // max(1, inputs[0].numel() * width))
    for part, wanted in zip(inputs.split(rows), labels.split(rows), strict=True):
        yield model(part.to(device, dtype)), wanted.to(device)
