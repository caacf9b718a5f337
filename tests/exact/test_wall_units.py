"""Which units fold at the walls: a dense walk through the network is the slow twin."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.errors import InputError
from small_slices import SQUARE

SEGMENT = rs.Segment([-1.0, -0.7], [1.0, 0.9])


class Net(nn.Module):
    """One and two thresholds for each value, and images."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.first, self.conv, self.last = nn.Linear(2, 16), nn.Conv2d(1, 2, 3), nn.Linear(8, 2)
        for parameter in self.parameters():
            nn.init.normal_(parameter, generator=generator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = torch.relu(self.first(x)).reshape(-1, 1, 4, 4)
        return self.last(nn.functional.relu6(self.conv(image)).flatten(1).sub(2.0).abs())

    def pieces(self, x: torch.Tensor) -> torch.Tensor:
        """The side of each unit (n, 16 + 2 * 8 + 8) from the values themselves."""
        first = self.first(x)
        second = self.conv(first.relu().reshape(-1, 1, 4, 4)).flatten(1)
        return torch.cat([first > 0, second > 0, second > 6, second.clamp(0, 6) > 2], 1)


def test_units_fold_in_the_order_of_a_dense_walk() -> None:
    net = Net()
    part = rs.linear_regions(net, SEGMENT)
    units = part.wall_units()
    assert units.names == part.layers
    steps = torch.linspace(0, 1, 200_001, dtype=torch.float64)
    with torch.no_grad():
        sides = net.double().pieces(SEGMENT.embed(steps[:, None]))
    step, column = (sides[1:] != sides[:-1]).nonzero().T
    assert len(step.unique()) == len(step) > 20  # one unit at a time
    starts = [0, 16, 32]
    places = [(layer := sum(int(c) >= start for start in starts) - 1, int(c) - starts[layer]) for c in column]
    assert [(int(a), int(b)) for a, b in zip(units.layers, units.units, strict=True)] == places
    assert torch.allclose(units.coords[:, 0], steps[step], atol=1e-5)
    name, first = units[0]
    assert (name, first) == (part.layers[places[0][0]], places[0][1])
    assert f"unit {first} of {name}" in repr(units)
    table = units.to_pandas()
    assert table["unit"].tolist() == units.units.tolist()
    assert table["coordinate_1"].is_monotonic_increasing


def test_units_of_equal_weights_share_a_wall_and_walls_of_a_plane_name_theirs() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    weight = torch.tensor([[1.0, 0.5], [-2.0, -1.0], [0.3, -1.0]])
    net[0].load_state_dict({"weight": weight, "bias": torch.tensor([0.1, -0.2, 0.05])})
    units = rs.linear_regions(net, SQUARE).wall_units()
    by_wall = {int(wall): set(units.units[units.walls == wall].tolist()) for wall in units.walls}
    assert sorted(map(sorted, by_wall.values())) == [[0, 1], [0, 1], [2], [2]]
    heights = units.coords @ weight.double().T + torch.tensor([0.1, -0.2, 0.05], dtype=torch.float64)
    assert heights[torch.arange(len(units)), units.units].abs().max() < 1e-6
    dec = rs.decision_regions(net, SQUARE)
    assert len(dec.partition.wall_units()) >= len(units)  # the boundary cuts walls, and has no units of its own
    assert len(rs.linear_regions(nn.Linear(2, 2), SQUARE).wall_units()) == 0


def test_a_partition_without_its_network_is_refused(tmp_path: object) -> None:
    file = f"{tmp_path}/part.npz"
    rs.linear_regions(Net(), SEGMENT).save(file)
    with pytest.raises(InputError, match="Expected a partition with its network"):
        rs.exact.Partition.load(file).wall_units()
