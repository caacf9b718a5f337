"""A network and inputs whose counts are stored in files, and the comparison of two counts."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import regionscope as rs

DATA = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) * 3
COARSE = {"grid": 4, "method": "refined", "max_points": 10}  # one halving: some slices do not settle


class Net(nn.Module):
    """Several regions on most slices; records how many rows each call has."""

    rows: ClassVar[list[int]] = []

    def __init__(self, slope: float = 0.1, scale: float = 1.0, act: type[nn.Module] = nn.LeakyReLU) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(3)
        self.first, self.act, self.last = nn.Linear(4, 24), act(slope), nn.Linear(24, 5)
        self.scale = scale
        self.register_buffer("shift", torch.zeros(5), persistent=False)
        with torch.no_grad():
            for weights in self.parameters():
                weights.copy_(torch.randn(weights.shape, generator=made))

    def forward(self, x: Tensor, add: float | Tensor = 0.0) -> Tensor:
        self.rows.append(len(x))
        out: Tensor = self.last(self.act(self.first(x))) * self.scale + self.shift + add
        return out


class Loaded(Dataset[Tensor]):
    """Inputs that are loaded one by one, and counted."""

    def __init__(self) -> None:
        self.loads = 0

    def __len__(self) -> int:
        return len(DATA)

    def __getitem__(self, i: int) -> Tensor:
        self.loads += 1
        return DATA[i]


def assert_same(found: rs.RegionCount, wanted: rs.RegionCount) -> None:
    assert torch.equal(found.counts, wanted.counts)
    assert (found.plain_counts is None) == (wanted.plain_counts is None)
    if wanted.plain_counts is not None:
        assert torch.equal(found.plain_counts, wanted.plain_counts)
    for name in ("dim", "method", "grid", "seed", "status", "interval"):
        assert getattr(found, name) == getattr(wanted, name)


HOW: dict[str, dict[str, Any]] = {"region_count": COARSE, "linear_region_count": {}}
