"""Signs, crossings along edges, and their order, against one-at-a-time arithmetic."""

from __future__ import annotations

import pytest
import torch

from regionscope.geometry.crossing import SignTable, Units, place_points


def _signs(values: torch.Tensor, at: tuple[float, ...], near: torch.Tensor) -> torch.Tensor:
    columns = [values - t for t in at]
    u = torch.cat(columns, 1)
    return torch.where(u.abs() <= near[:, None], 0.0, u.sign())


@pytest.mark.parametrize("n", [1, 7, 8, 9, 64])
@pytest.mark.parametrize("at", [(0.0,), (0.0, 0.5)])
def test_sign_changes_are_those_of_a_plain_comparison(n: int, at: tuple[float, ...]) -> None:
    generator = torch.Generator().manual_seed(n)
    values = torch.randn(40, n, generator=generator, dtype=torch.float64).round(decimals=1)
    near = torch.full((40,), 0.05, dtype=torch.float64)
    a, b = torch.randint(0, 40, (2, 100), generator=generator)
    table = SignTable.of(Units(values, at, near))
    signs = _signs(values, at, near)
    expected = {(int(r), int(u)) for r, u in (signs[a] * signs[b] < 0).nonzero()}
    row, unit = table.sign_changes(a, b)
    assert set(zip(row.tolist(), unit.tolist(), strict=True)) == expected
    assert len(row) == len(expected)


def test_only_units_that_vanish_at_the_middle_vertex_count_when_asked() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-1, 2, (30, 20), generator=generator).double()
    near = torch.full((30,), 1e-9, dtype=torch.float64)
    a, b, on = torch.randint(0, 30, (3, 200), generator=generator)
    table = SignTable.of(Units(values, (0.0,), near))
    row, unit = table.sign_changes(a, b, on=on)
    expected = ((values[a] * values[b] < 0) & (values[on] == 0)).nonzero()
    assert torch.equal(torch.stack([row, unit], 1), expected)
    assert torch.equal(table.vertices_with_zero(), (values == 0).any(1).nonzero()[:, 0])


def test_points_are_sorted_along_their_edge_and_near_ones_are_shared() -> None:
    near = torch.full((4,), 1e-9, dtype=torch.float64)
    edge = torch.tensor([0, 0, 0, 1])
    ua = torch.tensor([0.75, 0.25, 0.25 + 1e-12, 0.5], dtype=torch.float64)
    points, crossings = place_points(edge, torch.arange(4), ua, ua - 1, near)
    assert points.edge.tolist() == [0, 0, 1]
    assert torch.allclose(points.t, torch.tensor([0.25, 0.75, 0.5], dtype=torch.float64))
    where = dict(zip(crossings.unit.tolist(), crossings.point.tolist(), strict=True))
    assert where == {0: 1, 1: 0, 2: 0, 3: 2}
    assert crossings.merged.tolist() == [0]


def test_a_flat_unit_near_two_crossings_does_not_join_them() -> None:
    """Unit 1 is within its tolerance all along the edge, so it may share either point, and stands where unit 0 does."""
    near = torch.full((3,), 1e-9, dtype=torch.float64)
    ua = torch.tensor([0.25, 1.2e-9, 0.75], dtype=torch.float64)
    ub = torch.tensor([-0.75, -1.2e-9, -0.25], dtype=torch.float64)
    points, crossings = place_points(torch.zeros(3, dtype=torch.int64), torch.arange(3), ua, ub, near)
    assert points.t.tolist() == [0.25, 0.75]
    a, b = ua[crossings.unit], ub[crossings.unit]
    assert bool(((a + points.t[crossings.point] * (b - a)).abs() <= near).all())
