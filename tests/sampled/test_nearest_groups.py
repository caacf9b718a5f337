"""Nearest groups by neighbours are those by all distances, also among the ties of a lattice."""

from __future__ import annotations

import numpy as np
import pytest

from regionscope.sampled.refinement.nearest_groups import nearest_groups, nearest_groups_all_pairs


@pytest.mark.parametrize("side", [40, 70])
@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.5), (0.9, 0.1)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
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


def test_few_groups_and_none() -> None:
    points = np.array([[0.0, 0.0], [0.0, 5.0], [3.0, 0.0]])
    assert nearest_groups(points, np.array([0, 1, 2]), 3).tolist() == [[0, 2], [0, 1], [1, 0], [1, 2], [2, 0], [2, 1]]
    assert nearest_groups(points, np.zeros(3, dtype=np.int64), 3).shape == (0, 2)
    assert nearest_groups(np.zeros((0, 2)), np.zeros(0, dtype=np.int64), 3).shape == (0, 2)
