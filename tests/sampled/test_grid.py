"""Lattices in slices, streaming, and the refined count."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor

import regionscope as rs
from regionscope.errors import InputError
from regionscope.geometry import Box, Segment, Simplex, Slice
from regionscope.sampled.grid import RefinedCounts, grid_counts, label_maps, refined_counts
from regionscope.sampled.label_points import label_lattice, label_points
from regionscope.sampled.labels import Labeller, open_labeller
from regionscope.sampled.lattice import corners_and_directions, default_grid, make_lattice
from regionscope.sampled.refinement import hidden_cuts
from small_slices import mlp

TRIANGLE = Simplex([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
SQUARE = Box([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]], 0.5)


def open_function(function: Callable[[Tensor], Tensor]) -> AbstractContextManager[Labeller]:
    return open_labeller(function, torch.zeros(1, 2, dtype=torch.float64), (2,))


def count(function: Callable[[Tensor], Tensor], where: Slice | Sequence[Slice], grid: int | None = None) -> list[int]:
    with open_function(function) as labeller:
        return grid_counts(labeller, list(where) if isinstance(where, Sequence) else [where], grid).tolist()


def refined(function: Callable[[Tensor], Tensor], slices: list[Slice], *grid: int, **options: int) -> RefinedCounts:
    with open_function(function) as labeller:
        return refined_counts(labeller, slices, *grid, **options)


def checkerboard(k: int) -> Callable[[Tensor], Tensor]:
    return lambda x: (x * k).floor().clamp(0, k - 1).long().sum(1) % 2


@pytest.mark.parametrize("k", [1, 2, 3, 5, 7])
def test_known_shapes_have_known_counts(k: int) -> None:
    assert count(checkerboard(k), SQUARE) == [k * k]
    assert count(lambda x: (x[:, 0] * k).floor().clamp(0, k - 1).long(), SQUARE) == [k]
    assert count(lambda x: ((x - 0.5).abs().amax(1) * 2 * k).floor().clamp(max=k - 1).long(), SQUARE) == [k]
    assert count(checkerboard(k), Segment([0.0, 0.1 / k], [1.0, 0.1 / k])) == [k]


def test_lattices_have_the_documented_points() -> None:
    triangle = make_lattice("simplex", 2, 3)
    assert triangle.index.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]]
    assert len(make_lattice("simplex", 2, 30)) == 465
    assert len(make_lattice("box", 3, 4)) == 64
    assert [default_grid("simplex", k) for k in (1, 2, 3, 4, 5)] == [200, 30, 17, 11, 8]
    assert default_grid("simplex", 60) == 3
    for kind, dim in (("simplex", 1), ("simplex", 2), ("simplex", 3), ("box", 2), ("box", 3)):
        lattice = make_lattice(kind, dim, default_grid(kind, dim))
        first, second = lattice.index[lattice.pairs.T]
        assert ((second - first).abs().sum(1) == 1).all()
        assert len(lattice.pairs.unique(dim=0)) == len(lattice.pairs)
        finer = lattice.halved
        assert (finer.grid, len(finer)) == (2 * lattice.grid - 1, lattice.points_when_halved)
        assert torch.allclose(finer.units[finer.parents], lattice.units)


@pytest.mark.parametrize(
    "where",
    [
        Segment([0.0, 1.0], [2.0, 5.0]),
        Segment([0.0, 1.0], [2.0, 5.0]).extended(-2.0, 3.0),
        Simplex([[0.0, 1.0, 0.0], [2.0, 5.0, 1.0], [1.0, 1.0, 3.0]]),
        Box([1.0, 2.0], [[1.0, 0.0], [1.0, 1.0]], [0.5, 2.0]),
    ],
    ids=repr,
)
def test_the_points_are_those_of_the_slice(where: Slice) -> None:
    with open_labeller(lambda x: (x[:, 0] > 0).long(), None, where.input_shape) as labeller:
        (found,) = label_maps(labeller, [where], 4)
    frame = corners_and_directions([where])[0]
    inputs = frame[0] + found.lattice.units @ frame[1:]
    assert torch.allclose(where.embed(found.coords).flatten(1), inputs)
    normals, offsets = where.halfspaces
    assert (found.coords @ normals.T <= offsets + 1e-12).all()
    for corner in where.corners:
        assert float((found.coords - corner).abs().amax(1).min()) < 1e-12


@pytest.mark.parametrize(("dim", "rows"), [(1, 1), (2, 2), (3, 19), (1, 20), (2, 21), (3, 1000)])
def test_streaming_never_changes_the_labels(dim: int, rows: int) -> None:
    data = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    slices = [rs.sampled.Hulls(data, dim=dim).draw(i) for i in range(4)]
    net = mlp(5, 16, 3, seed=2).double()
    lattice = make_lattice("simplex", dim, {1: 20, 2: 5, 3: 4}[dim])
    with open_labeller(net, data, (5,), batch_size=rows) as labeller:
        labels = label_lattice(labeller, slices, lattice.units)
        owner = torch.arange(4).repeat_interleave(len(lattice))
        single = label_points(labeller, slices, owner, lattice.units.repeat(4, 1))
    wanted = torch.stack([net(slice.embed(lattice.units)).argmax(1) for slice in slices])
    assert torch.equal(labels, wanted)
    assert torch.equal(single, wanted.flatten())


def test_refining_finds_what_a_coarse_grid_misses() -> None:
    def sliver(x: Tensor) -> Tensor:
        return ((x[:, 0] - 0.317).abs() < 0.004).long()

    where = Segment([0.0, 0.0], [1.0, 0.0])
    found = refined(sliver, [where, where.extended(0.5, 1.0)], 6)
    coarse = refined(sliver, [where], 6, max_points=20)
    assert found.plain.tolist() == [1, 1]
    assert found.settled.tolist() == [True, True]
    assert found.counts.tolist() == [1, 1]  # 6 and 11 points agree, and both miss it: refining is no proof
    assert coarse.grid.tolist() == [11]
    finer = refined(sliver, [where, where.extended(0.5, 1.0)], 101)
    assert finer.counts.tolist() == [3, 1]
    assert finer.grid.tolist() == [201, 201]


def test_a_thin_diagonal_wedge_is_one_region_at_every_spacing() -> None:
    def wedge(x: Tensor) -> Tensor:
        right = x[:, 0] - 0.113
        return ((x[:, 1] - 0.1 - 0.93 * right).abs() < 0.02 * right).long()

    plain = [count(wedge, SQUARE, grid)[0] for grid in (30, 59, 117)]
    assert min(plain) > 4  # face connectivity tears it apart, and a finer lattice does not help
    found = refined(wedge, [SQUARE])
    assert found.counts.tolist() == [2]  # the wedge, and the rest, which goes round its tip
    assert found.settled.all()
    assert found.plain.tolist() == plain[:1]


def test_bridges_do_not_join_squares_that_touch_in_their_corners() -> None:
    for k in (2, 3, 5):
        assert refined(checkerboard(k), [SQUARE], 32, max_points=1).counts.tolist() == [k * k]
    for k in (2, 3):
        found = refined(lambda x, k=k: checkerboard(k)(x - torch.tensor([0.0123, 0.0056])), [SQUARE], 30)
        assert found.counts.tolist() == [k * k]
        assert found.settled.all()


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 12), marks=pytest.mark.slow)], ids=["few", "more"])
@pytest.mark.parametrize("width", [0.02, *(pytest.param(width, marks=pytest.mark.slow) for width in (0.01, 0.005))])
def test_a_strip_thinner_than_the_spacing_separates_what_lies_on_its_sides(width: float, seeds: range) -> None:
    """On the lattice its two sides seem connected, between the few points that fall into it."""
    for seed in seeds:
        height, slope = torch.rand(2, generator=torch.Generator().manual_seed(seed)).tolist()

        def strip(x: Tensor, a: float = 0.3 + 0.5 * height, b: float = 0.4 + 0.6 * slope) -> Tensor:
            above = x[:, 1] - a + b * x[:, 0]
            return ((above >= 0) & (above <= width)).long()

        found = refined(strip, [TRIANGLE])
        assert found.counts.tolist() == [3], (seed, found)


def test_hidden_cuts_are_found_along_a_whole_strip_and_nowhere_else() -> None:
    """A strip between two rows of the lattice, of which only the widened left end holds points."""

    def strip(x: Tensor) -> Tensor:
        return ((x[:, 1] - 0.517).abs() < 0.003 + 0.05 * (x[:, 0] < 0.1)).long()

    lattice = make_lattice("box", 2, 21)
    with open_function(strip) as labeller:
        labels = label_lattice(labeller, [SQUARE], lattice.units)
        cut = hidden_cuts(labeller, [SQUARE], lattice, labels)[0]
    ends = lattice.units[lattice.pairs[cut]]
    assert len(ends) == 19  # the columns right of the widened end
    assert ends[:, 0, 1].lt(0.517).all()
    assert ends[:, 1, 1].gt(0.517).all()


@pytest.mark.parametrize("dim", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_refined_counts_agree_with_exact_ones(dim: int) -> None:
    data = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)) * 2
    net = mlp(3, 8, 8, 4, seed=4)
    slices = [rs.sampled.Hulls(data, dim=dim).draw(i) for i in range(10)]
    exact = torch.tensor([found.count for found in rs.decision_regions(net, slices)])
    with open_labeller(net, data, (3,)) as labeller:
        found = refined_counts(labeller, slices)
    assert (found.counts != exact).sum() <= 1
    assert (found.counts - exact).abs().sum() < (found.plain - exact).abs().sum()


def test_label_maps_take_any_classifier_and_one_slice_or_several() -> None:
    net, segment = mlp(2, 16, 3, seed=0), Segment([0.0, 0.0], [1.0, 1.0])
    with open_labeller(net, None, (2,)) as labeller:
        wanted = label_maps(labeller, [SQUARE], 20)[0].labels
    (found,) = label_maps(net, SQUARE, 20)
    assert torch.equal(found.labels, wanted)
    assert torch.equal(label_maps(lambda x: net(x.float()), [SQUARE], 20)[0].labels, wanted)
    assert [len(each.labels) for each in label_maps(net, [segment, segment], 7)] == [7, 7]
    assert label_maps(net, []) == []
    with pytest.raises(InputError, match=r"Expected a Slice for label_maps\(\), got int\. Pass a Segment"):
        label_maps(net, [3])


@pytest.mark.parametrize(
    ("function", "where", "grid", "words"),
    [
        (checkerboard(2), SQUARE, 1, "at least 2"),
        (checkerboard(2), SQUARE, 10**6, r"at most 50,000,000 points in .*got 1e\+12 with grid=1000000 in 2"),
        (checkerboard(2), [SQUARE, TRIANGLE], None, "separate calls"),
        (lambda x: x * math.nan, TRIANGLE, None, "NaN for 465 of 465"),
    ],
)
def test_bad_input_is_one_sentence(function: Any, where: Any, grid: int | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        count(function, where, grid)
