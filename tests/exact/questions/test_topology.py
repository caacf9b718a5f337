"""Topology of decision regions: closed forms, the Euler characteristic counted cell by cell, and fine grids."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from scipy import ndimage
from torch import Tensor, nn

import regionscope as rs
from cases import CASES, Case, marked
from regionscope.errors import InputError, SliceError
from small_slices import SQUARE, Function
from strategies import Problem, problems

PLANAR = [case for case in CASES if case.slice.dim == 2]


def formula(function: Callable[[Tensor, Tensor], Tensor]) -> nn.Module:
    """A network with one output, written as a function of x and y."""
    return Function(lambda inputs: function(inputs[:, :1], inputs[:, 1:]))


def square_at(x: float, y: float, radius: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: radius - torch.maximum((a - x).abs(), (b - y).abs())


def any_of(*parts: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def union(a: Tensor, b: Tensor) -> Tensor:
        found = parts[0](a, b)
        for part in parts[1:]:
            found = torch.maximum(found, part(a, b))
        return found

    return union


def shape(function: Callable[[Tensor, Tensor], Tensor]) -> dict[int, tuple[int, int, int, bool]]:
    """Components, holes, Euler characteristic and touches_border of both classes."""
    dec = rs.decision_regions(formula(function), SQUARE)
    found = dec.topology()
    assert sum(one.components for one in found.values()) == dec.count
    return {label: (one.components, one.holes, one.euler, one.touches_border) for label, one in found.items()}


def test_a_ring_has_a_hole_and_two_boundaries() -> None:
    def ring(x: Tensor, y: Tensor) -> Tensor:
        return 0.25 - (x.abs() + y.abs() - 0.5).abs()  # between the diamonds of radius 1/4 and 3/4

    assert shape(ring) == {0: (2, 1, 1, True), 1: (1, 1, 0, False)}
    found = rs.decision_regions(formula(ring), SQUARE).topology()
    expected = 4 * np.sqrt(2) * (0.25 + 0.75)
    assert found[0].boundary_length == pytest.approx(expected, rel=1e-12)
    assert found[1].boundary_length == pytest.approx(expected, rel=1e-12)
    assert repr(found) == "Topology(class 0: 2 components, 1 hole; class 1: 1 component, 1 hole)"


def board(x: Tensor, y: Tensor) -> Tensor:
    a, b = x.abs() - 1 / 3, y.abs() - 1 / 3
    return (a + b).abs() - (a - b).abs()  # has the sign of a * b


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (board, {0: (4, 0, 4, True), 1: (5, 0, 5, True)}),  # its squares touch in points alone
        (
            any_of(square_at(-0.5, -0.5, 0.2), square_at(0.5, 0.5, 0.2), square_at(0.5, -0.5, 0.1)),
            {0: (1, 3, -2, True), 1: (3, 0, 3, False)},
        ),
        (any_of(square_at(-0.25, -0.25, 0.25), square_at(0.25, 0.25, 0.25)), {0: (1, 1, 0, True), 1: (2, 0, 2, False)}),
        (lambda x, y: 0.5 - ((x - 0.5).abs() + y.abs()), {0: (1, 0, 1, True), 1: (1, 0, 1, False)}),
        (lambda x, y: x + y + 3, {1: (1, 0, 1, True)}),
    ],
    ids=["checkerboard", "several holes", "holes that touch in a point", "a hole that touches the border", "one class"],
)
def test_shapes_of_classes(
    function: Callable[[Tensor, Tensor], Tensor], wanted: dict[int, tuple[int, int, int, bool]]
) -> None:
    assert shape(function) == wanted


def test_lengths_are_those_of_input_space() -> None:
    stretched = rs.Box(torch.zeros(2), [[3.0, 0.0], [1.0, 2.0]], 1.0)  # x = 0 runs along 3 c + d = 0, |d| <= 1
    found = rs.decision_regions(formula(lambda x, y: x), stretched).topology()
    assert found[0].boundary_length == pytest.approx(4.0, rel=1e-12)  # y = 2 d, from -2 to 2


def test_other_dimensions_are_refused() -> None:
    dec = rs.decision_regions(formula(lambda x, y: x), rs.Segment([-1.0, 0.0], [1.0, 0.0]))
    with pytest.raises(InputError, match="Expected a slice of dimension 2, got 1"):
        dec.topology()


def test_volumes_add_up() -> None:
    dec = rs.decision_regions(formula(square_at(0.0, 0.0, 0.5)), SQUARE)
    assert dec.volumes() == pytest.approx({0: 3.0, 1: 1.0})
    line = rs.decision_regions(formula(lambda x, y: x), rs.Segment([-3.0, -4.0], [3.0, 4.0]))
    assert line.volumes() == pytest.approx({0: 5.0, 1: 5.0})


def euler_cell_by_cell(dec: rs.DecisionRegions, label: int) -> int:
    """Faces - edges + vertices of the open set of one class."""
    part = dec.partition
    mine = dec.piece_labels == label
    inner = part.walls.inner
    edges = mine[part.walls.regions[inner]].all(1).sum()
    inside = torch.ones(len(part.vertices), dtype=torch.bool)
    owner = torch.repeat_interleave(torch.arange(len(part)), part.offsets.diff())
    inside[part.corners[~mine[owner]]] = False
    border = (part.walls.regions < 0).any(1)
    inside[part.walls.vertices.reshape(-1, 2)[border]] = False
    return int(mine.sum() - edges + inside.sum())


def assert_consistent(dec: rs.DecisionRegions) -> None:
    found = dec.topology()
    assert sum(one.components for one in found.values()) == dec.count
    for label, one in found.items():
        assert one.components == int((dec.labels == label).sum())
        assert one.euler == euler_cell_by_cell(dec, label)
    basis = dec.partition.slice.basis.flatten(1)
    boundary = ((dec.boundary[:, 1] - dec.boundary[:, 0]) @ basis).norm(dim=1).sum()
    assert sum(one.boundary_length for one in found.values()) == pytest.approx(2 * float(boundary))
    assert sum(dec.volumes().values()) == pytest.approx(dec.partition.slice.size)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Rounding leaves")  # of lines that meet in a point up to rounding
@pytest.mark.parametrize("case", [marked(case) for case in PLANAR], ids=str)
def test_euler_characteristic_of_the_nasty_cases(case: Case) -> None:
    model = case.build()
    if len(rs.trace(model, case.slice.input_shape).output_shape) == 1:
        assert_consistent(rs.decision_regions(model, case.slice))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(problems(dims=(2,)))
def test_euler_characteristic_of_random_networks(problem: Problem) -> None:
    try:
        slice = problem.slice()
    except SliceError:
        assume(False)
    assert_consistent(rs.decision_regions(problem.build(), slice))


def grid_shape(labels: np.ndarray, label: int) -> tuple[int, int, bool]:
    """4-connected components of a class, and 8-connected components of its complement that miss the border."""
    mine = labels == label
    components = ndimage.label(mine)[1]
    background, n = ndimage.label(~mine, structure=np.ones((3, 3)))
    edge = np.ones_like(mine)
    edge[1:-1, 1:-1] = False
    return components, n - len(set(background[edge].tolist()) - {0}), bool(mine[edge].any())


def wavy(seed: int) -> nn.Module:
    """A network with several decision regions of fair size."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(2, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 2)).double()
        for layer in (net[0], net[2], net[4]):
            nn.init.normal_(layer.weight, std=1.4)
            nn.init.normal_(layer.bias, std=0.5)
        with torch.no_grad():
            net[4].bias -= net(4 * torch.rand(2000, 2, dtype=torch.float64) - 2).mean(0)
    return net


def on_grid(model: nn.Module, n: int) -> dict[int, tuple[int, int, bool]]:
    """The shape of each class on a grid of n x n pixels over [-2, 2]^2."""
    at = 2 * (2 * torch.arange(n, dtype=torch.float64) + 1 - n) / n
    with torch.no_grad():
        rows = [model(torch.cartesian_prod(some, at)).argmax(1).to(torch.int8) for some in at.split(100)]
    labels = torch.cat(rows).reshape(n, n).numpy()
    return {label: grid_shape(labels, label) for label in sorted(set(labels.reshape(-1).tolist()))}


@pytest.mark.slow
def test_random_networks_agree_with_fine_grids() -> None:
    """A grid breaks corners and necks narrower than a pixel, so each class needs to agree with one of three grids.

    Networks with a decision region smaller than a pixel are left out.
    """
    slice, holes, at_once = rs.Box(torch.zeros(2), torch.eye(2), 2.0), 0, 0
    for seed in range(30):
        model = wavy(seed)
        dec = rs.decision_regions(model, slice)
        if float(dec.sizes.min()) < 1e-4:
            continue
        exact = {label: (one.components, one.holes, one.touches_border) for label, one in dec.topology().items()}
        left = dict(exact)
        for n in (250, 1000, 3000):
            grid = on_grid(model, n)
            left = {label: one for label, one in left.items() if grid.get(label) != one}
            at_once += n == 250 and not left
            if not left:
                break
        assert not left, f"seed {seed}"
        holes += sum(one[1] for one in exact.values())
    assert at_once >= 20
    assert holes >= 1
