"""What a result offers: maps, patterns, walls, limits; and that the model is left as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import regionscope as rs
from regionscope.errors import InputError
from small_slices import CUBE, SLICES, SQUARE, mlp


@pytest.fixture(scope="module", params=SLICES)
def found(request: pytest.FixtureRequest) -> tuple[nn.Module, rs.Partition]:
    model, slice = SLICES[request.param]
    return model, rs.linear_regions(model, slice)


def test_maps_on_the_slice_and_in_input_space_are_the_network(found: tuple[nn.Module, rs.Partition]) -> None:
    model, part = found
    inputs = part.slice.embed(part.interior)
    expected = rs.trace(model, part.slice.input_shape)(inputs)
    on_slice = part.maps.constant + torch.einsum("rk,rkc->rc", part.interior, part.maps.slope)
    assert torch.allclose(on_slice, expected, rtol=1e-9, atol=1e-9)
    jacobian, constant = part.input_maps(torch.arange(len(part)))
    assert jacobian.shape == (len(part), 3, *part.slice.input_shape)
    assert torch.allclose(torch.einsum("rcd,rd->rc", jacobian, inputs) + constant, expected, rtol=1e-9, atol=1e-9)
    along = torch.einsum("rcd,kd->rkc", jacobian, part.slice.basis)
    assert torch.allclose(along, part.maps.slope, rtol=1e-6, atol=1e-6)


def test_patterns_and_input_maps_come_in_batches(
    found: tuple[nn.Module, rs.Partition], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, part = found
    every = torch.arange(len(part))
    whole, maps = part.patterns(), part.input_maps(every)
    program = part.program
    assert program is not None
    for rows in (1, 3):
        monkeypatch.setattr("regionscope.exact.partition._BYTES", rows * program.row_bytes)
        assert torch.equal(part.patterns(), whole)
        for one, other in zip(part.input_maps(every), maps, strict=True):
            assert torch.allclose(one, other, rtol=1e-12, atol=1e-12)
    jacobian, constant = part.input_maps(every[:0])
    assert (jacobian.shape, constant.shape) == ((0, 3, *part.slice.input_shape), (0, 3))
    assert part.patterns(every[:0]).shape == (0, program.n_units)


def test_walls_are_shared_by_the_regions_they_part(found: tuple[nn.Module, rs.Partition]) -> None:
    _, part = found
    walls = part.walls
    for i in walls.inner.tolist():
        ends = set(walls.vertices[walls.offsets[i] : walls.offsets[i + 1]].tolist())
        for region in walls.regions[i].tolist():
            assert ends <= set(part.corners[part.offsets[region] : part.offsets[region + 1]].tolist())
    outer = (walls.regions < 0).any(1)
    assert torch.equal(walls.layer < 0, outer)
    assert bool((walls.layer[~outer] < len(part.by_layer)).all())
    assert len(part.neighbours) == int((~outer).sum())
    # each fold flips exactly one kind of unit: patterns on both sides of a wall differ
    seen = part.patterns()
    left, right = part.neighbours.T
    assert bool((seen[left] != seen[right]).any(1).all())


@pytest.mark.parametrize("name", SLICES)
def test_decision_regions_know_their_cells_and_come_back(name: str, tmp_path: Path) -> None:
    model, slice = SLICES[name]
    part, dec = rs.linear_regions(model, slice), rs.decision_regions(model, slice)
    dec.partition.check()
    assert int(dec.piece_parents.max()) + 1 == len(part)
    assert torch.allclose(dec.sizes.sum(), part.sizes.sum())
    by_parent = torch.zeros(len(part), dtype=torch.float64).index_add_(0, dec.piece_parents, dec.partition.sizes)
    assert torch.allclose(by_parent.sort().values, part.sizes.sort().values)
    labels = rs.trace(model, slice.input_shape)(slice.embed(dec.partition.interior)).argmax(1)
    assert torch.equal(labels, dec.piece_labels)
    back = rs.DecisionRegions.load(dec.save(tmp_path / "dec.npz"))
    assert (back.count, back.labels.tolist()) == (dec.count, dec.labels.tolist())
    for program in (rs.trace(model, slice.input_shape), dec.partition.program):
        again = rs.DecisionRegions.load(tmp_path / "dec.npz", program)
        again.partition.check()
        assert torch.equal(again.partition.patterns(), dec.partition.patterns())
    if slice.dim > 2:
        with pytest.raises(rs.InputError, match="boundary_walls"):
            _ = dec.boundary
    elif len(dec.boundary):
        middle = dec.boundary.mean(1)
        best = rs.trace(model, slice.input_shape)(slice.embed(middle)).topk(2, 1).values
        assert torch.allclose(best[:, 0], best[:, 1], atol=1e-9)


@pytest.mark.parametrize("name", SLICES)
def test_a_limit_raises_or_returns_the_layers_that_fit(name: str) -> None:
    model, slice = SLICES[name]
    whole = rs.linear_regions(model, slice)
    first, last = list(whole.by_layer.values())
    assert first < last
    with pytest.raises(rs.LimitReached, match=f"at most max_regions={last - 1} regions, got more") as caught:
        rs.linear_regions(model, slice, max_regions=last - 1)
    assert caught.value.__notes__ == ['Pass on_limit="return" for the regions of the layers before it.']
    with pytest.raises(rs.LimitReached) as without_choice:
        rs.decision_regions(model, slice, max_regions=1)
    assert not hasattr(without_choice.value, "__notes__")
    assert len(rs.linear_regions(model, slice, max_regions=last)) == last
    part = rs.linear_regions(model, slice, max_regions=first, on_limit="return")
    assert not part.status
    assert "max_regions" in part.status.reason
    assert list(part.by_layer.values()) == [first] == [len(part)]
    for use in (lambda: part.n_linear_regions, lambda: part.maps):
        with pytest.raises(rs.LimitReached, match="Expected a finished partition"):
            use()
    with pytest.raises(rs.CheckFailed, match="Expected a finished partition"):
        part.check()


def test_a_broken_partition_fails_its_check() -> None:
    from dataclasses import replace

    part = rs.linear_regions(mlp(2, 10, 10, 3), SQUARE)
    moved = part.vertices.clone()
    moved[len(moved) // 2] += 0.05
    with pytest.raises(rs.CheckFailed):
        replace(part, vertices=moved).check()
    with pytest.raises(rs.CheckFailed, match="add up"):
        replace(part, sizes=part.sizes * 0.99).check()
    values = part.outputs.clone()
    values[3] += 0.01
    with pytest.raises(rs.CheckFailed):
        replace(part, outputs=values).check()


def test_arguments_that_make_no_sense_get_a_sentence() -> None:
    model = mlp(2, 4, 2)
    with pytest.raises(rs.InputError, match="empty"):
        rs.linear_regions(model, [])
    with pytest.raises(rs.InputError, match="one dimension"):
        rs.linear_regions(model, [SQUARE, rs.Segment([0.0, 0], [1.0, 1])])
    with pytest.raises(rs.InputError, match="Segment, Simplex or Box"):
        rs.linear_regions(model, "here")
    with pytest.raises(rs.InputError, match="max_regions"):
        rs.linear_regions(model, SQUARE, max_regions=0)
    with pytest.raises(rs.InputError, match="on_limit"):
        rs.linear_regions(model, SQUARE, on_limit="stop")
    with pytest.raises(rs.InputError, match="memory"):
        rs.linear_regions(model, SQUARE, memory=10)
    for find in (rs.linear_regions, rs.decision_regions):
        for tolerance in (1e-9, 0):
            with pytest.raises(rs.InputError, match=r"a Tolerance for tolerance, got .* Write Tolerance\("):
                find(model, SQUARE, tolerance=tolerance)
        for progress in (3, False):
            with pytest.raises(rs.InputError, match="Expected progress to be a function of the finished share"):
                find(model, SQUARE, progress=progress)
    with pytest.raises(rs.SliceError, match="shape"):
        rs.linear_regions(rs.trace(model, (2,)), CUBE)
    read_once = rs.trace(model, (2,), dtype=torch.float32)
    assert rs.linear_regions(read_once, SQUARE).outputs.dtype == torch.float64
    with pytest.raises(rs.InputError, match="No file"):
        rs.Partition.load("nowhere.npz")


def test_float32_planes_lose_no_region() -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)]
    model, square = nn.Sequential(*layers), rs.Box([0.0, 0.0], torch.eye(2), 1.0)
    read = rs.trace(model, (2,), dtype=torch.float32)
    assert len(rs.linear_regions(read, square)) == len(rs.linear_regions(model, square)) == 6668
    assert rs.linear_regions(read, square).n_undecided == 0


def test_float32_does_not_split_a_fold() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 64, bias=False), nn.ReLU(), nn.Linear(64, 2))
    line = rs.Segment([-0.3, 0.1, -0.7], [0.3, -0.1, 0.7])
    for read in (rs.linear_regions(rs.trace(model, (3,), dtype=torch.float32), line), rs.linear_regions(model, line)):
        assert (len(read), read.n_linear_regions) == (2, 2)


def test_a_region_that_does_not_exist_is_refused() -> None:
    part = rs.linear_regions(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)), rs.Box.between(-1, 1, (2,)))
    last = len(part) - 1
    assert len(part.region(last)) >= 3
    for i in (last + 1, -1):
        with pytest.raises(InputError, match=rf"Expected an index from 0 to {last}, got {i}\."):
            part.region(i)


def test_printing_computes_nothing() -> None:
    model, slice = SLICES[next(iter(SLICES))]
    part = rs.linear_regions(model, slice)
    with FlopCounterMode(display=False) as counter:
        shown = repr(part)
    assert counter.get_total_flops() == 0
    assert "n_linear_regions" not in shown
    assert f"n_linear_regions={part.n_linear_regions}, " in repr(part)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_a_segment_with_one_region_costs_few_forward_passes(name: str) -> None:
    torch.manual_seed(0)
    cnn = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 3))  # fmt: skip
    model, shape = {"mlp": (mlp(36, 20, 20, 20, 3), (36,)), "cnn": (cnn, (1, 6, 6))}[name]
    program, (point, step) = rs.trace(model, shape), torch.randn(2, *shape, dtype=torch.float64)
    slice = rs.Segment(point, point + 1e-9 * step)
    with FlopCounterMode(display=False) as forward:
        program(slice.embed(slice.corners))
    with FlopCounterMode(display=False) as counter:
        part = rs.linear_regions(program, slice)
        assert (part.n_linear_regions, part.n_activation_regions) == (1, 1)
        part.readings()
    assert counter.get_total_flops() <= 3.5 * forward.get_total_flops()
    part.check()
