"""Upper envelopes: breaks along edges and cells cut apart, against dense sampling."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regionscope.geometry.bitsets import lowest
from regionscope.geometry.maxima import Candidates, breaks_along, cell_leaders, leaders
from regionscope.geometry.planar.envelope import split_maxima
from regionscope.geometry.planar.mesh import Mesh, areas
from regionscope.geometry.planar.triple_points import envelope_on_cell, tie_weights

SQUARE = torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=torch.float64)


@pytest.mark.parametrize("m", [2, 3, 9, 70])
def test_breaks_along_an_edge_are_the_changes_of_the_leader(m: int) -> None:
    generator = torch.Generator().manual_seed(m)
    values = torch.randn(2, 20 * m, generator=generator, dtype=torch.float64)
    groups = torch.arange(20 * m).view(20, m)
    near = torch.full((2,), 1e-12, dtype=torch.float64)
    candidates = Candidates(values, groups, near)
    found = breaks_along(candidates, leaders(candidates), torch.tensor([0]), torch.tensor([1]))
    t = torch.linspace(0, 1, 20001, dtype=torch.float64)
    for group in range(20):
        lines = values[:, groups[group]]
        winners = ((1 - t)[:, None] * lines[0] + t[:, None] * lines[1]).argmax(1)
        changes = (winners[1:] != winners[:-1]).nonzero()[:, 0]
        mine = (found.group == group).nonzero()[:, 0]
        where = found.ua[mine] / (found.ua[mine] - found.ub[mine])
        seen = [(int(found.before[i]), int(found.after[i])) for i in mine[where.argsort()]]
        steps = [(int(winners[i]), int(winners[i + 1])) for i in changes]
        assert [after for _, after in seen[:-1]] == [before for before, _ in seen[1:]]  # one walk without gaps
        walk = _path(seen)
        assert [leader for leader in walk if leader in _path(steps)] == _path(steps)
        assert len(seen) - len(steps) <= 1  # the sample may step over a very short interval


def _path(steps: list[tuple[int, int]]) -> list[int]:
    return [s[0] for s in steps] + [s[1] for s in steps][-1:]


def _envelope(slopes: torch.Tensor, constants: torch.Tensor) -> tuple[Mesh, torch.Tensor, torch.Tensor]:
    """Mesh, coordinates and leaders of the cells of the upper envelope of affine functions on the square."""
    none = torch.full((4,), -1)
    slice_id = torch.zeros(1, dtype=torch.int64)
    mesh, coords = Mesh.of_loops(4, torch.arange(4), torch.tensor([0, 4]), slice_id, none, none), SQUARE
    groups = torch.arange(len(constants))[None]
    cells = None
    while cells is None or len(cells):
        near = torch.full((len(coords),), 1e-12, dtype=torch.float64)
        candidates = Candidates(coords @ slopes.T + constants, groups, near)
        result = split_maxima(mesh, candidates, coords, layer=0, cells=cells)
        mesh, coords, cells = result.mesh, result.interpolation.apply(coords), result.unsettled
    near = torch.full((len(coords),), 1e-12, dtype=torch.float64)
    leading = leaders(Candidates(coords @ slopes.T + constants, groups, near))
    return mesh, coords, lowest(cell_leaders(leading, mesh.corners, mesh.offsets)[:, 0])


@pytest.mark.parametrize("seed", range(12))
def test_cells_of_an_envelope_have_the_sampled_areas(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    m = 2 + seed
    slopes = torch.randn(m, 2, generator=generator, dtype=torch.float64)
    constants = 0.5 * torch.randn(m, generator=generator, dtype=torch.float64)
    mesh, coords, leader = _envelope(slopes, constants)
    assert len(set(leader.tolist())) == mesh.n_cells  # each leader has one convex cell
    grid = (torch.arange(400, dtype=torch.float64) + 0.5) / 200 - 1
    points = torch.cartesian_prod(grid, grid)
    share = torch.bincount((points @ slopes.T + constants).argmax(1), minlength=m) * 4 / len(points)
    sizes = torch.zeros(m, dtype=torch.float64)
    sizes[leader] = areas(mesh, coords)
    assert torch.allclose(sizes, share.double(), atol=0.01)
    assert abs(float(sizes.sum()) - 4) < 1e-12


def test_a_candidate_that_leads_only_inside_the_cell_is_found() -> None:
    angle = torch.arange(3, dtype=torch.float64) * 2 * torch.pi / 3
    slopes = torch.cat([torch.stack([angle.cos(), angle.sin()], 1), torch.zeros(1, 2, dtype=torch.float64)])
    mesh, coords, leader = _envelope(slopes, torch.tensor([0.0, 0.0, 0.0, 0.2], dtype=torch.float64))
    assert sorted(leader.tolist()) == [0, 1, 2, 3]
    assert len(coords) == 4 + 3 + 3  # corners, breaks on the border, the three corners of the inner cell
    assert abs(float(areas(mesh, coords)[leader == 3]) - 3 * 3**0.5 * 0.2**2) < 1e-12


def test_equal_candidates_are_one() -> None:
    slopes = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    mesh, _, leader = _envelope(slopes, torch.zeros(4, dtype=torch.float64))
    assert mesh.n_cells == 2
    assert sorted(leader.tolist()) == [0, 2]


def test_four_candidates_that_tie_in_one_point_share_it() -> None:
    corners = SQUARE.numpy()
    values = np.stack([corners[:, 0], corners[:, 1], -corners[:, 0], -corners[:, 1]], 1)
    found = envelope_on_cell(corners, values, 1e-12)
    assert len(found.ties) == 1
    assert sorted(map(len, found.loops)) == [3, 3, 3, 3]


def test_a_triple_point_is_placed_by_values() -> None:
    """They tie up to their own rounding, however small the cell and however steep the functions are."""
    random = np.random.default_rng(0)
    values = (SQUARE.numpy() + 1) @ random.uniform(-1e3, 1e3, (2, 3)) + random.uniform(-1e2, 1e2, 3)
    corners, weights = tie_weights(values)
    at = weights @ values[corners]
    assert np.ptp(at) < 1e-12
    assert abs(sum(weights) - 1) < 1e-15
