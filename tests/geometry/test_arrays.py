"""Arrays of a cut: rows of different lengths, bit sets, interpolation and crossings, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from devices import DEVICES
from regionscope.geometry import arrays, interpolation
from regionscope.geometry.bitsets import WORD, holds, lowest, n_words, pack, popcount, unpack
from regionscope.geometry.crossing import SignTable, Units, place_points
from regionscope.geometry.interpolation import Interpolation
from regionscope.geometry.planar.cut import PlanarCut, cut_units
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.ragged import gather_rows, sort_by


def _cut_twice() -> tuple[PlanarCut, torch.Tensor]:
    """Lines of two layers, some of them through one point."""
    generator = torch.Generator().manual_seed(0)
    none, corners = torch.full((4,), -1), torch.arange(4)
    mesh = Mesh.of_loops(4, corners, torch.tensor([0, 4]), torch.zeros(1, dtype=torch.int64), none, none)
    coords = torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=torch.float64)
    for layer in range(2):
        weights = torch.randn(2, 12, generator=generator, dtype=torch.float64)
        values = coords @ weights + 0.3 * torch.randn(12, generator=generator, dtype=torch.float64)
        values[:, :4] = coords @ weights[:, :4]
        near = torch.full((len(coords), 12), 1e-12).double()
        result = cut_units(mesh, Units(values, (0.0, 0.5), near, coords), layer=layer)
        mesh, coords = result.mesh, result.interpolation.apply(coords)
    return arrays.as_tensors(result), coords


def test_numpy_and_tensors_cut_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    here, coords = _cut_twice()
    monkeypatch.setattr(arrays, "numpy_on_cpu", lambda value: value)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(interpolation, "_LARGE", 10**9)
    there, again = _cut_twice()
    assert torch.allclose(coords, again, rtol=0, atol=1e-12)
    for name in ("edges", "layer", "corners", "sides", "offsets", "slice_id"):
        assert torch.equal(getattr(here.mesh, name), getattr(there.mesh, name)), name
    for name in ("old_cell", "zeros", "unsettled", "snapped"):
        assert torch.equal(getattr(here, name), getattr(there, name)), name


@pytest.mark.parametrize("count", [1, 5, 40])
def test_largest_rows_of_both_kinds(count: int) -> None:
    rows = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = set(rows.abs().sum(1).argsort()[-count:].tolist())
    assert set(arrays.largest_rows(rows, count).tolist()) == wanted
    assert set(arrays.largest_rows(arrays.numpy_on_cpu(rows), count).tolist()) == wanted


def test_rows_in_any_order_empty_and_repeated_ones_too() -> None:
    offsets = torch.tensor([0, 2, 2, 5, 6])
    index, found = gather_rows(offsets, torch.tensor([3, 1, 0, 2, 0]))
    assert index.tolist() == [5, 0, 1, 2, 3, 4, 0, 1]
    assert found.tolist() == [0, 1, 1, 3, 6, 8]
    index, found = gather_rows(offsets, torch.tensor([], dtype=torch.int64))
    assert index.tolist() == []
    assert found.tolist() == [0]


def test_equal_keys_keep_their_order() -> None:
    generator = torch.Generator().manual_seed(0)
    group, distinct = torch.randint(50, (4000,), generator=generator), torch.rand(4000, generator=generator).double()
    tied = (distinct * 8).floor()
    with_nan = torch.where(tied == 3, torch.nan, tied)
    for key in (distinct, tied, with_nan):
        order = sort_by(group.numpy(), key.numpy())
        assert order.tolist() == np.lexsort((key.numpy(), group.numpy())).tolist()


SIZES = [0, 1, 5, WORD - 1, WORD, WORD + 1, 2 * WORD, 2 * WORD + 1]


def tables(f: int, device: str) -> Tensor:
    """Members (43, f): none, all, and random ones from few to many."""
    density = torch.linspace(0.02, 0.98, 41)[:, None]
    some = torch.rand(41, f, generator=torch.Generator().manual_seed(f)) < density
    return torch.cat([torch.zeros(1, f, dtype=torch.bool), torch.ones(1, f, dtype=torch.bool), some]).to(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("f", SIZES)
def test_words_are_the_sets_that_were_packed(f: int, device: str) -> None:
    members = tables(f, device)
    words = pack(members)
    sets = [{i for i, inside in enumerate(row) if inside} for row in members.tolist()]
    assert words.dtype == torch.int64
    assert words.shape == (len(members), n_words(f))
    assert bool((words >= 0).all())
    numbers = [sum(word << (WORD * i) for i, word in enumerate(row)) for row in words.tolist()]
    assert numbers == [sum(1 << i for i in one) for one in sets]
    assert torch.equal(unpack(words, f), members)
    assert popcount(words).tolist() == [len(one) for one in sets]
    assert lowest(words).tolist() == [min(one, default=-1) for one in sets]
    for element in range(f):
        assert holds(words, torch.full((len(words),), element, device=device)).tolist() == [element in s for s in sets]


@pytest.mark.parametrize("device", DEVICES)
def test_the_lowest_element_is_read_from_every_bit(device: str) -> None:
    """One bit at a time: the logarithm of a power of two is off by a little on a GPU, and rounds down."""
    single = torch.ones(WORD, dtype=torch.int64, device=device) << torch.arange(WORD, device=device)
    first = torch.stack([single, torch.zeros_like(single)], 1)
    second = torch.stack([torch.zeros_like(single), single], 1)
    assert lowest(first).tolist() == list(range(WORD))
    assert lowest(second).tolist() == list(range(WORD, 2 * WORD))
    assert lowest(first | first.roll(-1, 0)).tolist() == [*range(WORD - 1), 0]
    assert lowest(first | second).tolist() == list(range(WORD))
    assert lowest(torch.zeros_like(first)).tolist() == [-1] * WORD


def _interpolation() -> Interpolation:
    a, b = torch.tensor([0, 2]), torch.tensor([1, 3])
    c, d = torch.tensor([4, 0, 1]), torch.tensor([5, 5, 2])
    t = torch.tensor([0.25, 0.5], dtype=torch.float64)
    s = torch.tensor([0.5, 0.1, 0.9], dtype=torch.float64)
    weights = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    return Interpolation(4, a, b, t, c, d, s, torch.tensor([[0, 1, 3]]), weights)


def _plain(interpolation: Interpolation, rows: torch.Tensor) -> torch.Tensor:
    out = list(rows)
    for a, b, t in zip(interpolation.a, interpolation.b, interpolation.t, strict=True):
        out.append((1 - t) * out[a] + t * out[b])
    for c, d, s in zip(interpolation.c, interpolation.d, interpolation.s, strict=True):
        out.append((1 - s) * out[c] + s * out[d])
    for corners, weight in zip(interpolation.triple_points, interpolation.weights, strict=True):
        out.append(sum(w * rows[h] for h, w in zip(corners, weight, strict=True)))
    return torch.stack(out)


@pytest.mark.parametrize("mkl", [True, False])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_all_and_chosen_rows(monkeypatch: pytest.MonkeyPatch, mkl: bool, shape: tuple[int, ...]) -> None:
    if not mkl:  # the way taken on machines whose torch comes without MKL
        monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    elif not torch.backends.mkl.is_available():
        pytest.skip("this torch has no MKL")
    interpolation = _interpolation()
    rows = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = _plain(interpolation, rows)
    assert torch.allclose(interpolation.apply(rows), expected, rtol=1e-14, atol=1e-14)
    chosen = torch.tensor([9, 0, 5, 7, 6, 3, 4, 8])
    assert torch.allclose(interpolation.apply(rows, chosen), expected[chosen], rtol=1e-14, atol=1e-14)
    assert interpolation.apply(rows, chosen[:0]).shape == (0, *shape)
    assert interpolation.copy_first(torch.tensor([7, 8, 9, 10])).tolist() == [7, 8, 9, 10, 7, 9, 7, 7, 8, 7]


@pytest.mark.parametrize("device", DEVICES)
def test_more_terms_than_old_rows_have_places(device: str) -> None:
    """Crossings of chords of a triangle: four terms each, of three old rows."""
    a, b = torch.tensor([0, 1, 2], device=device), torch.tensor([1, 2, 0], device=device)
    t = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64, device=device)
    c, d = torch.tensor([3, 4, 5, 3, 4], device=device), torch.tensor([4, 5, 3, 5, 3], device=device)
    s = torch.linspace(0.1, 0.9, 5, dtype=torch.float64, device=device)
    interpolation = Interpolation(3, a, b, t, c, d, s, a.new_empty((0, 3)), t.new_empty((0, 3)))
    crossings = torch.arange(6, 11, device=device)
    matrix = interpolation.matrix().of(crossings)
    assert len(matrix.columns) > len(crossings) * interpolation.n_old
    rows = torch.randn(3, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
    assert torch.allclose(matrix.apply(rows), _plain(interpolation, rows)[6:], rtol=1e-14, atol=1e-14)


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
    table = SignTable.of(Units(values, at, near, values))
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
    table = SignTable.of(Units(values, (0.0,), near, values))
    row, unit = table.sign_changes(a, b, on=on)
    expected = ((values[a] * values[b] < 0) & (values[on] == 0)).nonzero()
    assert torch.equal(torch.stack([row, unit], 1), expected)
    assert torch.equal(table.vertices_with_zero(), (values == 0).any(1).nonzero()[:, 0])


def test_points_are_sorted_along_their_edge_and_near_ones_are_shared() -> None:
    near = torch.full((4,), 1e-9, dtype=torch.float64)
    edge = torch.tensor([0, 0, 0, 1])
    ua = torch.tensor([0.75, 0.25, 0.25 + 1e-12, 0.5], dtype=torch.float64)
    points, crossings = place_points(edge, torch.arange(4), ua, ua - 1, near, torch.ones_like)
    assert points.edge.tolist() == [0, 0, 1]
    assert torch.allclose(points.t, torch.tensor([0.25, 0.75, 0.5], dtype=torch.float64))
    where = dict(zip(crossings.unit.tolist(), crossings.point.tolist(), strict=True))
    assert where == {0: 1, 1: 0, 2: 0, 3: 2}
    assert crossings.hidden.tolist() == [0]


@pytest.mark.parametrize(("length", "hidden"), [(1.0, [1]), (1e-3, [])])
def test_a_fold_that_rounding_moves_across_the_slice_has_no_place(length: float, hidden: list[int]) -> None:
    """Unit 1 is so flat that its tolerance moves its crossing by 1/1000 of the edge."""
    ua = torch.tensor([0.5, 5e-10], dtype=torch.float64)
    near = torch.full((2,), 1e-12, dtype=torch.float64)
    edge = torch.arange(2)
    crossings = place_points(edge, edge, ua, -ua, near, lambda edges: length * torch.ones(len(edges)).double())[1]
    assert crossings.hidden.tolist() == hidden


def test_a_flat_unit_near_two_crossings_does_not_join_them() -> None:
    """Unit 1 is within its tolerance all along the edge, so it may share either point, and stands where unit 0 does."""
    near = torch.full((3,), 1e-9, dtype=torch.float64)
    ua = torch.tensor([0.25, 1.2e-9, 0.75], dtype=torch.float64)
    ub = torch.tensor([-0.75, -1.2e-9, -0.25], dtype=torch.float64)
    points, crossings = place_points(torch.zeros(3, dtype=torch.int64), torch.arange(3), ua, ub, near, torch.ones_like)
    assert points.t.tolist() == [0.25, 0.75]
    a, b = ua[crossings.unit], ub[crossings.unit]
    assert bool(((a + points.t[crossings.point] * (b - a)).abs() <= near).all())
