"""Lines through convex cells: closed forms, Euler's formula, and lines that meet in one point."""

from __future__ import annotations

import math

import pytest
import torch

from regionscope.geometry.crossing import Units
from regionscope.geometry.planar.arrangement import Chords
from regionscope.geometry.planar.cut import split
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
        result = split(mesh, Units(values, (0.0,), near), layer=0, cells=cells, zeros=zeros)
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


def test_repeated_and_opposite_lines_count_once() -> None:
    weights = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    mesh, coords, _ = _arrange(weights, torch.zeros(5, dtype=torch.float64))
    assert mesh.n_cells == 4
    _check(mesh, coords)


def test_a_line_along_a_side_or_through_a_corner_only_cuts_nothing() -> None:
    weights = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    mesh, _, _ = _arrange(weights, torch.tensor([1.0, -2.0], dtype=torch.float64))
    assert mesh.n_cells == 1


def test_diagonals_end_in_corners() -> None:
    weights = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    mesh, coords, _ = _arrange(weights, torch.zeros(2, dtype=torch.float64))
    assert (mesh.n_cells, mesh.n_vertices) == (4, 5)
    _check(mesh, coords)


def test_chords_are_sorted_each_once_and_never_along_an_edge() -> None:
    mesh, _ = _square()
    p, q = torch.tensor([[3, 1], [2, 0], [1, 0], [0, 3], [0, 2], [2, 3]]).T
    chords, proper = Chords.between(mesh, torch.zeros(6, dtype=torch.int64), p, q, torch.arange(10, 16))
    assert proper.tolist() == [True, True, False, False, True, False]
    assert torch.stack([chords.p, chords.q, chords.unit], 1).tolist() == [[0, 2, 11], [1, 3, 10]]  # of twins the first


def test_zeros_known_from_an_earlier_round_are_kept() -> None:
    mesh, coords = _square()
    weights = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    near = torch.full((4,), 1e-12, dtype=torch.float64)
    first = split(mesh, Units(coords @ weights.T, (0.0,), near), layer=0)
    coords = first.interpolation.apply(coords)
    near = torch.full((len(coords),), 1e-12, dtype=torch.float64)
    again = split(first.mesh, Units(coords @ weights.T, (0.0,), near), layer=0, zeros=first.zeros)
    assert len(first.zeros) == 6
    assert again.zeros[:6].tolist() == first.zeros.tolist()


def test_each_unit_has_its_own_tolerance() -> None:
    """Two lines, one of a unit 1e-15 times the size of the other."""
    mesh, coords = _square()
    size = torch.tensor([1.0, 1e-15], dtype=torch.float64)
    values = coords * size
    one, own = torch.full((4,), 1e-12, dtype=torch.float64), 1e-12 * size.expand(4, 2)
    assert split(mesh, Units(values, (0.0,), one), layer=0).mesh.n_cells == 2
    assert split(mesh, Units(values, (0.0,), own), layer=0).mesh.n_cells == 4
