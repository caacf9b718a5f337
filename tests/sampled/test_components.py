"""Connected components of equal label, and nearest groups: closed forms, slow twins, batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regionscope.sampled.components import count_linked
from regionscope.sampled.lattice import Kind, make_lattice
from regionscope.sampled.refinement import nearest_groups, nearest_groups_all_pairs
from twins.components import count_components_bfs

LATTICES = [("box", 1, 7), ("box", 2, 6), ("box", 3, 4), ("box", 4, 3), ("box", 5, 2), ("box", 6, 2)]
LATTICES += [("simplex", dim, 7) for dim in (1, 2, 3, 4)]


def counted(*maps: np.ndarray) -> list[int]:
    """The pieces of square maps, with the neighbours of a lattice in a box."""
    labels = torch.from_numpy(np.stack(maps)).flatten(1)
    return count_linked(labels, make_lattice("box", maps[0].ndim, len(maps[0])).pairs).tolist()


@pytest.mark.parametrize("k", [2, 5])
def test_a_checkerboard_has_k_squared_components(k: int) -> None:
    board = np.indices((k, k)).sum(0) % 2
    assert counted(board) == [k * k]
    assert counted(board.repeat(3, 0).repeat(3, 1)) == [k * k]


@pytest.mark.parametrize("n", [1, 2, 6])
def test_rings_stripes_and_xor(n: int) -> None:
    x, y = np.indices((4 * n + 1, 4 * n + 1)) - 2 * n
    assert counted(np.maximum(abs(x), abs(y)) // 2 % 2, np.zeros_like(x), np.repeat(x[:, :1] % 2, len(x), 1)) == [
        n + 1, 1, 4 * n + 1,
    ]  # fmt: skip
    x, y = np.indices((2 * n, 2 * n)) < n
    assert counted(x ^ y) == [4]
    assert counted(np.eye(n + 2, dtype=np.int64)) == [n + 2 + 2]  # diagonals do not connect
    assert counted(np.array([-1, -1, 0, 0, -1])) == [3]


@pytest.mark.parametrize(("kind", "dim", "grid"), LATTICES)
def test_every_lattice_agrees_with_breadth_first_search(
    kind: Kind, dim: int, grid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lattice, rng = make_lattice(kind, dim, grid), np.random.default_rng(dim)
    inside = np.ones((grid,) * dim, dtype=bool) if kind == "box" else np.indices((grid,) * dim).sum(0) < grid
    assert len(lattice) == inside.sum()
    maps = np.concatenate([rng.integers(0, n, (4, *inside.shape)) for n in (1, 2, 3)])
    wanted = [count_components_bfs(labels, inside) for labels in maps]
    for points in (1 << 22, 1, 42, 1000):
        monkeypatch.setattr("regionscope.sampled.components._POINTS_AT_ONCE", points)
        assert count_linked(torch.from_numpy(maps[:, inside]), lattice.pairs).tolist() == wanted


@pytest.mark.parametrize(
    ("side", "shares", "seed"), [(40, (1.0,), 0), (70, (0.5, 0.5), 0), (40, (0.9, 0.1), 1), (70, (0.9, 0.1), 2)]
)
def test_the_same_as_by_all_distances(side: int, shares: tuple[float, ...], seed: int) -> None:
    """Points of a lattice in groups of one, of a few, and some that are large and far from the others."""
    rng = np.random.default_rng(seed)
    points = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)
    points = points[rng.random(len(points)) < 0.3].astype(np.float64)
    blocks = (points // (3 if len(shares) == 1 else 12)).astype(np.int64) @ [1000, 1]
    single = rng.random(len(points)) < shares[-1] if len(shares) > 1 else np.zeros(len(points), dtype=bool)
    names = np.where(single, 10**6 + np.arange(len(points)), blocks)
    order = np.argsort(names, kind="stable")
    group = np.unique(names[order], return_inverse=True)[1]
    found = nearest_groups(points[order], group, 3)
    wanted = nearest_groups_all_pairs(points[order], group, 3)
    assert len(found) == len(wanted)
    assert {tuple(row) for row in found.tolist()} == {tuple(row) for row in wanted.tolist()}
