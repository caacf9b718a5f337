"""Train error, test error and the gap between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.geometry.points import read_array
from regionscope.network.call.forward import call_model
from regionscope.sampled.labels import INVALID, open_labeller
from regionscope.types import Estimate

__all__ = ["Gap", "check_range", "error_rate", "generalisation_gap", "read_labels"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Gap:
    """Share of wrong labels on the training set and on the test set, each with its standard error over the examples."""

    train_error: Estimate
    test_error: Estimate

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.stderr:.2g} (train error {self.train_error}, test error {self.test_error})"

    @property
    def value(self) -> float:
        """The generalisation gap: test error - train error."""
        return self.test_error.value - self.train_error.value

    @property
    def stderr(self) -> float:
        """Standard error of the gap, for independent train and test examples."""
        return float(np.hypot(self.train_error.stderr, self.test_error.stderr))


def error_rate(
    model: Any,
    inputs: Tensor | Array,
    labels: Tensor | Array,
    *,
    batch_size: int | None = None,
    memory: int | None = None,
) -> Estimate:
    """Share of inputs (n, *shape) whose predicted label is not the given one. Cost: one forward pass.

    model: as in ``region_count``. A NaN among the logits is an error, not a wrong label; so is a label that a module
    with as many logits cannot give.
    """
    wanted = read_labels(inputs, labels)
    rows = read_array(inputs)
    with open_labeller(model, inputs, tuple(rows.shape[1:]), batch_size=batch_size, memory=memory) as labeller:
        if isinstance(model, nn.Module):
            _check_against(call_model(model, rows[:1].to(labeller.device, labeller.dtype)), wanted)
        found = [labeller(part.to(labeller.device, labeller.dtype)).cpu() for part in rows.split(labeller.rows)]
    predicted = torch.cat(found)
    if bool((predicted == INVALID).any()):
        raise InputError(f"The model returned NaN for {int((predicted == INVALID).sum())} of {len(rows)} inputs.")
    return Estimate.of((predicted != wanted).double())


def generalisation_gap(
    model: Any,
    train: tuple[Tensor | Array, Tensor | Array],
    test: tuple[Tensor | Array, Tensor | Array],
    **options: Any,
) -> Gap:
    """Train error, test error and their difference for (inputs, labels) pairs. Li et al. 2025, section 1.

    options: ``batch_size`` and ``memory``, as in ``error_rate``.
    """
    for name, part in (("train", train), ("test", test)):
        if not isinstance(part, tuple | list) or len(part) != 2:
            raise InputError(f"{name} came as {type(part).__name__}; a pair (inputs, labels) is needed.")
    return Gap(error_rate(model, *train, **options), error_rate(model, *test, **options))


def read_labels(inputs: Tensor | Array, labels: Tensor | Array) -> Tensor:
    """The labels as int64 (n,) on the CPU, one for each input."""
    wanted = read_array(labels).detach().cpu()
    if wanted.is_floating_point() or wanted.is_complex():
        raise InputError(f"labels came as {str(wanted.dtype).removeprefix('torch.')}; labels must be integers.")
    if len(inputs) == 0:
        raise InputError("There is no data: inputs is empty.")
    if wanted.shape != (len(inputs),):
        raise InputError(
            f"labels has shape {tuple(wanted.shape)}; one label for each of {len(inputs)} inputs is needed."
        )
    return wanted.to(torch.int64)


def check_range(labels: Tensor, classes: int) -> None:
    """Labels run from 0 to the number of classes less one."""
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise InputError(
            f"labels run from {int(labels.min())} to {int(labels.max())}, but there are {classes} classes, "
            f"0 to {classes - 1}."
        )


def _check_against(outputs: Any, labels: Tensor) -> None:
    """``outputs``: of one input; logits say how many classes there are, a single one that there are two."""
    if isinstance(outputs, Tensor) and outputs.is_floating_point() and outputs.ndim in (1, 2):
        check_range(labels, max(2, outputs.shape[-1] if outputs.ndim == 2 else 1))
