"""Margins: in the outputs over a data set, and in the inputs on a slice, exactly."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_labels, read_integer
from regionscope.errors import InputError
from regionscope.inputs import Inputs, Labels
from regionscope.measures.gap import read_labels, some_examples
from regionscope.network import device_and_dtype, untouched
from regionscope.network.call.forward import call_model
from regionscope.network.estimator import as_module
from regionscope.network.output import Arguments, Output, select_output
from regionscope.network.token_ids import input_dtype, to_model
from regionscope.sampled.labels import refuse_batch_statistics
from regionscope.types import Estimate


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
