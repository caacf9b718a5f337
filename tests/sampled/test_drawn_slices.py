"""Drawing slices: what they go through, that they are reproducible, and what is refused."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from regionscope.errors import InputError, SliceError
from regionscope.geometry import Segment, Slice
from regionscope.sampled.drawn_slices import GivenSlices, Hulls, RandomDirections

DATA = torch.randn(20, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def corners(slice: Slice) -> torch.Tensor:
    return slice.embed(slice.corners)


def rows_of(points: torch.Tensor, data: torch.Tensor = DATA) -> list[int]:
    distances = torch.cdist(points.flatten(1), data.flatten(1))
    assert float(distances.min(1).values.max()) < 1e-12
    return distances.argmin(1).tolist()


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 7])
def test_a_hull_goes_through_different_inputs(dim: int) -> None:
    sampler = Hulls(DATA, dim=dim)
    for i in range(10):
        slice = sampler.draw(i)
        assert slice.dim == dim
        assert slice.input_shape == (3, 4)
        assert len(set(rows_of(corners(slice)))) == dim + 1


@pytest.mark.slow
def test_every_ordered_pair_is_drawn_about_equally_often() -> None:
    sampler = Hulls(DATA[:3], dim=1, seed=4)
    pairs = Counter(tuple(rows_of(corners(sampler.draw(i)))) for i in range(1200))
    assert len(pairs) == 6
    assert max(abs(times - 200) for times in pairs.values()) < 6 * math.sqrt(200)


def test_slice_i_depends_on_the_seed_and_i_alone() -> None:
    state = torch.get_rng_state()
    first, second = Hulls(DATA, dim=2, seed=7), Hulls(DATA, dim=2, seed=7)
    alone = corners(first.draw(5))
    assert torch.equal(torch.stack([corners(second.draw(i)) for i in range(6)])[5], alone)
    assert not torch.equal(corners(Hulls(DATA, dim=2, seed=8).draw(5)), alone)
    assert not torch.equal(corners(first.draw(4)), alone)
    assert torch.equal(torch.get_rng_state(), state)


def test_ranges_beyond_the_hull() -> None:
    plain, wide = Hulls(DATA, dim=1).draw(0), Hulls(DATA, dim=1, alpha=(-1.0, 2.0)).draw(0)
    assert isinstance(wide, Segment)
    assert (wide.lo, wide.hi) == (-1.0, 2.0)
    assert torch.equal(wide.embed(plain.corners), corners(plain))
    points = corners(Hulls(DATA, dim=2).draw(0))
    stretched = corners(Hulls(DATA, dim=2, alpha=(-0.5, 2.0)).draw(0))
    x0, u, v = points[0], points[1] - points[0], points[2] - points[0]
    expected = torch.stack([x0 - 0.5 * u - 0.5 * v, x0 + 2.5 * u - 0.5 * v, x0 - 0.5 * u + 2.5 * v])
    assert torch.allclose(stretched, expected)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_random_directions_have_a_fixed_length_and_are_orthogonal(dim: int) -> None:
    slice = RandomDirections(DATA, dim=dim, seed=2, length=2.5).draw(3)
    points = corners(slice).flatten(1)
    rows_of(points[:1].reshape(1, 3, 4))
    directions = points[1:] - points[0]
    assert torch.allclose(directions @ directions.T, 6.25 * torch.eye(dim, dtype=torch.float64))


def test_slices_along_random_directions_meet_a_half_space_as_often_as_they_should() -> None:
    start, far = torch.zeros(1, 5), 0.3  # the vertices of a slice: the origin, and the ends of both directions
    beyond = [
        bool((corners(RandomDirections(start, dim=2, length=1.0).draw(i))[:, 0] > far).any()) for i in range(1000)
    ]
    # u_1[0] and u_2[0] have the density (3 / (2 pi)) sqrt(1 - s^2 - t^2) in the unit disc.
    step = torch.linspace(-1, far, 2001, dtype=torch.float64)
    density = (1 - step[:, None] ** 2 - step**2).clamp_min(0).sqrt() * 3 / (2 * math.pi)
    wanted = 1 - float(torch.trapezoid(torch.trapezoid(density, step), step))
    assert wanted == pytest.approx(0.490, abs=1e-3)
    assert sum(beyond) / 1000 == pytest.approx(wanted, abs=5 * 0.5 / 1000**0.5)


def test_the_default_length_is_the_mean_distance_of_pairs() -> None:
    distances = torch.pdist(DATA.flatten(1))
    assert RandomDirections(DATA).reach == pytest.approx(float(distances.mean()), rel=0.05)
    assert RandomDirections(DATA, seed=1).reach == RandomDirections(DATA, seed=1).reach


def test_equal_inputs_are_drawn_again() -> None:
    twins = torch.cat([torch.zeros(9, 2), torch.ones(1, 2)])
    for i in range(20):
        assert Hulls(twins, dim=1).draw(i).size == pytest.approx(math.sqrt(2))
    with pytest.raises(SliceError, match=r"inputs that span slices of .*got none in 100 draws\. Lower dim"):
        Hulls(torch.zeros(9, 2), dim=1).draw(0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Hulls(DATA[:2], dim=2), "2 input"),
        (lambda: Hulls(DATA, dim=0), "dim to be a whole number of at least 1, got 0"),
        (lambda: Hulls(DATA, dim=1, alpha=(1.0, 0.0)), "lo < hi"),
        (lambda: Hulls(DATA, dim=1, alpha=(0.0, math.inf)), "finite"),
        (lambda: Hulls(torch.randn(5, 2), dim=3).draw(0), "inputs of at least 3 entries for the 4 points, got 2"),
        (lambda: Hulls(torch.full((4, 2), math.nan), dim=1).draw(0), "NaN"),
        (lambda: RandomDirections(DATA, dim=1, length=-1.0), "positive"),
        (lambda: RandomDirections(DATA, dim=13, length=1.0).draw(0), "at most 12"),
        (lambda: RandomDirections(torch.zeros(5, 2)).reach, "different inputs to derive length from, got equal ones"),
        (lambda: GivenSlices([]), "empty"),
        (lambda: GivenSlices([1]), "got int"),
        (lambda: GivenSlices([Segment([0.0], [1.0]), Segment([0.0, 0.0], [1.0, 0.0])]), "one input shape"),
    ],
)
def test_bad_input_is_one_sentence(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
