"""The vertex graph of a neighbourhood, as layers receive it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regionscope.complexity import deformation, orthonormal_frames, trusted_radius
from regionscope.errors import InputError
from twins.local_complexity import deformation_of_points, inputs_of_layer, vertices_one_by_one


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 2)).double()


@pytest.mark.parametrize("frames", ["shared", "per-point"])
def test_equals_the_slow_twin(frames: str) -> None:
    model, x, dims, radius = net(), torch.randn(5, 8, dtype=torch.float64), 3, 0.7
    found = deformation(model, x, dims=dims, radius=radius, frames=frames, seed=4)
    own = orthonormal_frames((8,), dims=dims, points=None if frames == "shared" else 5, seed=4, dtype=torch.float64)
    assert found.layers == ["input", "0", "2", "4"]
    for i, point in enumerate(x):
        vertices = vertices_one_by_one(point, own if frames == "shared" else own[i], radius)
        for name in ("0", "2", "4"):
            inside = [inputs_of_layer(model, model.get_submodule(name), vertex)[0] for vertex in vertices]
            mean, largest = deformation_of_points(inside, lambda v: (v + dims) % (2 * dims))
            assert float(found.eccentricity[name][i]) == pytest.approx(mean, rel=1e-9)
            assert float(found.diameter[name][i]) == pytest.approx(largest, rel=1e-9)
    assert torch.equal(found.diameter["0"], found.diameter["input"])


def test_the_neighbourhood_itself_has_a_closed_form_even_far_out() -> None:
    model = nn.Sequential(nn.Linear(50, 4), nn.ReLU(), nn.Linear(4, 2))
    found = deformation(model, 10 * torch.randn(20, 50), dims=10, radius=0.01)
    assert found.diameter["input"].tolist() == pytest.approx([2 * math.sqrt(2) * 0.01] * 20, rel=1e-3)
    assert found.eccentricity["input"].tolist() == pytest.approx([2 * math.sqrt(2) * 0.01] * 20, rel=1e-3)


def test_an_isometry_deforms_nothing_and_batching_changes_nothing() -> None:
    torch.manual_seed(0)
    turn = nn.Linear(8, 8, bias=False).double()
    turn.weight.data = torch.linalg.qr(turn.weight.data)[0]
    model = nn.Sequential(turn, nn.Linear(8, 8).double())
    x = torch.randn(9, 8, dtype=torch.float64)
    whole = deformation(model, x, dims=4, radius=0.5)
    assert torch.allclose(whole.stretch["1"], torch.ones(9, dtype=torch.float64))
    small = deformation(net(), x, dims=4, radius=0.5, memory=1)
    large = deformation(net(), x, dims=4, radius=0.5)
    assert all(torch.allclose(small.diameter[name], large.diameter[name], rtol=1e-12) for name in large.layers)


def test_the_trusted_radius_is_where_layers_stop_scaling() -> None:
    model, x = net(), torch.randn(40, 8, dtype=torch.float64)
    radii = [1e-4, 1e-2, 10.0]
    assert trusted_radius(model, x, radii=radii, dims=4) == 1e-2
    assert trusted_radius(nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 4)).double(), x, radii=radii, dims=4) == 10.0
    with pytest.raises(InputError, match="at least two"):
        trusted_radius(model, x, radii=[0.1])
    with pytest.raises(InputError, match="dims of at least 2, got 1, for which the graph of vertices has no edge"):
        deformation(model, x, dims=1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_is_measured_in_float32(dtype: torch.dtype) -> None:
    low, x = net().to(dtype), torch.rand(20, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    radii = [0.0005, 0.005, 0.05, 0.5, 5.0, 50.0]
    assert trusted_radius(low, x, radii=radii, dims=5) == trusted_radius(low.double(), x.double(), radii=radii, dims=5)
    assert next(low.to(dtype).parameters()).dtype == dtype


def test_a_radius_below_the_rounding_of_the_inputs_is_refused() -> None:
    model, x = net().float(), 1 + torch.rand(6, 8, generator=torch.Generator().manual_seed(1))
    with pytest.raises(InputError, match=r"Expected a radius of at least .* got 1e-09, which rounding hides"):
        trusted_radius(model, x, radii=[1e-9, 0.05, 50.0], dims=5)
    assert trusted_radius(model.double(), x.double(), radii=[1e-9, 1e-6], dims=5) == 1e-6
