"""A linear function of the outputs: the index of one, a difference of two, or a weight for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.inputs import read_array

Target = int | Tensor | np.ndarray[Any, Any] | Sequence[Any]


def output_weights(target: Target | None, n: int, c: int) -> Tensor:
    """The weights (n, c) float64 of c outputs, a row for each of n inputs.

    target: an index; a pair of indices (i, j) for output i minus output j; c floats; for each input an index (n,), as
    integers, or floats (n, c). None stands for the only output.

    >>> output_weights((0, 2), 1, 3).tolist(), output_weights(1, 2, 2).tolist()
    ([[1.0, 0.0, -1.0]], [[0.0, 1.0], [0.0, 1.0]])
    """
    if target is None:
        if c != 1:
            raise InputError(
                f"Expected a target, since the network has {c} outputs, got none. Pass target=i for one "
                "output, target=(i, j) for the difference of two, or one weight for each."
            )
        return torch.ones(n, 1, dtype=torch.float64, device="cpu")
    rows = torch.eye(c, dtype=torch.float64, device="cpu")
    if isinstance(target, tuple) and len(target) == 2 and all(_is_index(i) for i in target):
        first, second = _checked(torch.tensor(target), c)
        return (rows[first] - rows[second]).expand(n, c).clone()
    read = read_array(target).detach().cpu()
    whole = not (read.is_floating_point() or read.is_complex() or read.dtype == torch.bool)
    if whole and read.numel() == 1 and read.ndim < 2:
        return rows[_checked(read.reshape(1), c)].expand(n, c).clone()
    if whole and read.shape == (n,):
        return rows[_checked(read, c)]
    if read.is_floating_point() and read.shape in ((c,), (n, c)) and bool(read.isfinite().all()):
        return read.double().expand(n, c).clone()
    kind = str(read.dtype).removeprefix("torch.")
    raise InputError(
        f"Expected a target that is an index, a pair of indices, {c} finite floats, or one of these for each of {n} "
        f"inputs (integers of shape ({n},) or floats of shape ({n}, {c})), got {kind} of shape {tuple(read.shape)}. "
        "Pass target=0 for the first output."
    )


def name_of_weights(weights: Tensor) -> str:
    """The name of the linear function with these weights (c,), for labels.

    >>> [name_of_weights(row) for row in torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 1.0], [0.5, 0.5, 0.0]])]
    ['output 1', 'output 2 minus output 0', 'weighted sum of the outputs']
    """
    if weights.tolist() == [1.0]:
        return "output"
    chosen = sorted(enumerate(weights.tolist()), key=lambda pair: -pair[1])
    chosen = [(i, weight) for i, weight in chosen if weight != 0.0]
    if [weight for _, weight in chosen] == [1.0]:
        return f"output {chosen[0][0]}"
    if [weight for _, weight in chosen] == [1.0, -1.0]:
        return f"output {chosen[0][0]} minus output {chosen[1][0]}"
    return "weighted sum of the outputs"


def _is_index(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _checked(index: Tensor, c: int) -> Tensor:
    if bool(((index < 0) | (index >= c)).any()):
        wrong = sorted({i for i in index.tolist() if not 0 <= i < c})
        raise InputError(f"Expected outputs 0 to {c - 1}, got {', '.join(map(str, wrong))}. Count the outputs from 0.")
    return index.long()
