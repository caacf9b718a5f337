"""What a result offers: maps, patterns, walls, files, limits; and that the model is left as it was."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regionscope as rs
from devices import needs_cuda
from regionscope.exact.walls import Walls
from regionscope.network import patterns
from regionscope.tolerance import Tolerance

SQUARE = rs.Box(torch.zeros(2), torch.eye(2), 1.0)
CUBE = rs.Box(torch.zeros(3), torch.eye(3), 1.0)


def _mlp(*sizes: int, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


SLICES = {
    "segment": (_mlp(4, 10, 10, 3), rs.Segment([0.0, 1, 0, -1], [1.0, -2, 1, 2])),
    "triangle": (_mlp(4, 10, 10, 3), rs.Simplex([[0.0, 1, 0, -1], [2.0, -2, 1, 2], [-2.0, 0, 3, 1]])),
    "square": (_mlp(2, 10, 10, 3), SQUARE),
    "cube": (_mlp(3, 6, 6, 3), CUBE),
    "box through points": (
        _mlp(4, 10, 10, 3),
        rs.Box.through([[0.0, 1, 0.3, -1], [2.0, -0.7, 1, 2], [-2.0, 0, 3.1, 1]], 0.1),
    ),
}


@pytest.fixture(scope="module", params=SLICES)
def found(request: pytest.FixtureRequest) -> tuple[nn.Module, rs.Partition]:
    model, piece = SLICES[request.param]
    return model, rs.linear_regions(model, piece)


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


def test_every_region_has_a_pattern_of_its_own(found: tuple[nn.Module, rs.Partition]) -> None:
    model, part = found
    seen = part.patterns()
    assert len(seen.unique(dim=0)) == len(part) == part.n_activation_regions
    chosen = torch.tensor([0, len(part) - 1])
    assert torch.equal(part.patterns(chosen), seen[chosen])
    expected = patterns(rs.trace(model, part.slice.input_shape), part.slice.embed(part.interior))
    assert torch.equal(seen, expected)


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


def test_a_saved_partition_comes_back(found: tuple[nn.Module, rs.Partition], tmp_path: Path) -> None:
    model, part = found
    path = part.save(tmp_path / "deep" / "part")
    back = rs.Partition.load(path, program=rs.trace(model, part.slice.input_shape))
    back.check()
    for name in ("vertices", "outputs", "corners", "offsets", "sizes"):
        assert torch.equal(getattr(back, name), getattr(part, name)), name
    assert (back.by_layer, back.stats, back.tolerance) == (part.by_layer, part.stats, part.tolerance)
    assert back.n_linear_regions == part.n_linear_regions
    with pytest.raises(rs.InputError, match="a partition with its network, got one that was loaded from a file"):
        rs.Partition.load(path).patterns()


def test_a_partition_goes_to_another_process_without_its_network() -> None:
    part = rs.linear_regions(_mlp(2, 4, 2), SQUARE)
    dec = rs.decision_regions(_mlp(2, 4, 2), SQUARE)
    assert part.n_linear_regions  # what was computed on the way stays behind
    back, decided = pickle.loads(pickle.dumps((part, dec)))
    assert torch.equal(back.vertices, part.vertices)
    assert (back.by_layer, back.n_linear_regions, back.program) == (part.by_layer, part.n_linear_regions, None)
    assert torch.equal(decided.boundary, dec.boundary)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    model = _mlp(2, 4, 2)
    part, dec = (
        read(model, SQUARE).save(tmp_path / name)
        for read, name in ((rs.linear_regions, "part"), (rs.decision_regions, "dec"))
    )
    with pytest.raises(rs.InputError, match=r"decision regions in .*got a partition that is not cut at the decision"):
        rs.DecisionRegions.load(part)
    with pytest.raises(rs.InputError, match=r"got decision regions.*DecisionRegions\.load"):
        rs.Partition.load(dec)


@pytest.mark.parametrize("content", ["text", "nothing", "array", "half", "other arrays"])
def test_a_file_that_is_no_partition_is_one_sentence(content: str, tmp_path: Path) -> None:
    path = rs.linear_regions(_mlp(2, 4, 2), SQUARE).save(tmp_path / "part.npz")
    if content == "array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif content == "other arrays":
        np.savez(path, a=np.zeros(3))
    else:
        path.write_bytes({"text": b"hello", "nothing": b"", "half": path.read_bytes()[:300]}[content])
    for kind in (rs.Partition, rs.DecisionRegions):
        with pytest.raises(rs.InputError, match="which is another file or damaged"):
            kind.load(path)


def _about(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(arrays: dict[str, Any]) -> None:
        arrays["about"] = np.array(json.dumps(json.loads(str(arrays["about"])) | changes))

    return change


def _array(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    return lambda arrays: arrays.update({name: change(arrays[name])})


def _last(value: float) -> Callable[[Any], Any]:
    return lambda array: np.concatenate([array[:-1], np.full_like(array[-1:], value)])


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no vertices": (lambda arrays: arrays.pop("vertices"), "vertices"),
    "vertices of another dim": (_array("vertices", lambda a: np.repeat(a, 2, 1)), "vertices is not"),
    "vertices NaN": (_array("vertices", lambda a: a * np.nan), "vertices is not"),
    "outputs too few": (_array("outputs", lambda a: a[1:]), "outputs is not"),
    "outputs of objects": (_array("outputs", lambda a: a.astype(object)), "Object arrays"),
    "outputs complex": (_array("outputs", lambda a: a + 1j), "outputs is not"),
    "corners out of range": (_array("corners", _last(10**6)), "corners holds indices that are out of range"),
    "corners negative": (_array("corners", _last(-1)), "corners holds indices that are out of range"),
    "offsets too short": (_array("offsets", lambda a: a[:-1]), "offsets is not"),
    "offsets backwards": (_array("offsets", lambda a: a[::-1].copy()), "offsets does not split corners"),
    "sizes too large": (_array("sizes", lambda a: 2 * a), "do not cover its slice"),
    "regions of walls": (_array("wall_regions", _last(10**6)), "wall_regions holds indices that are out of range"),
    "layers of walls": (_array("wall_layer", _last(99)), "wall_layer holds indices that are out of range"),
    "comparisons": (_array("wall_same", lambda a: a[1:]), "wall_same is not"),
    "fewer regions than counted": (_about(by_layer={"1": 10**6}), "regions, but its counts are larger"),
    "counts in words": (_about(by_layer={"1": "2"}), "lacks numbers"),
    "no counts": (_about(by_layer=[]), "lacks numbers"),
    "tolerance in words": (_about(tolerance={"zero": "a", "slope": 0.1, "rank": 0.1}), "lacks numbers"),
    "another status": (_about(status={"done": True}), "unexpected keyword"),
    "another slice": (_about(slice={"kind": "Ball"}), "Ball"),
    "slice without parts": (_about(slice={"kind": "Box"}), "for a Box, got none"),
    "deep header": (lambda arrays: arrays.update(about=np.array("[" * 200_000)), "nested too deep"),
    "vertices outside": (_array("vertices", lambda a: a + 5), "checksum"),
    "sizes exchanged": (_array("sizes", lambda a: a[::-1].copy()), "checksum"),
    "corners all 0": (_array("corners", np.zeros_like), "checksum"),
    "walls inverted": (_array("wall_same", np.logical_not), "checksum"),
    "another time": (_about(stats={"snapped": 0, "rounding": 0.0, "seconds": 1.0}), "checksum"),
    "no checksum": (_about(checksum=None), "checksum"),
    "header of a list": (lambda arrays: arrays.update(about=np.array("[1, 2]")), "damaged"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_file_whose_parts_do_not_fit_is_refused(name: str, tmp_path: Path) -> None:
    path = rs.linear_regions(_mlp(2, 4, 2), SQUARE).save(tmp_path / "part.npz")
    with np.load(path) as file:
        arrays = dict(file)
    change, words = TAMPERED[name]
    change(arrays)
    np.savez(path, **arrays)
    with pytest.raises(rs.InputError, match=words) as caught:
        rs.Partition.load(path)
    assert "which is another file or damaged" in str(caught.value)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (_mlp(2, 4, 2), "a Program for program, got Sequential"),
        (rs.trace(_mlp(3, 4, 2), (3,)), "inputs of shape .3,. and 2 output"),
        (rs.trace(_mlp(2, 4, 5), (2,)), "inputs of shape .2,. and 5 output"),
    ],
)
def test_a_file_of_another_network_is_refused(program: Any, words: str, tmp_path: Path) -> None:
    path = rs.linear_regions(_mlp(2, 4, 2), SQUARE).save(tmp_path / "part.npz")
    with pytest.raises(rs.InputError, match=words):
        rs.Partition.load(path, program)


def test_labels_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = rs.decision_regions(_mlp(2, 4, 2), SQUARE).save(tmp_path / "dec.npz")
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **(arrays | {"piece_regions": arrays["piece_regions"] + 10**6}))
    with pytest.raises(rs.InputError, match="piece_regions holds indices that are out of range"):
        rs.DecisionRegions.load(path)


def test_a_file_that_claims_more_than_memory_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "part.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**14, 2)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.npy", header.getvalue())
    with pytest.raises(rs.InputError, match="damaged"):
        rs.Partition.load(path)


@pytest.mark.parametrize(("version", "way_out"), [(1, "older version; compute it again"), (99, "another version")])
def test_a_file_in_another_format_is_refused(version: int, way_out: str, tmp_path: Path) -> None:
    path = rs.linear_regions(_mlp(2, 4, 2), SQUARE).save(tmp_path / "part.npz")
    with np.load(path) as file:
        arrays = dict(file)
    arrays["about"] = np.array(json.dumps(json.loads(str(arrays["about"])) | {"format": version}))
    np.savez(path, **arrays)
    with pytest.raises(rs.InputError, match=rf"got format {version}: .*{way_out}"):
        rs.Partition.load(path)


OFF_GRID = torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) / 3
OFF_GRID[0] += 100
KINDS = {name: piece for name, (_, piece) in SLICES.items()} | {
    "far segment": rs.Segment(*OFF_GRID[:2]),
    "extended segment": rs.Segment(*OFF_GRID[:2]).extended(-0.1, 1 / 3),
    "far triangle": rs.Simplex(OFF_GRID[:3]),
    "tetrahedron": rs.Simplex(OFF_GRID),
    "small box": rs.Box([0.1] * 4, torch.eye(4)[:2], 0.1),
    "far box": rs.Box(OFF_GRID[0], OFF_GRID[1:3], [0.1, 0.7]),
    "far box through points": rs.Box.through(OFF_GRID[:3], 0.1),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_stored_slice_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    piece = KINDS[name]
    model = nn.Sequential(nn.Flatten(), _mlp(piece.origin.numel(), 3, 2))
    part = rs.linear_regions(model, piece)
    loaded = rs.Partition.load(part.save(tmp_path / "part"))
    loaded.check()
    back = loaded.slice
    assert type(back) is type(piece)
    assert vars(back).keys() == vars(piece).keys()
    for part_name, value in vars(piece).items():
        theirs = vars(back)[part_name]
        assert torch.equal(theirs, value) if isinstance(value, torch.Tensor) else theirs == value, part_name
    assert torch.equal(back.embed(part.vertices), piece.embed(part.vertices))
    assert back.size == piece.size


@pytest.mark.parametrize("name", SLICES)
def test_decision_regions_know_their_pieces_and_come_back(name: str, tmp_path: Path) -> None:
    model, piece = SLICES[name]
    part, dec = rs.linear_regions(model, piece), rs.decision_regions(model, piece)
    dec.partition.check()
    assert int(dec.piece_parents.max()) + 1 == len(part)
    assert torch.allclose(dec.sizes.sum(), part.sizes.sum())
    by_parent = torch.zeros(len(part), dtype=torch.float64).index_add_(0, dec.piece_parents, dec.partition.sizes)
    assert torch.allclose(by_parent.sort().values, part.sizes.sort().values)
    labels = rs.trace(model, piece.input_shape)(piece.embed(dec.partition.interior)).argmax(1)
    assert torch.equal(labels, dec.piece_labels)
    back = rs.DecisionRegions.load(dec.save(tmp_path / "dec.npz"))
    assert (back.count, back.labels.tolist()) == (dec.count, dec.labels.tolist())
    if piece.dim > 2:
        with pytest.raises(rs.InputError, match="boundary_walls"):
            _ = dec.boundary
    elif len(dec.boundary):
        middle = dec.boundary.mean(1)
        best = rs.trace(model, piece.input_shape)(piece.embed(middle)).topk(2, 1).values
        assert torch.allclose(best[:, 0], best[:, 1], atol=1e-9)


@pytest.mark.parametrize("name", SLICES)
def test_a_limit_raises_or_returns_the_layers_that_fit(name: str) -> None:
    model, piece = SLICES[name]
    whole = rs.linear_regions(model, piece)
    first, last = list(whole.by_layer.values())
    assert first < last
    with pytest.raises(rs.LimitReached, match="max_regions"):
        rs.linear_regions(model, piece, max_regions=last - 1)
    assert len(rs.linear_regions(model, piece, max_regions=last)) == last
    part = rs.linear_regions(model, piece, max_regions=first, on_limit="return")
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

    part = rs.linear_regions(_mlp(2, 10, 10, 3), SQUARE)
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


def test_measuring_leaves_no_trace() -> None:
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)).train()
    model(torch.randn(16, 2))
    fired: list[str] = []
    model[2].register_forward_hook(lambda *_: fired.append("hook"))
    model[0].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    rng = torch.get_rng_state()
    rs.linear_regions(model, SQUARE).check()
    rs.decision_regions(model, SQUARE).partition.input_maps(torch.tensor([0]))
    assert torch.equal(torch.get_rng_state(), rng)
    assert [module.training for module in model.modules()] == modes
    assert not fired
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_arguments_that_make_no_sense_get_a_sentence() -> None:
    model = _mlp(2, 4, 2)
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


def _tensors(value: object) -> dict[str, torch.Tensor]:
    """All tensors of a result, of its slice and of its walls."""
    if isinstance(value, torch.Tensor):
        return {"": value}
    if not isinstance(value, (rs.Partition, rs.DecisionRegions, Walls, rs.Segment, rs.Simplex, rs.Box)):
        return {}
    return {f"{name}.{k}": v for name, inner in vars(value).items() for k, v in _tensors(inner).items()}


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("find", [rs.linear_regions, rs.decision_regions])
def test_a_result_moves_to_another_device_whole(name: str, find: Callable[..., Any]) -> None:
    found = find(*SLICES[name])
    assert found.to("cpu") is found
    moved = found.to("meta")
    assert {tensor.device.type for tensor in _tensors(moved).values()} == {"meta"}
    there, here = _tensors(moved), _tensors(found)
    assert set(there) == set(here)
    assert all(there[key].shape == here[key].shape and there[key].dtype == here[key].dtype for key in here)


@needs_cuda
@pytest.mark.parametrize("name", SLICES)
def test_a_result_from_cuda_is_the_same_on_the_cpu(name: str) -> None:
    model, piece = SLICES[name]
    there = rs.linear_regions(model.to("cuda"), piece)
    labelled = rs.decision_regions(model, piece)
    model.to("cpu")
    here = there.to("cpu")
    for key, tensor in _tensors(here).items():
        assert not tensor.is_cuda, key
        assert torch.equal(tensor, _tensors(there)[key].cpu()), key
    assert here.n_linear_regions == there.n_linear_regions
    assert torch.equal(here.patterns(), there.patterns().cpu())
    first = torch.arange(min(3, len(here)))
    for mine, theirs in zip(here.input_maps(first), there.input_maps(first.cuda()), strict=True):
        assert torch.allclose(mine, theirs.cpu())
    here.check()
    assert torch.allclose(labelled.to("cpu").sizes, labelled.sizes.cpu())


@needs_cuda
@pytest.mark.parametrize("name", SLICES)
def test_cuda_gives_the_same_partition(name: str) -> None:
    model, piece = SLICES[name]
    here, there = rs.linear_regions(model, piece), rs.linear_regions(model.to("cuda"), piece)
    model.to("cpu")
    there.check()
    assert (here.by_layer, here.n_linear_regions) == (there.by_layer, there.n_linear_regions)
    assert torch.allclose(here.sizes.sort().values, there.sizes.cpu().sort().values)


@needs_cuda
@pytest.mark.parametrize("name", ["segment", "square"])
def test_cuda_gives_the_same_decision_regions(name: str) -> None:
    model, piece = SLICES[name]
    here, there = rs.decision_regions(model, piece), rs.decision_regions(model.to("cuda"), piece)
    model.to("cpu")
    assert there.labels.is_cuda
    assert here.labels.sort().values.tolist() == there.labels.cpu().sort().values.tolist()
    assert torch.allclose(here.sizes.sort().values, there.sizes.cpu().sort().values, rtol=1e-4, atol=1e-5)
    assert here.boundary.shape == there.boundary.shape


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


@pytest.mark.slow
def test_a_wide_tolerance_swallows_breakpoints_of_a_line() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 144, 10),
    )  # fmt: skip
    line = rs.Segment(*torch.rand(2, 3, 12, 12))
    wide = Tolerance(zero=1e-6, slope=1e-4, rank=1e-5)
    assert len(rs.linear_regions(model, line, tolerance=wide)) < len(rs.linear_regions(model, line))
