"""Products of two values of which one is constant between the jumps of a network, as in a mixture of experts.

The gates of experts jump from 0 to 1, and so their product with what the experts compute is affine between the jumps.
It is recorded as a fold that jumps where the gates do, and computes them anew from what they compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from regionscope.network.operations import Affine, Compared, Jump, Piecewise
from regionscope.network.record import Call, Data, RecordedStep


def masked(
    call: Call, function: Callable[[Tensor, Tensor], Tensor], a: Data, b: Data, shape: tuple[int, ...] | None = None
) -> Data:
    """``function(a, b)``, linear in either argument; refused unless one of them is constant between jumps."""
    for mask, other in ((a, b), (b, a)):
        path = _from_jump(call, mask)
        if path is not None:
            jump, *views = path
            assert isinstance(jump.operation, Piecewise)
            assert isinstance(jump.operation.pieces, Jump)
            product = _Product(
                function, jump.operation.function, jump.operation.pieces.chosen,
                tuple((step.operation.function, len(step.operation.constants)) for step in views),
                len(jump.inputs), len(jump.operation.constants), mask is a,
            )  # fmt: skip
            return call.fold(
                product, *jump.inputs, other, axis=a.axis, shape=shape,
                constants=tuple(constant for step in path for constant in step.operation.constants),
                compare=partial(_compared, compare=jump.operation.compare, n=len(jump.inputs),
                                end=len(jump.inputs) + 1 + len(jump.operation.constants)),
                n_units=jump.operation.n_units, pieces=Jump(product.on_pieces),
            )  # fmt: skip
    call.refuse_product()


def _from_jump(call: Call, value: Data) -> list[RecordedStep] | None:
    """The steps from a jump with a result that is constant on its pieces to the value; None for another value."""
    made_by, path = {step.output: step for step in call.recorder.steps}, list[RecordedStep]()
    while (step := made_by.get(value)) is not None:
        path.append(step)
        if isinstance(step.operation, Piecewise):
            pieces = step.operation.pieces
            return path[::-1] if isinstance(pieces, Jump) and pieces.constant else None
        if len(step.inputs) > 1 or not isinstance(step.operation, Affine):
            return None
        value = step.inputs[0]
    return None


def _compared(*arguments: Tensor, compare: Callable[..., Compared], n: int, end: int) -> Compared:
    """What the jump compares; argument n is the other factor, and the constants of views stand behind ``end``."""
    return compare(*arguments[:n], *arguments[n + 1 : end])


@dataclass(frozen=True)
class _Product:
    """``function`` of a mask and another value, from the n_inputs and n_constants of the jump that makes the mask.

    views: functions that take the result of the jump to the mask, each with its number of constants. first: whether
    the mask is the first argument.
    """

    function: Callable[[Tensor, Tensor], Tensor]
    jump: Callable[..., Tensor]
    chosen: Callable[..., Tensor]
    views: tuple[tuple[Callable[..., Tensor], int], ...]
    n_inputs: int
    n_constants: int
    first: bool

    def __call__(self, *arguments: Tensor) -> Tensor:
        return self._of(self.jump, arguments)

    def on_pieces(self, *arguments: Tensor, pieces: Tensor) -> Tensor:
        """The product where the jump is on these pieces."""
        return self._of(partial(self.chosen, pieces=pieces), arguments)

    def _of(self, jump: Callable[..., Tensor], arguments: tuple[Tensor, ...]) -> Tensor:
        other, rest = arguments[self.n_inputs], arguments[self.n_inputs + 1 :]
        mask, rest = jump(*arguments[: self.n_inputs], *rest[: self.n_constants]), rest[self.n_constants :]
        for view, n in self.views:
            mask, rest = view(mask, *rest[:n]), rest[n:]
        return self.function(mask, other) if self.first else self.function(other, mask)
