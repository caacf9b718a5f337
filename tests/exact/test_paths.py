"""Paths of several points: regions along them, counted by hand, by dense evaluation and leg by leg."""

from __future__ import annotations

import pickle

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import regionscope as rs
from regionscope import exact, plot
from regionscope.network import patterns
from small_slices import Function, mlp


def runs(values: torch.Tensor) -> int:
    """Number of runs of equal rows."""
    return 1 + int((values[1:] != values[:-1]).flatten(1).any(1).sum())


@pytest.mark.parametrize("seed", range(3))
def test_the_regions_along_a_path_are_those_of_a_dense_evaluation(seed: int) -> None:
    net = mlp(3, 8, 8, 4, seed=seed)
    path = rs.Polyline(2 * torch.randn(6, 3, generator=torch.Generator().manual_seed(seed)))
    part, dec = rs.linear_regions(net, path), rs.decision_regions(net, path)
    part.check()
    inputs = path.embed(torch.linspace(0, 5, 100_001)[:, None])
    pieces = patterns(rs.trace(net, (3,)), inputs)
    assert part.n_activation_regions == part.n_linear_regions == runs(pieces)
    assert part.by_layer["1"] == runs(pieces[:, :8])
    assert len(part) == part.n_activation_regions + 4  # one piece more for each corner
    labels = rs.trace(net, (3,))(inputs).argmax(1, keepdim=True)
    assert dec.count == runs(labels)
    assert rs.flips(net, path).coords.tolist() == dec.boundary.flatten().tolist()
    assert float(part.sizes.sum()) == pytest.approx(path.size)
    middle = part.interior
    values = part.maps.constant + (middle[:, None] @ part.maps.slope)[:, 0]
    torch.testing.assert_close(values, rs.trace(net, (3,))(path.embed(middle)))


def test_a_region_that_is_left_and_entered_again_counts_again() -> None:
    """|x| from 1 to -1 and back, with a corner at -1 and another one in the middle of a region."""
    net = Function(torch.abs)
    there = rs.Polyline([[1.0], [-1.0], [0.5], [1.0]])
    part = rs.linear_regions(net, there)
    assert (len(part), part.n_activation_regions, part.n_linear_regions) == (5, 3, 3)
    assert part.walls.layer.tolist() == [-1, 0, 1, 0, 1, -1]
    assert isinstance(part, exact.PathPartition)
    assert part.continues.tolist() == [True, True]
    assert [leg.n_activation_regions for leg in part.legs] == [2, 2, 1]


@pytest.mark.parametrize(("function", "linear"), [("abs", 2), ("sum", 1)])
def test_a_corner_on_a_fold_separates_regions_if_the_map_changes_there(function: str, linear: int) -> None:
    """x_0 is folded at the corner; relu(x_0) - relu(-x_0) has two patterns and one map."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
        net[0].bias.zero_()
        net[2].weight.copy_(torch.tensor([[1.0, 1.0 if function == "abs" else -1.0]]))
    part = rs.linear_regions(net, rs.Polyline([[-1.0, 0.0], [0.0, 1.0], [2.0, 1.0]]))
    assert (part.n_activation_regions, part.n_linear_regions) == (2, linear)
    part.check()
    assert "tensor" not in repr(part)
    again = pickle.loads(pickle.dumps(part))
    assert (again.n_activation_regions, again.n_linear_regions) == (2, linear)


def test_what_needs_a_straight_slice_names_the_legs(tmp_path: object) -> None:
    net, path = mlp(2, 6, 2), rs.Polyline([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    part = rs.linear_regions(net, path)
    for ask in (part.lipschitz, part.certify, lambda: exact.stream_regions(net, path), lambda: rs.level_set(net, path)):
        with pytest.raises(rs.InputError, match="got a Polyline"):
            ask()
    with pytest.raises(rs.InputError, match="Save each of its legs"):
        part.save(f"{tmp_path}/part.npz")
    assert part.extremes(0).max == max(leg.extremes(0).max for leg in part.legs)


def test_a_limit_holds_for_each_leg() -> None:
    path = rs.Polyline([[-3.0, -3.0], [3.0, 3.0], [-3.0, 3.0]])
    part = rs.linear_regions(mlp(2, 6, 30, 2), path, max_regions=8, on_limit="return")
    assert not part.status
    assert list(part.by_layer) == ["1"]
    assert part.n_activation_regions == part.by_layer["1"]


def test_pictures_mark_the_corners() -> None:
    net, path = mlp(2, 6, 6, 3), rs.Polyline([[-2.0, 0.0], [1.0, 1.0], [0.0, -2.0]])
    part, ax = rs.linear_regions(net, path), Figure().add_subplot()
    plot.function_graph(part, ax=ax)
    corner = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert [line.get_xdata()[0] for line in corner] == [1.0]
    assert ax.get_xlabel() == "point of the path"
    plot.regions_figure(part)
    plot.decision_figure(rs.decision_regions(net, path))
