"""Cutting the work into chunks, or doing several slices together, never changes the answer."""

from __future__ import annotations

import functools
from functools import partial

import pytest
import torch
from torch import nn

import regionscope as rs
from devices import needs_cuda
from regionscope.exact import budget, zero_tolerance
from regionscope.geometry import Slice
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.planar.stitch import Part, stitch
from regionscope.network import with_decision
from regionscope.network.program import Instruction
from regionscope.tolerance import Tolerance
from small_slices import mlp

_mlp = partial(mlp, seed=3)


def _cnn() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(36, 3),
    )  # fmt: skip


def _images(n: int) -> torch.Tensor:
    return torch.randn(n, 1, 6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


CASES: dict[str, tuple[nn.Module, Slice]] = {
    "plane": (_mlp(2, 12, 12, 3), rs.Box(torch.zeros(2), torch.eye(2), 0.6)),
    "triangle of a CNN": (_cnn(), rs.Simplex(0.16 * _images(3))),
    "segment of a CNN": (_cnn(), rs.Segment(*_images(2))),
    "zero bias": (nn.Sequential(nn.Linear(2, 12, bias=False), nn.ReLU(), nn.Linear(12, 12, bias=False), nn.ReLU(),
                                nn.Linear(12, 2)), rs.Box(torch.zeros(2), torch.eye(2), 1.0)),
}  # fmt: skip


@functools.cache
def in_one_chunk(name: str) -> tuple[rs.Partition, rs.DecisionRegions]:
    model, slice = CASES[name]
    return rs.linear_regions(model, slice), rs.decision_regions(model, slice)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rows", [*(pytest.param(rows, marks=pytest.mark.slow) for rows in (2, 17)), 100, 1000])
def test_chunks_of_any_size_give_the_same_partition(monkeypatch: pytest.MonkeyPatch, name: str, rows: int) -> None:
    model, slice = CASES[name]
    whole, labels = in_one_chunk(name)
    monkeypatch.setattr(budget.Budget, "rows", lambda *_: rows)
    part = rs.linear_regions(model, slice)
    assert part.by_layer == whole.by_layer
    assert len(part) == len(whole)
    assert len(part.vertices) == len(whole.vertices)
    assert len(part.walls.layer) == len(whole.walls.layer)
    assert part.n_linear_regions == whole.n_linear_regions
    assert len(part.neighbours) == len(whole.neighbours)
    assert torch.allclose(part.sizes.sort().values, whole.sizes.sort().values, rtol=1e-6, atol=1e-14)
    part.check()
    again = rs.decision_regions(model, slice)
    assert sorted(again.labels.tolist()) == sorted(labels.labels.tolist())
    torch.testing.assert_close(again.sizes.sort().values, labels.sizes.sort().values)


def _unit_square(shift: float, tag_side: int, split_at: float | None) -> tuple[Mesh, torch.Tensor]:
    """A unit square whose side ``tag_side`` is tagged 0; if asked with one more vertex on that side."""
    coords = [[shift, 0.0], [shift + 1, 0.0], [shift + 1, 1.0], [shift, 1.0]]
    loop = [0, 1, 2, 3]
    if split_at is not None:
        coords.append([coords[tag_side][0], split_at])
        loop.insert(tag_side + 1, 4)
    tags = torch.full((len(loop),), -1)
    tags[tag_side : tag_side + (1 if split_at is None else 2)] = 0
    none = torch.full((len(loop),), -1)
    slice_id = torch.zeros(1, dtype=torch.int64)
    mesh = Mesh.of_loops(len(coords), torch.tensor(loop), torch.tensor([0, len(loop)]), slice_id, none, tags)
    return mesh, torch.tensor(coords, dtype=torch.float64)


def test_a_point_that_only_one_part_has_is_given_to_the_other() -> None:
    left, left_coords = _unit_square(0.0, 1, 0.25)
    right, right_coords = _unit_square(1.0, 3, None)
    parts = [
        Part(left, (left_coords,), torch.tensor([0, 1, 2, 3])),
        Part(right, (right_coords,), torch.tensor([1, 4, 5, 2])),
    ]
    mesh, (coords,) = stitch(parts, 6, 0, 1)
    assert (mesh.n_vertices, mesh.n_cells, len(mesh.edges)) == (7, 2, 8)
    assert mesh.offsets.diff().tolist() == [5, 5]
    assert bool((mesh.tags == -1).all())
    assert int((mesh.edge_cells() >= 0).all(1).sum()) == 2
    assert [1.0, 0.25] in coords.tolist()


@pytest.mark.parametrize("slice", [rs.Box(torch.zeros(2), torch.eye(2), 1.0), rs.Segment([-1.0, 0.0], [1.0, 0.5])])
def test_progress_moves_within_one_part(slice: rs.Slice) -> None:
    for find in (rs.linear_regions, rs.decision_regions, rs.exact.stream_regions):
        seen: list[float] = []
        find(_mlp(2, 16, 16, 16, 2), slice, progress=seen.append)
        assert len(seen) >= 3
        assert seen == sorted(set(seen))
        assert seen[-1] == 1.0
        assert seen[0] < 0.5


def test_progress_does_not_go_back_where_a_limit_starts_the_work_again() -> None:
    seen: list[float] = []
    square = rs.Box(torch.zeros(2), torch.eye(2), 1.0)
    part = rs.linear_regions(_mlp(2, 16, 16, 16, 2), square, max_regions=200, on_limit="return", progress=seen.append)
    assert not part.status.complete
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@needs_cuda
@pytest.mark.parametrize("name", ["triangle of a CNN", "segment of a CNN"])
def test_slices_together_on_cuda_are_the_slices_alone_on_the_cpu(name: str) -> None:
    model, slice = CASES[name]
    slices = [slice, *(type(slice)(*_corners(name, i)) for i in range(4))]
    alone = [rs.linear_regions(model, each) for each in slices]
    together = rs.linear_regions(model.to("cuda"), slices)
    model.to("cpu")
    for one, other in zip(alone, together, strict=True):
        other.check()
        assert other.vertices.is_cuda
        assert one.by_layer == other.by_layer
        assert one.n_linear_regions == other.n_linear_regions
        assert torch.allclose(one.sizes.sort().values, other.sizes.cpu().sort().values, rtol=1e-6, atol=1e-12)


def _corners(name: str, i: int) -> tuple[torch.Tensor, ...]:
    """The arguments of another slice of the same kind."""
    shifted = _images(3) + 0.1 * (i + 1)
    return (0.4 * shifted,) if name.startswith("triangle") else (shifted[0], shifted[1])


@needs_cuda
def test_memory_that_torch_keeps_for_reuse_is_free_on_cuda() -> None:
    device = torch.device("cuda")
    before = budget.Budget.of(device, None, None).memory
    block = torch.empty(before // 4, dtype=torch.uint8, device=device)
    assert budget.Budget.of(device, None, None).memory < 0.95 * before
    del block
    assert budget.Budget.of(device, None, None).memory > 0.99 * before


def test_probes_for_the_scale_of_zero_stay_within_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model, slice = CASES["triangle of a CNN"]
    program = rs.network.trace(model, slice.input_shape)
    tolerance = Tolerance.of(program.dtype)
    whole = zero_tolerance.zero_tolerances_of(program, [slice, slice], tolerance, budget.Budget(1 << 30))
    rows = []
    run = Instruction.run
    monkeypatch.setattr(
        Instruction,
        "run",
        lambda self, values, *args, **options: (
            rows.append(len(values[self.reads[0]])) or run(self, values, *args, **options)
        ),
    )
    few = zero_tolerance.zero_tolerances_of(program, [slice, slice], tolerance, budget.Budget(14 * program.row_bytes))
    assert max(rows) == 9  # three probe points in three versions
    assert all(torch.allclose(a, b, rtol=1e-12, atol=0.0) for a, b in zip(few, whole, strict=True))
    assert [len(near) for near in few] == [2] * (len(program.folds) + 1)


@pytest.mark.parametrize("decision", [False, True])
@pytest.mark.parametrize("corners", [2, 3])
def test_corners_of_a_slice_without_folds_give_the_scale_of_zero_of_all_points(corners: int, decision: bool) -> None:
    network = rs.network.trace(_cnn(), (1, 6, 6))
    program = with_decision(network) if decision else network
    points = _images(3)
    # beside a slice that meets the first fold, all probe points of both run
    ends = points[0] + 1e-9 * points[:corners], points[:corners]
    slices: list[Slice] = [rs.Segment(*rows) if corners == 2 else rs.Simplex(rows) for rows in ends]
    counts = [
        len(rs.decision_regions(network, slice).partition if decision else rs.linear_regions(network, slice))
        for slice in slices
    ]
    assert counts[0] == 1 < counts[1]
    room, tolerance = budget.Budget(1 << 30), Tolerance.of(program.dtype)
    alone = zero_tolerance.zero_tolerances_of(program, slices[:1], tolerance, room)
    beside = zero_tolerance.zero_tolerances_of(program, slices, tolerance, room)
    assert all(torch.allclose(a[0], b[0], rtol=1e-6, atol=0.0) for a, b in zip(alone, beside, strict=True))


def test_an_end_on_a_fold_is_snapped_where_nothing_else_folds() -> None:
    model = _mlp(2, 8, 8, 1).double()
    first = model[0]
    assert isinstance(first, nn.Linear)
    a, step = torch.tensor([0.3, -0.2], dtype=torch.float64), torch.tensor([0.8, 0.6], dtype=torch.float64) * 1e-9
    for inside in (False, True):  # the fold lies at the end of the segment, and in its middle
        with torch.no_grad():
            first.bias[0] = -first.weight[0] @ (a + 0.5 * inside * step)
        part = rs.linear_regions(model, rs.Segment(a, a + step))
        assert (part.n_activation_regions, part.n_snapped > 0) == (1 + inside, not inside)
