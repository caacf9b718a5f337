"""Points are found in their regions, and regions keep their numbers while they can be followed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.exact import Partition, linear_regions
from regionscope.geometry import Box, Segment, Simplex
from regionscope.monitor.tracking import carry_over, follow, locate

SQUARE = Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0)


def network(seed: int, *, d: int = 2, width: int = 12) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))


def slow_locate(part: Partition, points: Tensor) -> list[set[int]]:
    """All regions that hold each point, one inequality at a time; a point on a wall has several."""
    held: list[set[int]] = [set() for _ in points]
    for i in range(len(part)):
        corners = part.region(i)
        for j, point in enumerate(points):
            edges = corners.roll(-1, 0) - corners
            cross = edges[:, 0] * (point - corners)[:, 1] - edges[:, 1] * (point - corners)[:, 0]
            if bool((cross >= -1e-12).all()):
                held[j].add(i)
    return held


@pytest.mark.slow
def test_locate_agrees_with_every_inequality_of_every_region() -> None:
    part = linear_regions(network(0), SQUARE)
    points = torch.rand(200, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2 - 1
    points = torch.cat([points, part.vertices[:50]])  # corners belong to any of the regions around them
    found = locate(part, points)
    expected = slow_locate(part, points)
    assert all(int(region) in held for region, held in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    "where", [SQUARE, Simplex([[0.0, 0.0], [3.0, 0.1], [0.2, 1e-3]]), Segment([0.0, 0.0], [1.0, 2.0])]
)
def test_the_middle_of_a_region_lies_in_it(where: Box | Simplex | Segment) -> None:
    part = linear_regions(network(3), where)
    assert torch.equal(locate(part, part.interior), torch.arange(len(part)))


def test_points_outside_the_slice_are_in_no_region() -> None:
    part = linear_regions(network(0), Simplex([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    # In the bounding box of the triangle, and far away.
    assert locate(part, torch.tensor([[0.9, 0.9], [5.0, 5.0], [-1.0, 0.2]])).tolist() == [-1, -1, -1]


def test_wrong_points_are_refused() -> None:
    part = linear_regions(network(0), SQUARE)
    with pytest.raises(InputError, match=r"\(5, 3\)"):
        locate(part, torch.zeros(5, 3))


def test_small_changes_move_no_number_and_splits_give_it_to_the_larger_part() -> None:
    class Lines(nn.Module):
        """|x - a| + |x - b|, cut at x = a and x = b."""

        def __init__(self, *places: float) -> None:
            super().__init__()
            self.fold = nn.Linear(2, len(places))
            self.out = nn.Linear(len(places), 1)
            with torch.no_grad():
                self.fold.weight.copy_(torch.tensor([[1.0, 0.0]]).expand(len(places), 2))
                self.fold.bias.copy_(-torch.tensor(places))
                self.out.weight.fill_(1.0)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(torch.relu(self.fold(x)))

    before, moved, split = (linear_regions(Lines(*places), SQUARE) for places in ((0.0,), (0.1,), (0.1, 0.9)))
    left_first = before.interior[:, 0].argsort()
    ids = torch.empty(2, dtype=torch.int64)
    ids[left_first] = torch.tensor([5, 8])
    after = carry_over(before, moved, ids)
    assert after[moved.interior[:, 0].argsort()].tolist() == [5, 8]
    third = carry_over(moved, split, after)
    assert third[split.interior[:, 0].argsort()].tolist() == [5, 8, 9]
    assert carry_over(moved, split, after, next_id=40)[split.interior[:, 0].argsort()].tolist() == [5, 8, 40]


def test_no_number_is_given_twice_and_regions_of_one_map_share_it() -> None:
    before, after = linear_regions(network(0), SQUARE), linear_regions(network(1), SQUARE)
    ids = carry_over(before, after, before.linear_ids)
    assert len(ids.unique()) == after.n_linear_regions
    pairs = torch.stack([ids, after.linear_ids], 1).unique(dim=0)
    assert len(pairs) == after.n_linear_regions
    kept = ids[ids <= before.linear_ids.max()].unique()
    assert len(kept) > 0.2 * min(before.n_linear_regions, after.n_linear_regions)


def test_a_number_that_died_out_does_not_come_back() -> None:
    many, few = linear_regions(network(0, width=16), SQUARE), linear_regions(network(1, width=2), SQUARE)
    first, second, third = follow([many, few, many])
    assert set(third.tolist()) & set(first.tolist()) <= set(second.tolist())


def test_different_slices_and_wrong_ids_are_refused() -> None:
    part = linear_regions(network(0), SQUARE)
    other = linear_regions(network(0), Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 2.0))
    with pytest.raises(InputError, match=r"two partitions of one slice, got Box\(dim=2, input_shape=\(2,\),"):
        carry_over(part, other, part.linear_ids)
    with pytest.raises(InputError, match=r"one id for each of 37 regions, got shape \(36,\)"):
        carry_over(part, part, part.linear_ids[1:])
