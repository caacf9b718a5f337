"""Slices worked through together are handed out one by one: complete, in memory of their own, at a price for each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import regionscope as rs
from nasty.modules import mlp, seeded
from regionscope.exact.linear import BatchResult, exact_regions, program_of

NET = seeded(3, lambda: mlp([4, 10, 10, 3]))


def simplices(dim: int, n: int) -> list[rs.Simplex]:
    corners = torch.randn(n, dim + 1, 4, generator=torch.Generator().manual_seed(dim), dtype=torch.float64)
    return [rs.Simplex(each) for each in corners]


def regions_of(model: nn.Module, slices: list[rs.Simplex]) -> BatchResult:
    return exact_regions(
        program_of(model, slices), slices, max_regions=None, on_limit="raise", memory=None, tolerance=None,
        progress=None,
    )  # fmt: skip


@pytest.mark.parametrize("dim", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_each_slice_gets_what_it_has_alone(dim: int) -> None:
    model, slices = NET(), simplices(dim, 5)
    for together, slice in zip(rs.linear_regions(model, slices), slices, strict=True):
        together.check()
        alone = rs.linear_regions(model, slice)
        assert together.by_layer == alone.by_layer
        assert together.n_linear_regions == alone.n_linear_regions
        assert len(together.vertices) == len(alone.vertices)
        assert sorted(together.walls.layer.tolist()) == sorted(alone.walls.layer.tolist())
        assert torch.allclose(together.sizes.sort().values, alone.sizes.sort().values, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_one_partition_does_not_keep_the_others_alive(dim: int) -> None:
    for part in rs.linear_regions(NET(), simplices(dim, 4)):
        walls = vars(part.walls)
        for tensor in (part.vertices, part.outputs, part.corners, part.offsets, part.sizes, *walls.values()):
            assert tensor.untyped_storage().nbytes() == tensor.nbytes


class _Written(TorchDispatchMode):
    """Counts the elements that torch operations write."""

    elements = 0

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = op(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and not out._is_view():
            self.elements += out.numel()
        return out


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_more_slices_make_none_of_them_dearer(dim: int) -> None:
    per_region = []
    for n in (4, 32):
        result = regions_of(NET(), simplices(dim, n))
        with _Written() as written:
            parts = result.partitions()
        per_region.append(written.elements / sum(len(part) for part in parts))
    assert per_region[1] < 1.5 * per_region[0]
