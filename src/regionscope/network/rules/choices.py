"""Rules for comparisons: ``torch.where(z > 0, a, b)``, ``z * (z > 0)``, ``z.masked_fill(z < 0, 0)``.

A comparison is a ``Choice`` between true and false, and arithmetic with it runs on each side. As soon as the two sides
meet where the comparison changes, the choice is written with maxima and minima, as what it is: a continuous function.
With the sides a and b as functions of u, and the comparison u > t,

    where(u > t, a(u), b(u)) = a(max(u, t)) + b(min(u, t)) - b(t).

A choice whose sides do not meet jumps. It is refused when something else uses it.

Several comparisons, as in ``(u > 0) & (u < 1)``, are a choice whose side is a choice itself: where u > 0, whether
u < 1. Of one value, the comparison with the lowest level is the outer one; below that level, the others are known.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.network.operations import Affine, Jump, Largest, Rounded, Thresholds
from regionscope.network.record import RULES, Call, Choice, Data, Pending, RecordedStep, rule
from regionscope.network.rules.activations import activated, larger
from regionscope.network.rules.arithmetic import Operand, aligned, same_layout, sum_of
from regionscope.network.rules.indexing import index_select, is_empty, select
from regionscope.network.rules.shapes import reshaped
from regionscope.network.second_reading import named

_MEET = 1e-10  # of the values around the comparison: sides that differ by less than this meet
JUMPS = "it jumps"
WITH_JUMPS = "with `jumps=True`"
APART = "it jumps: its two sides do not meet where the comparison changes"
SEVERAL = "it jumps: it combines comparisons of different values"


def _compared(call: Call, a: Operand, b: Operand, *, greater: bool, closed: bool) -> Choice:
    """a > b or a < b; ``closed``: a >= b or a <= b."""
    if not isinstance(a, Data):
        a, b, greater = b, a, not greater
    assert isinstance(a, Data)
    sides = (torch.tensor(value, device=call.recorder.device) for value in (greater, not greater))
    test = Choice(
        "", a.shape, a.axis, refusal=call.refusal(JUMPS), compared=a, level=b, closed=closed == greater,
        above=None, below=None, resolved=partial(_jump, call),
    )  # fmt: skip
    return _with_sides(call, test, *sides)


for _names, _greater, _closed in (
    (("gt", "greater", "__gt__"), True, False),
    (("ge", "greater_equal", "__ge__"), True, True),
    (("lt", "less", "__lt__"), False, False),
    (("le", "less_equal", "__le__"), False, True),
):

    @rule(*_names, data=("a", "b"), any_axis=True, when="as a mask, where the result makes no jump")
    def _compare(call: Call, a: Operand, b: Operand, _greater: bool = _greater, _closed: bool = _closed) -> Choice:
        return _compared(call, a, b, greater=_greater, closed=_closed)


@rule("sign", "sgn", any_axis=True, when="as a factor, where the product makes no jump")
def _sign(call: Call, x: Data) -> Choice:
    """As a factor: at 0 it is 0, where the other factor of a continuous product is, too."""
    sides = (call.constant(value) for value in (1.0, -1.0))
    return _with_sides(call, replace(_compared(call, x, 0.0, greater=True, closed=False), middle=True), *sides)


@rule(
    "logical_not", "bitwise_not", "invert", "inv", "__invert__", takes=(Choice,), any_axis=True, when="of a comparison"
)
def _not(call: Call, x: Data) -> Any:
    if not isinstance(x, Choice):
        call.refuse(JUMPS)
    return _combined(call, torch.logical_not, x)


@rule(
    "logical_and",
    "bitwise_and",
    "and_",
    "__and__",
    data=("a", "b"),
    takes=(Choice,),
    any_axis=True,
    when="of comparisons of one value; of several with `jumps=True`",
)
def _and(call: Call, a: Any, b: Any) -> Any:
    return _combined(call, torch.logical_and, a, b)


@rule(
    "logical_or",
    "bitwise_or",
    "or_",
    "__or__",
    data=("a", "b"),
    takes=(Choice,),
    any_axis=True,
    when="of comparisons of one value; of several with `jumps=True`",
)
def _or(call: Call, a: Any, b: Any) -> Any:
    return _combined(call, torch.logical_or, a, b)


@rule(
    "logical_xor",
    "bitwise_xor",
    "xor",
    "__xor__",
    data=("a", "b"),
    takes=(Choice,),
    any_axis=True,
    when="of comparisons of one value; of several with `jumps=True`",
)
def _xor(call: Call, a: Any, b: Any) -> Any:
    return _combined(call, torch.logical_xor, a, b)


def _combined(call: Call, function: Callable[..., Tensor], *values: Any) -> Any:
    """A logical function of comparisons."""
    test = _first_test(call, values)
    if test is None:
        if any(isinstance(value, Data) for value in values):
            call.refuse(JUMPS)
        return function(*map(torch.as_tensor, values))
    above, below = (
        _combined(call, function, *(_on(test, value, side) for value in values)) for side in ("above", "below")
    )
    return _with_sides(call, test, above, below)


@rule("bool", takes=(Choice,), any_axis=True, when="of a comparison")
def _truth(call: Call, x: Data) -> Choice:
    if not isinstance(x, Choice):
        call.refuse(JUMPS)
    return x


@rule(
    "where",
    data=("condition", "a", "b"),
    takes=(Choice,),
    when="the mask is a constant, or a comparison whose two sides meet",
)
def where(call: Call, condition: Any, a: Any, b: Any) -> Any:
    """A fixed mask chooses between two values, or a comparison does."""
    test = _first_test(call, (condition, a, b))
    if test is not None:
        parts = ([_on(test, value, side) for value in (condition, a, b)] for side in ("above", "below"))
        return settled(call, test, *(where(call, *values) for values in parts))
    if isinstance(condition, Data):
        if not call.recorder.jumps:
            call.refuse("its condition depends on the input")
        opposite = sum_of(call, 1.0, condition, -1.0)
        return sum_of(call, _times(call, condition, a), _times(call, opposite, b), 1.0)
    data = a if isinstance(a, Data) else b
    if not isinstance(data, Data):
        return torch.where(condition, a, b)
    if condition.dim() == 0:
        return a if condition else b
    mask = aligned(call, data, condition).to(torch.bool)
    if isinstance(a, Data) and isinstance(b, Data):
        same_layout(call, a, b)
        return call.affine(_chosen, a, b, constants=(mask,), entrywise=True)
    if isinstance(a, Data):
        return call.affine(_chosen, a, constants=(aligned(call, data, b), mask), entrywise=True)
    return call.affine(_chosen, b, constants=(aligned(call, data, a), ~mask), entrywise=True)


def _times(call: Call, mask: Data, value: Any) -> Data:
    product: Data = RULES["mul"].function(call, mask, value)
    return product


def _chosen(a: Tensor, b: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, a, b)


@rule(
    "masked_fill",
    data=("x", "mask"),
    takes=(Choice,),
    when="the mask is a constant, or a comparison whose two sides meet",
)
def _masked_fill(call: Call, x: Data, mask: Any, value: Any) -> Any:
    return where(call, mask if isinstance(mask, Data) else mask.to(torch.bool), value, x)


# choices that jump


def _jump(call: Call, choice: Choice) -> Data:
    """The choice as a map that jumps where the comparison changes."""
    if choice.dtype is not None and any(isinstance(side, Choice) for side in (choice.above, choice.below)):
        return _jumps_together(call, choice)
    u = _margin(call, choice)
    data, constants, swapped = _parts(call, u, choice)
    return call.fold(
        partial(_chosen_side, swapped=swapped, closed=choice.closed, middle=choice.middle), u, *data,
        constants=constants, compare=partial(_above_zero, n=u.numel), n_units=u.numel,
        pieces=Jump(partial(_side_of_piece, swapped=swapped), constant=not data),
    )  # fmt: skip


def _margin(call: Call, choice: Choice) -> Data:
    """What is positive where the choice takes the side above."""
    if isinstance(choice.level, Data):
        margin: Data = sum_of(call, choice.compared, choice.level, -1.0)
        return margin
    if isinstance(choice.level, Tensor) or choice.level != 0:
        level = aligned(call, choice.compared, choice.level)
        return call.affine(torch.sub, choice.compared, constants=(level,), entrywise=True)
    return choice.compared


@dataclass(frozen=True)
class _Leaves:
    """Constants chosen by several comparisons, as a tree: the number of a constant, or (number of a comparison,
    closed, middle, above, below). shapes: of a row of what each comparison compares.
    """

    tree: Any
    shapes: tuple[tuple[int, ...], ...]

    def __call__(self, *arguments: Tensor) -> Tensor:
        margins, leaves = arguments[: len(self.shapes)], arguments[len(self.shapes) :]
        return self._of(self.tree, margins, leaves)

    def _of(self, tree: Any, margins: Sequence[Tensor], leaves: Sequence[Tensor]) -> Tensor:
        if isinstance(tree, int):
            return leaves[tree]
        test, closed, middle, *sides = tree
        above, below = (self._of(side, margins, leaves) for side in sides)
        return _chosen_side(margins[test], above, below, swapped=False, closed=closed, middle=middle)

    def on_pieces(self, *arguments: Tensor, pieces: Tensor) -> Tensor:
        """The constants on the sides of the margins that the pieces say."""
        leaves = arguments[len(self.shapes) :]
        signs = pieces.split([math.prod(shape) for shape in self.shapes], 1)
        sides = [2.0 * sign.reshape(-1, *shape) - 1 for sign, shape in zip(signs, self.shapes, strict=True)]
        return self._of(self.tree, sides, leaves).to(arguments[0].dtype)


def _jumps_together(call: Call, choice: Choice) -> Data:
    """Constants that several comparisons choose, as one map that jumps where any of them changes."""
    tests, leaves = list[Choice](), list[Tensor]()

    def tree_of(value: Any) -> Any:
        if not isinstance(value, Choice):
            leaves.append(call.constant(aligned(call, choice.compared, value)))
            return len(leaves) - 1
        number = next((i for i, test in enumerate(tests) if _same_test(test, value)), len(tests))
        if number == len(tests):
            tests.append(value)
        return number, value.closed, value.middle, tree_of(value.above), tree_of(value.below)

    tree = tree_of(choice)
    if any(type(test) is not Choice or test.axis != choice.axis for test in tests):
        call.refuse(SEVERAL)
    margins = [_margin(call, test) for test in tests]
    chosen = _Leaves(tree, tuple(margin.shape for margin in margins))
    return call.fold(
        chosen, *margins, constants=tuple(leaves), compare=partial(_above_zero_each, n=len(margins)),
        n_units=sum(margin.numel for margin in margins), pieces=Jump(chosen.on_pieces, constant=True),
    )  # fmt: skip


def _above_zero_each(*arguments: Tensor, n: int) -> Thresholds:
    return Thresholds(torch.cat([margin.reshape(len(margin), -1) for margin in arguments[:n]], 1), (0.0,))


def _parts(call: Call, u: Data, choice: Choice) -> tuple[tuple[Data, ...], tuple[Tensor, ...], bool]:
    """The sides that are data, those that are constants, and whether below stands first among both."""
    sides = [
        call.recorder.with_jump(side) if isinstance(side, Choice) else side for side in (choice.above, choice.below)
    ]
    sides = [side if isinstance(side, Data) else call.constant(aligned(call, u, side)) for side in sides]
    if any(side.axis != u.axis for side in sides if isinstance(side, Data)):
        call.refuse_row_mixing()
    data = tuple(side for side in sides if isinstance(side, Data))
    constants = tuple(side for side in sides if isinstance(side, Tensor))
    return data, constants, isinstance(sides[0], Tensor) and isinstance(sides[1], Data)


def _above_zero(u: Tensor, *_: Tensor, n: int) -> Thresholds:
    return Thresholds(u.reshape(len(u), n), (0.0,))


def _chosen_side(u: Tensor, first: Tensor, second: Tensor, *, swapped: bool, closed: bool, middle: bool) -> Tensor:
    above, below = (second, first) if swapped else (first, second)
    result = torch.where(u >= 0 if closed else u > 0, above, below)
    return torch.where(u == 0, (above + below) / 2, result) if middle else result


def _side_of_piece(u: Tensor, first: Tensor, second: Tensor, *, swapped: bool, pieces: Tensor) -> Tensor:
    above, below = (second, first) if swapped else (first, second)
    return torch.where(pieces.reshape(u.shape) > 0, above, below)


def _allowed(call: Call) -> None:
    if not call.recorder.jumps:
        call.refuse(JUMPS)


def _rounding_rule(name: str, function: Callable[[Tensor], Tensor], offset: float) -> None:
    @rule(name, when=WITH_JUMPS)
    def _round(call: Call, x: Data) -> Data:
        _allowed(call)
        compare = partial(_at_whole_numbers, n=x.numel, offset=offset, function=function)
        return call.fold(function, x, compare=compare, n_units=x.numel, pieces=Jump(_as_pieces, constant=True))


def _at_whole_numbers(x: Tensor, *, n: int, offset: float, function: Callable[[Tensor], Tensor]) -> Rounded:
    return Rounded.of(x.reshape(len(x), n), offset, function)


def _as_pieces(x: Tensor, *, pieces: Tensor) -> Tensor:
    return pieces.reshape(x.shape).to(x)


for _name, _function, _offset in (
    ("round", torch.round, 0.5), ("floor", torch.floor, 0.0), ("ceil", torch.ceil, 0.0), ("trunc", torch.trunc, 0.0),
):  # fmt: skip
    _rounding_rule(_name, _function, _offset)


# which entry is the largest, and the k largest


@dataclass(frozen=True, eq=False, kw_only=True)
class Winner(Choice):
    """A choice by whether entry ``level`` of the last dimension of ``compared`` is the largest."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Index(Pending):
    """The index of the largest entry of ``compared`` along its last dimension. keepdim: whether that stays."""

    compared: Data
    keepdim: bool


@rule("argmax", when=WITH_JUMPS)
def _argmax(call: Call, x: Data, dim: int | None = None, keepdim: bool = False) -> Index:
    _allowed(call)
    if dim is None or call.row_dim(x, dim) != len(x.shape) - 1:
        call.refuse("it jumps; along the last dimension it is accepted")
    shape = (*x.shape[:-1], 1) if keepdim else x.shape[:-1]
    return Index("", shape, x.axis, refusal=call.refusal(JUMPS), compared=x, keepdim=keepdim)


@dataclass(frozen=True, eq=False, kw_only=True)
class Top(Choice):
    """The ``level`` largest entries of ``compared`` along its last dimension: those of ``above`` in their places."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TopIndex(Pending):
    """The places of the k largest entries of ``compared`` along its last dimension."""

    compared: Data
    k: int


@dataclass(frozen=True, eq=False, kw_only=True)
class AmongTop(Pending):
    """Which of the k largest entries of ``compared`` is this ``entry``."""

    compared: Data
    k: int
    entry: int


@rule("eq", "__eq__", data=("a", "b"), takes=(Index, TopIndex), when=WITH_JUMPS)
def _is(call: Call, a: Any, b: Any) -> Winner | AmongTop:
    if isinstance(a, TopIndex) and not isinstance(b, Data):
        return AmongTop("", a.shape, a.axis, refusal=a.refusal, compared=a.compared, k=a.k, entry=int(b))
    if not isinstance(a, Index) or isinstance(b, Data):
        call.refuse(JUMPS)
    return Winner(
        "", a.shape, a.axis, refusal=a.refusal, compared=a.compared, level=int(b), closed=False,
        above=torch.tensor(True, device="cpu"), below=torch.tensor(False, device="cpu"),
        resolved=partial(_jump_of_winner, call, a),
    )  # fmt: skip


@rule("any", takes=(AmongTop,), when="with `jumps=True`, whether an entry is among the k largest")
def _any(call: Call, x: Data, dim: int | None = None, keepdim: bool = False) -> Data:
    if not isinstance(x, AmongTop) or dim not in (-1, len(x.shape)):
        call.refuse(JUMPS)
    place = [x.entry] if keepdim else x.entry
    mask = kept(call, x.compared, x.k, None)
    return (
        select(call, mask, -1, x.entry) if isinstance(place, int) else index_select(call, mask, -1, torch.tensor(place))
    )


def top(call: Call, x: Data, k: int, values: Callable[[], Data]) -> tuple[Top, TopIndex]:
    """What ``torch.topk`` returns. values: records the values alone, which do not jump."""
    shape = (*x.shape[:-1], k)
    refusal = call.refusal(JUMPS)
    entries = Top(
        "", shape, x.axis, refusal=refusal, compared=x, level=k, closed=False, above=x,
        below=torch.tensor(0.0, device="cpu"),
        resolved=lambda top: values() if top.above is x else _refused(call),
    )  # fmt: skip
    return entries, TopIndex("", shape, x.axis, refusal=refusal, compared=x, k=k)


def _refused(call: Call) -> Data:
    call.refuse("of a function of the largest values; scatter them to their indices")


@rule("scatter", data=("x", "index", "src"), takes=(Top, TopIndex), when=WITH_JUMPS)
def _scatter(call: Call, x: Any, dim: int, index: Any, src: Any) -> Data:
    """The largest entries in their places, and zeros elsewhere, as in a sparse autoencoder."""
    _allowed(call)
    if isinstance(index, TopIndex) and not isinstance(src, Data) and dim in (-1, len(index.shape)):
        number = float(src) if not isinstance(src, Tensor) or src.numel() == 1 else math.nan
        if math.isfinite(number) and (is_empty(call, x) if isinstance(x, Data) else not bool(x.any())):
            return _times(call, kept(call, index.compared, index.k, None), number)
    same = isinstance(index, TopIndex) and isinstance(src, Top) and src.compared is index.compared
    empty = is_empty(call, x) if isinstance(x, Data) else not bool(x.any())
    if not same or dim not in (-1, len(src.compared.shape)) or not empty:
        call.refuse("it jumps; of topk, into zeros and along the last dimension, it is accepted")
    x, above = src.compared, src.above
    base, source = _before_relu(call, x), _before_relu(call, above)
    if base is None and source is not None and source is x:
        return activated(call, kept(call, x, index.k, x), "relu")
    if base is not None and above is x:
        return activated(call, kept(call, base, index.k, base), "relu")
    return kept(call, x, index.k, above)


def _before_relu(call: Call, x: Data) -> Data | None:
    """What x is the ReLU of; it can be taken of the k largest entries alone, since it keeps their order and zeros."""
    step = _made_by(call).get(x)
    return step.inputs[0] if step is not None and step.operation.function is torch.relu else None


@rule("one_hot", takes=(Index,), when=WITH_JUMPS)
def _one_hot(call: Call, x: Data, num_classes: int = -1) -> Data:
    """As floating-point numbers; torch returns whole ones."""
    _allowed(call)
    if not isinstance(x, Index) or x.keepdim or num_classes not in (-1, x.compared.shape[-1]):
        call.refuse("it jumps; of an argmax, with as many classes as entries, it is accepted")
    return kept(call, x.compared, 1, None, first=True)


def _jump_of_winner(call: Call, index: Index, choice: Choice) -> Data:
    x = index.compared
    mask = select(call, kept(call, x, 1, None, first=True), -1, choice.level)
    mask = reshaped(call, mask, (*x.shape[:-1], 1)) if index.keepdim else mask
    return _jump(call, replace(choice, compared=mask, level=0.5))


def kept(call: Call, x: Data, k: int, source: Data | None, *, first: bool = False) -> Data:
    """Along the last dimension, ``source`` where x is one of its k largest, else 0; a source of None is 1.

    first: of equal ones the first is the largest, as for ``argmax``; else as for ``topk``.
    """
    m = x.shape[-1]
    groups = torch.arange(x.numel, device=call.recorder.device).reshape(-1, m)
    inputs = (x,) if source is None else (x, source)
    return call.fold(
        partial(_keep, k=k, first=first), *inputs, constants=(groups,), compare=partial(_largest, k=k), n_units=x.numel,
        pieces=Jump(_keep_pieces, constant=source is None),
    )  # fmt: skip


def _largest(x: Tensor, *rest: Tensor, k: int) -> Largest:
    return Largest(x.flatten(1), rest[-1], k)


def _keep(x: Tensor, *rest: Tensor, k: int, first: bool) -> Tensor:
    largest = x.argmax(-1, keepdim=True) if first else x.topk(k, dim=-1).indices
    mask = torch.zeros_like(x).scatter_(-1, largest, 1.0)
    return mask if len(rest) == 1 else torch.where(mask > 0, rest[0], 0.0)


def _keep_pieces(x: Tensor, *rest: Tensor, pieces: Tensor) -> Tensor:
    mask = pieces.reshape(x.shape)
    return mask.to(x) if len(rest) == 1 else torch.where(mask > 0, rest[0], 0.0)


# the two sides of a choice


def on_sides(call: Call, function: Callable[..., Any], bound: inspect.BoundArguments) -> Data:
    """An entrywise rule on each side of the choices among its arguments."""
    if call.recorder.jumps:
        first = next(value for value in bound.arguments.values() if isinstance(value, Choice))
        for name, value in bound.arguments.items():
            if isinstance(value, Choice) and not _same_value(first, value):
                bound.arguments[name] = call.recorder.with_jump(value)
    result: Data = _on_sides(call, function, list(bound.args[1:]), dict(bound.kwargs))
    return result


def _on_sides(call: Call, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    values = (*args, *kwargs.values())
    test = _first_test(call, values)
    if test is None:
        data = any(isinstance(value, Data) for value in values)
        return function(call, *args, **kwargs) if data else _of_constants(call, args, kwargs)
    sides = (
        _on_sides(
            call, function, [_on(test, value, side) for value in args],
            {name: _on(test, value, side) for name, value in kwargs.items()},
        )
        for side in ("above", "below")
    )  # fmt: skip
    return settled(call, test, *sides)


def _first_test(call: Call, values: Iterable[Any]) -> Choice | None:
    """The outermost comparison of the choices among these values."""
    choices = [value for value in values if isinstance(value, Choice)]
    for choice in choices[1:]:
        if not _same_value(choices[0], choice) and not call.recorder.jumps:
            call.refuse(SEVERAL)
    first = choices[0] if choices else None
    for choice in choices[1:]:
        first = choice if first is not None and _above(choice, first) else first
    return first


def _on(test: Choice, value: Any, side: str) -> Any:
    """The value on one side of a comparison; there, comparisons of the same value at higher levels may be known."""
    if not isinstance(value, Choice):
        return value
    if _same_test(test, value):
        return getattr(value, side)
    if side == "below" and _above(test, value):
        return _on(test, value.below, side)
    return replace(value, above=_on(test, value.above, side), below=_on(test, value.below, side))


def _same_value(a: Choice, b: Choice) -> bool:
    """Whether both compare one value with constants, or are the same comparison."""
    constant = not isinstance(a.level, Data) and not isinstance(b.level, Data)
    return type(a) is type(b) and a.compared is b.compared and (_same_test(a, b) or (constant and type(a) is Choice))


def _same_test(a: Choice, b: Choice) -> bool:
    if type(a) is not type(b) or a.compared is not b.compared:
        return False
    numbers = not isinstance(a.level, Data | Tensor) and not isinstance(b.level, Data | Tensor)
    return a.level is b.level or (numbers and bool(a.level == b.level))


def _above(low: Choice, high: Choice) -> bool:
    """Whether the second one compares the same value with higher numbers, entry by entry."""
    if not _same_value(low, high) or _same_test(low, high):
        return False
    return bool((torch.as_tensor(high.level) > torch.as_tensor(low.level)).all())


def _of_constants(call: Call, args: list[Any], kwargs: dict[str, Any]) -> Tensor:
    """The call itself, on a side that does not depend on the input."""
    target = call.node.target
    function = getattr(torch.Tensor, target) if isinstance(target, str) else target
    result: Tensor = function(*args, **kwargs)
    return result


def _with_sides(call: Call, test: Choice, above: Any, below: Any) -> Choice:
    """The choice between other sides. Between constants it is still refused as the comparison that it comes from."""
    if isinstance(test, Top):
        return replace(test, above=above, below=below)
    parts = [value for value in (test.level, above, below) if isinstance(value, Data | Tensor)]
    whole = test.shape if isinstance(test, Winner) else test.compared.shape
    rows = [part.shape if isinstance(part, Data) else aligned(call, test.compared, part).shape[1:] for part in parts]
    shape = np.broadcast_shapes(whole, *rows)
    if any(isinstance(part, Data) and (part.ndim, part.axis) != (test.ndim, test.axis) for part in parts):
        call.refuse_row_mixing()
    refusal = call.refusal(APART) if isinstance(above, Data) or isinstance(below, Data) else test.refusal
    resolved = test.resolved if isinstance(test, Winner) else partial(_jump, call)
    return replace(test, shape=tuple(shape), above=above, below=below, refusal=refusal, resolved=resolved)


# sides that meet


def settled(call: Call, test: Choice, above: Any, below: Any) -> Data:
    """The choice between two sides as a continuous function if they meet, else as a choice."""
    choice = _with_sides(call, test, above, below)
    if isinstance(test, Winner | Top) or not any(isinstance(side, Data) for side in (above, below)):
        return choice
    if isinstance(test.level, Data):
        pair, swapped = (test.compared, test.level), (test.level, test.compared)
        for (a, b), largest in ((pair, True), (swapped, False)):
            if _same(call, above, a) and _same(call, below, b):
                return larger(call, a, b, largest=largest)
        compared = sum_of(call, *pair, -1.0)
        compared = next(step.output for step in call.recorder.steps if _same(call, step.output, compared))
        level = call.constant(0.0)
    else:
        compared, level = test.compared, aligned(call, test.compared, test.level)
    for base, threshold, flipped in _bases(call, compared, level):
        function = _Sides.of(call, base, threshold, *((below, above) if flipped else (above, below)))
        if function is not None and function.meet():
            return function.recorded()
    return choice


def _bases(call: Call, compared: Data, level: Tensor) -> list[tuple[Data, Tensor, bool]]:
    """Values of which ``compared`` is an increasing or decreasing affine function entry by entry: each with its number
    where ``compared`` is ``level``, and whether it decreases.
    """
    bases, x, steps = [(compared, level, False)], compared, _made_by(call)
    while (step := steps.get(x)) is not None:
        x = step.inputs[0]
        if len(step.inputs) > 1 or not _is_entrywise(step, x) or not isinstance(step.operation, Affine):
            break
        at_zero, at_one = (_run(call, x, compared, value) for value in (0.0, 1.0))
        slope = at_one - at_zero
        if bool((slope > 0).all()) or bool((slope < 0).all()):
            bases.append((x, (level - at_zero) / slope, bool((slope < 0).all())))
    return bases


class _Sides:
    """What is chosen above and below a threshold of ``base``, each as the steps from there or as a constant."""

    def __init__(self, call: Call, base: Data, threshold: Tensor, sides: tuple[Any, Any], steps: Any) -> None:
        self.call, self.base, self.threshold, self.sides, self.steps = call, base, threshold, sides, steps

    @classmethod
    def of(cls, call: Call, base: Data, threshold: Tensor, above: Any, below: Any) -> _Sides | None:
        """None if a side depends on something else than the same entry of ``base``."""
        steps = [_steps(call, base, side) if isinstance(side, Data) else [] for side in (above, below)]
        if any(path is None for path in steps):
            return None
        sides = [side if isinstance(side, Data) else aligned(call, base, side) for side in (above, below)]
        parts = [threshold, *(side for side in sides if isinstance(side, Tensor))]
        if np.broadcast_shapes(base.shape, *(part.shape[1:] for part in parts)) != base.shape:
            return None
        return cls(call, base, threshold, (sides[0], sides[1]), steps)

    def at(self, side: int, rows: Tensor | float) -> Tensor:
        value = self.sides[side]
        return value if isinstance(value, Tensor) else _run(self.call, self.base, value, rows)

    def meet(self) -> bool:
        """Whether both sides have the same value at the threshold, up to rounding."""
        around = [self.at(side, self.threshold + step) for side in (0, 1) for step in (-1.0, 1.0)]
        size = max([float(part.abs().max()) for part in (*around, self.threshold)])
        return bool(((self.at(0, self.threshold) - self.at(1, self.threshold)).abs() <= _MEET * size).all())

    def recorded(self) -> Data:
        """The function as operations; slopes that meet in 0 are one leaky ReLU."""
        call, base, threshold = self.call, self.base, self.threshold
        affine = all(isinstance(step.operation, Affine) for step in chain(*self.steps))
        at_zero = [self.at(side, 0.0) for side in (0, 1)]
        if affine and not any(bool(part.any()) for part in (threshold, *at_zero)):
            above, below = (self.at(side, 1.0) for side in (0, 1))
            slope = float(below.flatten()[0])
            if bool((above == 1).all()) and bool((below == slope).all()):
                name = {0.0: "relu", -1.0: "abs"}.get(slope)
                return activated(call, base, name) if name else activated(call, base, "leaky_relu", slope)
        parts = []
        limit = threshold.movedim(0, base.axis) if threshold.dim() else threshold
        for side, largest in ((0, True), (1, False)):
            if not isinstance(self.sides[side], Tensor):
                parts.append(self._replayed(side, larger(call, base, limit, largest=largest)))
        if len(parts) == 1:
            return parts[0]
        middle = self.at(1, threshold).movedim(0, base.axis)
        total: Data = sum_of(call, sum_of(call, parts[0], parts[1], 1.0), middle, -1.0)
        return total

    def _replayed(self, side: int, base: Data) -> Data:
        """The steps of a side, from another value than the one they were recorded with."""
        values = {self.base: base}
        for step in self.steps[side]:
            inputs = [values[x] for x in step.inputs]
            values[step.output] = self.call.record(step.operation, *inputs, shape=step.output.shape)
        return values[self.sides[side]]


def _same(call: Call, a: Any, b: Any) -> bool:
    """Whether two values come from the same operations on the same values."""
    if a is b or not (isinstance(a, Data) and isinstance(b, Data)):
        return a is b
    steps = _made_by(call)
    if a not in steps or b not in steps:
        return False
    (first, second), constants = (steps[a], steps[b]), [steps[x].operation.constants for x in (a, b)]
    return (
        (a.shape, a.axis, len(first.inputs), len(constants[0]))
        == (b.shape, b.axis, len(second.inputs), len(constants[1]))
        and named(first.operation.function) == named(second.operation.function)
        and all(torch.equal(x, y) for x, y in zip(*constants, strict=True))
        and all(_same(call, x, y) for x, y in zip(first.inputs, second.inputs, strict=True))
    )


def _made_by(call: Call) -> dict[Data, RecordedStep]:
    return {step.output: step for step in call.recorder.steps}


def _is_entrywise(step: RecordedStep, base: Data) -> bool:
    same = all((x.shape, x.axis) == (base.shape, base.axis) for x in (step.output, *step.inputs))
    return step.operation.entrywise and same


def _steps(call: Call, base: Data, value: Data) -> list[RecordedStep] | None:
    """The steps from ``base`` to ``value``; None if they are not entry by entry or read something else."""
    wanted, path = {value}, []
    for step in reversed(call.recorder.steps):
        if step.output in wanted and step.output is not base:
            if not _is_entrywise(step, base):
                return None
            wanted.remove(step.output)
            wanted.update(step.inputs)
            path.append(step)
    return path[::-1] if wanted == {base} else None


def _run(call: Call, base: Data, value: Data, rows: Tensor | float) -> Tensor:
    """``value`` (1, *shape) where ``base`` is these numbers."""
    kind = {"dtype": call.recorder.dtype, "device": call.recorder.device}
    values: dict[Data, Tensor] = {base: torch.zeros((1, *base.shape), **kind) + rows}  # type: ignore[call-overload]
    for step in _steps(call, base, value) or ():
        values[step.output] = step.operation.function(*(values[x] for x in step.inputs), *step.operation.constants)
    return values[value]
