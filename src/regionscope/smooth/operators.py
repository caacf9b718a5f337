"""Affine instructions, each as a linear map, the map with the absolute values of its coefficients, and a shift."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regionscope.certificate.matrices import terms_of
from regionscope.network.operations import Fixed
from regionscope.network.program import Instruction
from regionscope.network.rules.convolution import conv2d_by_product, conv2d_of_channels

_TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
_WEIGHTED = (
    F.linear, F.conv1d, F.conv2d, F.conv3d, *_TRANSPOSED, torch.matmul, conv2d_by_product, conv2d_of_channels
)  # fmt: skip
_AVERAGES = (
    F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d,
    torch.mean, torch.sum,
)  # fmt: skip
_DENSE_SHARE = 8  # a matrix in which more than one entry in 8 is not zero keeps its zeros


@dataclass(frozen=True, eq=False)
class AffineStep:
    """linear(*rows) + shift, where each input and the result have rows as their first dimension.

    absolute: the same with the absolute values of the coefficients. shift: (*shape) or None.
    terms: number of products that are summed in an entry; 0 if entries are only moved, so that nothing is rounded.
    """

    linear: Callable[..., Tensor]
    absolute: Callable[..., Tensor]
    shift: Tensor | None
    terms: int


def read_step(instruction: Instruction, zeros: Sequence[Tensor]) -> AffineStep:
    """The step of an affine instruction. zeros: one row of each of its inputs.

    Cost: a copy of the weights of a layer; for an operation without a case here, a row for each entry of its inputs.
    """
    constants = instruction.constants
    run = partial(_with_constants, instruction.function, constants)
    shift = run(*zeros)[0]
    kept = shift if bool(shift.any()) else None
    inner = _innermost(instruction.function)
    if inner in _WEIGHTED and len(zeros) == 1 and constants:
        weight = constants[0]
        linear, absolute = (partial(_with_constants, instruction.function, (w,)) for w in (weight, weight.abs()))
        outputs = -1 if inner is torch.matmul else int(inner in _TRANSPOSED)  # a dimension of the weight
        return AffineStep(linear, absolute, kept, max(1, weight.numel() // weight.shape[outputs]))
    if inner is torch.mul and len(zeros) == len(constants) == 1:
        return AffineStep(run, partial(_with_constants, instruction.function, (constants[0].abs(),)), None, 1)
    if inner in (torch.add, torch.sub) and len(zeros) == len(constants) == 1 and shift.shape == zeros[0].shape[1:]:
        return AffineStep(torch.clone, torch.clone, kept, 1)
    if inner in (torch.add, torch.sub) and len(zeros) == 2 and not constants:
        factor = getattr(instruction.function, "keywords", {}).get("alpha", 1)
        return AffineStep(run, partial(torch.add, alpha=abs(factor)), None, 2)
    if inner in _AVERAGES and kept is None:
        return AffineStep(run, run, None, max(1, sum(x.numel() for x in zeros) // max(1, shift.numel())) + 8)
    return _by_probing(run, list(zeros), shift, kept)


def _by_probing(run: Callable[..., Tensor], zeros: list[Tensor], shift: Tensor, kept: Tensor | None) -> AffineStep:
    """The step of any affine function, whose coefficients are read one column at a time."""
    names = [str(i) for i in range(len(zeros))]
    matrices = [matrix.sparse for _, matrix in terms_of(run, names, zeros)]
    terms = int(sum(abs(matrix).sign().sum(axis=1) for matrix in matrices).max(initial=0))
    if kept is None and all(matrix.nnz == 0 or matrix.data.min() > 0 for matrix in matrices):
        moved = terms <= 1 and all((matrix.data == 1).all() for matrix in matrices)
        return AffineStep(run, run, None, 0 if moved else terms)
    linear, absolute = (
        _written_out(some, zeros[0], shift) for some in (matrices, [abs(matrix) for matrix in matrices])
    )
    return AffineStep(run if kept is None else linear, absolute, kept, terms)


def _written_out(matrices: list[Any], row: Tensor, shift: Tensor) -> Callable[..., Tensor]:
    """The product with matrices, entry by entry where the only one is diagonal."""
    only, n = matrices[0], row.numel()
    if len(matrices) == 1 and row.shape[1:] == shift.shape and only.nnz == n and (only.indices == np.arange(n)).all():
        return partial(torch.mul, torch.from_numpy(only.data.copy()).to(row.device).reshape(shift.shape))
    return partial(_product, matrices=[_stored(matrix, row.device) for matrix in matrices], shape=tuple(shift.shape))


def _stored(matrix: Any, device: torch.device) -> Tensor:
    """A SciPy matrix (m, n) as a tensor (n, m), sparse where most entries are zero."""
    m, n = matrix.shape
    if matrix.nnz * _DENSE_SHARE > m * n:
        return torch.from_numpy(matrix.toarray().T.copy()).to(device)
    entries = matrix.tocoo()
    places = torch.stack([torch.from_numpy(entries.row), torch.from_numpy(entries.col)]).long()
    return (
        torch.sparse_coo_tensor(places, torch.from_numpy(entries.data), (m, n), check_invariants=False)
        .coalesce()
        .to(device)
    )


def _product(*rows: Tensor, matrices: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    total: Tensor | None = None
    for x, matrix in zip(rows, matrices, strict=True):
        flat = x.reshape(len(x), -1)
        term = torch.sparse.mm(matrix, flat.t()).t() if matrix.is_sparse else flat @ matrix
        total = term if total is None else total + term
    assert total is not None
    return total.reshape(-1, *shape)


def _with_constants(function: Callable[..., Tensor], constants: tuple[Tensor, ...], *inputs: Tensor) -> Tensor:
    return function(*inputs, *constants)


def _innermost(function: Any) -> Any:
    """The torch function inside partials and blocks of rows."""
    while isinstance(function, partial | Fixed):
        if isinstance(function, Fixed):
            function = function.function
        else:
            function = function.keywords.get("function", function.func)
    return function
