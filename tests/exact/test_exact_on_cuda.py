"""The nasty cases, and slices that start with few vertices, give on a GPU what they give on a CPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regionscope as rs
from cases import CASES, Case
from devices import needs_cuda

pytestmark = needs_cuda


@pytest.mark.filterwarnings("ignore:Rounding leaves")  # of lines that meet in a point up to rounding
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_nasty_case_is_the_same_on_cuda(case: Case) -> None:
    model = case.build()
    here, decided_here = rs.linear_regions(model, case.slice), rs.decision_regions(model, case.slice)
    model.cuda()
    there, decided_there = rs.linear_regions(model, case.slice), rs.decision_regions(model, case.slice)
    there.check()
    assert there.vertices.is_cuda == any(True for _ in model.parameters()), "it follows the model"
    assert (there.by_layer, there.n_linear_regions) == (here.by_layer, here.n_linear_regions)
    assert decided_there.count == decided_here.count
    if case.linear is not None:
        assert there.n_linear_regions == case.linear


@pytest.mark.parametrize("width", [20, 60])
def test_a_triangle_that_a_layer_cuts_many_times_is_the_same_on_cuda(width: int) -> None:
    """Nearly all vertices are crossings then: four terms each, of only three old vertices."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 3))
    triangle = rs.Simplex([[-3.0, -2.0], [3.0, -2.0], [0.0, 4.0]])
    here, there = rs.linear_regions(model, triangle), rs.linear_regions(model.cuda(), triangle)
    there.check()
    assert there.by_layer == here.by_layer
    assert torch.allclose(there.sizes.cpu().sort().values, here.sizes.sort().values, rtol=1e-6, atol=1e-12)
