"""A network as a straight line: affine stretches joined by folds, run on a batch of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.errors import CallFailed, InputError
from regionscope.network.call.wrappers import unwrapped
from regionscope.network.hooks import global_hooks
from regionscope.network.operations import Compared, Groups, Jump, Pieces
from regionscope.network.private_copy import has_hooks, tensors_of, weights_of

Values = dict[str, Tensor]
"""The live tensors between two folds by name; each has the rows as its first dimension."""


@dataclass(frozen=True, eq=False)
class Instruction:
    """One operation with the names it reads and writes, and those that are dead once it has run.

    overwrite: "never", "always" (its first input was made in the same stretch and is dead) or "given" (its first input
        comes from the caller, who has to agree with ``consume=True``).
    sources: for each constant the parameter or buffer that it is, "" for another one; empty where that is not known.
    rounding, suits: see ``Operation``.
    """

    function: Callable[..., Tensor]
    in_place: Callable[..., Tensor] | None
    reads: tuple[str, ...]
    constants: tuple[Tensor, ...]
    writes: str
    frees: tuple[str, ...]
    overwrite: str
    sources: tuple[str, ...] = ()
    rounding: Callable[..., Tensor] | None = None
    suits: Callable[..., bool] | None = None

    def run(self, values: Values, consume: bool, pure: bool = False, n_perturbed: int = 0) -> None:
        """Replace what it reads by what it writes. n_perturbed: number of rows, the last ones, that are perturbed by
        the square root of the rounding unit to estimate rounding errors; ``rounding`` is added there.
        """
        inputs = [values[name] for name in self.reads]
        for name in self.frees:
            del values[name]
        function = self.function
        if (
            self.in_place is not None
            and not pure
            and (self.overwrite == "always" or (consume and self.overwrite == "given"))
        ):
            function = self.in_place
        out = values[self.writes] = function(*inputs, *self.constants)
        if n_perturbed and self.rounding is not None:
            size = self.rounding(*(x[-n_perturbed:] for x in inputs), *self.constants)
            out[-n_perturbed:].add_(size, alpha=torch.finfo(out.dtype).eps ** 0.5)


def _run(
    instructions: tuple[Instruction, ...], values: Values, *, consume: bool = False, n_perturbed: int = 0
) -> Values:
    for instruction in instructions:
        instruction.run(values, consume, n_perturbed=n_perturbed)
    return values


@dataclass(frozen=True, eq=False)
class Fold:
    """One piecewise-linear operation and the affine stretch that follows it.

    name: unique and readable: the module's path ("layers.1") or, for a function, that of the module in which it is
        called and its own ("block.relu"); a second call is "layers.1#2".
    kind: "ReLU", "MaxPool2d", "maximum"...
    n_units: number of units per row, the columns of ``pattern``.
    row_bytes: estimated peak memory of one row, from the values live before this fold to those live after ``advance``,
        with the temporaries of the largest operation in between.
    compare: of the operation; ``compared`` calls it on live values.
    pieces: what the operation does to the values that it compares; None for a decision, which changes no value.
    """

    name: str
    kind: str
    n_units: int
    row_bytes: int
    compare: Callable[..., Compared]
    pieces: Pieces | Groups | Jump | None
    instructions: tuple[Instruction, ...]

    def __repr__(self) -> str:
        return f"Fold(name={self.name!r}, kind={self.kind!r}, n_units={self.n_units})"

    def compared(self, values: Values) -> Compared:
        """Where the map folds, for the current rows. Cost: a view for ReLU and similar functions, a subtraction for
        max(a, b).
        """
        first = self.instructions[0]
        return self.compare(*(values[name] for name in first.reads), *first.constants)

    @property
    def decides(self) -> bool:
        """Whether this is the last fold of a program with its decision, or with a level of its outputs."""
        return self.pieces is None

    def lines(self) -> tuple[Tensor, Tensor]:
        """Slopes and shifts of the pieces for each value that is compared, (pieces, n) each, float64: a value u becomes
        (slope u + shift) / ``pieces.divisor``, plus the second operand where ``pieces.adds_second``.
        """
        assert isinstance(self.pieces, Pieces)
        constants = self.instructions[0].constants
        device = constants[0].device if constants else torch.device("cpu")
        n = self.n_units // len(self.pieces.at)
        slopes, shifts = torch.empty((2, len(self.pieces.slopes), n), dtype=torch.float64, device=device)
        for piece, (slope, shift) in enumerate(zip(self.pieces.slopes, self.pieces.shifts, strict=True)):
            own = constants[0].reshape(-1) if slope is None else None
            slopes[piece] = slope if own is None else own.double().repeat_interleave(n // len(own))
            shifts[piece] = shift
        return slopes, shifts

    def slopes_of_operands(self, row: Tensor) -> tuple[Tensor, ...]:
        """The slope of the result with respect to each operand on each piece, (pieces, *shape) for a result of the
        shape, dtype and device of ``row`` (1, *shape).
        """
        assert isinstance(self.pieces, Pieces)
        slopes = (self.lines()[0] / self.pieces.divisor).to(row.device, row.dtype).reshape(-1, *row.shape[1:])
        return (slopes, 1 - slopes) if len(self.instructions[0].reads) == 2 else (slopes,)

    @property
    def chosen(self) -> Callable[..., Tensor] | None:
        """See ``Jump``; None for a fold that is continuous."""
        return self.pieces.chosen if isinstance(self.pieces, Jump) else None

    def advance(
        self, values: Values, *, consume: bool = False, noise: Tensor | None = None, pieces: Tensor | None = None
    ) -> Values:
        """Apply the fold and all affine operations up to the next fold; return the values live after that.

        ``values`` does not change, except with ``consume=True``: then the dictionary is emptied and its tensors may be
        overwritten, which saves a copy of the pre-activations. The input of ``begin`` is never written to. noise:
        (..., units), added to the output of the fold in the last rows, as many as ``noise`` has; what follows
        adds its ``rounding`` there. pieces: (v, n_units), for a fold that jumps, the pieces of the rows; by default
        those of their values.
        """
        values, first = values if consume else dict(values), self.instructions[0]
        if pieces is not None:
            assert self.chosen is not None
            first = replace(first, function=partial(self.chosen, pieces=pieces), in_place=None)
            return _run((first, *self.instructions[1:]), values, consume=consume)
        if noise is None:
            return _run(self.instructions, values, consume=consume)
        first.run(values, consume)
        out = values[first.writes]
        n_perturbed = math.prod(noise.shape[:-1])
        last = out[len(out) - n_perturbed :]
        last += noise.reshape(last.shape)
        return _run(self.instructions[1:], values, consume=consume, n_perturbed=n_perturbed)

    def pattern(self, values: Values) -> Tensor:
        """(v, n_units) int8 or int16: the side or piece each unit is on (see ``Thresholds`` and ``Maxima``)."""
        return self.compared(values).pieces()


@dataclass(frozen=True, eq=False)
class Program:
    """A module as a piecewise-affine function of one input tensor, with weights copied at the time of tracing.

    Usage: ``values = program.begin(x)``; for each fold read ``fold.compared(values)``, then
    ``values = fold.advance(values)``; in the end ``program.outputs(values)``. The number of rows may change between
    folds as long as all live tensors change together.

    structure: structure of the module, if only its weights may change; see ``rebind``.
    note: sentence about what was left out of the module; empty if nothing was.
    classes: of an estimator, the class of each label.
    """

    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    folds: tuple[Fold, ...]
    row_bytes: int
    input_name: str
    output_name: str
    instructions: tuple[Instruction, ...]
    structure: Structure | None = None
    note: str = ""
    classes: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        units = sum(fold.n_units for fold in self.folds)
        shapes = f"input_shape={self.input_shape}, output_shape={self.output_shape}"
        return f"Program({shapes}, folds={len(self.folds)}, units={units}, dtype={self.dtype})"

    @property
    def jumps(self) -> bool:
        """Whether the function jumps at some of its folds; see ``trace(jumps=True)``."""
        return any(fold.chosen is not None for fold in self.folds)

    def require_continuous(self, who: str) -> None:
        """Raise ``InputError`` for a function that jumps. who: what needs a continuous one."""
        if self.jumps:
            name = next(fold.name for fold in self.folds if fold.chosen is not None)
            raise InputError(
                f"Expected a continuous network for {who}, got one that jumps at '{name}'. Its regions are those of "
                "linear_regions(model, slice, jumps=True)."
            )

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a row."""
        return math.prod(self.output_shape)

    @property
    def n_units(self) -> int:
        """Number of units over all folds."""
        return sum(fold.n_units for fold in self.folds)

    def begin(self, x: Tensor, *, n_perturbed: int = 0) -> Values:
        """Run all affine operations before the first fold on rows ``x``, (v, *input_shape); return the live values.

        n_perturbed: number of rows, the last ones, that are perturbed; operations add their ``rounding`` there.
        """
        return _run(self.instructions, {self.input_name: self._checked(x)}, n_perturbed=n_perturbed)

    def outputs(self, values: Values) -> Tensor:
        """(v, c): the outputs, flattened per row, once the last fold has advanced."""
        out = values[self.output_name]
        return out.reshape(out.shape[0], self.n_outputs)

    def __call__(self, x: Tensor) -> Tensor:
        """(v, c): the whole forward pass. Cost: that of the module itself."""
        values = self.begin(x)
        for fold in self.folds:
            values = fold.advance(values, consume=True)
        return self.outputs(values)

    def shortened(self, n_folds: int) -> Program:
        """The same function with only the first folds exposed; later ones run as part of the last exposed fold."""
        if n_folds == len(self.folds):
            return self
        rest = tuple(instruction for fold in self.folds[n_folds:] for instruction in fold.instructions)
        if n_folds == 0:
            return replace(self, folds=(), instructions=self.instructions + rest)
        *before, last = self.folds[:n_folds]
        return replace(self, folds=(*before, replace(last, instructions=last.instructions + rest)))

    def in_float64(self) -> Program:
        """The same function in float64, with the original constants."""
        if self.dtype == torch.float64:
            return self

        def widen(instruction: Instruction) -> Instruction:
            constants = (x.double() if x.is_floating_point() else x for x in instruction.constants)
            return replace(instruction, constants=tuple(constants))

        program = self.map_instructions(widen)
        folds = tuple(replace(fold, row_bytes=2 * fold.row_bytes) for fold in program.folds)
        return replace(program, dtype=torch.float64, row_bytes=2 * self.row_bytes, folds=folds)

    def can_rebind(self, model: nn.Module) -> bool:
        """Whether ``rebind`` accepts the model: it has only torch.nn layers, and differs from the original in its
        weights only.
        False if a constant is computed from weights, as when a BatchNorm is merged into the layer before it, or if an
        operation was chosen for weights unlike these: on a GPU, if kernels of a convolution have single zeros now.
        False too if the model has forward hooks, which ``trace`` checks.
        """
        if self.structure is None or not isinstance(model, nn.Module):
            return False
        if global_hooks() or any(map(has_hooks, model.modules())):
            return False
        inner = unwrapped(model)
        if structure_of(inner) != self.structure:
            return False
        weights = tensors_of(inner)
        return all(
            instruction.suits is None or instruction.suits(*(weights[name] for name in instruction.sources))
            for instruction in chain(self.instructions, *(fold.instructions for fold in self.folds))
        )

    def rebind(self, model: nn.Module) -> Program:
        """This program with a copy of the current weights of a model of the same structure.

        Faster than ``trace`` for a network that is measured repeatedly during training. Raises InputError if
        ``can_rebind`` is False; call ``trace`` then. Cost: a copy of the weights.
        """
        if not self.can_rebind(model):
            raise InputError(
                f"Expected a module that differs from the one that was read in its weights alone, got a "
                f"{type(model).__name__} with other layers, a forward of its own, layers that are merged, hooks, or "
                "kernels with single zeros. Read it with trace()."
            )
        weights = weights_of(unwrapped(model), self.dtype, self.device)

        def bind(instruction: Instruction) -> Instruction:
            if not any(instruction.sources):
                return instruction
            pairs = zip(instruction.sources, instruction.constants, strict=True)
            constants = (weights[name] if name else constant for name, constant in pairs)
            return replace(instruction, constants=tuple(constants))

        return self.map_instructions(bind)

    def map_instructions(self, change: Callable[[Instruction], Instruction]) -> Program:
        """The program with ``change`` applied to each instruction."""
        folds = tuple(replace(fold, instructions=tuple(map(change, fold.instructions))) for fold in self.folds)
        return replace(self, folds=folds, instructions=tuple(map(change, self.instructions)))

    def differentiable(self, x: Tensor) -> Tensor:
        """(v, c): the whole forward pass on rows of the program's dtype and device, open to autograd with respect to
        ``x``.
        """
        values = {self.input_name: x}
        for instructions in (self.instructions, *(fold.instructions for fold in self.folds)):
            for instruction in instructions:
                instruction.run(values, consume=False, pure=True)
        return self.outputs(values)

    def _checked(self, x: Tensor) -> Tensor:
        if tuple(x.shape[1:]) != self.input_shape or x.dim() == 0:
            expected = ", ".join(["v", *map(str, self.input_shape)])
            raise CallFailed(f"Expected inputs of shape ({expected}), got {tuple(x.shape)}. Reshape the inputs.")
        if not x.is_floating_point():
            raise InputError(f"Expected floating-point inputs, got {x.dtype}. Convert them with x.to({self.dtype}).")
        return x.detach().to(device=self.device, dtype=self.dtype)


# What a module consists of apart from the numbers in its weights.

Structure = tuple[tuple[Any, ...], ...]
_NO_SETTINGS = frozenset(("training", "name_or_path"))  # the second is the folder that Hugging Face read a model from
_NO_SETTINGS |= {"_is_hf_initialized", "_weight_conversions", "_use_kernels"}  # how Hugging Face read it
_NO_SETTINGS |= {"_compiled_call_impl", *vars(nn.Module())}
_PRINTED_TYPES = (int, float, str, tuple, list, torch.dtype, torch.device, type(None))


def only_torch(module: nn.Module) -> bool:
    """Whether all forwards are those of torch.nn, which use neither the time nor a counter of their own."""
    return all(type(m).__module__.startswith("torch.nn.") and "forward" not in vars(m) for m in module.modules())


def structure_of(module: nn.Module) -> Structure | None:
    """Names, types and settings of all layers, names and shapes of all weights; None for forwards of your own.

    Two modules of equal structure compute the same function of their input and their weights in eval mode.
    """
    if not only_torch(module):
        return None
    layers = [
        (path, kind.__module__, kind.__qualname__, *((key, _shown(value)) for key, value in settings.items()))
        for path, kind, settings in layers_of(module)
    ]
    tensors = chain(module.named_parameters(), module.named_buffers())
    return (*layers, *((name, tuple(tensor.shape)) for name, tensor in tensors))


def layers_of(module: nn.Module) -> Iterator[tuple[str, type[nn.Module], dict[str, Any]]]:
    """Path, type and settings of all layers."""
    for path, m in module.named_modules(remove_duplicate=False):
        names = (name for name in vars(m) if name not in _NO_SETTINGS and not name.startswith("_"))
        yield path, type(m), {name: vars(m)[name] for name in names}


def _shown(value: Any) -> str:
    if isinstance(value, _PRINTED_TYPES):
        return repr(value)
    return getattr(value, "__qualname__", type(value).__qualname__)
