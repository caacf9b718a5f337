"""Results in files and in other processes: they come back bit for bit, and what is damaged is refused."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regionscope as rs
from small_slices import SLICES, SQUARE, mlp


@pytest.mark.parametrize("name", SLICES)
def test_a_saved_partition_comes_back(name: str, tmp_path: Path) -> None:
    model, slice = SLICES[name]
    part = rs.linear_regions(model, slice)
    path = part.save(tmp_path / "part")
    back = rs.Partition.load(path, program=rs.trace(model, part.slice.input_shape))
    back.check()
    for each in ("vertices", "outputs", "corners", "offsets", "sizes"):
        assert torch.equal(getattr(back, each), getattr(part, each)), each
    assert (back.by_layer, back.stats, back.tolerance) == (part.by_layer, part.stats, part.tolerance)
    assert back.n_linear_regions == part.n_linear_regions
    with pytest.raises(rs.InputError, match="a partition with its network, got one that was loaded from a file"):
        rs.Partition.load(path).patterns()
    with pytest.raises(rs.InputError, match=r"Pass the network: Partition\.load\(path, program=trace\("):
        rs.Partition.load(path).check()


def test_a_folder_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    for read in (rs.linear_regions, rs.decision_regions):
        with pytest.raises(
            rs.InputError, match=r"an existing folder for 'part.npz', got .*nowhere.* Create it first\."
        ):
            read(mlp(2, 4, 2), SQUARE).save(tmp_path / "nowhere" / "part")
    assert not [*tmp_path.iterdir()]


def test_a_check_with_another_network_asks_for_the_one_that_was_measured(tmp_path: Path) -> None:
    path = rs.linear_regions(mlp(2, 4, 2), SQUARE).save(tmp_path / "part")
    torch.manual_seed(1)
    other = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(rs.CheckFailed, match=r"interior point\. Is this the network that was measured"):
        rs.Partition.load(path, program=rs.trace(other, (2,))).check()


def test_a_partition_goes_to_another_process_without_its_network() -> None:
    part = rs.linear_regions(mlp(2, 4, 2), SQUARE)
    dec = rs.decision_regions(mlp(2, 4, 2), SQUARE)
    assert part.n_linear_regions  # what was computed on the way stays behind
    back, decided = pickle.loads(pickle.dumps((part, dec)))
    assert torch.equal(back.vertices, part.vertices)
    assert (back.by_layer, back.n_linear_regions, back.program) == (part.by_layer, part.n_linear_regions, None)
    assert torch.equal(decided.boundary, dec.boundary)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    model = mlp(2, 4, 2)
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
    path = rs.linear_regions(mlp(2, 4, 2), SQUARE).save(tmp_path / "part.npz")
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
    "outputs of objects": (_array("outputs", lambda a: a.astype(object)), "which is another file or damaged"),
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
    "tolerance in words": (_about(tolerance={"zero": "a", "slope": 0.1, "rank": 0.1}), "zero of a Tolerance"),
    "another status": (_about(status={"done": True}), "unexpected keyword"),
    "another slice": (_about(slice={"kind": "Ball"}), "Ball"),
    "slice without parts": (_about(slice={"kind": "Box"}), "for a Box, got \\[\\]"),
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
    path = rs.linear_regions(mlp(2, 4, 2), SQUARE).save(tmp_path / "part.npz")
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
        (mlp(2, 4, 2), "a Program for program, got Sequential"),
        (rs.trace(mlp(3, 4, 2), (3,)), "inputs of shape .3,. and 2 output"),
        (rs.trace(mlp(2, 4, 5), (2,)), "inputs of shape .2,. and 5 output"),
    ],
)
def test_a_file_of_another_network_is_refused(program: Any, words: str, tmp_path: Path) -> None:
    path = rs.linear_regions(mlp(2, 4, 2), SQUARE).save(tmp_path / "part.npz")
    with pytest.raises(rs.InputError, match=words):
        rs.Partition.load(path, program)


def test_labels_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = rs.decision_regions(mlp(2, 4, 2), SQUARE).save(tmp_path / "dec.npz")
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


@pytest.mark.parametrize(("version", "way_out"), [(1, "Compute the partition again"), (99, "Install a newer")])
def test_a_file_in_another_format_is_refused(version: int, way_out: str, tmp_path: Path) -> None:
    path = rs.linear_regions(mlp(2, 4, 2), SQUARE).save(tmp_path / "part.npz")
    with np.load(path) as file:
        arrays = dict(file)
    arrays["about"] = np.array(json.dumps(json.loads(str(arrays["about"])) | {"format": version}))
    np.savez(path, **arrays)
    with pytest.raises(rs.InputError, match=rf"got format {version} in .*{way_out}"):
        rs.Partition.load(path)


OFF_GRID = torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) / 3


OFF_GRID[0] += 100


KINDS = {name: slice for name, (_, slice) in SLICES.items()} | {
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
    slice = KINDS[name]
    model = nn.Sequential(nn.Flatten(), mlp(slice.origin.numel(), 3, 2))
    part = rs.linear_regions(model, slice)
    loaded = rs.Partition.load(part.save(tmp_path / "part"), program=part.program)
    loaded.check()
    back = loaded.slice
    assert type(back) is type(slice)
    assert vars(back).keys() == vars(slice).keys()
    for part_name, value in vars(slice).items():
        theirs = vars(back)[part_name]
        assert torch.equal(theirs, value) if isinstance(value, torch.Tensor) else theirs == value, part_name
    assert torch.equal(back.embed(part.vertices), slice.embed(part.vertices))
    assert back.size == slice.size
