"""Lines and upper envelopes in convex cells: closed forms, Euler's formula, dense sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regionscope.geometry.bitsets import lowest
from regionscope.geometry.crossing import Units
from regionscope.geometry.maxima import Candidates, cell_leaders, leaders
from regionscope.geometry.planar.arrangement import Chords
from regionscope.geometry.planar.cut import cut_units
from regionscope.geometry.planar.envelope import cut_maxima, envelope_on_cell, tie_weights
from regionscope.geometry.planar.mesh import Mesh, areas


def _square() -> tuple[Mesh, torch.Tensor]:
    none = torch.full((4,), -1)
    corners = torch.arange(4)
    mesh = Mesh.of_loops(4, corners, torch.tensor([0, 4]), torch.zeros(1, dtype=torch.int64), none, none)
    return mesh, torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=torch.float64)


def _arrange(weights: torch.Tensor, offsets: torch.Tensor) -> tuple[Mesh, torch.Tensor, int]:
    """All lines ``weights @ x + offsets = 0`` in the square; also how many rounds it took."""
    mesh, coords = _square()
    cells, zeros, rounds = None, None, 0
    while cells is None or len(cells):
        values = coords @ weights.T + offsets
        near = torch.full((len(coords),), 1e-12, dtype=torch.float64)
        result = cut_units(mesh, Units(values, (0.0,), near, coords), layer=0, cells=cells, zeros=zeros)
        mesh, coords = result.mesh, result.interpolation.apply(coords)
        cells, zeros, rounds = result.unsettled, result.zeros, rounds + 1
    return mesh, coords, rounds


def _check(mesh: Mesh, coords: torch.Tensor) -> None:
    sizes = areas(mesh, coords)
    assert bool((sizes > 0).all())
    assert math.isclose(float(sizes.sum()), 4.0, rel_tol=1e-12)
    assert mesh.n_vertices - len(mesh.edges) + mesh.n_cells == 1


@pytest.mark.parametrize("n", [1, 2, 3, 10, 60])
def test_lines_in_general_position_cut_a_disc_into_the_classical_number(n: int) -> None:
    angle = torch.linspace(0.1, 3.0, n, dtype=torch.float64)
    weights = torch.stack([angle.cos(), angle.sin()], 1)
    offsets = 0.001 * torch.sin(7 * angle + 1)  # all crossings lie near the origin
    mesh, coords, _ = _arrange(weights, offsets)
    assert mesh.n_cells == 1 + n + math.comb(n, 2)
    _check(mesh, coords)


@pytest.mark.parametrize("n", [3, 12, 100])
def test_lines_through_one_point_make_a_fan(n: int) -> None:
    angle = torch.arange(n, dtype=torch.float64) * math.pi / n + 0.01
    weights = torch.stack([angle.cos(), angle.sin()], 1)
    mesh, coords, rounds = _arrange(weights, -(weights @ torch.tensor([0.3, 0.2], dtype=torch.float64)))
    assert mesh.n_cells == 2 * n
    assert rounds > 1
    _check(mesh, coords)


def test_a_lattice_of_triple_points_is_resolved() -> None:
    k = 9
    steps = (torch.arange(k, dtype=torch.float64) - (k - 1) / 2) * 2 / (k + 1)
    directions = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    weights = directions.repeat_interleave(k, 0)
    offsets = -torch.cat([steps, steps, steps])
    mesh, coords, _ = _arrange(weights, offsets)
    _check(mesh, coords)
    # faces = 1 + lines + sum over crossing points inside of (lines through it - 1)
    points: dict[tuple[float, float], int] = {}
    for i in range(3 * k):
        for j in range(i):
            both = torch.stack([weights[i], weights[j]])
            if abs(float(torch.linalg.det(both))) < 1e-9:
                continue
            x, y = torch.linalg.solve(both, -offsets[[i, j]]).tolist()
            if max(abs(x), abs(y)) < 1 - 1e-9:
                key = (round(x, 6) + 0.0, round(y, 6) + 0.0)
                points[key] = points.get(key, 0) + 1
    lines = sum(1 for w, o in zip(weights, offsets, strict=True) if bool(((_square()[1] @ w + o) > 1e-9).any()) and
                bool(((_square()[1] @ w + o) < -1e-9).any()))  # fmt: skip
    through = {p: (1 + math.isqrt(1 + 8 * pairs)) // 2 for p, pairs in points.items()}
    assert mesh.n_cells == 1 + lines + sum(m - 1 for m in through.values())


@pytest.mark.parametrize(
    ("weights", "offsets", "cells", "vertices"),
    [
        ([[1, 0], [1, 0], [-1, 0], [-2, 0], [0, 1]], [0] * 5, 4, 9),  # repeated and opposite
        ([[1, 0], [1, 1]], [1, -2], 1, 4),  # along a side, and through a corner only
        ([[1, 1], [1, -1]], [0, 0], 4, 5),  # diagonals, which end in corners
    ],
)
def test_lines_that_coincide_with_others_or_with_the_border(
    weights: list[list[int]], offsets: list[int], cells: int, vertices: int
) -> None:
    mesh, coords, _ = _arrange(torch.tensor(weights).double(), torch.tensor(offsets).double())
    assert (mesh.n_cells, mesh.n_vertices) == (cells, vertices)
    _check(mesh, coords)


def test_chords_are_sorted_each_once_and_never_along_an_edge() -> None:
    mesh, _ = _square()
    p, q = torch.tensor([[3, 1], [2, 0], [1, 0], [0, 3], [0, 2], [2, 3]]).T
    chords, proper = Chords.between(mesh, torch.zeros(6, dtype=torch.int64), p, q, torch.arange(10, 16))
    assert proper.tolist() == [True, True, False, False, True, False]
    assert torch.stack([chords.p, chords.q, chords.unit], 1).tolist() == [[0, 2, 11], [1, 3, 10]]  # of twins the first


def test_each_unit_has_its_own_tolerance() -> None:
    """Two lines, one of a unit 1e-15 times the size of the other."""
    mesh, coords = _square()
    size = torch.tensor([1.0, 1e-15], dtype=torch.float64)
    values = coords * size
    one, own = torch.full((4,), 1e-12, dtype=torch.float64), 1e-12 * size.expand(4, 2)
    assert cut_units(mesh, Units(values, (0.0,), one, coords), layer=0).mesh.n_cells == 2
    assert cut_units(mesh, Units(values, (0.0,), own, coords), layer=0).mesh.n_cells == 4


def _envelope(slopes: torch.Tensor, constants: torch.Tensor) -> tuple[Mesh, torch.Tensor, torch.Tensor]:
    """Mesh, coordinates and leaders of the cells of the upper envelope of affine functions on the square."""
    mesh, coords = _square()
    groups = torch.arange(len(constants))[None]
    cells = None
    while cells is None or len(cells):
        near = torch.full((len(coords),), 1e-12, dtype=torch.float64)
        candidates = Candidates(coords @ slopes.T + constants, groups, near)
        result = cut_maxima(mesh, candidates, coords, layer=0, cells=cells)
        mesh, coords, cells = result.mesh, result.interpolation.apply(coords), result.unsettled
    near = torch.full((len(coords),), 1e-12, dtype=torch.float64)
    leading = leaders(Candidates(coords @ slopes.T + constants, groups, near))
    return mesh, coords, lowest(cell_leaders(leading, mesh.corners, mesh.offsets)[:, 0])


@pytest.mark.parametrize("seed", range(0, 12, 2))
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
    corners = _square()[1].numpy()
    values = np.stack([corners[:, 0], corners[:, 1], -corners[:, 0], -corners[:, 1]], 1)
    found = envelope_on_cell(corners, values, 1e-12, range(4))
    assert [point.tied for point in found.points] == [{0, 1, 2, 3}]
    assert sorted(map(len, found.loops)) == [3, 3, 3, 3]
    assert found.doubtful  # rounding could not tell two triple points from one


def test_a_triple_point_is_placed_by_values() -> None:
    """They tie up to their own rounding, however small the cell and however steep the functions are."""
    random = np.random.default_rng(0)
    values = (_square()[1].numpy() + 1) @ random.uniform(-1e3, 1e3, (2, 3)) + random.uniform(-1e2, 1e2, 3)
    corners, weights = tie_weights(values[:, 0] - values[:, 1], values[:, 0] - values[:, 2])
    at = weights @ values[corners]
    assert np.ptp(at) < 1e-12
    assert abs(sum(weights) - 1) < 1e-15


def test_a_piece_far_smaller_than_the_cell_is_kept() -> None:
    """Two of the corners lie 1e-9 from the point where three candidates tie; the piece between them was lost."""
    border = [[-1e-9, 0.0], [0.0, -1e-9], [1.0, 0.0], [0.0, 1.0]]
    values = (np.array(border) - 1e-10) @ np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    points: list[list[float]] = []
    rows, corners = [], []
    for i, (a, b) in enumerate(((0, 0), (0, 1), (1, 2), (2, 0))):  # the leaders along each side
        corners.append(len(points))
        points.append(border[i])
        rows.append(values[i])
        if a != b:
            j = (i + 1) % 4
            before, behind = values[i, a] - values[i, b], values[j, a] - values[j, b]
            t = before / (before - behind)
            points.append([(1 - t) * x + t * y for x, y in zip(border[i], border[j], strict=True)])
            rows.append((1 - t) * values[i] + t * values[j])
    found = envelope_on_cell(np.array(points), np.array(rows), 1e-13, corners)
    assert not found.doubtful
    assert sorted(map(len, found.loops)) == [4, 4, 5]
    assert [point.tied for point in found.points] == [{0, 1, 2}]


def test_a_torn_piece_is_doubtful() -> None:
    """A candidate that leads at one border point alone, as after rounding, has no ties to run along."""
    corners = _square()[1].numpy()
    values = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert envelope_on_cell(corners, values, 1e-12, range(4)).doubtful
