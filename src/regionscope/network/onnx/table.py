"""What an operator sees of its node, and the table of operators. To add one, add a function to ``operators/``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.formatting import counted

MOST_ENTRIES = 2**27  # entries that one node may make for one input
MOST_INDICES = 2**16


@dataclass(frozen=True, eq=False)
class Node:
    """One node of the graph while it is read.

    constants: the value of each input that does not depend on the network's input, else None.
    lift: 1 in a graph without a batch dimension, whose values get one in front; dimensions then count from 1.
    rank: number of dimensions that the first input has in the file.
    n_read: number of outputs up to the last one that another node reads or the graph returns.
    literal: whether dimension 0 is what the file says, and not a batch of any size.
    """

    name: str
    kind: str
    opset: int
    attributes: dict[str, Any]
    inputs: tuple[str, ...]
    constants: tuple[Tensor | None, ...]
    n_outputs: int
    n_read: int
    lift: int
    rank: int
    literal: bool

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.attributes.get(name, default)

    def has(self, i: int) -> bool:
        """Whether input i is given; optional inputs may be left out or have an empty name."""
        return i < len(self.inputs) and self.inputs[i] != ""

    def is_constant(self, i: int) -> bool:
        """Whether input i is given and does not depend on the network's input."""
        return self.has(i) and self.constants[i] is not None

    def constant(self, i: int, what: str) -> Tensor:
        """Input i, which must be a constant."""
        constant = self.constants[i] if i < len(self.constants) else None
        if constant is None:
            self.error(f"its {what} must be a constant")
        return constant

    def numbers(self, i: int, what: str) -> list[int]:
        """Input i as a list of integers; it must be a constant."""
        numbers = self.constant(i, what).reshape(-1)
        if len(numbers) > MOST_INDICES:
            self.error(f"its {what} has {len(numbers)} entries")
        return [int(n) for n in numbers.tolist()]

    def lifted(self, axes: Iterable[int], more: int = 0) -> list[int]:
        """Dimensions as the program counts them, those of ``more`` included that the node adds to its first input."""
        given = list(axes)
        rank = self.rank + more
        if any(not -rank <= axis < rank for axis in given):
            self.error(f"dimensions {given} do not fit a value with {counted(rank, 'dimension')}")
        return [axis + self.lift if axis >= 0 else axis for axis in given]

    def axes(self, i: int, *, more: bool = False) -> list[int] | None:
        """Dimensions given as attribute ``axes`` or, since later opsets, as input i; None where there are none.

        more: whether they are those that the node adds.
        """
        given = self.get("axes")
        if given is None and self.has(i):
            given = self.numbers(i, "axes")
        return None if given is None else self.lifted(given, more=len(given) if more else 0)

    def error(self, reason: str) -> NoReturn:
        """Refuse the node."""
        raise InputError(
            f"Node {self.name!r} ({self.kind}, opset {self.opset}) cannot be read: {reason}. "
            "Export the model without it, or pass the torch module."
        )


class Apply(nn.Module):
    """A node that applies a function of torch to its inputs, with options that are plain numbers."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__()
        self.function = function
        self.options = options

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs, **self.options)

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", "").strip("_")


reading: ContextVar[bool] = ContextVar("reading", default=False)
"""Whether a file is being read: then a tensor for one input must fit; later the number of inputs is the user's."""


def must_fit(shape: Iterable[int]) -> None:
    """While a file is read, refuse to make a tensor of this shape if it would fill the memory."""
    sizes = tuple(shape)
    if math.prod(sizes) > MOST_ENTRIES and reading.get():
        raise ValueError(f"a tensor of shape {sizes} would fill the memory")


class Unsupported(ValueError):
    """What a node asks for and this reader does not do, in words that follow "cannot be read:"."""


@dataclass(frozen=True, eq=False)
class Step:
    """What runs a node: a module, and which inputs of the node it takes."""

    module: nn.Module
    takes: tuple[int, ...]


Operator = Callable[[Node], Step]

OPERATORS: dict[str, Operator] = {}
"""All operators by name."""


def operator(*kinds: str) -> Callable[[Operator], Operator]:
    """Register an operator under its ONNX names."""

    def register(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(kinds, function))
        return function

    return register


def plain(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Register operators without attributes, each as a function of its inputs."""
    OPERATORS.update({kind: partial(applied, function=function) for kind, function in functions.items()})


def applied(node: Node, function: Callable[..., Any], *, takes: Iterable[int] | None = None, **options: Any) -> Step:
    """A step that calls ``function`` on the inputs ``takes`` (all that are given by default)."""
    given = [i for i in range(len(node.inputs)) if node.has(i)] if takes is None else list(takes)
    return Step(Apply(function, options), tuple(given))
