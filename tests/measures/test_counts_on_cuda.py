"""The same slices and counts on a GPU."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import regionscope as rs
from devices import needs_cuda
from regionscope_lab import zoo
from regionscope_lab.zoo import mlp
from regionscope_lab.zoo.seeding import seeded

pytestmark = needs_cuda

DATA = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) * 3


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("method", ["grid", "refined", "exact"])
def test_counts_are_those_of_the_cpu(dim: int, method: str) -> None:
    net = mlp([4, 8, 8, 3], seed=3).double()
    wanted = rs.region_count(net, DATA, dim=dim, slices=15, method=method)
    state = torch.cuda.get_rng_state()
    for inputs in (DATA, DATA.cuda()):
        found = rs.region_count(net.cuda(), inputs, dim=dim, slices=15, method=method)
        assert torch.equal(found.counts, wanted.counts)
    assert torch.equal(torch.cuda.get_rng_state(), state)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("method", ["grid", "refined"])
def test_the_quick_pass_changes_no_count(dim: int, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Float32 networks are screened in half precision; here beside float32 alone."""
    images = 4 * torch.randn(30, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    net = zoo.build("resnet18", input_shape=(3, 16, 16), width=16).eval()
    with torch.no_grad():
        net.head.linear.bias -= net(images).mean(0)  # so that no class is everywhere the largest
    net.cuda()
    found = rs.region_count(net, images, dim=dim, slices=20, method=method)
    monkeypatch.setattr("regionscope.sampled.labels.HalfPrecisionScreen", lambda quick, exact: exact)
    wanted = rs.region_count(net, images, dim=dim, slices=20, method=method)
    assert wanted.counts.max() > 1
    assert torch.equal(found.counts, wanted.counts)


def test_autocast_and_measures() -> None:
    images = torch.randn(30, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with seeded(0):
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.SiLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 5)).cuda()
    plain = rs.region_count(net, images, slices=40)
    rough = rs.region_count(net, images, slices=40, autocast=torch.bfloat16)
    assert abs(plain.value - rough.value) < 3 * math.hypot(plain.stderr, rough.stderr)
    labels = torch.arange(30) % 5
    assert 0 <= rs.error_rate(net, images, labels).value <= 1
    assert rs.sharpness(net, images.cuda(), labels.cuda(), samples=10).value == pytest.approx(
        rs.sharpness(net.cpu(), images, labels, samples=10).value, rel=0.02
    )
