"""Connected components of equal label, and nearest groups: closed forms, slow twins, masks, batches, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regionscope.errors import InputError
from regionscope.sampled.components import count_components, count_linked
from regionscope.sampled.lattice import make_lattice
from regionscope.sampled.refinement import nearest_groups, nearest_groups_all_pairs
from twins.components import count_components_bfs

SHAPES = [(1,), (7,), (5, 6), (1, 9), (9, 1), (4, 3, 5), (3, 4, 2, 3), (2, 3, 2, 3, 2), (2, 2, 2, 2, 2, 2)]


def checkerboard(k: int, times: int = 1) -> np.ndarray:
    return np.indices((k * times, k * times)).__floordiv__(times).sum(0) % 2


def rings(n: int) -> np.ndarray:
    x, y = np.indices((4 * n + 1, 4 * n + 1)) - 2 * n
    return np.maximum(abs(x), abs(y)) // 2 % 2


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_checkerboard_has_k_squared_components(k: int) -> None:
    assert count_components(checkerboard(k)) == k * k
    assert count_components(checkerboard(k, times=3)) == k * k


@pytest.mark.parametrize("n", [1, 2, 6])
def test_rings_stripes_and_xor(n: int) -> None:
    assert count_components(rings(n)) == n + 1
    stripes = np.repeat(np.arange(n) % 2, 4)
    assert count_components(np.tile(stripes, (5, 1))) == n
    assert count_components(stripes) == n
    x, y = np.indices((2 * n, 2 * n)) < n
    assert count_components(x ^ y) == 4
    assert count_components(np.eye(n + 2, dtype=np.int64)) == n + 2 + 2  # diagonals do not connect
    assert count_components(np.array([-1, -1, 0, 0, -1])) == 3


@pytest.mark.parametrize(("shape", "labels"), [(shape, 1 + i % 3) for i, shape in enumerate(SHAPES)], ids=str)
def test_every_dimension_agrees_with_breadth_first_search(shape: tuple[int, ...], labels: int) -> None:
    rng = np.random.default_rng(len(shape) * 10 + labels)
    maps = rng.integers(0, labels, (6, *shape))
    masks = rng.random((6, *shape)) < 0.7
    expected = [count_components_bfs(one) for one in maps]
    within = [count_components_bfs(one, mask) for one, mask in zip(maps, masks, strict=True)]
    assert count_components(maps, dim=len(shape)).tolist() == expected
    assert count_components(torch.from_numpy(maps), mask=torch.from_numpy(masks), dim=len(shape)).tolist() == within
    assert count_components(maps[0], mask=masks[0]) == within[0]
    shared = [count_components_bfs(one, masks[0]) for one in maps]
    assert count_components(maps, mask=masks[0], dim=len(shape)).tolist() == shared
    assert count_components(maps[0], mask=np.zeros_like(masks[0])) == 0


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_maps_agree_with_breadth_first_search(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    size = int(np.prod(shape))
    values = np.array(data.draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size))).reshape(shape)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size))).reshape(shape)
    assert count_components(values, mask=mask) == count_components_bfs(values, mask)


def test_batches_have_the_leading_shape_and_do_not_touch_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    maps = rng.integers(0, 3, (4, 5, 6, 7))
    together = count_components(maps, dim=2)
    assert together.shape == (4, 5)
    for i, j in np.ndindex(4, 5):
        assert int(together[i, j]) == count_components(maps[i, j])
    for points in (1, 42, 43, 100):
        monkeypatch.setattr("regionscope.sampled.components._POINTS_AT_ONCE", points)
        assert torch.equal(count_components(maps, dim=2), together)
    assert count_components(np.zeros((0, 3, 3), dtype=np.int64), dim=2).shape == (0,)


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_the_lattice_inside_a_simplex_counts_as_a_masked_array(dim: int) -> None:
    grid = 7
    lattice = make_lattice("simplex", dim, grid)
    mask = np.indices((grid,) * dim).sum(0) <= grid - 1
    assert len(lattice) == mask.sum()
    labels = np.random.default_rng(dim).integers(0, 2, (5, *mask.shape))
    inside = torch.from_numpy(labels[:, mask])
    assert torch.equal(count_linked(inside, lattice.pairs), count_components(labels, mask=mask, dim=dim))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: count_components(np.zeros((2, 2))), "float64"),
        (lambda: count_components(torch.zeros(2, 2)), "integers"),
        (lambda: count_components(np.array(3)), "single number"),
        (lambda: count_components(np.zeros((2, 2), int), dim=3), "1 to 2"),
        (lambda: count_components(np.zeros((2, 2), int), dim=0), "1 to 2"),
        (lambda: count_components(np.zeros((2, 2), int), mask=np.ones((2, 2))), "booleans"),
        (lambda: count_components(np.zeros((2, 2), int), mask=np.ones(3, bool)), "broadcast"),
    ],
)
def test_bad_input_is_one_sentence(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


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
