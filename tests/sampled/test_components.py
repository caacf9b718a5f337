"""Connected components of equal label: closed forms, the breadth-first twin, masks, batches and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regionscope.errors import InputError
from regionscope.sampled.components import count_components, count_linked
from regionscope.sampled.lattice import make_lattice
from regionscope.sampled.reference import count_components_bfs

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


def test_zero_and_negative_labels_are_foreground_and_one_class_is_one_component() -> None:
    assert count_components(np.zeros((4, 4), dtype=np.int64)) == 1
    assert count_components(np.array([-1, -1, 0, 0, -1])) == 3


def test_diagonals_do_not_connect() -> None:
    assert count_components(np.eye(5, dtype=np.int64)) == 5 + 2
    assert count_components(np.indices((2, 2, 2)).sum(0) % 2) == 8


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("labels", [1, 2, 4])
def test_every_dimension_agrees_with_breadth_first_search(shape: tuple[int, ...], labels: int) -> None:
    rng = np.random.default_rng(len(shape) * 10 + labels)
    maps = rng.integers(0, labels, (6, *shape))
    masks = rng.random((6, *shape)) < 0.7
    expected = [count_components_bfs(one) for one in maps]
    within = [count_components_bfs(one, mask) for one, mask in zip(maps, masks, strict=True)]
    assert count_components(maps, dim=len(shape)).tolist() == expected
    assert count_components(torch.from_numpy(maps), mask=torch.from_numpy(masks), dim=len(shape)).tolist() == within
    assert count_components(maps[0], mask=masks[0]) == within[0]


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


def test_one_mask_serves_all_maps_and_an_empty_mask_leaves_nothing() -> None:
    maps = np.random.default_rng(1).integers(0, 2, (3, 6, 6))
    mask = np.add.outer(np.arange(6), np.arange(6)) <= 5
    assert count_components(maps, mask=mask, dim=2).tolist() == [count_components_bfs(one, mask) for one in maps]
    assert count_components(maps[0], mask=np.zeros((6, 6), dtype=bool)) == 0


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
