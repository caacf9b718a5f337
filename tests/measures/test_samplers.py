"""``region_count`` and ``linear_region_count`` of a sampler: the same numbers as with the arguments of the call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.errors import InputError
from regionscope.sampled import GivenSlices
from regionscope_lab.zoo import mlp
from sequence_models import TinyGPT, prompts

DATA = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
NET = mlp([4, 24, 24, 3], seed=5)
with torch.no_grad():
    list(NET.parameters())[-1].sub_(NET(DATA).mean(0))  # so that every class has its share

SAMPLERS: list[tuple[Any, dict[str, Any]]] = [
    (rs.Hulls, {"dim": 1}),
    (rs.Hulls, {"dim": 2, "seed": 5}),
    (rs.Hulls, {"dim": 1, "alpha": (-1.0, 2.0), "seed": 3}),
    (rs.RandomDirections, {"dim": 1, "through": "direction"}),
    (rs.RandomDirections, {"dim": 2, "length": 5.0, "seed": 4, "through": "direction"}),
    (rs.LinesFromOrigin, {"seed": 7, "through": "origin"}),
]


def sampler_of(kind: Any, options: dict[str, Any], **further: Any) -> Any:
    return kind(DATA, **{name: value for name, value in options.items() if name != "through"}, **further)


def same(one: rs.RegionCount, other: rs.RegionCount) -> None:
    assert torch.equal(one.counts, other.counts)
    for name in ("dim", "method", "grid", "seed", "status", "value", "stderr", "interval"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize(("kind", "options"), SAMPLERS)
@pytest.mark.parametrize("count", [rs.region_count, rs.linear_region_count])
def test_a_sampler_gives_the_counts_of_the_arguments(
    count: Callable[..., rs.RegionCount], kind: Any, options: dict[str, Any]
) -> None:
    found = count(NET, slices=sampler_of(kind, options, limit=30))
    assert found.n == 30
    assert len(found.counts.unique()) > 1
    same(found, count(NET, DATA, slices=30, **options))


def test_without_a_limit_the_number_of_slices_is_that_of_a_call_without_slices() -> None:
    found = rs.region_count(NET, slices=rs.Hulls(DATA, dim=1))
    assert found.n == 100
    same(found, rs.region_count(NET, DATA))
    same(rs.region_count(NET, slices=rs.Hulls(DATA), until=0.05), rs.region_count(NET, DATA, until=0.05))
    same(rs.linear_region_count(NET, slices=rs.Hulls(DATA)), rs.linear_region_count(NET, DATA))


def test_a_function_of_arrays_gets_arrays_from_a_sampler_of_arrays() -> None:
    def classify(x: Any) -> Any:
        assert not isinstance(x, torch.Tensor)
        return (x[:, 0] > 0).astype(int)

    found = rs.region_count(classify, slices=rs.Hulls(DATA.numpy(), limit=10))
    same(found, rs.region_count(classify, DATA.numpy(), slices=10))


def test_a_sampler_of_token_ids_draws_between_their_embeddings() -> None:
    model, ids = TinyGPT(seed=2), prompts(8, 5)
    found = rs.region_count(model, slices=rs.Hulls(ids, limit=4), position=2)
    same(found, rs.region_count(model, ids, slices=4, position=2))


class Axes:
    dim, seed, limit = 1, None, 4

    def draw(self, i: int) -> rs.Slice:
        return rs.Segment(-3 * torch.eye(4)[i], 3 * torch.eye(4)[i])


def test_any_object_that_draws_slices_is_a_sampler() -> None:
    drawn = [Axes().draw(i) for i in range(4)]
    wanted = rs.region_count(NET, slices=drawn)
    same(rs.region_count(NET, slices=Axes()), wanted)
    same(rs.region_count(NET, slices=GivenSlices(drawn)), wanted)


def test_the_count_of_a_sampler_can_be_resumed(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    wanted = rs.region_count(NET, slices=rs.Hulls(DATA, limit=40, seed=3))
    rs.region_count(NET, slices=rs.Hulls(DATA, limit=20, seed=3), path=path)
    written = path.read_bytes()
    same(rs.region_count(NET, slices=rs.Hulls(DATA, limit=40, seed=3), path=path), wanted)
    assert path.read_bytes().startswith(written)
    same(rs.region_count(NET, DATA, slices=40, seed=3, path=path), wanted)
    with pytest.raises(InputError, match=r"seed=4.*got counts for seed=3"):
        rs.region_count(NET, slices=rs.Hulls(DATA, limit=40, seed=4), path=path)
    with pytest.raises(InputError, match=r"got Axes\(\), whose slices .*Pass a list of slices"):
        rs.region_count(NET, slices=Axes(), path=tmp_path / "other.jsonl")


@pytest.mark.parametrize("count", [rs.region_count, rs.linear_region_count])
@pytest.mark.parametrize(
    "option",
    [
        {"dim": 2},
        {"through": "direction"},
        {"alpha": (0.0, 2.0)},
        {"length": 1.0},
        {"seed": 1},
        {"generator": torch.Generator()},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_of_the_sampler_are_refused_in_the_call(count: Callable[..., Any], option: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match=r"with slices=Hulls\(...\), got at least one of them. Pass them to the sampler"
    ):
        count(NET, slices=rs.Hulls(DATA), **option)


@pytest.mark.parametrize("count", [rs.region_count, rs.linear_region_count])
def test_inputs_beside_or_in_place_of_a_sampler_are_refused(count: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"either inputs or slices=Hulls\(...\), got both. Leave the inputs out"):
        count(NET, DATA, slices=rs.Hulls(DATA))
    with pytest.raises(InputError, match=r"got Hulls. Pass it as slices="):
        count(NET, rs.Hulls(DATA))
    with pytest.raises(InputError, match=r"got Segment. Pass slices=\[...\]"):
        count(NET, [rs.Segment(DATA[0], DATA[1])])
    with pytest.raises(InputError, match="limit to be a whole number of at least 1, got 0"):
        count(NET, slices=rs.Hulls(DATA, limit=0))


def test_the_module_is_the_same_after_a_sampler_was_counted() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Dropout(), nn.ReLU(), nn.Linear(3, 2)).train()
    sampler = rs.Hulls(DATA, limit=5)
    rs.region_count(net, slices=sampler)
    assert net.training
    assert torch.equal(sampler.draw(3).corners, rs.Hulls(DATA).draw(3).corners)
