"""Rules for arithmetic that is affine in its input: sums, products with constants, reductions."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.network.operations import Fixed
from regionscope.network.record import Call, Data, rule
from regionscope.network.rules.masks import masked

Operand = Data | Tensor | float | int


def aligned(call: Call, x: Data, value: Tensor | float) -> Tensor:
    """``value`` broadcast against the user's ``x``, laid out as the program keeps ``x``: rows first."""
    constant = call.constant(value)
    if constant.dim() == 0:
        return constant
    if constant.dim() > x.ndim:
        call.refuse_row_mixing()
    full = constant.reshape((1,) * (x.ndim - constant.dim()) + tuple(constant.shape))
    if full.shape[x.axis] != 1:
        call.refuse_row_mixing()
    return full.movedim(x.axis, 0)


def same_layout(call: Call, a: Data, b: Data) -> None:
    if a.ndim != b.ndim or a.axis != b.axis:
        call.refuse_row_mixing()


def sum_of(call: Call, a: Operand, b: Operand, factor: float) -> Any:
    """a + factor * b"""
    if isinstance(a, Data) and isinstance(b, Data):
        same_layout(call, a, b)
        shape = np.broadcast_shapes(a.shape, b.shape)
        in_place = partial(torch.Tensor.add_, alpha=factor) if a.shape == shape else None
        return call.affine(partial(torch.add, alpha=factor), a, b, shape=shape, in_place=in_place, entrywise=True)
    if isinstance(a, Data):
        if isinstance(b, Tensor):
            return call.affine(partial(torch.add, alpha=factor), a, constants=(aligned(call, a, b),), entrywise=True)
        shift = call.number(b) * factor
        return call.affine(Fixed(torch.add, (shift,)), a, entrywise=True) if shift else a
    assert isinstance(b, Data)
    if isinstance(a, Tensor):
        return call.affine(partial(_added_to, factor=factor), b, constants=(aligned(call, b, a),), entrywise=True)
    base = call.number(a)
    return call.affine(Fixed(_added_to, (base, factor)), b, entrywise=True) if base or factor != 1 else b


def _added_to(b: Tensor, a: Tensor | float, factor: float) -> Tensor:
    """a + factor * b"""
    if isinstance(a, Tensor):
        return torch.add(a, b, alpha=factor)
    return a + b if factor == 1 else a + factor * b


@rule("add", "radd", "__add__", "__radd__", "__iadd__", data=("a", "b"), any_axis=True, sidewise=True)
def _add(call: Call, a: Operand, b: Operand, alpha: float = 1) -> Any:
    return sum_of(call, a, b, call.number(alpha))


@rule("sub", "subtract", "__sub__", "__isub__", data=("a", "b"), any_axis=True, sidewise=True)
def _sub(call: Call, a: Operand, b: Operand, alpha: float = 1) -> Any:
    return sum_of(call, a, b, -call.number(alpha))


@rule("rsub", "__rsub__", data=("a", "b"), any_axis=True, sidewise=True)
def _rsub(call: Call, a: Operand, b: Operand, alpha: float = 1) -> Any:
    return sum_of(call, b, a, -call.number(alpha))


@rule(
    "mul", "multiply", "__mul__", "__rmul__", "__imul__", data=("a", "b"), any_axis=True, sidewise=True,
    when="one factor is a constant, or a comparison that makes no jump",
)  # fmt: skip
def _mul(call: Call, a: Operand, b: Operand) -> Any:
    if isinstance(a, Data) and isinstance(b, Data):
        same_layout(call, a, b)
        return masked(call, torch.mul, a, b, np.broadcast_shapes(a.shape, b.shape))
    x, factor = (a, b) if isinstance(a, Data) else (b, a)
    assert isinstance(x, Data)
    if isinstance(factor, Tensor):
        return call.affine(torch.mul, x, constants=(aligned(call, x, factor),), entrywise=True)
    scale = call.number(factor)
    return call.affine(Fixed(torch.mul, (scale,)), x, entrywise=True) if scale != 1 else x


@rule(
    "div", "divide", "true_divide", "truediv", "__truediv__", "__itruediv__",
    data=("a", "b"), any_axis=True, sidewise=True, when="the divisor is a constant",
)  # fmt: skip
def _div(call: Call, a: Operand, b: Operand, *, rounding_mode: str | None = None) -> Any:
    if isinstance(b, Data):
        call.refuse_product()
    if rounding_mode is not None:
        call.refuse("it rounds")
    assert isinstance(a, Data)
    if isinstance(b, Tensor):
        divisor = aligned(call, a, b)
        if bool((divisor == 0).any()):
            call.number(math.inf)
        return call.affine(torch.div, a, constants=(divisor,), entrywise=True)
    scale = call.number(b) if float(b) else call.number(math.inf)
    return call.affine(Fixed(torch.div, (scale,)), a, entrywise=True) if scale != 1 else a


@rule("neg", "negative", "__neg__", any_axis=True, sidewise=True)
def _neg(call: Call, x: Data) -> Data:
    return call.affine(torch.neg, x, entrywise=True)


@rule("pos", "positive", "__pos__", view=True, any_axis=True)
def _pos(call: Call, x: Data) -> Data:
    return x


@rule("lerp", data=("a", "b", "weight"), any_axis=True, when="the weight is a constant")
def _lerp(call: Call, a: Operand, b: Operand, weight: Operand) -> Any:
    """a + weight * (b - a)"""
    return sum_of(call, a, _mul(call, sum_of(call, b, a, -1.0), weight), 1.0)


@rule("addcmul", data=("x", "a", "b"), any_axis=True, when="one factor is a constant")
def _addcmul(call: Call, x: Operand, a: Operand, b: Operand, *, value: float = 1) -> Any:
    if not isinstance(a, Data) and not isinstance(b, Data):
        assert isinstance(a, Tensor)
        return sum_of(call, x, a * b, call.number(value))
    return sum_of(call, x, _mul(call, a, b), call.number(value))


@rule("addcdiv", data=("x", "a", "b"), any_axis=True, when="the divisor is a constant")
def _addcdiv(call: Call, x: Operand, a: Operand, b: Operand, *, value: float = 1) -> Any:
    if not isinstance(a, Data) and not isinstance(b, Data):
        assert isinstance(a, Tensor)
        return sum_of(call, x, a / b, call.number(value))
    return sum_of(call, x, _div(call, a, b), call.number(value))


@rule("matmul", "mm", "bmm", "__matmul__", "__rmatmul__", data=("a", "b"), when="one factor is a constant")
def _matmul(call: Call, a: Operand, b: Operand) -> Any:
    if isinstance(a, Data) and isinstance(b, Data):
        return masked(call, torch.matmul, a, b)
    if isinstance(a, Data):
        assert isinstance(b, Tensor)
        if b.dim() > 2 and (b.dim() > a.ndim or (b.dim() == a.ndim and b.shape[0] != 1)):
            call.refuse_row_mixing()
        return call.affine(torch.matmul, a, constants=(call.constant(b),))
    assert isinstance(b, Data)
    assert isinstance(a, Tensor)
    if b.ndim < 3 or a.dim() > b.ndim or (a.dim() == b.ndim and a.shape[0] != 1):
        call.refuse_row_mixing()
    return call.affine(_multiplied_from_the_left, b, constants=(call.constant(a),))


def _multiplied_from_the_left(b: Tensor, a: Tensor) -> Tensor:
    return torch.matmul(a, b)


@rule("addmm", when="the weight is a constant")
def _addmm(call: Call, bias: Tensor, x: Data, weight: Tensor, *, beta: float = 1, alpha: float = 1) -> Data:
    shift = aligned(call, x, call.constant(bias) * beta)
    return call.affine(_matmul_and_shift, x, constants=(call.constant(weight) * alpha, shift))


def _matmul_and_shift(x: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
    return torch.matmul(x, weight) + shift


@rule("einsum", data=("operands",), when="one operand depends on the input")
def _einsum(call: Call, equation: str, *operands: Any) -> Data:
    """Linear when exactly one operand is data, with the batch as its first index and that of the result."""
    flat = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else list(operands)
    terms, arrow, result = equation.replace(" ", "").partition("->")
    inputs = terms.split(",")
    places = [i for i, operand in enumerate(flat) if isinstance(operand, Data)]
    if places == [0, 1] == [*range(len(flat))]:
        return _product_of_rows(call, inputs, result if arrow else "", flat)
    if len(places) != 1:
        call.refuse_product()
    place = places[0]
    batch = "..." if inputs[place].startswith("...") else inputs[place][:1]
    others = [term for i, term in enumerate(inputs) if i != place]
    if not arrow or not result.startswith(batch) or any(batch in term for term in others):
        call.refuse_row_mixing()
    constants = tuple(call.constant(operand) for i, operand in enumerate(flat) if i != place)
    run = partial(_contracted, equation=equation, place=place)
    return call.affine(run, flat[place], constants=constants, memory="fresh" if constants else "view")


def _product_of_rows(call: Call, terms: list[str], result: str, operands: list[Any]) -> Data:
    """An einsum of two values whose first index is the batch, which the result has too."""
    first = {term[:1] for term in (*terms, result)}
    if len(first) > 1 or "." in first:
        call.refuse_product()
    return masked(call, partial(torch.einsum, f"{terms[0]},{terms[1]}->{result}"), *operands)


def _contracted(x: Tensor, *constants: Tensor, equation: str, place: int) -> Tensor:
    return torch.einsum(equation, *constants[:place], x, *constants[place:])


# sums


def row_dims(call: Call, x: Data, dim: Any) -> list[int]:
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        call.refuse_row_mixing()
    dims = dim if isinstance(dim, list | tuple) else [dim]
    return [call.row_dim(x, int(d)) for d in dims]


def reduced_axis(x: Data, dims: list[int], keepdim: bool) -> int:
    return x.axis if keepdim else x.axis - sum(d < x.axis for d in dims)


def _reduced(
    call: Call, x: Data, dim: Any = None, keepdim: bool = False, *, axis: Any = None, dtype: Any = None, function: Any
) -> Data:
    call.check_real_dtype(dtype)
    dims = row_dims(call, x, axis if dim is None else dim)
    physical = [d + 1 for d in dims]
    return call.affine(Fixed(function, (physical, keepdim)), x, axis=reduced_axis(x, dims, keepdim))


rule("sum", any_axis=True)(partial(_reduced, function=torch.sum))
rule("mean", any_axis=True)(partial(_reduced, function=torch.mean))


@rule("cumsum")
def _cumsum(call: Call, x: Data, dim: int, *, dtype: Any = None) -> Data:
    call.check_real_dtype(dtype)
    physical = call.row_dim(x, dim) + 1
    return call.affine(Fixed(torch.cumsum, (physical,)), x)


@rule("diff", when="without prepend and append")
def _diff(call: Call, x: Data, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Data:
    if prepend is not None or append is not None:
        call.refuse("it joins other values; join them with torch.cat first")
    return call.affine(Fixed(torch.diff, (n, call.row_dim(x, dim) + 1)), x)


@rule("_sparse_mm", data=("b",), any_axis=True)
def _sparse_matmul(call: Call, a: Tensor, b: Data) -> Data:
    """``torch.sparse.mm(a, x.t())`` for rows ``x`` (v, n): only the nonzero entries of ``a`` are stored."""
    if b.ndim != 2 or b.axis != 1:
        call.refuse_row_mixing()
    constants = (a.indices().to(call.recorder.device), call.constant(a.values()))
    return call.affine(Fixed(_times_sparse, (tuple(a.shape),)), b, axis=1, constants=constants)


def _times_sparse(x: Tensor, places: Tensor, entries: Tensor, shape: tuple[int, int]) -> Tensor:
    weight = torch.sparse_coo_tensor(places, entries, shape, is_coalesced=True, check_invariants=False)
    product: Tensor = torch.sparse.mm(weight, x.t())
    return product.t()
