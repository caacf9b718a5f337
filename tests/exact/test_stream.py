"""Regions that are handed over part by part are those of ``linear_regions``, each of them once."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn

import regionscope as rs
from devices import needs_cuda
from regionscope.exact import budget, plane
from small_slices import SQUARE, mlp

FOLD_IN = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
FOLD_OUT = torch.tensor([[2.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 2.0]])
_mlp = partial(mlp, seed=3)


def _folded(network: nn.Module, times: int) -> nn.Sequential:
    """The network behind maps x -> 2|x| - 1 of both coordinates, which lay the square onto itself four times."""
    layers: list[nn.Module] = []
    for _ in range(times):
        first, second = nn.Linear(2, 4, bias=False), nn.Linear(4, 2)
        with torch.no_grad():
            first.weight.copy_(FOLD_IN)
            second.weight.copy_(FOLD_OUT)
            second.bias.fill_(-1.0)
        layers += [first, nn.ReLU(), second]
    return nn.Sequential(*layers, network)


CASES = {
    "plane": (_mlp(2, 16, 16, 16, 3), SQUARE),
    "triangle with a max pool": (nn.Sequential(nn.Linear(5, 12), nn.Unflatten(1, (6, 2)), nn.AdaptiveMaxPool1d(1),
                                               nn.Flatten(), nn.Linear(6, 16), nn.ReLU()),
                                 rs.Simplex(torch.eye(5)[:3] * 4)),
    "zero bias": (nn.Sequential(nn.Linear(2, 12, bias=False), nn.ReLU(), nn.Linear(12, 12, bias=False), nn.ReLU()),
                  SQUARE),
    "segment": (_mlp(2, 32, 32, 2), rs.Segment([-1.0, -0.5], [1.0, 1.0])),
    "box": (_mlp(3, 8, 8, 2), rs.Box(torch.zeros(3), torch.eye(3))),
    "box with a max pool": (nn.Sequential(nn.Linear(3, 12), nn.Unflatten(1, (6, 2)), nn.AdaptiveMaxPool1d(1),
                                          nn.Flatten(), nn.Linear(6, 6), nn.ReLU()),
                            rs.Box(torch.zeros(3), torch.eye(3))),
    "box of four dimensions": (_mlp(4, 6, 6, 2), rs.Box(torch.zeros(4), torch.eye(4))),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("plane", 200), ("triangle with a max pool", 60), ("zero bias", 20), ("segment", 20), ("box", 100),
        ("box with a max pool", 100), ("box of four dimensions", 100),
    ],
)  # fmt: skip
def test_parts_hold_every_region_once(monkeypatch: pytest.MonkeyPatch, name: str, rows: int) -> None:
    model, slice = CASES[name]
    whole = rs.linear_regions(model, slice)
    monkeypatch.setattr(budget.Budget, "rows", lambda *_: rows)
    monkeypatch.setattr(plane, "_CUT_BYTES", plane._CUT_BYTES * 100_000 // rows)
    parts: list[rs.exact.FinishedRegions] = []
    totals = rs.exact.stream_regions(model, slice, consume=parts.append)
    sizes = torch.cat([part.sizes for part in parts])
    assert totals.n_activation_regions == len(sizes) == len(whole)
    assert (totals.n_parts, totals.largest_part) == (len(parts), max(map(len, parts)))
    assert totals.n_parts > 1
    assert totals.by_layer == whole.by_layer
    assert totals.size == pytest.approx(slice.size, rel=1e-12)
    assert torch.allclose(sizes.sort().values, whole.sizes.sort().values, rtol=1e-6, atol=1e-14)
    program = rs.trace(model, slice.input_shape)
    patterns = torch.cat([rs.network.patterns(program, slice.embed(part.interior)) for part in parts])
    assert len(patterns.unique(dim=0)) == len(whole)


def test_parts_have_the_maps_and_outputs_of_the_network() -> None:
    model, slice = CASES["plane"]
    parts: list[rs.exact.FinishedRegions] = []
    rs.exact.stream_regions(model, slice, consume=parts.append)
    for part in parts:
        at = slice.embed(part.interior)
        expected = part.maps.constant + (part.interior[:, None] @ part.maps.slope)[:, 0]
        torch.testing.assert_close(expected.float(), model(at.float()).detach(), rtol=1e-4, atol=1e-4)
        assert repr(part) == f"FinishedRegions(dim=2, n_activation_regions={len(part)})"


@pytest.mark.parametrize("times", [1, 3])
def test_a_folded_network_has_four_times_the_regions_for_each_fold(times: int) -> None:
    network = _mlp(2, 12, 12, 2)
    once = rs.exact.stream_regions(network, SQUARE)
    seen: list[float] = []
    folded = rs.exact.stream_regions(_folded(network, times), SQUARE, memory=1 << 20, progress=seen.append)
    assert folded.n_activation_regions == 4**times * once.n_activation_regions
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1.0)
    if times == 3:
        assert len(seen) > folded.n_parts >= 16
        assert folded.largest_part < folded.n_activation_regions / 8  # no cut of all cells at once


def test_a_histogram_counts_every_region_in_its_bin() -> None:
    model, slice = CASES["plane"]
    sizes = rs.linear_regions(model, slice).sizes
    edges = [1e-4, 1e-3, float(sizes.max()), 10.0]
    histogram = rs.exact.SizeHistogram(edges)
    rs.exact.stream_regions(model, slice, consume=histogram)
    bounds = [-math.inf, *edges, math.inf]
    assert histogram.counts.tolist() == [int(((sizes >= a) & (sizes < b)).sum()) for a, b in pairwise(bounds)]
    assert histogram.counts[3] == 1


@pytest.mark.parametrize("edges", [[], [2.0, 1.0], [1.0, math.nan], [[1.0]]])
def test_a_histogram_needs_ascending_edges(edges: list[float]) -> None:
    with pytest.raises(rs.InputError, match="Expected ascending edges"):
        rs.exact.SizeHistogram(edges)


def test_wrong_arguments_are_refused() -> None:
    model, slice = CASES["plane"]
    with pytest.raises(rs.InputError, match="Expected a function of FinishedRegions, got int"):
        rs.exact.stream_regions(model, slice, consume=3)
    with pytest.raises(rs.InputError, match="Expected one slice, got 2"):
        rs.exact.stream_regions(model, [slice, slice])
    with pytest.raises(rs.LimitReached, match="max_regions=10"):
        rs.exact.stream_regions(model, slice, max_regions=10)


@needs_cuda
def test_parts_on_cuda_are_those_on_the_cpu() -> None:
    model, slice = CASES["plane"]
    here, histogram = rs.exact.stream_regions(model, slice), rs.exact.SizeHistogram([1e-3])
    there = rs.exact.stream_regions(model.to("cuda"), slice, consume=histogram, memory=1 << 20)
    model.to("cpu")
    assert (there.n_activation_regions, there.by_layer) == (here.n_activation_regions, here.by_layer)
    assert int(histogram.counts.sum()) == here.n_activation_regions
