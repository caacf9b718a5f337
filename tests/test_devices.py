"""Nothing forgets where its tensors are: the instruments on a device that does not mix with the CPU.

It stands in for a GPU where there is none; what a GPU computes is tested on one.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import regionscope as rs
from cases import CASES, Case
from fake_device import FAR, far_device, moved
from nasty.modules import mlp, pooled_cnn, seeded
from sequence_models import TinyGPT, prompts

SOME = [case for case in CASES[::8] if any(True for _ in case.build().parameters())]
PLAIN, IMAGES = seeded(3, lambda: mlp([4, 10, 10, 3])), seeded(4, lambda: pooled_cnn(3, channels=4))


def test_the_device_refuses_what_a_gpu_refuses() -> None:
    with far_device():
        there = torch.ones(3, device=FAR)
        assert (there + 1).device == FAR
        assert (there.cpu() + torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
        with pytest.raises(RuntimeError, match="mixes devices"):
            there + torch.ones(3)


@pytest.mark.filterwarnings("ignore:Rounding leaves")  # of lines that meet in a point up to rounding
@pytest.mark.parametrize("case", SOME, ids=str)
def test_exact_regions_there_are_those_here(case: Case) -> None:
    model = case.build()
    decided_here = rs.decision_regions(model, case.slice)
    with far_device():
        decided_there = rs.decision_regions(moved(model), case.slice)
        assert decided_there.labels.tolist() == decided_here.labels.tolist()
        here, there = decided_here.partition, decided_there.partition
        assert there.vertices.device == decided_there.labels.device == FAR
        assert (there.by_layer, there.n_linear_regions) == (here.by_layer, here.n_linear_regions)
        assert there.patterns().tolist() == here.patterns().tolist()
        assert there.to("cpu").n_undecided == here.n_undecided
        if not here.n_undecided:
            there.to("cpu").check()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_slices_together_there_are_those_here(dim: int) -> None:
    model = PLAIN()
    corners = torch.randn(3, dim + 1, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slices = [rs.Simplex(each) for each in corners]
    here = rs.linear_regions(model, slices)
    with far_device():
        there = rs.linear_regions(moved(model), slices)
        for one, other in zip(here, there, strict=True):
            assert one.sizes.tolist() == pytest.approx(other.sizes.tolist())
            assert one.walls.regions.tolist() == other.walls.regions.tolist()


@pytest.mark.parametrize("dim", [2, 3])
def test_level_sets_there_are_those_here(dim: int) -> None:
    model = PLAIN()
    points = torch.randn(dim + 1, 4, generator=torch.Generator().manual_seed(0))
    value = float(model(points.mean(0, keepdim=True))[0, 0].detach())
    asked: list[dict[str, Any]] = [{"target": 0, "value": value}, {"classes": 0}, {"classes": (0, 1)}]
    here = [rs.level_set(model, rs.Simplex(points), **what) for what in asked]
    assert len(here[0]) > 3
    with far_device():
        there = [rs.level_set(moved(model), rs.Simplex(points), **what) for what in asked]
        assert there[0].vertices.device == FAR
        for one, other in zip(here, there, strict=True):
            assert [x for _, x, _ in other.readings()] == pytest.approx([x for _, x, _ in one.readings()])


@pytest.mark.parametrize("method", ["grid", "refined"])
@pytest.mark.parametrize("dim", [1, 2])
def test_region_counts_there_are_those_here(method: str, dim: int) -> None:
    model, data = IMAGES(), torch.randn(12, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    here = rs.region_count(model, data, dim=dim, slices=4, method=method, grid=20)
    with far_device():
        there = rs.region_count(moved(model), data, dim=dim, slices=4, method=method, grid=20)
        assert there.counts.tolist() == here.counts.tolist()


def test_local_complexity_there_is_that_here() -> None:
    model, data = IMAGES(), torch.randn(5, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    here = rs.local_complexity(model, data, dims=6, radius=0.3)
    with far_device():
        there = rs.local_complexity(moved(model), data, dims=6, radius=0.3)
        assert there.total.tolist() == here.total.tolist()


@pytest.mark.parametrize("norm", [1, 2])
def test_regions_of_points_there_are_those_here(norm: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for model, shape in ((PLAIN(), (4,)), (IMAGES(), (1, 6, 6))):
        data = torch.randn(5, *shape, generator=generator)
        here = rs.regions_at(model, data, norm=norm, merge="affine")
        with far_device():
            there = rs.regions_at(moved(model), data, norm=norm, merge="affine")
            assert there.distance.tolist() == pytest.approx(here.distance.tolist())
            assert there.ids.tolist() == here.ids.tolist()
            assert there.nearest_points().flatten().tolist() == pytest.approx(here.nearest_points().flatten().tolist())
            assert there.map(0).matrix.flatten().tolist() == pytest.approx(here.map(0).matrix.flatten().tolist())
            assert there.halfspaces(0).offsets.tolist() == pytest.approx(here.halfspaces(0).offsets.tolist())
            assert there.sharing(0) == here.sharing(0)


SMOOTH = {
    "dense": lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)),
    "images": lambda: nn.Sequential(
        nn.Conv2d(1, 3, 2), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten(), nn.PReLU(), nn.Linear(3, 2), nn.Softmax(1)
    ),
    "level": lambda: nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1)),
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dim", [1, 2])
def test_proven_maps_there_are_those_here(name: str, dim: int) -> None:
    model = seeded(5, SMOOTH[name])()
    shape = (1, 3, 3) if name == "images" else (4,)
    corners = torch.randn(dim + 1, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    slice = rs.Simplex(corners) if dim == 2 else rs.Segment(*corners)
    here = rs.decision_map(model, slice, undecided=0.02)
    with far_device():
        there = rs.decision_map(moved(model), slice, undecided=0.02)
        assert there.labels.tolist() == here.labels.tolist()
        assert there.n_regions == here.n_regions


def test_weights_there_are_weights() -> None:
    with far_device():
        model = moved(nn.Linear(2, 3))
        assert {tensor.device for tensor in model.buffers()} == {FAR}
        assert model(torch.ones(1, 2, device=FAR)).device == FAR


def test_sequence_models_there_are_those_here() -> None:
    """Token ids and masks stay on the CPU, where users keep them; the model is elsewhere."""
    gpt, ids = TinyGPT(), prompts(4, 5)
    mask = torch.ones_like(ids)
    mask[1, 3:] = 0

    def numbers(model: nn.Module) -> list[object]:
        local = rs.local_complexity(model, ids, attention_mask=mask, radius=1.0)
        found = rs.block(model, "layers.1.mlp", ids[0])
        plane = rs.Box(found.activation, torch.eye(8, dtype=torch.float64)[:2], 2.0)
        view = rs.embedding_slice(model, ids[0], ids[1], at="layers.0")
        return [
            local.by_position["layers.1.mlp.1"].nan_to_num(-1).tolist(),
            rs.linear_regions(found.program, plane).n_linear_regions,
            rs.region_count(view.model, slices=[view.slice], grid=50).counts.tolist(),
            rs.region_count(model, ids, slices=3, grid=50).counts.tolist(),
        ]

    here = numbers(gpt)
    with far_device():
        assert numbers(moved(gpt)) == here
