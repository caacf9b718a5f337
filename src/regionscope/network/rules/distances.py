"""Rules for the norms and distances that are piecewise affine: those of order 1 and infinity."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regionscope.network.operations import Fixed
from regionscope.network.record import Call, Data, rule
from regionscope.network.rules.activations import activated, extreme_along
from regionscope.network.rules.arithmetic import Operand, reduced_axis, row_dims, sum_of
from regionscope.network.rules.shapes import unsqueeze

_CURVED = "its order is {}; orders 1 and infinity are accepted"


def _norm(call: Call, x: Data, order: Any, dim: Any, keepdim: bool) -> Data:
    order = float(order) if isinstance(order, int | float) else math.inf if order == "inf" else 2.0
    if order not in (1.0, math.inf):
        call.refuse(_CURVED.format(f"{order:g}"))
    dims = row_dims(call, x, dim)
    sizes = activated(call, x, "abs")
    if order == math.inf:
        return extreme_along(call, sizes, dim, keepdim, largest=True)
    function = Fixed(torch.sum, ([d + 1 for d in dims], keepdim))
    return call.affine(function, sizes, axis=reduced_axis(x, dims, keepdim))


@rule(torch.norm, torch.Tensor.norm, any_axis=True, when="order 1 or infinity, along dimensions")
def _torch_norm(
    call: Call, x: Data, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None, out: None = None
) -> Data:
    call.check_real_dtype(dtype)
    return _norm(call, x, p, dim, keepdim)


@rule(torch.linalg.vector_norm, any_axis=True, when="order 1 or infinity, along dimensions")
def _vector_norm(
    call: Call, x: Data, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: None = None
) -> Data:
    call.check_real_dtype(dtype)
    return _norm(call, x, ord, dim, keepdim)


@rule(torch.linalg.norm, any_axis=True, when="order 1 or infinity, along dimensions")
def _linalg_norm(
    call: Call, x: Data, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: None = None
) -> Data:
    if isinstance(dim, list | tuple) and len(dim) > 1 and ord is not None:
        call.refuse("it is the norm of a matrix; torch.linalg.vector_norm is accepted")
    return _vector_norm(call, x, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@rule("pairwise_distance", data=("a", "b"), any_axis=True, when="order 1 or infinity")
def _pairwise_distance(
    call: Call, a: Operand, b: Operand, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Data:
    return _norm(call, sum_of(call, sum_of(call, a, b, -1.0), eps, 1.0), p, -1, keepdim)


@rule("cdist", data=("a", "b"), when="order 1 or infinity; one set of points is constant")
def _cdist(call: Call, a: Data | Tensor, b: Data | Tensor, p: float = 2.0, compute_mode: Any = None) -> Data:
    """Distances (v, n, m) between n and m points of each row."""
    columns, rows = (
        unsqueeze(call, x, dim) if isinstance(x, Data) else x.unsqueeze(dim) for x, dim in ((a, -2), (b, -3))
    )
    if isinstance(columns, Tensor) and columns.dim() < 4:
        columns = columns[None]
    return _norm(call, sum_of(call, columns, rows, -1.0), p, -1, False)


@rule("l1_loss", data=("a", "b"), any_axis=True, when='reduction="none"')
def _l1_loss(
    call: Call, a: Operand, b: Operand, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    weight: Any = None,
) -> Data:  # fmt: skip
    if reduction != "none" or reduce or size_average or weight is not None:
        call.refuse_row_mixing()
    return activated(call, sum_of(call, a, b, -1.0), "abs")
