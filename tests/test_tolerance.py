"""One place for the epsilons of the exact engine, and what they are there for."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import regionscope
import regionscope as rs
from regionscope.exact.tracking import locate
from regionscope.tolerance import COVERAGE_ERROR, FLAT, OUTSIDE_DISTANCE, Tolerance

ROOT = Path(regionscope.__file__).parent
SOURCES = sorted([*(ROOT / "geometry").rglob("*.py"), *(ROOT / "exact").rglob("*.py")])


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_no_epsilon_is_written_out_in_the_engine(path: Path) -> None:
    found = [
        f"line {node.lineno}: {node.value}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < node.value < 1e-4
    ]
    assert not found, "name these in tolerance.py"


def _halves() -> rs.Partition:
    """max(x, 0) on the square [-1, 1]^2: two regions, left and right of x = 0."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.ReLU())
    torch.nn.init.constant_(net[0].weight, 0.0)
    net[0].weight.data[0, 0] = 1.0
    return rs.linear_regions(net, rs.Box([0.0, 0.0], torch.eye(2), 1.0))


@pytest.mark.parametrize(("share", "fails"), [(0.3 * COVERAGE_ERROR, False), (3 * COVERAGE_ERROR, True)])
def test_sizes_that_miss_the_slice_are_found(share: float, fails: bool) -> None:
    part = _halves()
    part.sizes[0] += share * part.slice.size
    if not fails:
        part.check()
        return
    with pytest.raises(rs.CheckFailed, match="add up"):
        part.check()


@pytest.mark.parametrize(("share", "fails"), [(0.3 * FLAT, False), (3 * FLAT, True)])
def test_regions_turned_inside_out_are_found(share: float, fails: bool) -> None:
    part = _halves()
    whole = part.slice.size
    part.sizes[0], part.sizes[1] = -share * whole, (1 + share) * whole
    if not fails:
        part.check()
        return
    with pytest.raises(rs.CheckFailed, match="of negative size"):
        part.check()


def test_a_point_outside_by_rounding_alone_is_found() -> None:
    triangle = rs.Simplex([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    part = rs.linear_regions(torch.nn.Linear(2, 1), triangle)
    beyond = torch.tensor([[0.3 * OUTSIDE_DISTANCE], [3 * OUTSIDE_DISTANCE]], dtype=torch.float64)  # the longest side
    assert locate(part, 0.5 + beyond.expand(2, 2)).tolist() == [0, -1]


@pytest.mark.parametrize(("off", "fails"), [(1e-10, False), (1e-7, True)])
def test_a_map_may_miss_the_network_by_as_much_as_its_precision(off: float, fails: bool) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    torch.manual_seed(0)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter)
    part = rs.linear_regions(net, rs.Box([0.0, 0.0], torch.eye(2), 1.0))
    assert (off > Tolerance.of(torch.float64).slope) is fails
    with torch.no_grad():
        net[2].bias += off * part.maps.size
    moved = replace(part, program=rs.trace(net, (2,)))
    part.maps.constant[:] += off * part.maps.size
    if not fails:
        part.check()
        moved.check()
        return
    with pytest.raises(rs.CheckFailed, match="Expected one affine map"):
        part.check()
    with pytest.raises(rs.CheckFailed, match="to equal the network, got a difference"):
        moved.check()


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
