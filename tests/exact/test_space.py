"""Cells in space, cut by all units of a layer at once, against the polytopes, the slow twin and each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from compare_space import CUBE, KINDS, MAXIMA, TETRAHEDRON, compare, network, unit_by_unit
from regionscope.exact import space as engine
from regionscope.exact.budget import Budget, Record, shares_of_folds
from regionscope.exact.polytopes import partition_cells
from regionscope.exact.region_batch import RegionBatch
from regionscope.exact.space import SpacePartition, partition_space
from regionscope.exact.zero_tolerance import zero_tolerances_of
from regionscope.geometry import Box, Slice
from regionscope.geometry.polytope.complex import centres
from regionscope.geometry.polytope.faces import facets
from regionscope.geometry.ragged import owners
from regionscope.geometry.spatial.cut import _HalfFaces
from regionscope.geometry.spatial.faces import Curves, Unresolved
from regionscope.geometry.spatial.sections import linked
from regionscope.network import Program, Values, patterns, trace
from regionscope.tolerance import Tolerance
from twins.reference import reference_partition


def run(program: Program, *slices: Slice, max_regions: int | None = None) -> tuple[SpacePartition, Record]:
    zero_tolerances = zero_tolerances_of(program, slices, Tolerance.of(program.dtype), Budget(1 << 30))
    record = Record.start(len(program.folds), len(slices), None)
    (found,) = partition_space(program, slices, zero_tolerances, Budget(1 << 30, max_regions), record)
    assert isinstance(found, SpacePartition)  # no unit had to be cut by itself
    return found, record


def sizes(found: SpacePartition) -> Tensor:
    corners, offsets = found.solids.cell_corners()
    return found.solids.volumes(found.coords, corners[offsets[:-1]])


def prove(program: Program, slice: Slice, found: SpacePartition) -> None:
    """Cells fill the slice, meet face to face, have one pattern each, and the network is affine on them."""
    solids, coords = found.solids, found.coords
    assert float(sizes(found).sum()) * slice.scale == pytest.approx(slice.size, rel=1e-10)
    cells = solids.as_complex()
    around = facets(cells)
    assert len(around.wall) == solids.n_faces  # as sets of vertices, every face is there once
    assert torch.equal(solids.cells[:, 1] < 0, solids.wall < 0)
    middle = centres(cells, coords)
    signs = patterns(program, slice.embed(middle))
    assert len(signs.unique(dim=0)) == solids.n_cells
    inner = solids.wall >= 0
    differ = signs[solids.cells[inner, 0]] != signs[solids.cells[inner, 1]]
    assert bool(differ.gather(1, solids.wall[inner, None]).all())  # the unit of a wall changes its side there
    assert torch.allclose(program(slice.embed(coords)), found.outputs, atol=1e-11)
    assert torch.allclose(program(slice.embed(middle)), centres(cells, found.outputs), atol=1e-11)


@pytest.mark.parametrize("kind", [*KINDS, *MAXIMA[:-1], pytest.param(MAXIMA[-1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_as_one_unit_after_another(kind: str, seed: int) -> None:
    slice: Slice = TETRAHEDRON if seed % 2 else CUBE
    program = trace(network(kind, seed), (3,))
    found, record = run(program, slice)
    prove(program, slice, found)
    other = unit_by_unit(program, slice)
    assert record.counts[:, 0].tolist() == list(other.by_layer.values())
    assert torch.allclose(slice.scale * sizes(found).sort().values, other.sizes.sort().values, atol=1e-13)


@pytest.mark.parametrize(
    "seed", [18, 25, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (226, *range(200, 216)))]
)
def test_the_slow_twin_agrees(seed: int) -> None:
    row = compare(seed, twin=60)
    assert row["same"]
    assert row["given_up"] == 0


@pytest.mark.parametrize(
    ("kind", "seed", "depth", "noise"), [("whole numbers", 149, 2, 3.66354e-12), ("halves", 182, 3, 1.77195e-12)]
)
def test_planes_that_rounding_can_hardly_tell_apart(kind: str, seed: int, depth: int, noise: float) -> None:
    """Planes through common points and lines, moved by about as much as counts as zero."""
    model, generator = network(kind, seed, depth=depth, width=3), torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for weights in model.parameters():
            weights += noise * torch.randn(weights.shape, generator=generator, dtype=weights.dtype)
    program = trace(model, (3,))
    found, record = run(program, CUBE if seed % 3 else TETRAHEDRON)
    other = unit_by_unit(program, CUBE if seed % 3 else TETRAHEDRON)
    assert record.counts[:, 0].tolist() == list(other.by_layer.values())
    assert float((CUBE.scale * sizes(found).sort().values - other.sizes.sort().values).abs().max()) < 1e-9


@pytest.mark.parametrize(("seed", "noise"), [(4, 1e-12), (6, 1e-11), (28, 1e-11)])
def test_slivers_that_are_no_polytopes(seed: int, noise: float) -> None:
    """A vertex of a sliver between near copies lies on two of its faces only. Another cell got it as a corner when the
    cells became polytopes, so that regions did not cover the cube, or faces had a wrong number of corners.
    """
    model, generator = network("repeated", seed), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in (model[2].weight, model[2].bias):
            weights[1] = weights[0]
            weights *= 1 + noise * torch.randn(weights.shape, generator=generator, dtype=weights.dtype)
    steps: list[float] = []
    part = rs.decision_regions(model, CUBE, progress=steps.append).partition
    assert float(part.sizes.sum()) == pytest.approx(8.0, rel=1e-9)
    assert part.by_layer["1"] == rs.linear_regions(model, CUBE).by_layer["1"]
    assert steps[-1] == 1.0


def test_sets_of_many_units_have_keys_of_their_own() -> None:
    """Sets whose highest units differ; one product of each word would give them the same key."""
    low, high = (torch.tensor(words) for words in ([0x80, 0x4000000000000080], [0x1000840000000, 0x4001000A40000000]))
    assert len(_HalfFaces(torch.arange(2), torch.zeros(2, dtype=torch.int64), [low, high]).keys().unique()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 100, 400])
def test_slices_in_groups_are_the_same_as_all_together(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    program = trace(network("plain", 5), (3,))
    slices = [Box([0.1 * i] * 3, torch.eye(3), 0.3 + 0.1 * i) for i in range(5)]
    together = rs.linear_regions(program, slices)
    monkeypatch.setattr(Budget, "rows", lambda *_: rows)
    for one, other in zip(rs.linear_regions(program, slices), together, strict=True):
        one.check()
        assert (one.by_layer, len(one.vertices)) == (other.by_layer, len(other.vertices))
        assert torch.allclose(one.sizes.sort().values, other.sizes.sort().values, atol=1e-14)
        assert one.walls.regions.shape == other.walls.regions.shape
        assert one.n_linear_regions == other.n_linear_regions


@pytest.mark.parametrize("layer", [0, 1])
def test_signs_that_fit_no_cut_are_left_to_the_polytopes(monkeypatch: pytest.MonkeyPatch, layer: int) -> None:
    program = trace(network("plain", 7), (3,))
    whole = rs.linear_regions(program, CUBE)
    cut = engine.cut_space

    def unresolved(walk: object, k: int, *args: object) -> object:
        if k == layer:
            raise Unresolved(torch.zeros(0))
        return cut(walk, k, *args)

    monkeypatch.setattr(engine, "cut_space", unresolved)
    part = rs.linear_regions(program, CUBE)
    part.check()
    assert (part.by_layer, part.n_linear_regions) == (whole.by_layer, whole.n_linear_regions)
    assert torch.allclose(part.sizes.sort().values, whole.sizes.sort().values, atol=1e-13)


def test_a_section_of_two_edges_fits_no_cut() -> None:
    zero = torch.zeros(2, dtype=torch.int64)
    with pytest.raises(Unresolved) as failed:
        linked(Curves(zero, zero, torch.tensor([0, 1])), torch.tensor([[0, 1], [0, 1]]), n_vertices=2, n_units=1)
    assert failed.value.where.tolist() == [0]


def test_maxima_behind_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = network("plain", 8, depth=1, width=3), nn.Linear(2, 2).double()

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.last(torch.stack([self.first(x), x[:, :2]], 2).amax(2)))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        program = trace(Pooled(), (3,))
    part = rs.linear_regions(program, CUBE)
    part.check()
    assert len(part) == reference_partition(program, CUBE).n_activation_regions > 10
    monkeypatch.setattr(Budget, "rows", lambda *_: 20)  # one slice at a time
    seen: list[float] = []
    assert len(rs.linear_regions(program, [CUBE, TETRAHEDRON], progress=seen.append)[0]) == len(part)
    assert seen == sorted(set(seen))
    assert 0.5 in [round(share, 12) for share in seen]  # the first slice is done
    assert seen[-1] == 1.0


@pytest.mark.parametrize("resolved", [True, False])
def test_progress_moves_within_max_pooling(monkeypatch: pytest.MonkeyPatch, resolved: bool) -> None:
    """Also where the second half of its windows leaves signs that fit no cut, and the layer starts again."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        pool = [nn.Unflatten(1, (1, 64)), nn.MaxPool1d(4), nn.Flatten()]
        net = nn.Sequential(nn.Linear(3, 64), *pool, nn.Linear(16, 3), nn.ReLU(), nn.Linear(3, 2))
    cut_windows, calls = engine._cut_windows, []

    def cut(*args: Any) -> Any:
        calls.append(args)
        if not resolved and len(calls) == 2:
            raise Unresolved(torch.zeros(0))
        return cut_windows(*args)

    monkeypatch.setattr(engine, "_cut_windows", cut)
    seen: list[float] = []
    part = rs.linear_regions(net, rs.Box.between(-0.2, 0.2, (3,)), progress=seen.append)
    part.check()
    assert len(calls) == 2  # 16 windows of 4, at most 32 comparisons at a time
    pooling, _ = shares_of_folds(trace(net, (3,)), 3)
    assert seen == pytest.approx([pooling / 2, pooling, 1.0])


def test_candidates_that_never_lead_cut_nothing() -> None:
    """max(x, y - 3, z - 4, -5) is x on the cube; with 7 y - 5 as the last one, it folds on one plane."""
    shifts = torch.tensor([0.0, -3.0, -4.0, -5.0], dtype=torch.float64)

    class Maximum(nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale = scale

        def forward(self, x: Tensor) -> Tensor:
            x = torch.stack([x[:, 0], x[:, 1] + shifts[1], x[:, 2] + shifts[2], self.scale * x[:, 1] + shifts[3]], 1)
            return x.amax(1, keepdim=True)

    for scale, cells in ((0.0, 1), (7.0, 2)):
        found, _ = run(trace(Maximum(scale), (3,)), CUBE)
        assert (found.solids.n_cells, found.solids.n_vertices) == (cells, 4 + 4 * cells)


@pytest.mark.parametrize("engine_of", [partition_space, partition_cells])
def test_only_the_cells_that_are_kept_go_on(engine_of: Callable[..., Any]) -> None:
    """Cells in the lower half of the cube alone: those of the whole partition that lie there, and no others."""
    program = trace(network("plain", 3), (3,))
    zero_tolerances = zero_tolerances_of(program, [CUBE], Tolerance.of(program.dtype), Budget(1 << 30))

    def keep(_: int, cells: Callable[[], tuple[Tensor, Tensor]], coords: Tensor, values: Values) -> Tensor:
        corners, offsets = cells()
        assert all(len(rows) == len(coords) for rows in values.values())
        lowest = torch.zeros(len(offsets) - 1).double()
        return lowest.scatter_reduce(0, owners(offsets), coords[corners, 2], "amin") < -0.4

    record = Record.start(len(program.folds), 1, None)
    found = engine_of(program, [CUBE], zero_tolerances, Budget(1 << 30), record, keep)
    batch = RegionBatch.of_space(found, program)
    whole = rs.linear_regions(program, CUBE)
    wanted = keep(0, lambda: (whole.corners, whole.offsets), whole.vertices, {})
    assert 0 < int(wanted.sum()) < len(whole)
    assert torch.allclose(batch.sizes.sort().values, whole.sizes[wanted].sort().values, atol=1e-13)


@pytest.mark.parametrize(
    "kind",
    [
        "plain",
        "repeated",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("no bias", "whole numbers", "max-pool")),
    ],
)
def test_tensors_are_cut_like_arrays(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = trace(network(kind, 5), (3,))
    arrays, _ = run(program, CUBE)
    monkeypatch.setattr("regionscope.geometry.arrays.numpy_on_cpu", lambda value: value)  # as on a GPU
    tensors, _ = run(program, CUBE)
    for name in ("edges", "corners", "sides", "offsets", "cells", "wall"):
        assert torch.equal(getattr(arrays.solids, name), getattr(tensors.solids, name))
    assert torch.allclose(arrays.coords, tensors.coords, atol=1e-14)
    assert torch.allclose(sizes(arrays), sizes(tensors), atol=1e-14)
