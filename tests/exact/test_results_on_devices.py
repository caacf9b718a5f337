"""Results on other devices: they move whole, and a GPU gives what a CPU gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import regionscope as rs
from devices import needs_cuda
from fake_device import FAR, far_device
from regionscope.exact.region_batch import Walls
from small_slices import SLICES


def _tensors(value: object) -> dict[str, torch.Tensor]:
    """All tensors of a result, of its slice and of its walls."""
    if isinstance(value, torch.Tensor):
        return {"": value}
    if not isinstance(value, (rs.Partition, rs.DecisionRegions, Walls, rs.Segment, rs.Simplex, rs.Box)):
        return {}
    return {f"{name}.{k}": v for name, inner in vars(value).items() for k, v in _tensors(inner).items()}


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("find", [rs.linear_regions, rs.decision_regions])
def test_a_result_moves_to_another_device_whole(name: str, find: Callable[..., Any]) -> None:
    found = find(*SLICES[name])
    assert found.to("cpu") is found
    with far_device():
        moved = found.to(FAR)
    there, here = _tensors(moved), _tensors(found)
    assert {tensor.device for tensor in there.values()} == {FAR}
    assert set(there) == set(here)
    assert all(there[key].shape == here[key].shape and there[key].dtype == here[key].dtype for key in here)


@needs_cuda
@pytest.mark.parametrize("name", SLICES)
def test_a_result_from_cuda_is_the_same_on_the_cpu(name: str) -> None:
    model, slice = SLICES[name]
    there = rs.linear_regions(model.to("cuda"), slice)
    labelled = rs.decision_regions(model, slice)
    model.to("cpu")
    here = there.to("cpu")
    for key, tensor in _tensors(here).items():
        assert not tensor.is_cuda, key
        assert torch.equal(tensor, _tensors(there)[key].cpu()), key
    assert here.n_linear_regions == there.n_linear_regions
    assert torch.equal(here.patterns(), there.patterns().cpu())
    first = torch.arange(min(3, len(here)))
    for mine, theirs in zip(here.input_maps(first), there.input_maps(first.cuda()), strict=True):
        assert torch.allclose(mine, theirs.cpu())
    here.check()
    assert torch.allclose(labelled.to("cpu").sizes, labelled.sizes.cpu())


@needs_cuda
@pytest.mark.parametrize("name", SLICES)
def test_cuda_gives_the_same_partition(name: str) -> None:
    model, slice = SLICES[name]
    here, there = rs.linear_regions(model, slice), rs.linear_regions(model.to("cuda"), slice)
    model.to("cpu")
    there.check()
    assert (here.by_layer, here.n_linear_regions) == (there.by_layer, there.n_linear_regions)
    assert torch.allclose(here.sizes.sort().values, there.sizes.cpu().sort().values)


@needs_cuda
@pytest.mark.parametrize("name", ["segment", "square"])
def test_cuda_gives_the_same_decision_regions(name: str) -> None:
    model, slice = SLICES[name]
    here, there = rs.decision_regions(model, slice), rs.decision_regions(model.to("cuda"), slice)
    model.to("cpu")
    assert there.labels.is_cuda
    assert here.labels.sort().values.tolist() == there.labels.cpu().sort().values.tolist()
    assert torch.allclose(here.sizes.sort().values, there.sizes.cpu().sort().values, rtol=1e-4, atol=1e-5)
    assert here.boundary.shape == there.boundary.shape
