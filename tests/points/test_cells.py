"""Maps, half-spaces, neighbours and walks, against definitions and closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from nasty.modules import LongSkip, Maxout, general_lines, layers, lines, mlp, pooled_cnn, relu_net, seeded
from regionscope.network import patterns, trace
from regionscope.points import regions_at, walk_regions

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP": (seeded(0, lambda: mlp([3, 6, 6, 2])), (3,)),
    "more outputs than inputs": (seeded(1, lambda: mlp([2, 5, 7])), (2,)),
    "hardtanh": (seeded(3, lambda: mlp([3, 5, 5, 2], lambda: nn.Hardtanh(-0.2, 0.3))), (3,)),
    "maxout": (seeded(5, lambda: Maxout(nn.Linear(3, 9), 3, mlp([3, 5, 2]))), (3,)),
    "long skip": (seeded(6, lambda: LongSkip(3, 5, 3)), (3,)),
    "max pool": (seeded(10, lambda: pooled_cnn(3, 2, 2)), (1, 2, 2)),
}


@pytest.fixture(params=NETWORKS, scope="module")
def network(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor]:
    build, shape = NETWORKS[request.param]
    generator = torch.Generator().manual_seed(0)
    return build().double(), torch.randn(3, *shape, generator=generator, dtype=torch.float64)


def test_the_map_is_the_network_inside_the_region(network: tuple[nn.Module, Tensor]) -> None:
    model, x = network
    at = regions_at(model, x)
    for i in range(len(x)):
        affine = at.map(i)
        step = 0.5 * at.distance[i] * torch.nn.functional.normalize(torch.ones_like(x[i]).flatten(), dim=0)
        inside = torch.stack([x[i], x[i] + step.reshape(x[i].shape)])
        torch.testing.assert_close(affine(inside), model(inside), rtol=0, atol=1e-12)
        total = at.contribution(i).flatten(affine.offset.ndim).sum(-1) + affine.offset
        torch.testing.assert_close(total, model(x[i : i + 1])[0], rtol=0, atol=1e-12)


def test_half_spaces_hold_exactly_the_points_of_the_pattern(network: tuple[nn.Module, Tensor]) -> None:
    model, x = network
    program = trace(model, tuple(x.shape[1:]))
    at = regions_at(model, x)
    around = x[0] + torch.randn(500, *x.shape[1:], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    same = (patterns(program, around) == patterns(program, x[:1])).all(1).numpy()
    cell = at.halfspaces(0)
    assert np.array_equal(cell.contains(around), same)
    facets = at.facets(0)
    assert np.array_equal(facets.contains(around), same)
    assert len(facets) <= len(cell)
    slack = (cell.offsets - cell.normals @ x[0].flatten().numpy()) / cell.sizes
    assert slack.min() == pytest.approx(at.distance[0].item(), rel=1e-9)
    reach = 1.001 * float(np.median(slack))
    assert len(at.halfspaces(0, within=reach)) == (slack <= reach).sum()


def test_samples_lie_in_the_region_and_in_the_box(network: tuple[nn.Module, Tensor]) -> None:
    model, x = network
    at = regions_at(model, x)
    drawn = at.sample(0, 20, within=0.5)
    assert drawn.shape == (20, *x.shape[1:])
    assert at.halfspaces(0).contains(drawn, margin=1e-12).all()
    assert ((drawn - x[0]).abs() <= 0.5 + 1e-12).all()
    assert torch.equal(drawn, at.sample(0, 20, within=0.5))


def test_neighbours_differ_by_what_shares_the_facet(network: tuple[nn.Module, Tensor]) -> None:
    model, x = network
    program = trace(model, tuple(x.shape[1:]))
    at = regions_at(model, x)
    beside = at.neighbours(0)
    mine, others = patterns(program, x[:1]), patterns(program, beside.inside)
    assert len(others.unique(dim=0)) == len(beside) == len(at.facets(0))
    starts = np.cumsum([0, *(fold.n_units for fold in program.folds)])
    columns = starts[beside.facets.fold] + beside.facets.unit
    assert (mine[0, columns] != others[np.arange(len(others)), columns]).all()
    again = regions_at(model, torch.cat([x, beside.inside]))
    assert torch.equal(again.neighbours(0).ids, again.ids[len(x) :])


def test_facets_and_inradius_of_a_triangle() -> None:
    """x, y > 0 and x + y < 2, and x < 3, which is redundant."""
    net = lines([[1, 0], [0, 1], [-1, -1], [-1, 0]], [0, 0, 2, 3])
    at = regions_at(net, torch.tensor([[0.5, 0.5], [5.0, -1.0]], dtype=torch.float64))
    assert at.facets(0).unit.tolist() == [0, 1, 2]
    assert at.inradius(0) == pytest.approx(2 - math.sqrt(2))
    assert at.inradius(1) == math.inf
    assert at.sample(0, 400, within=(-1.0, 3.0)).mean(0).tolist() == pytest.approx([2 / 3, 2 / 3], abs=0.1)
    with pytest.raises(rs.InputError, match="Swap them"):
        at.sample(0, 2, within=(3.0, -1.0))
    with pytest.raises(rs.InputError, match="Expected a box that meets the region"):
        at.sample(0, 2, within=(-9.0, -8.0))
    assert regions_at(net, torch.tensor([[0.5, 0.5]]), norm=1).inradius(0) == pytest.approx(2 / 3)
    assert regions_at(net, torch.tensor([[0.5, 0.5]]), norm=math.inf).inradius(0) == pytest.approx(0.5)


def test_an_input_on_folds_has_the_map_of_the_stated_side() -> None:
    net = layers([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], nn.ReLU(), [[1.0, 1.0, 1.0]])
    at = regions_at(net, torch.zeros(1, 2, dtype=torch.float64))
    gradient = [math.copysign(1.0, at.side[0]), float(at.side[1] > 0)]
    assert at.map(0).matrix.tolist() == [gradient]
    assert at.halfspaces(0).contains(at.side[None])[0]


def test_a_walk_visits_all_cells_in_order() -> None:
    """n lines in general position make 1 + n + C(n, 2) cells."""
    walk = walk_regions(general_lines(5), [0.0, 0.0], 100)
    assert len(walk) == 1 + 5 + 10
    assert walk.whole_space
    assert (walk.distance.diff() >= 0).all()
    program = trace(general_lines(5), (2,))
    assert len(patterns(program, walk.inside).unique(dim=0)) == len(walk)


def test_a_walk_finds_the_closest_cells() -> None:
    """Against the regions of a box that holds them: the distance of each to the centre."""
    model, centre = seeded(4, lambda: mlp([2, 8, 8, 2]))(), torch.tensor([0.1, 0.2], dtype=torch.float64)
    walk = walk_regions(model, centre, 12)
    assert not walk.whole_space
    reach = float(walk.distance[-1])
    part = rs.linear_regions(model, rs.Box(centre, torch.eye(2), 1.01 * reach))
    program = trace(model, (2,))
    inside = part.slice.embed(part.interior)
    expected = patterns(program, inside)
    visited = patterns(program, walk.inside)
    rows = {tuple(row) for row in expected.tolist()}
    assert {tuple(row) for row in visited.tolist()} <= rows
    closer = part.slice.embed(part.vertices)
    for row, region in zip(expected.tolist(), range(len(part)), strict=True):
        corners = closer[part.corners[part.offsets[region] : part.offsets[region + 1]]] - centre
        if float(corners.norm(dim=1).min()) < 0.9 * reach:
            assert row in visited.tolist()
    torch.testing.assert_close((walk.closest - centre).norm(dim=1), walk.distance, rtol=1e-6, atol=1e-9)


def test_the_table_has_one_row_for_each_region() -> None:
    net = relu_net(([[1.0], [1.0]], [0.0, -2.0]), [[1.0, -3.0], [0.0, 1.0]])
    x = torch.tensor([[1.5], [3.0], [1.0], [5.0], [0.5], [-1.0]])
    table = regions_at(net, x).table(labels=[0, 1, 0, 1, 1, 1])
    assert {name: column.tolist() for name, column in table.items()} == {
        "region": [0, 1, 2],
        "inputs": [3, 2, 1],
        "distance": [pytest.approx(2 / 3), 2.0, 1.0],
        "predicted": [0, 1, 0],
        "nearest": ["1[0]", "1[1]", "1[0]"],
        "label": [0, 1, 1],
        "labels": [2, 1, 1],
        "accuracy": [pytest.approx(2 / 3), 1.0, 0.0],
    }


def test_indices_and_memory_are_checked() -> None:
    at = regions_at(nn.Sequential(nn.Linear(600, 600), nn.ReLU()), torch.randn(1, 600))
    with pytest.raises(rs.InputError, match="index of one of 1 input, got 1"):
        at.map(1)
    with pytest.raises(rs.LimitReached, match="Pass within="):
        at.halfspaces(0, memory=1 << 20)
    with pytest.raises(rs.InputError, match="one for each input"):
        at.table(labels=[1, 2])
