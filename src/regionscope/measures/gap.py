"""Train error, test error and the gap between them, and the margin of the outputs over a data set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.checks import check_labels, read_integer
from regionscope.errors import InputError
from regionscope.formatting import estimated
from regionscope.inputs import Examples, Inputs, Labels, read_examples
from regionscope.network import device_and_dtype, untouched
from regionscope.network.call.forward import call_model
from regionscope.network.estimator import as_module
from regionscope.network.output import Arguments, Output, select_output
from regionscope.network.token_ids import input_dtype, to_model
from regionscope.sampled.labels import INVALID, numbered, open_labeller, refuse_batch_statistics
from regionscope.types import Estimate, Reading


@dataclass(frozen=True)
class Gap:
    """Share of wrong labels on the training set and on the test set, each with its standard error over the examples."""

    train_error: Estimate
    test_error: Estimate

    def __str__(self) -> str:
        gap = estimated(self.value, self.stderr)
        return f"{gap} (train error {self.train_error}, test error {self.test_error})"

    def readings(self) -> tuple[Reading, ...]:
        """The gap, the train error and the test error."""
        train, test = self.train_error, self.test_error
        return (
            ("", self.value, self.stderr),
            ("train_error", train.value, train.stderr),
            ("test_error", test.value, test.stderr),
        )

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
    inputs: Inputs,
    labels: Labels | None = None,
    *,
    batch_size: int | None = None,
    memory: int | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> Estimate:
    """Share of inputs (n, *shape) whose predicted label is not the given one. Cost: one forward pass.

    model: as in ``region_count``. inputs: a tensor, an array, a Dataset or a DataLoader. labels: one integer for each
    input; None takes those of a Dataset or DataLoader of (input, label) pairs. For a scikit-learn
    estimator, labels may be the names of its classes. A NaN among the logits raises an error, and so does a label
    outside the range of the logits. output, args: see ``select_output``.
    """
    model = select_output(model, output, args)
    if labels is not None and hasattr(model, "predict"):
        labels = numbered(labels, getattr(model, "classes_", None))
    examples = some_examples(inputs, labels)
    wrong, invalid = [], 0
    with open_labeller(model, examples, tuple(examples.first.shape), batch_size=batch_size, memory=memory) as labeller:
        for rows, given in examples.pairs(labeller.rows):
            # A model may write into its inputs, and those are yours.
            wanted, rows = read_labels(given), to_model(rows, labeller.device, labeller.dtype)
            _check_against(labeller.model, rows[:2].clone(), wanted, numpy=examples.numpy)
            predicted = labeller(rows).cpu()
            wrong.append(predicted != wanted)
            invalid += int((predicted == INVALID).sum())
    if invalid:
        raise InputError(
            f"Expected finite outputs, got NaN for {invalid} of {len(examples)} inputs. Check the weights."
        )
    return Estimate.of(torch.cat(wrong).double())


def generalisation_gap(
    model: Any,
    train: Inputs | tuple[Inputs, Labels],
    test: Inputs | tuple[Inputs, Labels],
    *,
    batch_size: int | None = None,
    memory: int | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> Gap:
    """Train error, test error and their difference. Li et al. 2025, section 1.

    train, test: each a pair (inputs, labels), or a Dataset or DataLoader of (input, label) pairs. Other arguments as in
    ``error_rate``.
    """
    model = select_output(model, output, args)
    errors = []
    for part in (train, test):
        inputs, labels = part if isinstance(part, tuple) and len(part) == 2 else (part, None)
        errors.append(error_rate(model, inputs, labels, batch_size=batch_size, memory=memory))
    return Gap(*errors)


def some_examples(inputs: Inputs, labels: Labels | None) -> Examples:
    """The examples, of which there is at least one."""
    examples = read_examples(inputs, labels)
    if len(examples) == 0:
        raise InputError("Expected at least one input, got 0. Pass one input or more.")
    return examples


def read_labels(labels: Tensor) -> Tensor:
    """Labels (n,) as int64 on the CPU."""
    if labels.is_floating_point() or labels.is_complex():
        kind = str(labels.dtype).removeprefix("torch.")
        how = "labels.argmax(1), if they are one-hot" if labels.ndim == 2 else "labels.long()"
        raise InputError(f"Expected integer labels, got {kind} of shape {tuple(labels.shape)}. Pass {how}.")
    if labels.ndim != 1:
        raise InputError(
            f"Expected one label for each input, got labels of shape {tuple(labels.shape)}. "
            "Pass class indices of shape (n,)."
        )
    return labels.cpu().to(torch.int64)


def _check_against(model: Any, rows: Tensor, labels: Tensor, *, numpy: bool) -> None:
    """Logits say how many classes there are, a single one that there are two; labels that are predicted say nothing."""
    module = isinstance(model, nn.Module)
    if not module and hasattr(model, "predict"):
        return
    outputs = call_model(model, rows.numpy() if numpy and not module else rows)
    logits = torch.from_numpy(outputs) if isinstance(outputs, np.ndarray) else outputs
    if isinstance(logits, Tensor) and logits.is_floating_point() and logits.ndim in (1, 2) and len(logits) == len(rows):
        check_labels(labels, max(2, logits.reshape(len(rows), -1).shape[1]))


def output_margin(
    model: nn.Module,
    inputs: Inputs,
    labels: Labels | None = None,
    *,
    batch_size: int = 256,
    output: Output | None = None,
    args: Arguments = (),
) -> Estimate:
    """gamma(W) = mean over (x, y) of f(x)_y - max over i != y of f(x)_i. Li et al. 2025, Example 1.

    inputs, labels, output, args: as in ``error_rate``. A single logit f stands for the pair (0, f): the margin is f
    where y = 1 and -f where y = 0. Not invariant to reparametrisation: doubling the last layer doubles it. Cost: one
    forward pass.
    """
    model = select_output(as_module(model, counted=True), output, args)
    read_integer("batch_size", batch_size)
    examples = some_examples(inputs, labels)
    refuse_batch_statistics(model)
    margins = []
    with untouched(model) as private:
        device, dtype = device_and_dtype(private)[0], input_dtype(private, examples)
        for rows, given in examples.pairs(batch_size):
            logits = call_model(private, to_model(rows, device, dtype))  # it may write into them
            margins.append(_margins(logits, read_labels(given).to(device)).cpu())
    values = torch.cat(margins)
    if bool(values.isnan().any()):
        raise InputError(
            f"Expected finite outputs, got NaN for {int(values.isnan().sum())} of {len(values)} inputs. Check the "
            "weights."
        )
    return Estimate.of(values)


def _margins(logits: Any, labels: Tensor) -> Tensor:
    n = len(labels)
    if (
        not isinstance(logits, Tensor)
        or logits.ndim not in (1, 2)
        or len(logits) != n
        or not logits.is_floating_point()
    ):
        got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise InputError(f"Expected logits ({n}, c) for {n} inputs, got {got}. Choose the logits with output=.")
    rows = logits.reshape(n, -1).double()
    if rows.shape[1] == 1:
        rows = torch.cat([torch.zeros_like(rows), rows], 1)
    check_labels(labels, rows.shape[1])
    labelled = rows.gather(1, labels[:, None])
    others = rows.scatter(1, labels[:, None], -math.inf)
    return labelled[:, 0] - others.amax(1)
