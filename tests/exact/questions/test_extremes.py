"""Extremes and Lipschitz constants against brute force on random networks, and in closed form."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from torch import Tensor, nn

import regionscope as rs
from regionscope.errors import InputError, LimitReached, SliceError
from regionscope.exact.questions.lipschitz import OperatorNorms
from small_slices import SQUARE, mlp
from strategies import Problem, problems
from twins.reference import reference_partition

NET = mlp(2, 12, 12, 3, seed=1).double()


def abs_sum() -> nn.Module:
    """|x| + 2 |y|, and its negative."""
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]]))
        net[0].bias.zero_()
        net[2].weight.copy_(torch.tensor([[1.0, 1, 2, 2], [-1, -1, -2, -2]]))
        net[2].bias.zero_()
    return net


def jacobians(model: nn.Module, slice: rs.Slice, coords: Tensor) -> Tensor:
    """Slopes (n, k, c) in slice coordinates, one backward pass for each output."""
    inputs = slice.embed(coords).requires_grad_(True)
    outputs = model(inputs).flatten(1)
    rows = [torch.autograd.grad(outputs[:, i].sum(), inputs, retain_graph=True)[0] for i in range(outputs.shape[1])]
    return torch.einsum("cnd,kd->nkc", torch.stack(rows).flatten(2), slice.basis.flatten(1))


def test_extremes_in_closed_form() -> None:
    part = rs.linear_regions(abs_sum(), rs.Box([0.25, 0.0], torch.eye(2), 1.0))
    found = part.extremes(0)
    assert (found.min, found.max) == (0.0, 3.25)
    assert found.argmin.tolist() == [0.0, 0.0]
    assert found.argmax.abs().tolist() == [1.25, 1.0]
    other = part.extremes(1)
    assert (other.min, other.max) == (-3.25, 0.0)
    assert part.extremes((0, 1)).max == 6.5
    assert part.extremes([0.5, 0.0]).max == 1.625
    regions = found.by_region
    assert sorted(regions.max.tolist()) == [2.75, 2.75, 3.25, 3.25]
    assert regions.min.tolist() == [0.0] * 4
    assert not regions.argmin.any()
    torch.testing.assert_close(abs_sum()(regions.argmax)[:, 0].detach(), regions.max)
    assert found.readings() == (("", 3.25, None), ("min", 0.0, None))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(problems())
def test_extremes_of_random_networks(problem: Problem) -> None:
    """At the corners of the slow twin's regions, and nowhere exceeded on random points."""
    try:
        slice = problem.slice()
    except SliceError:
        assume(False)
    model = problem.build()
    generator = torch.Generator().manual_seed(problem.seed)
    weights = torch.randn(problem.n_outputs, generator=generator, dtype=torch.float64)
    slow = reference_partition(rs.trace(model, problem.input_shape), slice)
    with torch.no_grad():
        at_corners = [model(slice.embed(corners.copy())).flatten(1) @ weights for corners in slow.vertices]
        mixed = torch.rand(500, len(slice.corners), generator=generator, dtype=torch.float64)
        samples = model(slice.embed(mixed / mixed.sum(1, keepdim=True) @ slice.corners)).flatten(1) @ weights
    part = rs.linear_regions(model, slice)
    found = part.extremes(weights)
    near = 1e-9 * (1 + float(torch.cat(at_corners).abs().max()))
    assert found.min == pytest.approx(float(torch.cat(at_corners).min()), abs=near)
    assert found.max == pytest.approx(float(torch.cat(at_corners).max()), abs=near)
    assert float(samples.min()) >= found.min - near
    assert float(samples.max()) <= found.max + near
    with torch.no_grad():
        assert float(model(found.argmax[None]).flatten() @ weights) == pytest.approx(found.max, abs=near)
        assert float(model(found.argmin[None]).flatten() @ weights) == pytest.approx(found.min, abs=near)
    for fast, expected in ((found.by_region.min, [v.min() for v in at_corners]),
                           (found.by_region.max, [v.max() for v in at_corners])):  # fmt: skip
        torch.testing.assert_close(fast.sort().values, torch.stack(expected).sort().values, rtol=0, atol=near)


@pytest.mark.parametrize("weights", [3, (0, 3), [1.0], [math.nan, 0.0, 0.0], [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]])
def test_extremes_refuse_what_is_no_function_of_the_outputs(weights: object) -> None:
    with pytest.raises(InputError, match="Expected"):
        rs.linear_regions(NET, SQUARE).extremes(weights)


def test_unfinished_partitions_have_no_extremes() -> None:
    part = rs.linear_regions(NET, SQUARE, max_regions=20, on_limit="return")
    with pytest.raises(LimitReached):
        part.extremes(0)
    with pytest.raises(LimitReached):
        part.lipschitz()


def test_lipschitz_in_closed_form() -> None:
    part = rs.linear_regions(abs_sum(), SQUARE)
    assert part.lipschitz(target=0).value == pytest.approx(math.sqrt(5), rel=1e-14)
    assert part.lipschitz().value == pytest.approx(math.sqrt(10), rel=1e-14)
    assert part.lipschitz(norm=1, target=0).value == pytest.approx(2.0, rel=1e-14)
    assert part.lipschitz(norm=math.inf, target=0).value == pytest.approx(3.0, rel=1e-14)
    assert part.lipschitz(target=(0, 1)).value == pytest.approx(2 * math.sqrt(5), rel=1e-14)
    assert part.lipschitz().readings()[0][1] == part.lipschitz().value


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_lipschitz_on_slices_with_almost_parallel_directions(norm: float) -> None:
    """A linear map has one constant on all slices of one span, however flat they are."""
    net, generator = nn.Linear(4, 2), torch.Generator().manual_seed(1)
    a, b, c = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    wide, flat = (rs.Simplex(torch.stack([0 * a, a, 0.5 * a + thin * b, 0.3 * a - thin * c])) for thin in (1.0, 2e-9))
    expected = rs.linear_regions(net, wide).lipschitz(norm=norm).value
    assert rs.linear_regions(net, flat).lipschitz(norm=norm).value == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_operator_norms_are_the_largest_stretch_over_all_directions(norm: float, k: int) -> None:
    generator = torch.Generator().manual_seed(k)
    basis = torch.randn(k, 7, generator=generator, dtype=torch.float64)
    slope = torch.randn(4, k, 3, generator=generator, dtype=torch.float64)
    slice = rs.Box(torch.zeros(7), basis, 1.0)
    found = OperatorNorms.of(slice, norm)(slope)
    directions = torch.randn(200_000, k, generator=generator, dtype=torch.float64)
    lengths = torch.linalg.vector_norm(directions @ basis, ord=norm, dim=1)
    for i in range(4):
        stretch = torch.linalg.vector_norm(directions @ slope[i], ord=norm, dim=1) / lengths
        assert float(stretch.max()) <= float(found[i]) * (1 + 1e-12)
        assert float(stretch.max()) >= float(found[i]) * 0.99


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(problems())
def test_lipschitz_constants_of_random_networks(problem: Problem) -> None:
    """The largest singular value over the slow twin's regions; no pair of points is further apart."""
    try:
        slice = problem.slice()
    except SliceError:
        assume(False)
    model = problem.build()
    slow = reference_partition(rs.trace(model, problem.input_shape), slice)
    frame = np.linalg.inv(np.linalg.cholesky((slice.basis.flatten(1) @ slice.basis.flatten(1).T).numpy()))
    slopes = torch.from_numpy(frame) @ jacobians(model, slice, torch.from_numpy(slow.interior))
    expected = float(torch.linalg.matrix_norm(slopes, ord=2).max())
    part = rs.linear_regions(model, slice)
    found = part.lipschitz()
    assert found.value == pytest.approx(expected, rel=1e-8, abs=1e-12)
    here = jacobians(model, slice, found.coords[None])
    assert float(torch.linalg.matrix_norm(torch.from_numpy(frame) @ here, ord=2)) == pytest.approx(
        found.value, rel=1e-8, abs=1e-12
    )
    torch.testing.assert_close(slice.embed(found.coords[None])[0], found.point)
    generator = torch.Generator().manual_seed(problem.seed)
    mixed = torch.rand(400, len(slice.corners), generator=generator, dtype=torch.float64)
    inputs = slice.embed(mixed / mixed.sum(1, keepdim=True) @ slice.corners)
    with torch.no_grad():
        rise = (model(inputs[:200]) - model(inputs[200:])).flatten(1).norm(dim=1)
    apart = (inputs[:200] - inputs[200:]).flatten(1).norm(dim=1)
    assert bool((rise <= found.value * apart * (1 + 1e-9) + 1e-9).all())


def test_rounding_in_a_thin_region_does_not_look_like_a_steep_one() -> None:
    """Two folds 3e-11 apart: the values at the corners of the strip say next to nothing about its slope."""
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
        net[0].bias.copy_(torch.tensor([1 / 3, 1 / 3 + 3e-11, 5.0], dtype=torch.float64))
        net[2].weight.copy_(torch.tensor([[1.0, -1.0, 1000.0]]))
        net[2].bias.zero_()
    part = rs.linear_regions(net, SQUARE)
    assert len(part) == 3
    assert float(OperatorNorms.of(SQUARE, 2)(part.maps.slope).max()) == pytest.approx(1.0, rel=1e-12)
    assert part.lipschitz().value == pytest.approx(1.0, rel=1e-12)


def test_a_loaded_partition_needs_its_network_for_thin_regions_alone(tmp_path: Path) -> None:
    part = rs.linear_regions(abs_sum(), SQUARE)
    loaded = rs.Partition.load(part.save(tmp_path / "part.npz"))
    assert loaded.lipschitz().value == part.lipschitz().value
    assert loaded.extremes(0).max == 3.0


def test_norms_are_checked() -> None:
    part = rs.linear_regions(NET, SQUARE)
    with pytest.raises(InputError, match="Expected norm 1, 2 or inf, got 3"):
        part.lipschitz(norm=3)
    wide = rs.Box(torch.zeros(2000), torch.eye(2000)[:3] + torch.rand(3, 2000), 1.0)
    with pytest.raises(InputError, match="Choose norm=2"):
        OperatorNorms.of(wide, 1)
