"""Cutting polytopes of any dimension: closed forms, degenerate cuts, neighbours, volumes, upper envelopes."""

from __future__ import annotations

import itertools
import math
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import Tensor

from regionscope.geometry import Box, Simplex, Slice
from regionscope.geometry.bitsets import pack
from regionscope.geometry.polytope.complex import Complex, centres
from regionscope.geometry.polytope.cut import cut_along
from regionscope.geometry.polytope.faces import facets, is_polytope, maximal, volumes
from regionscope.geometry.polytope.maximum import PolytopeEnvelope, cut_maxima

ZERO = 1e-12
DIMS = (1, 2, 3, 4)


def cube(k: int, radius: float = 1.0) -> Box:
    return Box([0.0] * k, torch.eye(k), radius)


def corner_simplex(k: int) -> Simplex:
    return Simplex(torch.cat([torch.zeros(1, k), torch.eye(k)]))


def begin(*slices: Slice) -> tuple[Complex, Tensor]:
    return Complex.of_domains([(slice.corners, *slice.halfspaces) for slice in slices])


def cut(cells: Complex, coords: Tensor, normals: Tensor, offsets: Tensor) -> tuple[Complex, Tensor]:
    """Cut by the hyperplanes normals @ x + offsets = 0, one after another."""
    for i, (w, b) in enumerate(zip(normals, offsets, strict=True)):
        u = coords @ w + b
        result = cut_along(cells, torch.where(u.abs() <= ZERO, 0, u.sign()), u, label=i)
        assert result.unresolved == 0
        cells, coords = result.cells, result.new.extend(coords)
    return cells, coords


def prove(cells: Complex, coords: Tensor, size: float) -> None:
    """Cells are polytopes of positive volume that fill the domain and meet face to face."""
    assert bool(is_polytope(cells).all())
    assert len(coords) == cells.n_vertices
    measured = volumes(cells, coords)
    assert float(measured.min()) > 0
    assert float(measured.sum()) == pytest.approx(size, rel=1e-10)
    found = facets(cells)
    assert torch.equal(found.cells[:, 1] < 0, found.wall < 0)  # one-sided exactly on the border of the domain
    pairs = found.cells[found.cells[:, 1] >= 0].sort(dim=1).values
    assert len(pairs.unique(dim=0)) == len(pairs)


def random_planes(m: int, k: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    normals = torch.randn(m, k, generator=generator, dtype=torch.float64)
    return normals / normals.norm(dim=1, keepdim=True), torch.randn(m, generator=generator, dtype=torch.float64)


def count_by_linear_programs(slice: Slice, normals: Tensor, offsets: Tensor) -> int:
    """Open cells of an arrangement, by asking for each sign pattern whether it holds a small ball."""
    nodes = [tuple(part.numpy() for part in slice.halfspaces)]
    for w, b in zip(normals.numpy(), offsets.numpy(), strict=True):
        sides = [(np.vstack([A, s * w]), np.append(c, -s * b)) for A, c in nodes for s in (1, -1)] if w.any() else nodes
        nodes = [side for side in sides if inner_radius(*side) > 1e-6]
    return len(nodes)


def inner_radius(A: np.ndarray, b: np.ndarray) -> float:
    k = A.shape[1]
    rows = np.hstack([A, np.linalg.norm(A, axis=1, keepdims=True)])
    answer = linprog([0.0] * k + [-1.0], A_ub=rows, b_ub=b, bounds=[(None, None)] * k + [(None, 1.0)])
    return float(answer.x[-1]) if answer.status == 0 else -1.0


@pytest.mark.parametrize(("k", "m"), [(1, 3), (2, 0), (2, 6), (3, 1), (3, 6), (4, 5)])
def test_hyperplanes_in_general_position_and_through_one_point(k: int, m: int) -> None:
    normals, offsets = random_planes(m, k, seed=7 * k + m)
    cells, coords = cut(*begin(cube(k, 1e3)), normals, offsets)
    assert cells.n_cells == sum(comb(m, i) for i in range(k + 1))
    prove(cells, coords, 2e3**k)
    for shift in (0.0, 0.1) if k > 1 and m else ():
        cells, coords = cut(*begin(cube(k)), normals, normals @ torch.full((k,), shift, dtype=torch.float64))
        assert cells.n_cells == 2 * sum(comb(m - 1, i) for i in range(k))
        prove(cells, coords, 2.0**k)


@pytest.mark.parametrize("k", [*DIMS, 5])
def test_coordinate_planes_of_a_cube(k: int) -> None:
    cells, coords = cut(*begin(cube(k)), torch.eye(k).double(), torch.zeros(k).double())
    assert cells.n_cells == 2**k
    assert cells.n_vertices == 3**k
    assert torch.allclose(volumes(cells, coords), torch.ones(2**k).double())
    prove(cells, coords, 2.0**k)


@pytest.mark.parametrize("k", DIMS)
def test_repeated_opposite_and_bordering_planes_cut_once(k: int) -> None:
    x = torch.eye(k).double()[:1]
    normals = torch.cat([x, x, -x, 3 * x, x, x, 0 * x])
    offsets = torch.tensor([0.25, 0.25, -0.25, 0.75, 1.0, -1.0, 0.0]).double()
    cells, coords = cut(*begin(cube(k)), normals, offsets)
    assert cells.n_cells == 2
    assert cells.walls.amax() == 0  # only the first of them made a wall
    prove(cells, coords, 2.0**k)


def test_a_cut_through_corners_and_along_edges_makes_no_vertex() -> None:
    normals = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 0.0, -1.0]]).double()
    cells, coords = cut(*begin(cube(3)), normals, torch.zeros(3).double())
    assert cells.n_cells == 6  # the orders of three coordinates: all planes share the diagonal
    assert cells.n_vertices == 8
    assert torch.allclose(volumes(cells, coords), torch.full((6,), 8 / 6).double())
    prove(cells, coords, 8.0)


def test_opposite_corners_of_a_square_in_four_facets_span_no_edge() -> None:
    """The join of two squares: from 5 dimensions on, k - 1 common facets do not make an edge."""
    square = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=2))).double()
    zeros, ones = torch.zeros(4, 2).double(), torch.ones(4, 1).double()
    corners = torch.cat([torch.cat([square, zeros, 0 * ones], 1), torch.cat([zeros, square, ones], 1)])
    sides = torch.cat([torch.eye(4), -torch.eye(4)]).double()
    last = torch.tensor([1.0, 1.0, -1.0, -1.0] * 2).double()
    bound = torch.tensor([1.0, 1.0, 0.0, 0.0] * 2).double()
    start = Complex.of_domains([(corners, torch.cat([sides, last[:, None]], 1), bound)])
    size = float(volumes(*start))
    assert size == pytest.approx(16 * math.gamma(3) ** 2 / math.gamma(6))  # 16 * integral of (1 - t)^2 t^2
    cells, coords = cut(*start, *random_planes(4, 5, seed=8))
    assert cells.n_cells > 4
    prove(cells, coords, size)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_degenerate_arrangements_match_linear_programs(seed: int) -> None:
    """Small integer coefficients: planes through vertices, along faces, repeated, opposite, zero."""
    draw = np.random.default_rng(seed)
    k, m = int(draw.integers(1, 5)), int(draw.integers(1, 6))
    slice = cube(k) if draw.random() < 0.5 else corner_simplex(k)
    normals = torch.tensor(draw.integers(-2, 3, (m, k)), dtype=torch.float64)
    offsets = torch.tensor(draw.integers(-2, 3, m) / draw.choice([1, 2, 3]), dtype=torch.float64)
    cells, coords = cut(*begin(slice), normals, offsets)
    assert cells.n_cells == count_by_linear_programs(slice, normals, offsets)
    prove(cells, coords, slice.size)


@pytest.mark.parametrize("noise", [1e-13, 1e-12, 1e-11])
@pytest.mark.parametrize("k", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_planes_that_nearly_coincide_stay_face_to_face(k: int, noise: float) -> None:
    """Thin slivers whose corners are partly within the tolerance: snaps that bend a cell are taken back."""
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        normals = torch.randint(-2, 3, (2, k), generator=generator).double().repeat(3, 1)
        offsets = torch.randint(-1, 2, (2,), generator=generator).double().repeat(3) / 2
        normals += noise * torch.randn(normals.shape, generator=generator, dtype=torch.float64)
        cells, coords = cut(*begin(cube(k)), normals, offsets)
        found = facets(cells)
        assert torch.equal(found.cells[:, 1] < 0, found.wall < 0)
        assert bool(is_polytope(cells).all())
        assert float(volumes(cells, coords).sum()) == pytest.approx(2.0**k, rel=1e-6)


def test_signs_that_fit_no_flat_cut_are_resolved_or_reported() -> None:
    """Around a square + 0 + -: no line does that. A tiny value gives way to its sign, an exact 0 is reported."""
    cells, _ = begin(cube(2))
    codes = torch.tensor([1, 0, 1, -1])
    moved = cut_along(cells, codes, torch.tensor([1.0, 1e-15, 1.0, -1.0]).double())
    assert (moved.unresolved, moved.cells.n_cells, len(moved.snapped)) == (0, 2, 0)
    assert cut_along(cells, codes, torch.tensor([1.0, 0.0, 1.0, -1.0]).double()).unresolved == 1


def rows(cells: Complex, values: Tensor) -> tuple[Tensor, ...]:
    return values.split(cells.offsets.diff().tolist())


def test_parents_sides_walls_and_vertices_of_a_cut() -> None:
    cells, coords = begin(cube(3), cube(3, 2.0))
    u = coords[:, 0] - 1.5  # cuts the second cube only
    result = cut_along(cells, u.sign(), u, label=5)
    assert result.old_cell.tolist() == [0, 1, 1]
    assert result.side.tolist() == [0, 1, -1]
    assert result.cells.slice_id.tolist() == [0, 1, 1]
    assert result.cells.vertex_slice_id.tolist() == [0] * 8 + [1] * 12
    moved = result.new.extend(coords)
    assert torch.allclose(moved[16:, 0], torch.full((4,), 1.5).double())
    assert volumes(result.cells, moved).tolist() == pytest.approx([8.0, 8.0, 56.0])
    assert centres(result.cells, moved)[:, 0].tolist() == pytest.approx([0.0, 1.75, -0.25])
    found = facets(result.cells)
    shared = (found.wall == 5).nonzero().item()
    assert found.cells[shared].tolist() == [1, 2]
    assert found.corners[found.offsets[shared] : found.offsets[shared + 1]].tolist() == [16, 17, 18, 19]


def test_a_cut_within_some_cells_only() -> None:
    cells, coords = cut(*begin(cube(2)), torch.tensor([[1.0, 0.0]]).double(), torch.zeros(1).double())
    u = coords[:, 1]
    result = cut_along(cells, u.sign(), u, label=1, within=torch.tensor([True, False]))
    assert result.old_cell.tolist() == [1, 0, 0]
    assert volumes(result.cells, result.new.extend(coords)).tolist() == pytest.approx([2.0, 1.0, 1.0])


@pytest.mark.slow
def test_more_facets_than_bits_in_a_word() -> None:
    """A polygon with 150 sides, cut off a square by 146 of its tangents."""
    angles = torch.arange(150).double() * 2 * math.pi / 150 + 0.01
    normals = torch.stack([angles.cos(), angles.sin()], 1)
    cells, coords = begin(cube(2, 2.0))
    for i, w in enumerate(normals):
        u = 1 - coords @ w
        result = cut_along(cells, u.sign(), u, label=i)
        coords = result.new.extend(coords)
        cells = result.cells.take(result.side > 0)
    assert cells.offsets.tolist() == [0, 150]
    assert cells.tight.shape[1] == 3
    assert bool(is_polytope(cells).all())
    assert float(volumes(cells, coords)) == pytest.approx(150 * math.tan(math.pi / 150), rel=1e-12)


def test_sets_drawn_at_random_are_maximal() -> None:
    bits = torch.rand(20, 130, generator=torch.Generator().manual_seed(0)) < 0.5
    assert maximal(pack(bits)[None]).all()


def envelope(
    cells: Complex, coords: Tensor, slopes: Tensor, heights: Tensor
) -> tuple[PolytopeEnvelope, Complex, Tensor]:
    result = cut_maxima(cells, coords @ slopes + heights, ZERO, label=99)
    assert result.unresolved == 0
    compacted, kept = result.cells.compact()
    return result, compacted, result.extend(coords)[kept]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_upper_envelope(seed: int, degenerate: bool) -> None:
    draw = np.random.default_rng(seed)
    k, m, planes = int(draw.integers(1, 5)), int(draw.integers(1, 7)), int(draw.integers(0, 4))
    numbers = (lambda *shape: draw.integers(-2, 3, shape) / 2) if degenerate else (lambda *s: draw.normal(size=s))
    normals, offsets = torch.tensor(numbers(planes, k)).double(), torch.tensor(numbers(planes)).double()
    slopes, heights = torch.tensor(numbers(k, m)).double(), torch.tensor(numbers(m)).double()
    start, points = cut(*begin(cube(k)), normals, offsets)
    result, cells, coords = envelope(start, points, slopes, heights)
    prove(cells, coords, 2.0**k)
    assert len(torch.stack([result.old_cell, result.winner]).unique(dim=1).T) == cells.n_cells  # no false facets
    middle = centres(cells, coords) @ slopes + heights
    leads = middle >= middle.amax(1, keepdim=True) - 1e-9
    assert torch.equal(result.winner, leads.int().argmax(1))  # the lowest of those that are the largest
    samples = torch.tensor(draw.uniform(-1, 1, (4000, k)))
    assert kinds(samples, (samples @ slopes + heights).argmax(1), normals, offsets) <= kinds(
        centres(cells, coords), result.winner, normals, offsets
    )


def kinds(points: Tensor, winner: Tensor, normals: Tensor, offsets: Tensor) -> set[tuple[int, ...]]:
    """The distinct (side of each plane, winner) at the points."""
    table = torch.cat([(points @ normals.T + offsets > 0).long(), winner[:, None]], dim=1).unique(dim=0)
    return {tuple(row) for row in table.tolist()}


def test_upper_envelope_of_coordinates_makes_no_false_facets() -> None:
    """argmax of (x, y, z) in a cube: three pyramids-like parts around the diagonal, six would be their orders."""
    result, cells, coords = envelope(*begin(cube(3)), torch.eye(3).double(), torch.zeros(3).double())
    assert result.winner.sort().values.tolist() == [0, 1, 2]
    prove(cells, coords, 8.0)


def test_upper_envelope_leaves_swallowed_vertices_unused() -> None:
    """|x| and then 0.5: the fold of |x| lies below 0.5 and disappears."""
    slopes, heights = torch.tensor([[1.0, -1.0, 0.0]]).double(), torch.tensor([0.0, 0.0, 0.5]).double()
    result, cells, coords = envelope(*begin(cube(1)), slopes, heights)
    assert result.cells.n_vertices == 5
    assert coords.flatten().sort().values.tolist() == [-1.0, -0.5, 0.5, 1.0]
    assert cells.n_cells == 3
