"""Output margins by hand, and the distance to the decision boundary on slices."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import regionscope as rs
from measures.labelled_points import X, Y
from regionscope import measures
from regionscope.errors import InputError
from small_slices import mlp


def test_output_margin_by_hand() -> None:
    logits = torch.tensor([[2.0, 5.0, 1.0], [0.0, 1.0, 4.0]])
    found = measures.output_margin(nn.Identity(), logits, torch.tensor([1, 0]))
    assert (found.value, found.n) == ((3.0 - 4.0) / 2, 2)
    single = measures.output_margin(nn.Identity(), torch.tensor([[2.0], [3.0]]), torch.tensor([1, 0]))
    assert single.value == -0.5
    net = mlp(3, 8, 3)
    assert measures.output_margin(net, X, Y, batch_size=7).value == pytest.approx(
        measures.output_margin(net, X, Y).value
    )


def absolute(inner: nn.Linear) -> nn.Sequential:
    """|w x + b| - 1 as one logit."""
    net = nn.Sequential(nn.Linear(inner.in_features, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.cat([inner.weight, -inner.weight]))
        net[0].bias.copy_(torch.cat([inner.bias, -inner.bias]))
        net[2].weight.fill_(1.0)
        net[2].bias.fill_(-1.0)
    return net


def band() -> nn.Sequential:
    """Label 0 exactly where |3 x + 4 y| <= 1: the boundary is at distance (1 - |3 x + 4 y|) / 5 from a point inside."""
    inner = nn.Linear(2, 1)
    with torch.no_grad():
        inner.weight.copy_(torch.tensor([[3.0, 4.0]]))
        inner.bias.zero_()
    return absolute(inner)


def test_the_distance_to_the_boundary_on_a_plane_and_on_a_line() -> None:
    skewed = rs.Box([0.0, 0.0], [[2.0, 1.0], [0.0, 3.0]], 2.0)
    dec = rs.decision_regions(band(), skewed)
    for point in ([0.0, 0.0], [0.1, 0.05], [-0.3, 0.2], [0.7, -0.4]):
        wanted = abs(1 - abs(3 * point[0] + 4 * point[1])) / 5
        assert measures.slice_margin(dec, torch.tensor(point)) == pytest.approx(wanted, abs=1e-7)
    line = rs.Segment([-1.0, 0.0], [1.0, 0.0])
    assert measures.slice_margin(rs.decision_regions(band(), line), torch.tensor([0.1, 0.0])) == pytest.approx(
        1 / 3 - 0.1
    )
    far = rs.Segment([1.0, 1.0], [2.0, 2.0])
    assert measures.slice_margin(rs.decision_regions(band(), far), torch.tensor([1.0, 1.0])) == math.inf


@pytest.mark.parametrize("angle", [3e-8, 2e-9])
def test_the_distance_to_the_boundary_with_directions_that_are_almost_parallel(angle: float) -> None:
    thin = rs.Box([0.0, 0.0], torch.tensor([[1.0, 0.0], [1.0, angle]], dtype=torch.float64), 1.0)
    model = nn.Linear(2, 1).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0, 1.0]]))
        model.bias.fill_(-0.3 * angle)
    found = measures.slice_margin(rs.decision_regions(model, thin), torch.zeros(2))
    assert found == pytest.approx(0.3 * angle, rel=1e-6)


def test_the_distance_to_the_boundary_in_three_dimensions() -> None:
    inner = nn.Linear(3, 1)
    with torch.no_grad():
        inner.weight.copy_(torch.tensor([[1.0, 2.0, 2.0]]))
        inner.bias.zero_()
    cube = rs.Box(torch.zeros(3), torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), 2.0)
    dec = rs.decision_regions(absolute(inner), cube)
    assert measures.slice_margin(dec, torch.zeros(3)) == pytest.approx(1 / 3)
    assert measures.slice_margin(dec, torch.tensor([0.1, 0.1, 0.2])) == pytest.approx((1 - 0.7) / 3)


def test_points_off_the_slice_are_refused() -> None:
    dec = rs.decision_regions(band(), rs.Segment([-1.0, 0.0], [1.0, 0.0]))
    with pytest.raises(InputError, match="does not lie"):
        measures.slice_margin(dec, torch.tensor([0.0, 0.1]))
    with pytest.raises(InputError, match="does not lie"):
        measures.slice_margin(dec, torch.tensor([1.1, 0.0]))
    with pytest.raises(InputError, match="shape"):
        measures.slice_margin(dec, np.zeros(3))
