"""What the epsilons of the exact engine are there for."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

import regionscope as rs
from regionscope.monitor.tracking import locate
from regionscope.tolerance import COVERAGE_ERROR, FLAT, OUTSIDE_DISTANCE, Tolerance


def _halves() -> rs.Partition:
    """max(x, 0) on the square [-1, 1]^2: two regions, left and right of x = 0."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.ReLU())
    torch.nn.init.constant_(net[0].weight, 0.0)
    net[0].weight.data[0, 0] = 1.0
    return rs.linear_regions(net, rs.Box([0.0, 0.0], torch.eye(2), 1.0))


@pytest.mark.parametrize("factor", [0.3, 3.0])
def test_sizes_that_miss_the_slice_and_regions_turned_inside_out_are_found(factor: float) -> None:
    larger, turned = _halves(), _halves()
    whole = larger.slice.size
    larger.sizes[0] += factor * COVERAGE_ERROR * whole
    turned.sizes[0], turned.sizes[1] = -factor * FLAT * whole, (1 + factor * FLAT) * whole
    for part, words in ((larger, "add up"), (turned, "of negative size")):
        with pytest.raises(rs.CheckFailed, match=words) if factor > 1 else nullcontext():
            part.check()


def test_a_point_outside_by_rounding_alone_is_found() -> None:
    triangle = rs.Simplex([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    part = rs.linear_regions(torch.nn.Linear(2, 1), triangle)
    beyond = torch.tensor([[0.3 * OUTSIDE_DISTANCE], [3 * OUTSIDE_DISTANCE]], dtype=torch.float64)  # the longest side
    assert locate(part, 0.5 + beyond.expand(2, 2)).tolist() == [0, -1]


@pytest.mark.parametrize("off", [1e-10, 1e-7])
def test_a_map_may_miss_the_network_by_as_much_as_its_precision(off: float) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    part = rs.linear_regions(net, rs.Box([0.0, 0.0], torch.eye(2), 1.0))
    with torch.no_grad():
        net[2].bias += off * part.maps.size
    moved = replace(part, program=rs.trace(net, (2,)))
    part.maps.constant[:] += off * part.maps.size
    for wrong, words in ((part, "Expected one affine map"), (moved, "to equal the network, got a difference")):
        with pytest.raises(rs.CheckFailed, match=words) if off > Tolerance.of(torch.float64).slope else nullcontext():
            wrong.check()


@pytest.mark.parametrize("zero", [-1.0, float("nan"), float("inf"), "1", True])
def test_thresholds_are_numbers_of_at_least_0(zero: float) -> None:
    with pytest.raises(rs.InputError, match="zero of a Tolerance"):
        Tolerance(zero=zero, slope=1e-9)


@pytest.mark.parametrize("part_of", ["sizes", "outputs", "constant"])
def test_a_check_does_not_pass_on_nan(part_of: str) -> None:
    part = _halves()
    damaged = {"sizes": part.sizes, "outputs": part.outputs, "constant": part.maps.constant}[part_of]
    damaged[0] = float("nan")
    with pytest.raises(rs.CheckFailed, match="got"):
        part.check()


def test_the_accuracy_that_a_check_requires_is_the_users() -> None:
    part = _halves()
    part.maps.constant[:] += 1e-6 * part.maps.size
    with pytest.raises(rs.CheckFailed, match="Expected one affine map"):
        part.check()
    replace(part, tolerance=Tolerance(zero=0.0, slope=1e-5)).check()
