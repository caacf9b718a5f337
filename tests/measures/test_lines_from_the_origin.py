"""``through="origin"``: regions along lines from the origin to inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.errors import InputError, RegionscopeError
from regionscope.sampled.drawn_slices import LinesFromOrigin


def staircase(breaks: list[float]) -> nn.Module:
    """sum_i relu(x_1 - b_i): along the first axis one more region after every break."""
    model = nn.Sequential(nn.Linear(2, len(breaks)), nn.ReLU(), nn.Linear(len(breaks), 1))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0]] * len(breaks)))
        model[0].bias.copy_(-torch.tensor(breaks))
        model[2].weight.fill_(1.0)
    return model


def test_a_line_runs_from_the_origin_to_an_input() -> None:
    inputs = torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    drawn = [LinesFromOrigin(inputs, seed=1).draw(i) for i in range(40)]
    ends = {tuple(slice.embed(slice.corners).flatten().tolist()) for slice in drawn}
    assert ends == {(0.0, 0.0, 3.0, 0.0), (0.0, 0.0, 0.0, 4.0)}  # the origin itself is drawn again
    again = LinesFromOrigin(inputs, seed=1).draw(7)
    assert torch.equal(again.embed(again.corners), drawn[7].embed(drawn[7].corners))


def test_regions_along_the_lines_by_hand() -> None:
    model = staircase([-1.0, 1.0, 2.0, 5.0])
    along = rs.linear_region_count(model, torch.tensor([[4.0, 1.0]]), slices=5, through="origin")
    assert along.counts.tolist() == [3] * 5  # breaks at 1 and 2 lie between; -1 and 5 do not
    across = rs.linear_region_count(model, torch.tensor([[0.0, 1.0]]), slices=2, through="origin")
    assert across.counts.tolist() == [1, 1]
    labels = rs.region_count(nn.Sequential(nn.Linear(2, 2)), torch.tensor([[1.0, 0.0]]), slices=3, through="origin")
    assert labels.n == 3


@pytest.mark.parametrize("more", [{"dim": 2}, {"alpha": (-1.0, 2.0)}, {"length": 2.0}])
def test_what_does_not_go_together(more: dict[str, Any]) -> None:
    with pytest.raises(InputError, match='dim=1 and neither alpha nor length with through="origin", wh'):
        rs.linear_region_count(staircase([0.5]), torch.ones(3, 2), through="origin", **more)


def test_no_line_leads_from_the_origin_to_itself() -> None:
    with pytest.raises(RegionscopeError, match="inputs other than the origin, got only the origin in 100 draws"):
        LinesFromOrigin(torch.zeros(3, 2)).draw(0)
    with pytest.raises(InputError, match="at least one input, got 0"):
        LinesFromOrigin(torch.zeros(0, 2))
