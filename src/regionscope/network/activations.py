"""The table of activation functions: where each one folds, and the slope and the shift of each of its pieces.

    y   |          /   slope 1, shift 0          nn.ReLU() is Pieces(at=(0.0,), slopes=(0.0, 1.0)):
        |         /                              0 x + 0 up to the threshold 0, and 1 x + 0 above it
        |________/
        |  slope 0, shift 0
        +--------+----- x
                at 0

Exact regions, bounds, proofs, points, local complexity and the messages about networks that cannot be read all take an
activation from here. To add one, write one entry; a function of several values at a time (a maximum) is in
``rules/activations``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regionscope.network.operations import Fixed, Pieces

Function = Callable[..., Tensor]


@dataclass(frozen=True, eq=False)
class Form:
    """An activation with its arguments.

    pieces: None where nothing folds. function, in_place: what to run on rows, and the same allowed to overwrite them;
    without a function, the pieces themselves. constants: tensors behind the rows. refused: why exact regions refuse it.
    """

    pieces: Pieces | None
    function: Function | None = None
    in_place: Function | None = None
    constants: tuple[Tensor, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Activation:
    """An entry of the table.

    names: of torch functions and tensor methods. title: how messages list it; "" if exact regions always refuse it.
    form: takes the arguments behind the input, as torch does, and returns the form, or None for the identity.
    any_axis: whether the batch may be in another place than the front.
    """

    names: tuple[str, ...]
    title: str
    form: Callable[..., Form | None]
    any_axis: bool


ACTIVATIONS: dict[str, Activation] = {}
"""The table, by the name of the torch function."""


def activation(
    *names: str, title: str = "", any_axis: bool = True
) -> Callable[[Callable[..., Form | None]], Callable[..., Form | None]]:
    """Add an entry to the table."""

    def register(form: Callable[..., Form | None]) -> Callable[..., Form | None]:
        ACTIVATIONS.update(dict.fromkeys(names, Activation(names, title, form, any_axis)))
        return form

    return register


@activation("relu", title="ReLU")
def _relu(inplace: bool = False) -> Form:
    return Form(Pieces((0.0,), (0.0, 1.0)), torch.relu, torch.relu_)


@activation("leaky_relu", title="LeakyReLU")
def _leaky_relu(negative_slope: float = 0.01, inplace: bool = False) -> Form | None:
    slope = float(negative_slope)
    if slope == 1:
        return None
    return Form(Pieces((0.0,), (slope, 1.0)), Fixed(F.leaky_relu, (slope,)), Fixed(F.leaky_relu_, (slope,)))


@activation("prelu", title="PReLU", any_axis=False)
def _prelu(weight: Tensor) -> Form:
    return Form(Pieces((0.0,), (None, 1.0)), torch.prelu, constants=(weight,))


@activation("rrelu", title="RReLU")
def _rrelu(lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> Form | None:
    if training:
        reason = "it is random here: pass training=self.training, so that its slope is fixed in eval mode"
        return Form(Pieces((0.0,), (0.0, 1.0)), refused=reason)
    return _leaky_relu((lower + upper) / 2)


@activation("relu6", title="ReLU6")
def _relu6(inplace: bool = False) -> Form | None:
    return clamped(0.0, 6.0)


@activation("hardtanh", title="Hardtanh")
def _hardtanh(min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Form | None:
    return clamped(min_val, max_val)


@activation("hardsigmoid", title="Hardsigmoid")
def _hardsigmoid(inplace: bool = False) -> Form:
    return Form(Pieces((-3.0, 3.0), (0.0, 1.0, 0.0), (0.0, 3.0, 6.0), divisor=6), _ramp, _ramp_in_place)


@activation("softshrink", title="Softshrink")
def _softshrink(lambd: float = 0.5) -> Form | None:
    bound = float(lambd)
    if bound == 0:
        return None
    return Form(Pieces((-bound, bound), (1.0, 0.0, 1.0), (bound, 0.0, -bound)), Fixed(F.softshrink, (bound,)))


def clamped(low: float | None = None, high: float | None = None) -> Form | None:
    """min(max(x, low), high); a bound of None or infinity on the open side does not fold."""
    lower, upper = -math.inf if low is None else float(low), math.inf if high is None else float(high)
    if lower >= upper:
        return Form(None, Fixed(torch.full_like, (upper,)))
    below = [] if lower == -math.inf else [lower]
    above = [] if upper == math.inf else [upper]
    if not below and not above:
        return None
    pieces = Pieces((*below, *above), (*[0.0 for _ in below], 1.0, *[0.0 for _ in above]), (*below, 0.0, *above))
    return Form(pieces, Fixed(torch.clamp, (lower, upper)), Fixed(torch.clamp_, (lower, upper)))


@activation("abs", "absolute", "__abs__", title="abs")
def _abs() -> Form:
    return Form(Pieces((0.0,), (-1.0, 1.0)), torch.abs, torch.abs_)


@activation("threshold", "_threshold", title="a continuous Threshold")  # the second is what torch calls inside
def _threshold(threshold: float, value: float, inplace: bool = False) -> Form | None:
    if threshold == value:
        return clamped(threshold)
    jump = f"it jumps from {float(value):g} to {float(threshold):g} at its threshold; equal ones are accepted"
    return Form(
        Pieces((float(threshold),), (0.0, 1.0), (float(value), 0.0)),
        Fixed(F.threshold, (threshold, value)),
        refused=jump,
    )


@activation("hardshrink")
def _hardshrink(lambd: float = 0.5) -> Form | None:
    pieces = Pieces((-float(lambd), float(lambd)), (1.0, 0.0, 1.0))
    return Form(pieces, Fixed(F.hardshrink, (lambd,))) if lambd else None


def _ramp(x: Tensor) -> Tensor:
    """Written out, because on CUDA torch multiplies by a sixth rounded to float32, whatever the dtype."""
    return (x + 3).clamp_(0, 6).div_(6)


def _ramp_in_place(x: Tensor) -> Tensor:
    return x.add_(3).clamp_(0, 6).div_(6)


def thresholds(name: str, *args: Any, **kwargs: Any) -> tuple[float, ...]:
    """Where the activation ``name`` folds with these arguments behind its input; () where it does not."""
    form = ACTIVATIONS[name].form(*args, **kwargs)
    return form.pieces.at if form is not None and form.pieces is not None else ()
