"""Working in pieces, or through many slices together, never changes the answer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nasty.modules import mlp, pooled_cnn, seeded
from regionscope.exact import Partition, decision_regions, linear_regions
from regionscope.geometry import Box, Segment, Simplex, Slice

PLAIN, IMAGES = seeded(3, lambda: mlp([4, 24, 24, 24, 3])), seeded(4, lambda: pooled_cnn(3, channels=4))


def points(n: int, *shape: int) -> torch.Tensor:
    return 6 * torch.rand(n, *shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64) - 3


def planes(n: int) -> list[Slice]:
    return [Simplex(three) for three in points(3 * n, 4).reshape(n, 3, 4)]


def segments(n: int) -> list[Slice]:
    return [Segment(a, b) for a, b in points(2 * n, 1, 6, 6).reshape(n, 2, 1, 6, 6)]


def summary(part: Partition) -> tuple[object, ...]:
    """All counts and the sorted sizes, to eight digits of the whole."""
    sizes = (part.sizes.sort().values / part.slice.size * 1e8).round().tolist()
    return dict(part.by_layer), part.n_activation_regions, part.n_linear_regions, len(part.neighbours), sizes


@pytest.mark.parametrize(
    ("build", "piece"),
    [
        (PLAIN, Box(torch.zeros(4), torch.eye(4)[:2], 4.0)),
        (PLAIN, Segment(*points(2, 4)).extended(-40, 40)),
        pytest.param(IMAGES, Simplex(points(3, 1, 6, 6)), marks=pytest.mark.slow),
        (IMAGES, Segment(*points(2, 1, 6, 6)).extended(-20, 20)),
    ],
    ids=["plane", "segment", "CNN plane", "CNN segment"],
)
def test_little_memory_gives_the_same_answer(build: object, piece: Slice, monkeypatch: pytest.MonkeyPatch) -> None:
    model: nn.Module = build()  # type: ignore[operator]
    whole = linear_regions(model, piece)
    labels = decision_regions(model, piece)
    monkeypatch.setattr("regionscope.exact.budget.Budget.rows", lambda *_: 200)
    parts = linear_regions(model, piece)
    parts.check()
    assert summary(parts) == summary(whole)
    again = decision_regions(model, piece)
    assert sorted(again.labels.tolist()) == sorted(labels.labels.tolist())
    torch.testing.assert_close(again.sizes.sort().values, labels.sizes.sort().values)


@pytest.mark.parametrize("n", [1, 2, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("build", "slices"), [(PLAIN, planes), (IMAGES, segments)], ids=["planes", "segments"])
def test_a_list_of_slices_gives_what_each_gives_alone(build: object, slices: object, n: int) -> None:
    model: nn.Module = build()  # type: ignore[operator]
    chosen: list[Slice] = slices(n)  # type: ignore[operator]
    together = linear_regions(model, chosen)
    assert len(together) == n
    assert [summary(part) for part in together] == [summary(linear_regions(model, piece)) for piece in chosen]
    counts = [found.count for found in decision_regions(model, chosen)]
    assert counts == [decision_regions(model, piece).count for piece in chosen]
