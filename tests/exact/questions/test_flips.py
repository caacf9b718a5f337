"""Points where the class changes along a line: closed forms, dense sampling, and the first one alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from torch import Tensor, nn

import regionscope as rs
from regionscope.errors import InputError, SliceError
from regionscope.exact.questions import flips as flips_module
from small_slices import mlp
from strategies import Problem, problems
from twins.reference import reference_regions

NET = mlp(4, 24, 24, 3, seed=5).double()
LONG = rs.Segment([-40.0, 10, 3, -7], [35.0, -20, 5, 9])


class Zigzag(nn.Module):
    """| |x| - 1 | - 1/2 on a line: positive, negative, positive... with slopes of size 1."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.abs() - 1).abs() - 0.5


def test_flips_in_closed_form() -> None:
    found = rs.flips(Zigzag(), rs.Segment([-2.0], [2.0]))
    torch.testing.assert_close(4 * found.coords - 2, torch.tensor([-1.5, -0.5, 0.5, 1.5], dtype=torch.float64))
    torch.testing.assert_close(found.points[:, 0], 4 * found.coords - 2)
    assert found.before.tolist() == [1, 0, 1, 0]
    assert found.after.tolist() == [0, 1, 0, 1]
    torch.testing.assert_close(found.slope, torch.ones(4, dtype=torch.float64))
    assert len(found) == 4
    assert found.readings() == (("", 4, None),)
    assert repr(found) == "Flips(n=4, 1→0 at 0.125, 0→1 at 0.375, 1→0 at 0.625, 0→1 at 0.875)"
    first = rs.first_flip(Zigzag(), [-2.0], [1.0], max_distance=2.0)
    assert first is not None
    assert repr(first).startswith("Flip(distance=0.5, before=1, after=0, slope=1, ")


def test_slopes_on_both_sides_of_a_flip_on_a_fold() -> None:
    """relu(x) against 3 relu(x) - 2 relu(-x) ... : class 0 leads for x < 0, class 1 for x > 0, with a fold at 0."""
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        net[0].bias.zero_()
        net[2].weight.copy_(torch.tensor([[1.0, 0.0], [3.0, -5.0]]))
        net[2].bias.zero_()
    found = rs.flips(net, rs.Segment([-1.0], [2.0]))
    assert (found.before.tolist(), found.after.tolist()) == ([0], [1])
    assert found.slope.tolist() == [2.0]
    assert found.slope_before.tolist() == [5.0]


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(problems(dims=(1,)))
def test_flips_of_random_networks(problem: Problem) -> None:
    """As many as the slow twin has changes; classes between them are those of the module; margins grow."""
    try:
        slice = problem.slice()
    except SliceError:
        assume(False)
    model = problem.build()
    found = rs.flips(model, slice)
    _, slow = reference_regions(rs.trace(model, problem.input_shape), slice)
    order = slow.interior[:, 0].argsort()
    changes = [(int(a), int(b)) for a, b in pairwise(slow.labels[order]) if a != b]
    assert list(zip(found.before.tolist(), found.after.tolist(), strict=True)) == changes
    ends = torch.cat([slice.corners[:1, 0], found.coords, slice.corners[1:, 0]])
    middle = (ends[1:] + ends[:-1]) / 2
    assert bool((ends.diff() > 0).all())
    if len(found):
        expected = torch.cat([found.before[:1], found.after])
        wide = ends.diff() > 1e-9
        with torch.no_grad():
            outputs = model(slice.embed(middle[:, None])).flatten(1)
            at = model(found.points).flatten(1)
        best = outputs.amax(1) if outputs.shape[1] > 1 else outputs[:, 0].clamp(min=0)
        own = outputs.gather(1, expected[:, None])[:, 0] if outputs.shape[1] > 1 else outputs[:, 0] * expected
        assert bool((best - own <= 1e-9 * (1 + outputs.abs().amax(1)))[wide].all())
        tie = at.gather(1, found.after[:, None]) - at.gather(1, found.before[:, None]) if at.shape[1] > 1 else at
        assert float(tie.abs().max()) <= 1e-8 * (1 + float(at.abs().max()))
    assert bool((found.slope >= -1e-9).all())
    assert bool((found.slope_before >= -1e-9).all())


@pytest.mark.slow
@pytest.mark.parametrize("window", [4, 64])
def test_the_first_flip_is_the_first_of_all(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(flips_module, "_WINDOW", window)
    every = rs.flips(NET, LONG)
    direction = LONG.basis[0]
    for start in (0.0, *(float(at) + 1e-9 for at in every.coords)):
        x = LONG.embed([[start]])[0]
        later = every.coords[every.coords > start]
        distance = (1 - start) * LONG.size
        found = rs.first_flip(NET, x, 5 * direction, max_distance=distance)
        if len(later) == 0:
            assert found is None
            continue
        assert found is not None
        i = len(every) - len(later)
        assert found.distance == pytest.approx(float(later[0] - start) * LONG.size, rel=1e-9, abs=1e-9)
        torch.testing.assert_close(found.point, every.points[i], rtol=1e-9, atol=1e-9)
        assert (found.before, found.after) == (int(every.before[i]), int(every.after[i]))
        assert found.slope == pytest.approx(float(every.slope[i]), rel=1e-9)
        assert found.readings() == (("", found.distance, None),)


def test_nothing_is_built_far_behind_the_first_flip(monkeypatch: pytest.MonkeyPatch) -> None:
    windows: list[tuple[float, float]] = []
    every, total = rs.flips(NET, LONG), len(rs.linear_regions(NET, LONG))
    real = rs.decision_regions

    def watched(model: Any, slice: Any, **options: Any) -> Any:
        windows.append((slice.lo, slice.hi))
        return real(model, slice, **options)

    monkeypatch.setattr(flips_module, "decision_regions", watched)
    monkeypatch.setattr(flips_module, "_WINDOW", 8)
    shares: list[float] = []
    found = rs.first_flip(NET, LONG.origin, LONG.basis[0], max_distance=LONG.size, progress=shares.append)
    assert found is not None
    assert found.distance == pytest.approx(float(every.coords[0]) * LONG.size, rel=1e-9)
    assert all(lo <= found.distance for lo, _ in windows)
    assert found.searched == windows[-1][1] < LONG.size
    assert found.pieces < total
    assert shares == sorted(shares)


def test_a_flip_on_the_border_of_two_windows_is_found() -> None:
    """The windows of the search end at multiples of max_distance / 64; the class changes exactly there."""
    step = nn.Linear(1, 2).double()
    with torch.no_grad():
        step.weight.copy_(torch.tensor([[0.0], [1.0]]))
        step.bias.copy_(torch.tensor([1.0, 0.0]))
    found = rs.first_flip(step, [0.0], [1.0], max_distance=64.0)
    assert found is not None
    assert (found.distance, found.before, found.after) == (1.0, 0, 1)


def test_rays_that_start_or_end_on_the_boundary_have_no_flip_there() -> None:
    two = nn.Linear(1, 2).double()
    two.load_state_dict({"weight": torch.tensor([[-1.0], [1.0]]), "bias": torch.zeros(2)})
    for start, direction, distance in ((0.0, 1.0, 1.0), (0.0, -1.0, 1.0), (-1.0, 1.0, 1.0)):
        assert rs.first_flip(two, [start], [direction], max_distance=distance) is None
    found = rs.first_flip(two, [-1.0], [1e-300], max_distance=1.0001)
    assert found is not None
    assert (found.distance, found.before, found.after) == (pytest.approx(1), 0, 1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"direction": [0.0, 0, 0, 0]}, "Expected a direction with a finite length"),
        ({"direction": [1.0]}, "Expected a direction of shape"),
        ({"max_distance": 0.0}, "max_distance"),
        ({"max_distance": float("inf")}, "Expected a finite number for max_distance"),
        ({"progress": 3}, "progress"),
        ({"memory": 1}, r"memory to be a whole number of bytes, at least 1 MiB \(1048576\), got 1"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], sentence: str) -> None:
    arguments: dict[str, Any] = {"direction": [1.0, 0, 0, 0], "max_distance": 1.0} | options
    with pytest.raises(InputError, match=sentence):
        rs.first_flip(NET, torch.zeros(4), arguments.pop("direction"), **arguments)


def test_flips_need_a_line() -> None:
    with pytest.raises(InputError, match="Expected a slice of dimension 1, got dimension 2"):
        rs.flips(NET, rs.Simplex(torch.eye(4)[:3]))
    with pytest.raises(InputError, match="got Tensor"):
        rs.flips(NET, torch.zeros(2, 4))
