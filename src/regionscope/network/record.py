"""What a rule sees: ``Data`` for values that depend on the input, and the ``Call`` on which it records operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor, fx

from regionscope.errors import InputError, NotPiecewiseAffine, UntraceableModel
from regionscope.network import refuse
from regionscope.network.operations import Affine, Operation, Piecewise
from regionscope.network.private_copy import all_finite

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Data:
    """A value that depends on the input: at run time a tensor of shape (v, *shape).

    axis: where the user's code has the batch dimension; the program always keeps the rows in front.
    """

    name: str
    shape: tuple[int, ...]
    axis: int = 0

    @property
    def seen_shape(self) -> tuple[int, ...]:
        """The shape that the user's code sees for a batch of one."""
        return (*self.shape[: self.axis], 1, *self.shape[self.axis :])

    @property
    def ndim(self) -> int:
        """Number of dimensions with the batch."""
        return len(self.shape) + 1

    @property
    def numel(self) -> int:
        """Number of entries in one row."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pending(Data):
    """A value that no step computes. Rules that ``take`` its type say what becomes of it; ``refusal`` is raised by all
    others, and if the forward returns it.

    resolved: records it as a map that jumps, where jumps are allowed.
    """

    refusal: NotPiecewiseAffine
    resolved: Callable[[Any], Data] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice(Pending):
    """Entry by entry, ``above`` where ``compared > level`` and ``below`` elsewhere.

    closed: whether ``above`` holds where both are equal, too; middle: whether the mean of both sides does. level, above
    and below are values or constants, as the user's code has them. A comparison is 1 on one side and 0 on the other.
    """

    compared: Data
    level: Any
    closed: bool
    above: Any
    below: Any
    middle: bool = False

    @property
    def dtype(self) -> torch.dtype | None:
        """That of constant sides, where a comparison is true or false."""
        dtypes = {side.dtype if isinstance(side, Tensor | Choice) else None for side in (self.above, self.below)}
        return dtypes.pop() if len(dtypes) == 1 else None


@dataclass(frozen=True, eq=False)
class Refused:
    """A result that may be returned and dropped, but not used; ``reason`` is the sentence raised on use."""

    reason: str


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """An operation applied to values. ``label`` names a fold for the user."""

    operation: Operation
    inputs: tuple[Data, ...]
    output: Data
    label: str


@dataclass(eq=False)
class Recorder:
    """The steps recorded so far, in execution order.

    finite: address and length of tensors that were checked before. smooth: whether smooth functions are recorded too.
    jumps: whether maps that jump are. resolved: what became of values that do. model_dtype: that of the model's
        weights, which some of torch's defaults depend on.
    """

    dtype: torch.dtype
    device: torch.device
    model_dtype: torch.dtype = torch.float32
    steps: list[RecordedStep] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    finite: set[tuple[int, int]] = field(default_factory=set)
    smooth: bool = False
    jumps: bool = False
    resolved: dict[Pending, Data] = field(default_factory=dict)

    def with_jump(self, value: Pending) -> Data:
        """The value as a map that jumps, recorded once."""
        if value not in self.resolved:
            assert value.resolved is not None
            self.resolved[value] = value.resolved(value)
        return self.resolved[value]

    def unique(self, label: str) -> str:
        """``label``, or ``label#2``, ``label#3``... when it was used before."""
        candidate, count = label, 1
        while candidate in self.labels:
            count += 1
            candidate = f"{label}#{count}"
        self.labels.add(candidate)
        return candidate


@dataclass(eq=False)
class Call:
    """One function, method or layer call in the user's forward.

    node: its fx node. subject: how errors name the call ("'encoder.act' is GELU"). label: name of a fold here.
    kind: type of the module, such as "ReLU", or the name of a function that no module has.
    """

    recorder: Recorder
    node: fx.Node
    subject: str
    label: str
    kind: str
    input_shape: tuple[int, ...]
    results: int = 0

    def affine(
        self, function: Callable[..., Tensor], *inputs: Data, axis: int | None = None,
        shape: tuple[int, ...] | None = None, **options: Any,
    ) -> Data:  # fmt: skip
        """Record ``function(*inputs, *constants)``, an affine map; ``options`` are the fields of ``Affine``."""
        return self.record(Affine(function=function, **options), *inputs, axis=axis, shape=shape)

    def fold(
        self, function: Callable[..., Tensor], *inputs: Data, axis: int | None = None,
        shape: tuple[int, ...] | None = None, **options: Any,
    ) -> Data:  # fmt: skip
        """Record a piecewise-linear map; ``options`` are the fields of ``Piecewise``."""
        if options["n_units"] == 0:
            raise InputError(
                f"Expected folds with at least one unit, but {self.subject} and gets a value without entries. "
                "Leave this layer out."
            )
        return self.record(Piecewise(function=function, kind=self.kind, **options), *inputs, axis=axis, shape=shape)

    def record(
        self, operation: Operation, *inputs: Data, axis: int | None = None, shape: tuple[int, ...] | None = None
    ) -> Data:
        """Record ``operation``; the row ``shape`` of its result is found by trying it on zeros unless it is given."""
        for constant in operation.constants:
            known = (constant.data_ptr(), constant.numel()) in self.recorder.finite
            if not known and constant.is_floating_point() and not all_finite(constant):
                raise InputError(
                    f"Expected finite constants, but {self.subject} and uses one that holds NaN or infinity. "
                    "Check the weights."
                )
        shape = self._row_shape(operation, inputs) if shape is None else shape
        self.results += 1
        name = self.node.name if self.results == 1 else f"{self.node.name}.{self.results}"
        output = Data(name, shape, inputs[0].axis if axis is None else axis)
        label = self.recorder.unique(self.label) if isinstance(operation, Piecewise) else self.label
        self.recorder.steps.append(RecordedStep(operation, inputs, output, label))
        return output

    def _row_shape(self, operation: Operation, inputs: tuple[Data, ...]) -> tuple[int, ...]:
        """The shape of one row of the result, found by running it on two and on three rows of zeros."""
        shapes = []
        kind = {"dtype": self.recorder.dtype, "device": self.recorder.device}
        for rows in (2, 3):
            zeros = [torch.zeros((rows, *x.shape), **kind) for x in inputs]  # type: ignore[call-overload]
            try:
                shape = tuple(operation.function(*zeros, *operation.constants).shape)
            except (RuntimeError, ValueError, IndexError, TypeError) as error:
                self.refuse_shapes(str(error), *inputs)
            if not shape or shape[0] != rows:
                self.refuse_row_mixing()
            shapes.append(shape[1:])
        if shapes[0] != shapes[1]:
            self.refuse_row_mixing()
        return shapes[0]

    def constant(self, value: Tensor | float) -> Tensor:
        """``value`` as the program keeps it: detached, in its dtype, on its device."""
        kept = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64, device="cpu")
        if (kept.dtype, kept.device, kept.requires_grad) == (self.recorder.dtype, self.recorder.device, False):
            return kept
        return kept.detach().to(device=self.recorder.device, dtype=self.recorder.dtype)

    def number(self, value: Any) -> float:
        """``value`` as a finite Python number."""
        number = float(value)
        if not math.isfinite(number):
            raise InputError(
                f"Expected finite numbers, but {self.subject} and uses {number}. Check the arguments of the layer."
            )
        return number

    def check_real_dtype(self, dtype: torch.dtype | None) -> None:
        """Refuse a cast that does more than round: to whole numbers, truth values or complex numbers."""
        if dtype is not None and not dtype.is_floating_point:
            self.refuse("it makes complex numbers" if dtype.is_complex else "it jumps: it casts to whole numbers")

    def row_dim(self, x: Data, dim: int) -> int:
        """Dimension ``dim`` of the user's tensor as a dimension of ``x.shape``; the batch dimension is refused."""
        ndim = x.ndim
        if not -ndim <= dim < ndim:
            self.refuse_shapes(f"dimension {dim} is out of range for {ndim} dimensions", x)
        dim %= ndim
        if dim == x.axis:
            self.refuse_row_mixing()
        return dim - (dim > x.axis)

    def check_spatial_dims(self, x: Data, count: int) -> None:
        """Refuse a value that has not the shape (v, channels, *spatial) with ``count`` spatial dimensions."""
        if x.ndim != count + 2:
            advice = "Add the missing axis: x[None] for a single image." if x.ndim == count + 1 else ""
            self.refuse_shapes(f"it needs {count + 2} dimensions with the batch", x, advice=advice)

    def refusal(self, reason: str) -> NotPiecewiseAffine:
        """The error for a call that is not piecewise affine, with the reason in brackets and advice."""
        return NotPiecewiseAffine(refuse.not_affine(self.subject, reason))

    def refuse(self, reason: str) -> NoReturn:
        """Not piecewise affine, with the reason in brackets and advice."""
        raise self.refusal(reason)

    def refuse_product(self) -> NoReturn:
        """Two values that both depend on the input meet in a product or a quotient."""
        self.refuse(refuse.PRODUCT)

    def refuse_row_mixing(self) -> NoReturn:
        """The call works along the batch dimension."""
        raise UntraceableModel(refuse.mixes_rows(self.subject))

    def refuse_shapes(self, reason: str, *inputs: Data, advice: str = "") -> NoReturn:
        """Shapes do not fit together."""
        shapes = " and ".join("(" + ", ".join(["v", *map(str, x.shape)]) + ")" for x in inputs)
        raise InputError(refuse.misfit(self.subject, shapes, self.input_shape, reason, advice))


@dataclass(frozen=True)
class Rule:
    """How one torch function or tensor method is recorded.

    function: ``function(call, *args)`` with the arguments torch takes; tensors that depend on the input come as Data.
    data: the parameters that may depend on the input. view: the result shares memory with the first argument in torch.
    any_axis: the rule minds ``Data.axis``; all others expect the batch in front. may_copy: whether torch returns its
    argument or a copy of it depends on dtypes and on the layout in memory. takes: types of ``Pending`` values that the
    rule understands. sidewise: it works entry by entry, so that it may run on each side of a ``Choice``.
    when: what is accepted, for the page of networks that can be read; "" if all is.
    """

    function: Callable[..., Any]
    data: frozenset[str]
    view: bool
    any_axis: bool
    may_copy: bool = False
    takes: tuple[type[Pending], ...] = ()
    sidewise: bool = False
    when: str = ""


RULES: dict[object, Rule] = {}
"""All rules, keyed by name (for torch functions and tensor methods alike) or by the function itself."""


SMOOTH_RULES: dict[object, Rule] = {}
"""Rules of smooth functions, which come before ``RULES`` where smooth functions are recorded."""


def rule(
    *keys: object, data: Sequence[str] = ("x",), view: bool = False, any_axis: bool = False, may_copy: bool = False,
    takes: tuple[type[Pending], ...] = (), sidewise: bool = False, when: str = "",
    table: dict[object, Rule] = RULES,
) -> Callable[[Function], Function]:  # fmt: skip
    """Register a rule under its torch names. In-place forms (``relu_``, ``x += y``) need no rule of their own."""

    def register(function: Function) -> Function:
        for key in keys:
            table[key] = Rule(function, frozenset(data), view, any_axis, may_copy, takes, sidewise, when)
        return function

    return register
