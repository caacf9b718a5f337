"""The matrices of affine operations.

``LayerMatrix`` is a linear layer or a convolution, by its weights. ``Sparse`` has all nonzero entries. They are read
from the operation itself: on 2^900 times a unit vector an affine operation returns 2^900 times a column of its matrix,
because the shift is too small to be seen beside it; on zero it returns the shift. A layer is written out like that only
where integers need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import scipy
import torch
import torch.nn.functional as F
from torch import Tensor

from regionscope.errors import InputError, LimitReached
from regionscope.network.rules.convolution import conv2d_by_product, conv2d_of_channels
from regionscope.types import FloatArray, IntArray

_PROBE = 2.0**900
_LEAST_RATIO_TO_SHIFT = 2.0**60  # a probe's answer must be this much larger than the shift
_SMALLEST_CONSTANT = 2.0**-300  # of the constants that are accepted, so that products of two layers do not underflow
_BLOCK_ENTRIES = 1 << 22  # of a block of probes
_MOST_ENTRIES = 50_000_000  # numbers in a matrix that is written out


class Matrix(Protocol):
    """A constant matrix (m, n)."""

    @property
    def sparse(self) -> scipy.sparse.csr_array:
        """The nonzero entries."""

    @property
    def magnitudes(self) -> Matrix:
        """The absolute values."""

    @property
    def terms(self) -> IntArray:
        """The number of nonzero entries of each row (m,), at most."""

    @property
    def numbers(self) -> FloatArray:
        """The numbers that it is made of."""

    def with_numbers(self, numbers: FloatArray) -> Matrix:
        """A matrix with other numbers in the same places."""

    def __matmul__(self, columns: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class Sparse:
    """A matrix by its nonzero entries."""

    sparse: scipy.sparse.csr_array

    @cached_property
    def dense(self) -> FloatArray | None:
        """The matrix with its zeros, where they are few."""
        m, n = self.sparse.shape
        return self.sparse.toarray() if self.sparse.nnz * 8 > m * n else None

    @cached_property
    def magnitudes(self) -> Sparse:
        """The absolute values."""
        return Sparse(abs(self.sparse))

    @cached_property
    def terms(self) -> IntArray:
        """The number of nonzero entries of each row (m,)."""
        counts: IntArray = np.diff(self.sparse.indptr).astype(np.int64)
        return counts

    @property
    def numbers(self) -> FloatArray:
        """The nonzero entries."""
        data: FloatArray = self.sparse.data
        return data

    def with_numbers(self, numbers: FloatArray) -> Sparse:
        """A matrix with other numbers in the same places."""
        return Sparse(
            scipy.sparse.csr_array((numbers, self.sparse.indices, self.sparse.indptr), shape=self.sparse.shape)
        )

    def __matmul__(self, columns: FloatArray) -> FloatArray:
        product: FloatArray = (self.sparse if self.dense is None else self.dense) @ columns
        return product


@dataclass(frozen=True, eq=False)
class LayerMatrix:
    """A linear layer or a convolution. numbers: its weights. shape: of one row of its input."""

    function: Callable[[Tensor, Tensor], Tensor]
    numbers: FloatArray
    shape: tuple[int, ...]

    def _run(self, rows: Tensor) -> Tensor:
        return self.function(rows, torch.from_numpy(self.numbers))

    @cached_property
    def sparse(self) -> scipy.sparse.csr_array:
        """The nonzero entries."""
        if len(self.shape) == 1:
            _check_entries(self.numbers.size)
            return scipy.sparse.csr_array(self.numbers)
        row = torch.zeros(1, *self.shape, dtype=torch.float64, device="cpu")
        ((_, matrix),) = terms_of(self._run, ("",), (row,))
        return matrix.sparse

    @cached_property
    def magnitudes(self) -> LayerMatrix:
        """The absolute values."""
        return replace(self, numbers=np.abs(self.numbers))

    @cached_property
    def terms(self) -> IntArray:
        """The number of weights that an entry reads (m,)."""
        rows = self._run(torch.zeros(1, *self.shape, dtype=torch.float64, device="cpu")).numel()
        return np.full(rows, self.numbers[0].size)

    def with_numbers(self, numbers: FloatArray) -> LayerMatrix:
        """The same layer with other weights."""
        return replace(self, numbers=numbers)

    def __matmul__(self, columns: FloatArray) -> FloatArray:
        if len(self.shape) == 1:
            product: FloatArray = self.numbers @ columns
            return product
        rows = torch.from_numpy(np.ascontiguousarray(columns.reshape(len(columns), -1).T))
        found = flat(self._run(rows.reshape(-1, *self.shape)))
        return np.ascontiguousarray(found.T) if columns.ndim > 1 else found[0]


def whole_layer(
    function: Callable[..., Tensor], constants: Sequence[Tensor], reads: Sequence[Tensor]
) -> LayerMatrix | None:
    """The matrix of a linear layer or a convolution; None if the function is another."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.keywords.get("function", inner.func)
    linear = inner is F.linear and reads[0].dim() == 2
    convolutions = (F.conv1d, F.conv2d, F.conv3d, conv2d_by_product, conv2d_of_channels)
    if len(reads) != 1 or not (linear or inner in convolutions):
        return None
    weights = constants[0].double().cpu().numpy()
    _columns(_PROBE * weights, np.zeros(1))
    return LayerMatrix(function, weights, tuple(reads[0].shape[1:]))


def flat(rows: Tensor) -> FloatArray:
    """A tensor with one row of numbers for each row."""
    numbers: FloatArray = rows.reshape(len(rows), -1).double().cpu().numpy()
    return numbers


def terms_of(
    function: Callable[..., Tensor], names: Sequence[str], reads: Sequence[Tensor]
) -> Iterator[tuple[str, Sparse]]:
    """The matrix of an affine function for each of its inputs."""
    shift = flat(function(*reads))[0]
    for i, (name, row) in enumerate(zip(names, reads, strict=True)):
        n = row.numel()
        rows = max(1, _BLOCK_ENTRIES // max(1, n, len(shift)))
        blocks, entries = [], 0
        for start in range(0, n, rows):
            columns = torch.arange(start, min(n, start + rows), device=row.device)
            probe = torch.zeros(len(columns), n, dtype=torch.float64, device=row.device)
            probe[torch.arange(len(columns), device=row.device), columns] = _PROBE
            inputs = [
                probe.reshape(-1, *x.shape[1:]) if j == i else x.expand(len(columns), *x.shape[1:])
                for j, x in enumerate(reads)
            ]
            blocks.append(scipy.sparse.csr_array(_columns(flat(function(*inputs)), shift)))
            entries += blocks[-1].nnz
            _check_entries(entries)
        whole = scipy.sparse.vstack(blocks).T if blocks else (len(shift), 0)
        yield name, Sparse(scipy.sparse.csr_array(whole))


def _check_entries(entries: int) -> None:
    if entries > _MOST_ENTRIES:
        raise LimitReached(
            f"Expected layers with at most {_MOST_ENTRIES:,} weights between their entries, got at least {entries:,}. "
            "Integers need the matrix of each layer, where a convolution has its weights once for each position. "
            "Certify a network with smaller layers or smaller images."
        )


def _columns(answers: FloatArray, shift: FloatArray) -> FloatArray:
    """The columns of a matrix, from what the function returns on the probes."""
    nothing = answers == shift
    seen = np.abs(answers) >= np.maximum(_LEAST_RATIO_TO_SHIFT * np.abs(shift), _PROBE * _SMALLEST_CONSTANT)
    if not (np.isfinite(answers) & (nothing | seen)).all() or not np.isfinite(shift).all():
        raise InputError(
            "Expected constants that are zero or between 2^-300 and 2^100, got others. Rescale the network; a "
            "certificate needs numbers whose products do not underflow."
        )
    return np.where(nothing, 0.0, answers / _PROBE)
