"""Fold density against distances that are known in closed form."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.errors import InputError
from regionscope_lab.migration import FoldProfile, fold_migration, fold_profiles
from small_slices import mlp

SQUARE = rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0)


def lines(*at: float, boundary: float = 0.0) -> nn.Module:
    """Folds at x = each of ``at``; the label changes at x = ``boundary``."""
    model = nn.Sequential(nn.Linear(2, len(at) + 2), nn.ReLU(), nn.Linear(len(at) + 2, 1))
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].weight[:, 0] = torch.tensor([*[1.0] * len(at), 1.0, -1.0])
        model[0].bias.copy_(torch.tensor([*[-t for t in at], 20.0, 20.0]))
        model[2].weight.copy_(torch.tensor([[*[1e-3] * len(at), 0.5, -0.5]]))
        model[2].bias.fill_(-boundary - 1e-3 * sum(max(boundary - t, 0.0) for t in at))
    return model


def test_the_density_of_one_line() -> None:
    found = fold_migration(lines(0.5), SQUARE, torch.tensor([[0.0, 0.0]]), bins=8, resolution=400)
    assert found.n_folds == 1
    assert float(found.to_boundary.folds.sum()) == pytest.approx(2.0)
    assert float(found.to_boundary.room.sum()) == pytest.approx(4.0)
    assert found.to_boundary.ratio == pytest.approx(0.5 / 0.5, rel=1e-3)
    width = float(found.to_boundary.edges[1])
    at = int(0.5 / width)  # all of the fold is at distance 0.5 from the boundary x = 0
    wanted = torch.zeros(8, dtype=torch.float64)
    wanted[at] = 2.0 / (4 * (min(1.0, (at + 1) * width) - at * width))
    reached = found.to_boundary.room.sum(0) > 0
    assert torch.allclose(found.to_boundary.density[reached], wanted[reached], rtol=0.02)
    mean_to_corner = (math.sqrt(2) + math.asinh(1)) / 3  # of a point of the unit square to its corner
    on_line = sum(math.hypot(0.5, (i + 0.5) / 1000) for i in range(1000)) / 1000
    assert found.to_data.ratio == pytest.approx(on_line / mean_to_corner, rel=1e-3)


def test_a_slice_whose_directions_are_almost_parallel() -> None:
    """All its points lie on the first axis, up to rounding, where c = a + b has the density of a triangle."""
    thin = rs.Box([0.0, 0.0], torch.tensor([[1.0, 0.0], [1.0, 1e-9]], dtype=torch.float64), 0.5)
    found = fold_migration(lines(0.5), thin, torch.tensor([[0.0, 0.0]]), bins=8, resolution=400)
    assert found.n_folds == 1
    assert float(found.to_boundary.folds.sum()) == pytest.approx(0.5e-9, rel=1e-6)
    assert found.to_data.ratio == pytest.approx(0.5 / (1 / 3), rel=1e-3)


def test_folds_that_leave_the_data_for_the_boundary() -> None:
    data = torch.tensor([[-0.9, 0.0], [0.9, 0.0]])
    before = fold_migration(lines(-0.85, 0.85), SQUARE, data)
    after = fold_migration(lines(-0.05, 0.05), SQUARE, data)
    assert after.to_data.ratio > 1 > before.to_data.ratio
    assert before.to_data.near > 1 > after.to_data.near == 0
    assert after.to_boundary.near == pytest.approx(1 / float(after.to_boundary.edges[1]), rel=0.1)
    assert after.to_boundary.ratio < 1 < before.to_boundary.ratio


def test_data_off_the_slice_is_measured_in_input_space() -> None:
    model = mlp(5, 12, 12, 3, seed=2)
    torch.manual_seed(0)
    points = torch.randn(3, 5, dtype=torch.float64)
    data = torch.randn(40, 5, dtype=torch.float64)
    plane = rs.Simplex(points)
    dec = rs.decision_regions(model, plane)
    found = fold_profiles([dec], data, bins=5, resolution=60)
    steps = (torch.arange(60, dtype=torch.float64) + 0.5) / 60
    grid = torch.cartesian_prod(steps, steps)
    inside = plane.embed(grid[grid.sum(1) <= 1 + 1e-9])
    nearest = torch.cdist(inside, data).amin(1)
    assert float(found.to_data.room_distance) == pytest.approx(float(nearest.mean()) * plane.size, rel=1e-9)
    shares = torch.linspace(0, 1, 400, dtype=torch.float64)[:, None, None]
    along = (dec.boundary[:, 0] + shares * (dec.boundary[:, 1] - dec.boundary[:, 0])).reshape(-1, 2)
    nearest = torch.cdist(inside, plane.embed(along)).amin(1)
    assert float(found.to_boundary.room_distance) == pytest.approx(float(nearest.mean()) * plane.size, rel=1e-3)
    part = dec.partition
    folds = [i for i in part.walls.inner.tolist() if 0 <= part.walls.layer[i] < len(part.by_layer)]
    ends = plane.embed(part.vertices[part.walls.vertices.reshape(-1, 2)[folds]].reshape(-1, 2)).reshape(-1, 2, 5)
    assert float(found.to_data.folds.sum()) == pytest.approx(float((ends[:, 0] - ends[:, 1]).norm(dim=1).sum()))


def test_folds_on_a_segment() -> None:
    segment = rs.Segment([-1.0, 0.0], [1.0, 0.0])
    found = fold_migration(lines(-0.5, 0.25, 0.3), segment, torch.tensor([[-1.0, 0.0]]), bins=4)
    assert found.to_data.folds[0].tolist() == [0.0, 1.0, 2.0, 0.0]
    assert found.to_data.room[0].tolist() == pytest.approx([0.5] * 4)
    assert float(found.to_boundary.fold_distance) == pytest.approx(0.5 + 0.25 + 0.3)
    assert found.to_boundary.ratio == pytest.approx((1.05 / 3) / 0.5, rel=1e-3)


def test_a_slice_without_a_boundary_says_nothing_about_it() -> None:
    here = rs.Box([0.5, 0.0], [[1.0, 0.0], [0.0, 1.0]], 0.4)
    data = torch.zeros(1, 2)
    alone = fold_migration(lines(0.5, boundary=0.0), here, data)
    assert math.isnan(alone.to_boundary.ratio)
    assert math.isnan(alone.to_boundary.stderr)
    assert alone.to_data.ratio > 0
    both = fold_migration(lines(0.5, boundary=0.0), [here, SQUARE], data)
    only = fold_migration(lines(0.5, boundary=0.0), SQUARE, data)
    assert both.to_boundary.ratio == pytest.approx(only.to_boundary.ratio)


def test_the_error_shrinks_with_slices_and_mistakes_get_a_sentence() -> None:
    model = mlp(3, 20, 20, 2, seed=3)
    torch.manual_seed(1)
    data = torch.randn(30, 3)
    slices = [rs.Simplex(data[3 * i : 3 * i + 3]) for i in range(9)]
    few, many = (fold_migration(model, slices[:n], data, resolution=40) for n in (2, 9))
    assert 0 < many.to_data.stderr < 0.3
    assert math.isnan(fold_migration(model, slices[:1], data, resolution=40).to_data.stderr)
    assert few.to_data.folds.shape == (2, 16)
    with pytest.raises(InputError, match="got \\(4, 2\\)"):
        fold_migration(model, slices, torch.zeros(4, 2))
    with pytest.raises(InputError, match="dimension 1 or 2"):
        fold_migration(mlp(3, 2, 2), rs.Box(torch.zeros(3), torch.eye(3), 1.0), torch.zeros(1, 3))


def test_the_jackknife_leaves_out_one_slice_after_another() -> None:
    made = torch.Generator().manual_seed(0)
    folds, room = torch.rand(2, 9, 4, dtype=torch.float64, generator=made)
    folds[:8, 0] = 0.0  # in the nearest bin only the last slice has folds
    room[3] = 0.0  # in this slice the distance is not defined
    far = torch.rand(2, 9, dtype=torch.float64, generator=made)
    whole = FoldProfile(torch.linspace(0, 1, 5), folds, room, far[0], far[1])
    kept = [i for i in range(9) if i != 3]
    others = [[j for j in kept if j != i] for i in kept]
    parts = [FoldProfile(whole.edges, folds[rows], room[rows], far[0, rows], far[1, rows]) for rows in others]
    for error, values in (
        (whole.stderr, [part.ratio for part in parts]),
        (whole.near_stderr, [part.near for part in parts]),
    ):
        mean = sum(values) / 8
        assert error == pytest.approx(math.sqrt(7 / 8 * sum((value - mean) ** 2 for value in values)))
    assert parts[-1].near == 0
