"""Polytopes carried through a network: counts by brute force, by sampling, by the slow twin, and one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from regionscope.errors import CheckFailed
from regionscope.exact import polytopes as engine
from regionscope.exact.budget import Budget, Record, TooManyRegions
from regionscope.exact.polytopes import CellPartition, partition_cells
from regionscope.exact.zero_tolerance import zero_tolerances_of
from regionscope.geometry import Box, Simplex, Slice
from regionscope.geometry.polytope.complex import centres
from regionscope.geometry.polytope.cut import cut_along
from regionscope.geometry.polytope.faces import facets, volumes
from regionscope.network import Program, patterns, trace
from regionscope.tolerance import Tolerance
from small_slices import mlp
from twins.reference import reference_partition


@dataclass(frozen=True)
class Run:
    found: CellPartition
    record: Record


def run(program: Program, *slices: Slice, max_regions: int | None = None) -> Run:
    zero_tolerances = zero_tolerances_of(program, slices, Tolerance.of(program.dtype), Budget(1 << 30))
    record = Record.start(len(program.folds), len(slices), None)
    (found,) = partition_cells(program, slices, zero_tolerances, Budget(1 << 30, max_regions), record)
    return Run(found, record)


def cube(k: int, radius: float = 1.0) -> Box:
    return Box([0.0] * k, torch.eye(k), radius)


def prove(program: Program, slice: Slice, found: CellPartition) -> None:
    """Cells fill the slice, meet face to face, have one pattern each, and the network is affine on them."""
    cells, coords = found.cells, found.coords
    assert float(volumes(cells, coords).sum()) * slice.scale == pytest.approx(slice.size, rel=1e-10)
    around = facets(cells)
    assert torch.equal(around.cells[:, 1] < 0, around.wall < 0)
    middle = centres(cells, coords)
    assert len(patterns(program, slice.embed(middle)).unique(dim=0)) == cells.n_cells
    assert torch.allclose(program(slice.embed(coords)), found.outputs, atol=1e-12)
    assert torch.allclose(program(slice.embed(middle)), centres(cells, found.outputs), atol=1e-12)


def count_by_linear_programs(network: nn.Module, slice: Slice) -> int:
    """Activation patterns with an interior, by a linear program for each unit and each pattern so far."""
    linears = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    k = slice.dim
    nodes = [([(*slice.halfspaces,)], torch.eye(k).double(), torch.zeros(k).double())]
    for layer in linears[:-1]:
        following = []
        for limits, slope, constant in nodes:
            W, b = layer.weight.detach() @ slope, layer.weight.detach() @ constant + layer.bias.detach()
            branches: list[tuple[list[tuple[Tensor, Tensor]], list[float]]] = [(limits, [])]
            for w, c in zip(W, b, strict=True):
                branches = [
                    ([*rows, (-s * w[None], s * c[None])], [*signs, float(s > 0)])
                    for rows, signs in branches
                    for s in (1, -1)
                    if has_interior([*rows, (-s * w[None], s * c[None])])
                ]
            for rows, signs in branches:
                on = torch.tensor(signs).double()
                following.append((rows, on[:, None] * W, on * b))
        nodes = following
    return len(nodes)


def has_interior(rows: list[tuple[Tensor, Tensor]]) -> bool:
    A, b = (torch.cat(parts).numpy() for parts in zip(*rows, strict=True))
    norms = np.linalg.norm(A, axis=1, keepdims=True)
    k = A.shape[1]
    answer = linprog([0.0] * k + [-1.0], A_ub=np.hstack([A, norms]), b_ub=b, bounds=[(None, None)] * k + [(None, 1.0)])
    return answer.status == 0 and float(answer.x[-1]) > 1e-9


@pytest.mark.parametrize(
    ("k", "widths", "seed"),
    [(1, (4, 4), 0), (2, (4, 4), 1), (3, (4, 3), 2), pytest.param(4, (3, 3), 3, marks=pytest.mark.slow)],
)
def test_counts_by_linear_programs(k: int, widths: tuple[int, ...], seed: int) -> None:
    network, slice = mlp(k, *widths, 2, seed=seed).double(), cube(k)
    program = trace(network, (k,))
    found = run(program, slice).found
    assert found.cells.n_cells == count_by_linear_programs(network, slice)
    prove(program, slice, found)


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("k", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_the_slow_twin_agrees(k: int, bias: bool) -> None:
    widths = (6, 5) if k < 3 else (4, 4)
    program = trace(mlp(k, *widths, 2, seed=k, bias=bias).double(), (k,))
    corners = torch.cat([torch.zeros(1, k), torch.eye(k)]) - 0.3
    for slice in (cube(k), Simplex(corners)):
        answer, twin = run(program, slice), reference_partition(program, slice)
        assert answer.found.cells.n_cells == twin.n_activation_regions
        assert answer.record.counts[:, 0].tolist() == list(twin.by_layer.values())
        sizes = volumes(answer.found.cells, answer.found.coords) * slice.scale
        assert np.allclose(np.sort(sizes.numpy()), np.sort(twin.sizes), atol=1e-12)


def test_units_with_two_folds_and_maxima() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(3, 4), nn.Linear(4, 6), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = nn.functional.relu6(4 * self.first(x) + 3)
            return self.last(self.second(h).view(-1, 3, 2).amax(2))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        program = trace(Mixed().double(), (3,))
    answer, twin = run(program, cube(3)), reference_partition(program, cube(3))
    assert answer.found.cells.n_cells == twin.n_activation_regions > 20
    prove(program, cube(3), answer.found)


def test_a_limit_stops_at_the_layer_that_breaks_it() -> None:
    program = trace(mlp(3, 8, 8, 2).double(), (3,))
    first, second = run(program, cube(3)).record.counts[:, 0].tolist()
    assert run(program, cube(3), max_regions=second).found.cells.n_cells == second
    for limit, fold in ((second - 1, 1), (first, 1), (first - 1, 0), (1, 0)):
        with pytest.raises(TooManyRegions) as stopped:
            run(program, cube(3), max_regions=limit)
        assert stopped.value.fold == fold


def test_a_cut_that_rounding_spoils_is_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    true_cut = cut_along
    monkeypatch.setattr(engine, "cut_along", lambda *args, **kwargs: replace(true_cut(*args, **kwargs), unresolved=1))
    with pytest.raises(CheckFailed, match=r"fit a flat cut, got 1 region"):
        run(trace(mlp(3, 4, 2).double(), (3,)), cube(3))
