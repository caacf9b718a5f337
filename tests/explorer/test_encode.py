"""What is packed reads back, cell by cell."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from devices import needs_cuda
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, decision_regions, level_set, linear_regions
from regionscope.explorer import explore, inline
from regionscope.explorer.encode import Packed, encode, encode_map, slope_norms
from regionscope.explorer.write import _fitting
from regionscope.geometry import Box, Segment, Simplex, Slice
from regionscope.monitor.frames import ModelAtStep, TrainingFrames, frames_of_models, frames_of_partitions, thin
from regionscope.monitor.tracking import follow
from regionscope.smooth import decision_map
from regionscope_lab.zoo import mlp


def unpacked(packed: Packed) -> dict[str, Any]:
    raw = gzip.decompress(base64.b64decode(packed.payload))
    return {
        name: np.frombuffer(raw, dtype=kind, count=length, offset=place)
        for name, kind, place, length in packed.about["arrays"]
    }


def test_arrays_read_back(training: TrainingFrames) -> None:
    frame = training.frames[2]
    assert frame.decision is not None
    mesh = frame.decision.partition
    packed = encode(frame)
    arrays = unpacked(packed)
    np.testing.assert_allclose(np.stack([arrays["x"], arrays["y"]], 1), mesh.vertices, rtol=1e-6, atol=1e-7)
    assert arrays["corners"].tolist() == mesh.corners.tolist()
    assert arrays["sides"].tolist() == mesh.offsets.diff().tolist()
    assert (arrays["wall_left"].astype(int) - 1).tolist() == mesh.walls.regions[:, 0].tolist()
    assert (arrays["wall_layer"].astype(int) - 1).tolist() == mesh.walls.layer.tolist()
    assert arrays["label"].tolist() == frame.decision.piece_labels.tolist()
    assert packed.about["counts"] == {
        "activation": frame.linear.n_activation_regions,
        "linear": frame.linear.n_linear_regions,
        "decision": frame.decision.count,
    }


MIRRORED = [
    Box([0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 1.0),
    Simplex([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]),
    Segment([1.0], [-1.0]),
]


@pytest.mark.parametrize("where", [*MIRRORED, Box([0.5, 0.5], torch.eye(2), 1.0), Segment([-1.0], [1.0])])
@pytest.mark.parametrize("labelled", [False, True])
def test_outlines_run_counter_clockwise_as_the_axes_show_them(where: Slice, labelled: bool) -> None:
    model = mlp([where.origin.numel(), 8, 8, 2], seed=0)
    part = decision_regions(model, where) if labelled else linear_regions(model, where)
    mesh = part.partition if isinstance(part, DecisionRegions) else part
    arrays = unpacked(encode(frames_of_partitions([(0, part)]).frames[0]))
    ends = arrays["sides"].astype(int).cumsum()
    cells = [np.stack([arrays["x"][c], arrays["y"][c]], 1) for c in np.split(arrays["corners"], ends[:-1])]
    area = [0.5 * (p[:, 0] @ np.roll(p[:, 1], -1) - p[:, 1] @ np.roll(p[:, 0], -1)) for p in cells]
    np.testing.assert_allclose(area, mesh.sizes, rtol=1e-3, atol=1e-6)
    outlines = [set(mesh.corners[a:b].tolist()) for a, b in zip(mesh.offsets, mesh.offsets[1:], strict=False)]
    assert [set(c % len(mesh.vertices)) for c in np.split(arrays["corners"].astype(int), ends[:-1])] == outlines


def test_cells_add_up_to_the_regions_they_belong_to(training: TrainingFrames) -> None:
    frame = training.frames[-1]
    arrays = unpacked(encode(frame))
    total = np.bincount(arrays["linear"], weights=arrays["size"])
    expected = torch.zeros(len(arrays["ids"]), dtype=torch.float64)
    place = torch.searchsorted(torch.from_numpy(arrays["ids"].astype(np.int64)), frame.ids)
    expected.index_add_(0, place, frame.linear.sizes)
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-9)


def test_the_slope_norm_does_not_depend_on_the_coordinates_of_the_slice() -> None:
    model = mlp([3, 5, 2], seed=0).double()
    skewed = torch.tensor([[3.0, 0.0, 0.0], [1.0, 0.5, 0.0]], dtype=torch.float64)
    part = linear_regions(model, Box([0.0, 0.0, 0.0], skewed, 1.0))
    jacobian, _ = part.input_maps(torch.arange(len(part)))
    along = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
    expected = torch.linalg.matrix_norm(jacobian @ along.T, ord=2)
    torch.testing.assert_close(slope_norms(part), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("room", "kept"), [(100, [0, 1, 2, 3, 4]), (49, [0, 1, 3, 4]), (30, [0, 2, 4]), (5, [4])])
def test_frames_are_thinned_evenly_and_one_stays(room: int, kept: list[int]) -> None:
    assert _fitting([Packed({}, "x" * 10)] * 5, room) == kept


def test_as_many_frames_are_kept_as_fit_whatever_their_sizes() -> None:
    sizes = np.random.default_rng(0).integers(1, 40, 30)
    packed = [Packed({}, "x" * int(size)) for size in sizes]
    for room in range(0, 700, 23):
        fit = [most for most in range(2, 31) if sizes[thin(30, most)].sum() <= room]
        assert _fitting(packed, room) == thin(30, max(fit, default=1))


def test_pages_take_class_names(training: TrainingFrames, tmp_path: Path) -> None:
    dec = decision_regions(mlp([2, 6, 3], seed=0), Box([0.0, 0.0], torch.eye(2), 1.0))
    for what, names in ((training, ["up", "down"]), (dec, ["up", "down", "left"])):
        written = explore(what, tmp_path / "page.html", class_names=names)
        assert f'"classes": {json.dumps(names)}' in written.path.read_text(encoding="utf-8")
        assert json.dumps(names) in inline(what, class_names=names).page
        with pytest.raises(InputError, match=f"Expected {len(names)} class names, got 1"):
            explore(what, tmp_path / "page.html", class_names=["up"])
    surface = level_set(mlp([3, 4, 1], seed=0), Box([0.0] * 3, torch.eye(3), 1.0))
    with pytest.raises(InputError, match="Expected no class_names with a level set"):
        explore(surface, tmp_path / "page.html", class_names=["a"])


@needs_cuda
@pytest.mark.parametrize("where", [Box([0.0, 0.0], torch.eye(2), 1.0), Segment([-1.0, 0.5], [1.0, 0.0])])
def test_what_was_computed_on_cuda_is_explored_as_what_was_on_the_cpu(where: Slice, tmp_path: Path) -> None:
    model = mlp([2, 8, 8, 2], seed=0)
    trainings = []
    for device in ("cpu", "cuda"):
        model.to(device)
        trainings += [
            frames_of_partitions([(0, linear_regions(model, where))]),
            frames_of_partitions([(0, decision_regions(model, where))]),
            frames_of_models([ModelAtStep(0, model), ModelAtStep(1, model)], where.to(device)),
        ]
    for here, there in zip(trainings[:3], trainings[3:], strict=True):
        packed = encode(there.frames[-1])
        assert packed.about["counts"] == encode(here.frames[-1]).about["counts"]
        sizes, wanted = unpacked(packed)["size"], unpacked(encode(here.frames[-1]))["size"]
        np.testing.assert_allclose(np.sort(sizes), np.sort(wanted), rtol=1e-5)
        assert explore(there, tmp_path / "training.html").size > 0


def test_a_frame_keeps_the_numbers_of_regions_that_stay() -> None:
    where = Box([0.0, 0.0], torch.eye(2), 1.0)
    first, other = mlp([2, 6, 2], seed=0), mlp([2, 6, 2], seed=1)
    shares: list[float] = []
    moments = [ModelAtStep(0, first), ModelAtStep(1, other), ModelAtStep(2, first)]
    training = frames_of_models(moments, where, progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) > 6  # within a frame, too
    cutting = [share for share in shares if round(share, 3) < 0.333]
    assert round(cutting[-1], 3) == 0.167  # merging regions of one map is the second half
    assert {0.333, 0.667, 1.0} <= {round(share, 3) for share in shares}
    followed = follow([frame.linear for frame in training.frames])
    assert all(torch.equal(frame.ids, ids) for frame, ids in zip(training.frames, followed, strict=True))
    assert [frame.step for frame in training.frames] == [0, 1, 2]
    assert all(frame.decision is not None for frame in training.frames)


def test_the_units_of_decision_regions_are_those_of_the_layers() -> None:
    model = mlp([2, 8, 6, 3], seed=0)
    square = Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0)
    for found in (linear_regions(model, square), decision_regions(model, square)):
        (frame,) = frames_of_partitions([(0, found)]).frames
        packed = encode(frame)
        assert packed.about["layers"] == ["relu1", "relu2"]
        assert packed.about["units"] == [8, 6]
        active = unpacked(packed)["active"].reshape(2, -1)
        assert active.shape[1] == packed.about["pieces"]
        assert (active.max(1) <= [8, 6]).all()
        mesh = frame.linear
        first = (model[0](mesh.slice.embed(mesh.interior).float()) > 0).sum(1)
        assert active[0].tolist() == first.tolist()


@pytest.mark.parametrize("where", [Box([0.0, 0.0], torch.eye(2), 2.0), *MIRRORED[:2], Segment([0.0, 0.0], [2.0, 1.0])])
def test_a_proven_map_reads_back(where: Slice) -> None:
    torch.manual_seed(0)
    result = decision_map(nn.Sequential(nn.Linear(2, 8), nn.GELU(), nn.Linear(8, 3)), where, undecided=0.05)
    packed = encode_map(result)
    arrays, n = unpacked(packed), len(result)
    assert packed.about["counts"] == {"cell": n}
    assert arrays["label"].tolist() == [3 if label < 0 else label for label in result.labels.tolist()]
    np.testing.assert_allclose(arrays["size"], result.sizes, rtol=1e-6)
    corners = np.split(np.stack([arrays["x"], arrays["y"]], 1)[arrays["corners"]], arrays["sides"].cumsum()[:-1])
    for outline, cell in zip(corners, result.cells, strict=True):
        if where.dim == 1:
            assert np.ptp(outline[:, 0]) == pytest.approx(float(cell[1] - cell[0]), abs=1e-6)
            continue
        sides = np.roll(outline, -1, 0) - outline
        area = (outline[:, 0] * np.roll(outline[:, 1], -1) - np.roll(outline[:, 0], -1) * outline[:, 1]).sum() / 2
        assert area > 0  # counter-clockwise as shown
        assert len(sides) == len(cell)
    assert {*arrays["wall_left"].tolist(), *arrays["wall_right"].tolist()} == {*range(n + 1)}
    inside = (arrays["wall_left"] > 0) & (arrays["wall_right"] > 0)
    assert (arrays["wall_layer"][inside] == 1).all()
    assert (arrays["wall_layer"][~inside] == 0).all()


def test_a_map_in_space_has_no_page(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    result = decision_map(net, Box([0.0] * 3, torch.eye(3), 0.1), undecided=0.5)
    with pytest.raises(InputError, match="dimension 1 or 2"):
        explore(result, tmp_path / "map.html")
