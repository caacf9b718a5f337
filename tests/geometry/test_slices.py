"""Slices: coordinates, corners, measure, and a sentence for each thing that can be wrong with the points."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from regionscope.errors import SliceError
from regionscope.geometry import Box, Polygon, Polyline, Segment, Simplex, Slice
from regionscope.geometry.slices import on_slice
from small_slices import PENTAGON

EYE = [[1.0, 0.0], [0.0, 1.0]]
SLICES: dict[str, Slice] = {
    "segment": Segment([0.0, 1.0, 2.0], [3.0, 1.0, 6.0]),
    "extended": Segment([0.0, 1.0], [1.0, 1.0]).extended(-0.5, 2.0),
    "two-point simplex": Simplex([[0.0, 1.0, 2.0], [3.0, 1.0, 6.0]]),
    "triangle": Simplex(np.random.default_rng(0).normal(size=(3, 2, 4))),
    "tetrahedron": Simplex(torch.randn(4, 5, generator=torch.Generator().manual_seed(0))),
    "interval": Box([1.0, 2.0], [[0.0, 2.0]], 0.5),
    "square": Box([0.0, 0.0], EYE, 1.0),
    "skew": Box([0.0, 0.0, 1.0], [[1.0, 0.0, 2.0], [1.0, 1.0, 0.0]], [2.0, 0.25]),
    "pentagon": Polygon(
        (PENTAGON @ torch.randn(2, 5, generator=torch.Generator().manual_seed(0)).double())[[3, 0, 2, 1, 4]]
    ),
    "cube": Box(torch.zeros(3), torch.eye(3), (1, 2, 3)),
    "through": Box.through(np.random.default_rng(1).normal(size=(3, 7)), margin=0.1),
}


@pytest.mark.parametrize("name", SLICES)
def test_corners_halfspaces_and_size_describe_one_domain(name: str) -> None:
    slice = SLICES[name]
    k, (a, b) = slice.dim, slice.halfspaces
    assert isinstance(slice, Slice)
    assert slice.origin.dtype == slice.basis.dtype == slice.corners.dtype == torch.float64
    assert slice.basis.shape == (k, *slice.input_shape)
    slack = b - slice.corners @ a.T
    assert float(slack.min()) >= -1e-12
    assert bool(((slack.abs() < 1e-12).sum(1) >= k).all()), "each corner lies on k faces"
    assert bool((slack.mean(0) > 0).all()), "no face holds all corners"
    low, high = slice.corners.amin(0), slice.corners.amax(0)
    sample = low + (high - low) * torch.rand(40_000, k, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    share = float((sample @ a.T <= b).all(1).double().mean())
    measured = share * float((high - low).prod()) * slice.scale
    assert measured == pytest.approx(slice.size, rel=0.05)
    flat = slice.basis.flatten(1)
    assert slice.scale == pytest.approx(math.sqrt(float(torch.linalg.det(flat @ flat.T))))
    if k == 2:  # counter-clockwise
        x, y = slice.corners.T
        assert float((x * y.roll(-1) - y * x.roll(-1)).sum()) > 0
    expected = slice.origin + torch.einsum("vk,k...->v...", slice.corners, slice.basis)
    torch.testing.assert_close(slice.embed(slice.corners), expected)
    assert slice.embed(slice.corners, dtype=torch.float32).dtype == torch.float32
    assert slice.embed(slice.corners.float()).dtype == torch.float64
    assert slice.embed(slice.corners[:0]).shape == (0, *slice.input_shape)


@pytest.mark.parametrize("name", SLICES)
def test_a_slice_is_frozen_and_survives_copy_pickle_and_to(name: str) -> None:
    slice = SLICES[name]
    with pytest.raises(AttributeError, match="frozen"):
        slice.origin = torch.zeros(1)
    for twin in (copy.deepcopy(slice), pickle.loads(pickle.dumps(slice)), slice.to("cpu")):
        assert type(twin) is type(slice)
        assert torch.equal(twin.corners, slice.corners)
        assert torch.equal(twin.basis, slice.basis)
        assert twin.size == slice.size
    assert {1: "length=", 2: "area=", 3: "volume="}[slice.dim] in repr(slice)


def test_a_segment_meets_its_points_and_a_simplex_of_two_points_is_a_segment() -> None:
    a, b = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(3))
    segment, simplex = Segment(a, b), Simplex([a, b])
    torch.testing.assert_close(segment.embed(segment.corners), torch.stack([a, b]).double())
    assert torch.equal(segment.corners, simplex.corners)
    assert torch.equal(segment.basis, simplex.basis)
    assert segment.size == simplex.size == pytest.approx(float((a - b).norm()), rel=1e-6)
    longer = segment.extended(-1, 3)
    torch.testing.assert_close(longer.embed(longer.corners)[1], (a + 3 * (b - a)).double(), atol=1e-6, rtol=0)
    assert longer.size == pytest.approx(4 * segment.size)


def test_a_slice_copies_its_points_and_drops_their_gradient() -> None:
    a = torch.zeros(2, requires_grad=True)
    source = np.ones(2)
    segment = Segment(a, source)
    source[:] = 7.0
    assert not segment.origin.requires_grad
    assert torch.equal(segment.embed(torch.tensor([[1.0]])), torch.ones(1, 2, dtype=torch.float64))
    assert Segment([0], [2]).size == 2.0


def test_coordinates_may_be_a_list_or_an_array() -> None:
    segment = Segment([0.0, 0.0], [2.0, 4.0])
    for coords in ([[0.5]], np.array([[0.5]]), [(0.5,)]):
        assert segment.embed(coords).tolist() == [[1.0, 2.0]]
    with pytest.raises(SliceError, match=r"coordinates of shape \(v, 1\), got \(1,\)"):
        segment.embed([0.5])
    with pytest.raises(SliceError, match="Expected coordinates to hold real numbers, got text"):
        segment.embed("half")


def test_a_box_between_two_corners() -> None:
    low, high = torch.tensor([[0.0, -2.0]]), np.array([[1.0, 6.0]])
    box = Box.between(low, high, (1, 2))
    assert box.input_shape == (1, 2)
    found = box.embed(box.corners)
    assert found.amin(0).tolist() == low.tolist()
    assert found.amax(0).tolist() == high.tolist()
    assert Box.between(-1, 1, (2,)).corners.tolist() == [[-1, -1], [1, -1], [1, 1], [-1, 1]]
    assert Box.between(0, 2, (3,), margin=0.5).size == 64.0


@pytest.mark.parametrize(("n", "d", "dim"), [(2, 5, None), (3, 5, None), (4, 2, None), (9, 2, None), (9, 6, 2)])
def test_a_box_through_points_holds_them_and_touches_them(n: int, d: int, dim: int | None) -> None:
    rng = np.random.default_rng(n * d)
    span = d if dim is None else dim
    points = torch.from_numpy(rng.normal(size=(n, span)) @ rng.normal(size=(span, d)))
    box = Box.through(points, dim=dim)
    flat = box.basis.flatten(1)
    torch.testing.assert_close(flat @ flat.T, torch.eye(box.dim, dtype=torch.float64))
    assert box.scale == pytest.approx(1.0)
    coords = (points - box.origin) @ flat.T
    torch.testing.assert_close(box.embed(coords), points)
    torch.testing.assert_close(coords.amax(0), box.radius)
    torch.testing.assert_close(coords.amin(0), -box.radius)
    torch.testing.assert_close(Box.through(points, 0.25, dim=dim).radius, 1.5 * box.radius)
    aligned = Box.through([[0.0, 0.0], [4.0, 1.0], [1.0, 2.0]])  # these points span the inputs
    assert (aligned.basis.tolist(), aligned.radius.tolist()) == (EYE, [2.0, 1.0])
    assert Box(aligned.origin, EYE, np.float64(0.1)).radius.tolist() == [0.1, 0.1]  # with all digits


def test_a_slice_is_rebuilt_from_its_own_parts_only() -> None:
    slice: Any
    for slice in SLICES.values():
        twin = type(slice).from_parts(**vars(slice))
        assert vars(twin) == vars(slice)
    with pytest.raises(SliceError, match=r"basis, origin, radius for a Box, got \['basis', 'origin'\]"):
        Box.from_parts(origin=torch.zeros(2), basis=torch.eye(2))


WRONG = {
    "duplicate points": (lambda: Segment([1.0, 2.0], [1.0, 2.0]), "distinct points, got the same point at 0 and 1"),
    "collinear": (lambda: Simplex([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), "the 3 points to span .*got 1"),
    "more points than dimensions": (lambda: Simplex([[0.0], [1.0], [2.0]]), "inputs of at least 2 .*got 1"),
    "no points": (lambda: Simplex([]), "at least 2 points, got 0"),
    "not a sequence": (lambda: Simplex(3), "a sequence of inputs"),
    "differing shapes": (lambda: Segment([0.0], [1.0, 2.0]), r"points of one shape, got \(1,\) for point 0"),
    "NaN": (lambda: Segment([0.0], [math.nan]), "NaN or infinite"),
    "empty input": (lambda: Segment([], []), "point 0 to hold numbers"),
    "words": (lambda: Segment(["a"], ["b"]), "got text"),
    "complex": (lambda: Segment(torch.tensor([1j]), torch.tensor([2j])), "got complex numbers"),
    "sparse": (lambda: Simplex(torch.eye(3).to_sparse()), "sparse tensor .* Call to_dense"),
    "nested": (
        lambda: Simplex(torch.nested.nested_tensor([torch.ones(2)] * 3, layout=torch.jagged)),
        "a nested tensor",
    ),
    "without values": (lambda: Segment(*torch.eye(2, device="meta")), "on the device meta, without values"),
    "ragged": (lambda: Segment([[1.0], [2.0, 3.0]], [0.0]), "cannot be read"),
    "reversed": (lambda: Segment([0.0], [1.0]).extended(2.0, 1.0), "lo < hi"),
    "radius 0": (lambda: Box([0.0, 0.0], EYE, 0.0), "larger than 0"),
    "radii too many": (lambda: Box([0.0, 0.0], EYE, [1.0, 1.0, 1.0]), "one radius or 2, .* got 3. Pass one"),
    "no directions": (lambda: Box([0.0, 0.0], [], 1.0), "at least 1 direction, got 0"),
    "dependent directions": (lambda: Box([0.0, 0.0], [[1.0, 1.0], [2.0, 2.0]], 1.0), "to span 2 .*, got 1"),
    "center of another shape": (lambda: Box([0.0, 0.0, 0.0], EYE, 1.0), r"directions of shape \(k, 3\) .*got \(2, 2\)"),
    "box below rounding": (lambda: Box([1.0, 1.0], EYE, 1e-13), "larger radius"),
    "box through a line": (lambda: Box.through([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), "Pass dim=1"),
    "negative margin": (lambda: Box.through([[0.0], [1.0]], margin=-0.1), "margin of at least 0, .* got -0.1"),
    "no box between equal numbers": (lambda: Box.between(1.0, 1.0, (2,)), "low < high in every entry"),
    "low with three numbers": (lambda: Box.between([0.0] * 3, 1.0, (2,)), "one number or 2 for low, got 3. Pass one"),
    "sizes that overflow": (lambda: Box.between(-1e150, 1.0, (2,)), r"low to hold numbers of at most 1e\+100, got"),
    "coordinates of another dim": (lambda: Segment([0.0], [1.0]).embed(torch.zeros(3, 2)), r"\(v, 1\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_slice_is_one_clear_sentence(name: str) -> None:
    build, words = WRONG[name]
    with pytest.raises(SliceError, match=words) as caught:
        build()
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    "where",
    [
        Segment([0.0, 1.0, 2.0], [3.0, 1.0, -1.0]),
        Simplex([[0.0, 0.0, 0.0], [2.0, 0.0, 1.0], [0.0, 5.0, 1.0]]),
        Box([1.0, 1.0, 1.0], [[1.0, 1.0, 0.0], [0.0, 3.0, 0.1]], 2.0),
    ],
    ids=lambda where: type(where).__name__,
)
def test_projecting_undoes_embedding_and_measures_the_distance(where: Slice) -> None:
    coords = torch.rand(5, where.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3 - 1
    normal = torch.linalg.svd(where.basis)[2][where.dim]
    found = where.project(where.embed(coords) + 0.7 * normal)
    assert torch.allclose(found.coords, coords)
    assert torch.allclose(found.distances, torch.full((5,), 0.7, dtype=torch.float64))
    assert where.project(where.embed(coords)).distances.max() < 1e-12


def test_projecting_takes_images_arrays_and_datasets() -> None:
    images = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    plane = Box.through(images)
    coords, distances = plane.project(images)
    assert coords.shape == (3, 2)
    assert distances.max() < 1e-6
    assert torch.equal(plane.project(images.numpy()).coords, coords)
    pairs = TensorDataset(images, torch.tensor([0, 1, 2]))
    assert torch.equal(plane.project(pairs).coords, coords)
    with pytest.raises(SliceError, match=r"Expected inputs of shape \(n, 1, 4, 4\), got \(3, 16\)\. Reshape them\."):
        plane.project(images.flatten(1))
    with pytest.raises(SliceError, match=r"got \(3, 2\)\. Pass inputs of the network that the slice was made for\."):
        plane.project(torch.zeros(3, 2))


@pytest.mark.parametrize(
    ("d", "dtype"), [(2, torch.float32), (784, torch.float32), (3, torch.float16), (50, torch.bfloat16)]
)
def test_points_that_rounding_alone_moves_off_a_line_are_refused(d: int, dtype: torch.dtype) -> None:
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        a, b = torch.randn(2, d, generator=generator).to(dtype)
        for c in ((a + b) / 2, a + (b - a) / 3, 2 * b - a):
            if torch.linalg.matrix_rank(torch.stack([b - a, c - a]).double(), rtol=1e-10) < 2:
                continue  # nothing was rounded, which other tests are about
            with pytest.raises(SliceError, match="the 3 points to span 2 dimensions, got 1"):
                Simplex([a, b, c])
            with pytest.raises(SliceError, match="points that span 2 dimensions, got 3 points that span 1"):
                Box.through(torch.stack([a, b, c]))
            if dtype == torch.float32:
                with pytest.raises(SliceError, match="the 3 points to span 2 dimensions, got 1"):
                    Simplex(torch.stack([a, b, c]).numpy())
            assert Box.through(torch.stack([a, b, c]), dim=1).dim == 1
            assert Simplex(torch.stack([a, b, c]).double()).dim == 2  # these numbers are taken as exact


@pytest.mark.parametrize(("dtype", "aspect"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
def test_a_thin_triangle_is_accepted(dtype: torch.dtype, aspect: float) -> None:
    assert Box([0.0, 0.0], EYE, [1.0, 1e-8]).size == pytest.approx(4e-8)
    assert Segment([1.0], [1.0 + 1e-8]).size == pytest.approx(1e-8)
    generator = torch.Generator().manual_seed(0)
    for d in (2, 50):
        along, across = torch.linalg.qr(torch.randn(d, 2, generator=generator, dtype=torch.float64))[0].T
        points = torch.stack([0 * along, along, along / 2 + aspect * across]).to(dtype)
        assert Simplex(points).size == pytest.approx(aspect / 2, rel=1e-2)
        assert Box.through(points).dim == 2


@pytest.mark.parametrize(("scale", "unit"), [(1.0, 1.0), (1e-9, 1e9), (1e9, 1e-9), (1e9, 1e9), (1e-9, 1e-9)])
def test_whether_a_point_lies_on_a_slice_depends_neither_on_units_nor_on_coordinates(scale: float, unit: float) -> None:
    edge = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64) * unit
    where = Box([0.0, 0.0, 0.0], edge / scale, scale)
    inside, outside = [[1.0, -1.0], [0.3, 0.2]], [[1.001, 0.0], [0.0, -1.001]]
    coords = torch.tensor(inside + outside, dtype=torch.float64) * scale
    assert where.contains(coords).tolist() == [True, True, False, False]
    off = torch.tensor([[0.3, 0.2, 0.001]], dtype=torch.float64) * unit
    found, on = on_slice(where, torch.cat([where.embed(coords), off]).float())
    assert torch.allclose(found[:4], coords, rtol=1e-6)
    assert on.tolist() == [True, True, False, False, False]


def test_points_of_a_small_slice_far_away_lie_on_it_up_to_single_precision() -> None:
    ends = torch.tensor([[1000.0, 0.0], [1000.0, 0.01]])
    line = Segment(*ends)
    assert on_slice(line, ends + torch.tensor([6e-5, 0.0]))[1].all()
    assert on_slice(line, ends + torch.tensor([6e-3, 0.0]))[1].tolist() == [False, False]


@pytest.mark.parametrize(
    ("points", "match"),
    [
        ([[0, 0], [2, 0], [1, 0.5], [2, 2]], "convex polygon, got point 2, which is not a corner"),
        ([[0, 0], [1, 0], [2, 0], [2, 2]], "convex polygon, got point 1, which is not a corner"),
        ([[0, 0], [1, 0], [2, 0]], "span 2 dimensions, got 3 points that span 1. Pass points of one plane"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]], "got 4 points that span 3. Pass points of one plane"),
        ([[0, 0], [1, 0], [0, 1], [1, 0]], "Expected distinct points, got the same point at 1 and 3"),
    ],
)
def test_points_that_are_no_corners_of_a_convex_polygon_are_refused(points: list[list[float]], match: str) -> None:
    with pytest.raises(SliceError, match=match):
        Polygon(points)


def test_a_path_has_the_coordinates_of_its_legs() -> None:
    path = Polyline([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0], [0.0, 0.0]])
    assert path.size == sum(leg.size for leg in path.legs) == 12.0
    alpha = torch.tensor([[0.0], [0.25], [1.0]])
    for i, leg in enumerate(path.legs):
        torch.testing.assert_close(path.embed(alpha + i), leg.embed(alpha))
    coords, distances = path.project([[4.0, 4.0], [-1.0, 0.0], [2.0, 0.0]])
    assert coords.flatten().tolist() == [1.0, 0.0, pytest.approx(2 + 1 / 3)]
    assert distances.tolist() == [1.0, 1.0, 0.0]
    assert path.contains([[-0.1], [1.5], [3.1]]).tolist() == [False, True, False]
    with pytest.raises(SliceError, match="neighbouring points that differ, got the same point at 1 and 2"):
        Polyline([[0.0], [1.0], [1.0]])
