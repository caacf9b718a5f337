"""Whether neighbours have equal maps: decided from derivatives, at the scale of slopes, for thin regions too."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

import regionscope as rs
from cases import CASES
from nasty.case import Case
from regionscope.exact.slope_jumps import slope_jumps
from regionscope.geometry.arrays import components
from small_slices import Function, mlp


def pooled() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 8), nn.ReLU6(), nn.Linear(8, 3)
    )


def by_derivatives(part: rs.Partition) -> int:
    """All walls decided from derivatives: the slow twin of ``n_linear_regions``."""
    assert part.program is not None
    inner = part.walls.inner
    program = part.program.shortened(len(part.by_layer))
    same, undecided = slope_jumps(program, part.slice, part.interior[part.walls.regions[inner]])
    assert not bool(undecided.any())
    return int(components(len(part), part.walls.regions[inner][same]).max()) + 1


@pytest.fixture
def networks() -> list[tuple[nn.Sequential, rs.Slice]]:
    torch.manual_seed(1)
    images = torch.rand(3, 1, 8, 8)
    return [
        (mlp(2, 16, 16, 2), rs.Box([0.0, 0.0], torch.eye(2), 3.0)),
        (mlp(2, 16, 16, 2), rs.Segment([-3.0, 1.0], [3.0, 0.5])),
        (pooled(), rs.Segment(images[0], images[1])),
        (pooled(), rs.Simplex(images)),
    ]


def shifted(model: nn.Sequential) -> None:
    model[-1].bias += 1e8


def shrunk(model: nn.Sequential) -> None:
    model[-1].weight *= 1e-12
    model[-1].bias += 1.0


@pytest.mark.slow
@pytest.mark.parametrize("change", [shifted, shrunk])
def test_constants_and_the_scale_of_the_outputs_do_not_matter(
    change: Callable[[nn.Sequential], None], networks: list[tuple[nn.Sequential, rs.Slice]]
) -> None:
    for model, slice in networks:
        before = rs.linear_regions(model, slice)
        other = copy.deepcopy(model).double()
        with torch.no_grad():
            change(other)
        after = rs.linear_regions(other, slice)
        assert after.n_linear_regions == before.n_linear_regions > 5
        assert after.n_undecided == before.n_undecided == 0


@pytest.mark.slow
def test_decided_quickly_or_from_derivatives(networks: list[tuple[nn.Sequential, rs.Slice]]) -> None:
    for model, slice in networks:
        part = rs.linear_regions(model, slice)
        assert part.n_linear_regions == by_derivatives(part)


@pytest.mark.filterwarnings("ignore:Rounding leaves")  # of lines that meet in a point up to rounding
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_nasty_cases(case: Case) -> None:
    part = rs.linear_regions(case.build(), case.slice)
    if len(part.slivers(1e-12)):  # found in integers: floats have no point inside them at which to take derivatives
        assert part.certify().certified
    elif len(part.walls.inner):
        assert part.n_linear_regions == by_derivatives(part)


def test_a_jump_that_is_small_beside_the_slope_is_one() -> None:
    """f(x) = x + 1e-13 |x - 1/3| has two linear regions; g(x) = relu(x) - relu(-x) = x has one."""
    steep = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1, bias=False)).double()
    with torch.no_grad():
        steep[0].weight.copy_(torch.tensor([[1.0], [1.0], [-1.0]]))
        steep[0].bias.copy_(torch.tensor([2.0, -1 / 3, 1 / 3]))
        steep[2].weight.copy_(torch.tensor([[1.0, 1e-13, 1e-13]]))
    assert by_derivatives(rs.linear_regions(steep, rs.Segment([-1.0], [1.0]))) == 2
    with torch.no_grad():
        steep[2].weight.copy_(torch.tensor([[1.0, 0.7, -0.7]]))
    assert rs.linear_regions(steep, rs.Segment([-1.0], [1.0])).n_linear_regions == 1


@pytest.mark.parametrize("constant", [0.0, 1e8])
@pytest.mark.parametrize(
    ("function", "ends", "count"),
    [
        (lambda x: x.clamp(0.3, 0.30001) + torch.relu(x - 0.30001), (-0.2, 1.07), 2),  # max(x, 0.3)
        (lambda x: x.clamp(1000, 1001) + torch.relu(x - 1001), (999.0, 1003.0), 2),  # max(x, 1000)
        (lambda x: x + 1e-10 * torch.relu(x), (-1.0, 1.3), 2),
    ],
    ids=["narrow clamp", "clamp far out", "small jump"],
)
def test_functions_with_known_regions(
    function: Callable[[torch.Tensor], torch.Tensor], ends: tuple[float, float], count: int, constant: float
) -> None:
    part = rs.linear_regions(Function(lambda x: function(x) + constant), rs.Segment([ends[0]], [ends[1]]))
    assert part.n_linear_regions == count


@pytest.mark.parametrize("size", [1e4, 1e6])
def test_large_terms_that_cancel_in_a_hidden_layer_make_no_regions(size: float) -> None:
    """relu(z) - relu(-z) - relu(z + K) + K is 0 for z > -K, up to rounding of size K."""
    for seed in (2, 26, 41):
        torch.manual_seed(seed)
        w, b, v = torch.randn(1, 3).double(), torch.randn(1).double(), torch.randn(5, 1).double()
        first, second, last = nn.Linear(3, 6).double(), nn.Linear(6, 5).double(), nn.Linear(5, 2).double()
        wide, narrow = nn.Linear(3, 9).double(), nn.Linear(9, 5).double()
        with torch.no_grad():
            wide.weight.copy_(torch.cat([first.weight, w, -w, w]))
            wide.bias.copy_(torch.cat([first.bias, b, -b, b + size]))
            narrow.weight.copy_(torch.cat([second.weight, v, -v, -v], 1))
            narrow.bias.copy_(second.bias + v[:, 0] * size)
        line = rs.Segment(3 * torch.randn(3), 3 * torch.randn(3))
        plain = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)
        padded = nn.Sequential(wide, nn.ReLU(), narrow, nn.ReLU(), last)
        assert rs.linear_regions(padded, line).n_linear_regions == rs.linear_regions(plain, line).n_linear_regions


def test_undecided_walls_are_shown() -> None:
    torch.manual_seed(0)
    line = rs.Segment(torch.rand(1, 8, 8), torch.rand(1, 8, 8))
    part = rs.linear_regions(pooled(), line)
    same, undecided = (torch.ones(len(part.walls.inner), dtype=torch.bool) for _ in range(2))
    undecided[1:] = False
    shown = replace(part, compared=(same, undecided))
    assert shown.n_undecided == 1
    assert "n_undecided=1" in repr(shown)
    monitor = rs.Monitor({"regions": lambda model: shown}, when="every step")
    with pytest.warns(UserWarning, match="leaves 1 walls or regions open"):
        rows = monitor(0, pooled())
    assert ("regions.undecided", 1.0) in [(row.name, row.value) for row in rows]
    assert "undecided" not in repr(part)
    assert {name for name, _, _ in part.readings()} == {"", "activation"}


@pytest.mark.parametrize(
    ("behind", "dim"), [("nothing", 1), ("nothing", 2), ("one live unit", 1), ("live units", 1), ("live units", 2)]
)
def test_opposite_units_of_thousands_of_inputs_bend_nothing(behind: str, dim: int) -> None:
    """Networks that are affine on a short slice far from 0: the crossing units were not seen to be zero on their walls,
    and 45 of 120 draws had too many linear regions.
    """
    n, half = 4096, 32 if dim == 1 else 6
    for seed in (0, 1, 7):
        torch.manual_seed(seed)
        first, second = nn.Linear(n, 2 * half).double(), nn.Linear(2 * half, 16 if "units" in behind else 1).double()
        center = torch.rand(n, dtype=torch.float64) * 255
        directions = torch.randn(dim, n, dtype=torch.float64) * 255e-6
        with torch.no_grad():
            first.weight[half:] = -first.weight[:half]
            second.weight[:, half:] = -second.weight[:, :half]
            first.bias[:half] -= first(center)[:half] * (1 - 1e-9)
            first.bias[half:] = -first.bias[:half]
            second.bias += 0 if behind == "nothing" else 1e6
        layers = [] if behind == "nothing" else [nn.ReLU(), nn.Linear(second.out_features, 1).double()]
        part = rs.linear_regions(nn.Sequential(first, nn.ReLU(), second, *layers), rs.Box(center, directions, 1.0))
        assert part.n_activation_regions >= half
        assert part.n_linear_regions == 1
        if seed == 0:  # integers take seconds
            assert part.n_undecided == 0


@pytest.mark.parametrize("dim", [1, 2])
def test_maps_of_slivers_are_as_accurate_as_others(dim: int) -> None:
    """The region between two folds 1e-11 apart had a slope that was off by 1e-6."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
        net[0].bias.copy_(torch.tensor([-1 / 3, -1 / 3 - 1e-11], dtype=torch.float64))
        net[2].weight.copy_(torch.tensor([[1.7, -0.9]]))
    part = rs.linear_regions(net, rs.Box([0.0, 0.0], torch.eye(2)[:dim], 1.0))
    (sliver,) = part.slivers().tolist()
    assert part.sizes[sliver] / part.slice.size == pytest.approx(5e-12, rel=1e-3)
    along = net[2].weight[0, 0].item()
    assert part.maps.slope[sliver, 0, 0].item() == pytest.approx(along, rel=1e-12)
    assert len(part.slivers(1.0)) == len(part) == part.n_linear_regions == 3
    part.check()
