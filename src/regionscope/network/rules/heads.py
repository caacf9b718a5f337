"""The last function of a classifier where it keeps the order of the outputs: softmax, sigmoid, tanh, a temperature.

Labels need that order alone, so the values before such a head have the same decision regions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.network.record import Data


@dataclass(frozen=True, eq=False)
class Head:
    """Outputs that are ordered as the values ``of`` are.

    names: of the functions that were left out. at_zero: the output where the value is 0, if an output depends on its
    own value alone. positive: whether all outputs are.
    """

    of: Data
    names: tuple[str, ...]
    at_zero: float | None
    positive: bool

    def decides(self) -> bool:
        """Whether the values have the labels of the outputs: a single one must be 0, or a probability of one half,
        where its value is 0.
        """
        return self.of.numel > 1 or self.at_zero == 0 or (self.at_zero == 0.5 and self.positive)

    @property
    def note(self) -> str:
        """The sentence for a result."""
        one = " The label is 1 where the probability is above 0.5." if self.of.numel == 1 and self.at_zero else ""
        return (
            f"Labels are those of the values before {' and '.join(self.names)}, which keeps the order of the "
            f"outputs and was taken off.{one}"
        )


INCREASING: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "special_expit": torch.sigmoid,
    "logsigmoid": torch.nn.functional.logsigmoid,
    "log_sigmoid": torch.nn.functional.logsigmoid,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "softplus": torch.nn.functional.softplus,
    "erf": torch.erf,
    "atan": torch.atan,
    "arctan": torch.atan,
    "asinh": torch.asinh,
    "arcsinh": torch.asinh,
    "sinh": torch.sinh,
    "softsign": torch.nn.functional.softsign,
}
"""Functions that are increasing everywhere."""
OF_POSITIVE = {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "square": torch.square}
"""Functions that are increasing for positive numbers."""
SOFTMAX = ("softmax", "log_softmax")
_POSITIVE = ("sigmoid", "special_expit", "exp", "softplus", "softmax")


def head_of(name: str, value: Data | Head, argument: object, label: str) -> Head | None:
    """What is known of ``name(value, argument)``; label: how a note calls it."""
    head = value if isinstance(value, Head) else Head(value, (), 0.0, False)
    names = (*head.names, label)
    if name in SOFTMAX:
        dim = argument if isinstance(argument, int) else 1
        if head.of.seen_shape[dim] != head.of.numel or head.of.numel == 1:
            return None
        return replace(head, names=names, at_zero=None, positive=name in _POSITIVE)
    function = INCREASING.get(name) or (OF_POSITIVE.get(name) if head.positive else None)
    if function is not None:
        return replace(head, names=names, at_zero=_applied(head, function), positive=name in _POSITIVE)
    if head.names and isinstance(argument, int | float) and not isinstance(argument, bool) and math.isfinite(argument):
        return _scaled(head, name, float(argument))
    return None


def _scaled(head: Head, name: str, number: float) -> Head | None:
    """A head with a number added or multiplied to all outputs."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "add": lambda x: x + number, "sub": lambda x: x - number, "mul": lambda x: x * number,
        "truediv": lambda x: x / number, "div": lambda x: x / number,
    }  # fmt: skip
    if name not in functions or (name not in ("add", "sub") and number <= 0):
        return None
    positive = head.positive and (number >= 0 or name == "sub") and not (name == "sub" and number > 0)
    return replace(head, at_zero=_applied(head, functions[name]), positive=positive)


def _applied(head: Head, function: Callable[[Tensor], Tensor]) -> float | None:
    if head.at_zero is None:
        return None
    return float(function(torch.tensor(head.at_zero, dtype=torch.float64, device="cpu")))
