"""Whether a model gives each input one answer: the same each time, and whatever else is in the batch."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from regionscope.errors import InputError
from regionscope.network.call.forward import call_model

_ROUNDING = 64  # of the spacing of floating-point numbers at the largest output
_ALIKE = 0.02  # of the largest output: what differs by less may be rounding, of weights that are quantised as they run


def check_fixed_outputs(
    model: nn.Module, pair: Tensor, together: list[Tensor] | None = None, again: list[Tensor] | None = None
) -> None:
    """Raise ``InputError`` if the output of the model changes from call to call (it draws random numbers, reads the
    time, counts its calls), or depends on the other inputs of the batch.

    pair: two different inputs (2, *shape), of the model's dtype and on its device; only these are tested. together,
    again: the outputs for the pair, from two passes over these and perhaps other inputs. Call it inside ``untouched``.
    Cost: two forward passes of one input; a third one unless the given outputs are the same; one of two inputs without
    ``together``.
    """
    together = _outputs(model, pair) if together is None else together
    first = _outputs(model, pair[:1])
    fixed = again is not None and same_numbers(together, again)
    if not fixed and not same_numbers(first, _outputs(model, pair[:1])):
        raise InputError(
            "Expected a model whose output is fixed in eval mode, got one that draws random numbers or uses the "
            "time or earlier calls. Pass training=self.training to dropout, or fix the random numbers."
        )
    second = _outputs(model, pair[1:])
    alone = [torch.cat(rows) for rows in zip(first, second, strict=False)]
    if pair.dtype in (torch.float32, torch.float64) and _rows_mix(together, alone):
        raise InputError(
            "Expected a model whose output for an input does not depend on the rest of the batch, got one whose "
            "output does. Keep dimension 0 for the batch, and normalise by fixed numbers."
        )


def same_numbers(these: list[Tensor], those: list[Tensor]) -> bool:
    """Whether two lists of tensors are the same up to the rounding of sums that are taken in another order."""
    return len(these) == len(those) and all(
        a.shape == b.shape and torch.allclose(a, b, rtol=0.0, atol=_rounding(b), equal_nan=True)
        for a, b in zip(these, those, strict=True)
    )


def _rounding(values: Tensor) -> float:
    if not values.is_floating_point() or values.numel() == 0:
        return 0.0
    return min(_ROUNDING * torch.finfo(values.dtype).eps, _ALIKE) * float(values.abs().max().nan_to_num(0.0))


def two_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Two different inputs (2, *shape), of numbers between -1 and 1."""
    up = torch.linspace(-1, 1, torch.Size(shape).numel() + 2, dtype=dtype, device=device)[1:-1].reshape(shape)
    return torch.stack([up, 0.5 - up / 2])


def _outputs(model: nn.Module, inputs: Tensor) -> list[Tensor]:
    return rows_of(call_model(model, inputs.clone()), len(inputs))  # it may write into them


def rows_of(result: Any, n: int) -> list[Tensor]:
    """The tensors in a model's output with one row for each of n inputs."""
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor) and leaf.shape[:1] == (n,)]


def _rows_mix(together: list[Tensor], alone: list[Tensor]) -> bool:
    """Whether outputs differ by more than rounding. Labels are left out: rounding may change one at a tie."""
    these, those = ([x.double() for x in outputs if x.is_floating_point()] for outputs in (together, alone))
    return len(these) == len(those) and any(
        a.shape == b.shape and b.numel() > 0 and bool(((a - b).abs() > _ALIKE * b.abs().max()).any())
        for a, b in zip(these, those, strict=True)
    )


def python_random_states() -> tuple[object, ...]:
    """The states of the global generators of ``random`` and NumPy."""
    _, words, place, *_ = np.random.get_state()  # noqa: NPY002 - it is the old, global generator that a forward may use
    return random.getstate(), np.asarray(words).tobytes(), place
