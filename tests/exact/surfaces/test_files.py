"""Mesh files: what other programs read is what was computed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regionscope as rs


class Shape(nn.Module):
    """Two prisms over diamonds with centres at 0.5 and -0.5."""

    def forward(self, x: Tensor) -> Tensor:
        side = (x[:, 0].abs() - 0.5).abs() + x[:, 1].abs()
        return side[:, None] + (torch.relu(x[:, 2:].abs() - 0.25) if x.shape[1] == 3 else 0.0)


@pytest.fixture(scope="module")
def mesh() -> rs.LevelSet:
    found = rs.level_set(Shape(), rs.Box(torch.zeros(3), torch.eye(3), 1.0), value=1 / 3)
    assert found.n_components == 2
    assert len(set(found.offsets.diff().tolist())) > 1  # polygons with different numbers of corners
    return found


def read_ply(path: Path) -> tuple[np.ndarray, list[list[int]]]:
    lines = path.read_text().splitlines()
    assert lines[:2] == ["ply", "format ascii 1.0"]
    counts = [int(line.split()[2]) for line in lines if line.startswith("element")]
    rows = [line.split() for line in lines[lines.index("end_header") + 1 :]]
    assert len(rows) == sum(counts)
    points = np.array([[float(x) for x in row] for row in rows[: counts[0]]])
    return points, [[int(i) for i in row] for row in rows[counts[0] :]]


def test_files_hold_the_mesh_bit_for_bit(mesh: rs.LevelSet, tmp_path: Path) -> None:
    wanted = [row.tolist() for row in mesh.corners.split(mesh.offsets.diff().tolist())]
    points, rows = read_ply(mesh.save(tmp_path / "mesh.ply"))
    assert [row[0] for row in rows] == [len(row) for row in wanted]
    assert np.array_equal(points, mesh.vertices.numpy())
    assert [row[1:] for row in rows] == wanted


def test_curves_are_written_as_lines(tmp_path: Path) -> None:
    box = rs.Box([0.5, 0.0], [[1.0, 0.0], [0.0, 1.0]], 0.6)
    curves = rs.level_set(Shape(), box, value=1 / 3)
    wanted = curves.corners.view(-1, 2).tolist()
    points, rows = read_ply(curves.save(tmp_path / "c.ply"))
    assert rows == wanted
    assert np.array_equal(points[:, :2], curves.vertices.numpy())
    assert not points[:, 2].any()
    moved, _ = read_ply(curves.save(tmp_path / "c.ply", inputs=True))
    assert np.array_equal(moved[:, :2], curves.points.numpy())


def test_triangles_fill_the_polygons(mesh: rs.LevelSet, tmp_path: Path) -> None:
    _, rows = read_ply(mesh.save(tmp_path / "mesh.ply", triangles=True))
    assert [row[1:] for row in rows] == mesh.triangles().tolist()
    a, b, c = mesh.vertices[mesh.triangles()].unbind(1)
    area = torch.linalg.cross(b - a, c - a).norm(dim=1).sum() / 2
    assert float(area) == pytest.approx(mesh.area)


@pytest.mark.parametrize("ending", ["ply", "stl"])
def test_trimesh_reads_a_closed_mesh(mesh: rs.LevelSet, tmp_path: Path, ending: str) -> None:
    trimesh = pytest.importorskip("trimesh")
    read = trimesh.load(mesh.save(tmp_path / f"mesh.{ending}"), force="mesh")
    read.merge_vertices()
    assert read.is_watertight
    assert read.is_winding_consistent
    assert read.euler_number == mesh.euler == 4
    assert read.area == pytest.approx(mesh.area)
    assert read.volume > 0  # the faces look outwards


def read_stl(path: Path) -> np.ndarray:
    raw = path.read_bytes()
    assert not raw.startswith(b"solid")  # that of a text file
    rows = np.frombuffer(raw, dtype=np.dtype("(12,)<f4, <u2"), offset=84)
    assert int.from_bytes(raw[80:84], "little") == len(rows)
    return rows["f0"].reshape(-1, 4, 3)


def test_stl_files_hold_triangles_in_float32(mesh: rs.LevelSet, tmp_path: Path) -> None:
    found = read_stl(mesh.save(tmp_path / "mesh.stl"))
    assert np.array_equal(found[:, 1:], mesh.vertices.float()[mesh.triangles()].numpy())
    of = torch.arange(len(mesh)).repeat_interleave(mesh.offsets.diff() - 2)
    assert np.allclose(found[:, 0], mesh.normals[of].numpy(), atol=1e-6)
    moved = rs.level_set(Shape(), rs.Box([0.5, 0.0, 0.0], torch.eye(3), 0.7), value=1 / 3)
    inputs = read_stl(moved.save(tmp_path / "moved.stl", inputs=True))
    assert np.array_equal(inputs[:, 1:], moved.points.float()[moved.triangles()].numpy())
    empty = rs.level_set(Shape(), rs.Box(torch.zeros(3), torch.eye(3), 1.0), value=9.0)
    assert len(read_stl(empty.save(tmp_path / "empty.stl"))) == 0


def test_stl_stays_closed_where_float32_merges_vertices(mesh: rs.LevelSet, tmp_path: Path) -> None:
    shifted = mesh.vertices + torch.tensor([0.0, 0.0, 1e7])  # float32 has steps of 1 there
    shifted[:, :2] *= 1e-9
    shifted[:, :2] += 1.0  # and of 1e-7 here
    coarse = read_stl(replace(mesh, vertices=shifted).save(tmp_path / "coarse.stl"))
    assert len(coarse) == 0  # two sticks without width
    shifted = mesh.vertices + torch.tensor([1e7, 1e7, 0.0])
    found = read_stl(replace(mesh, vertices=shifted).save(tmp_path / "mesh.stl"))
    assert 0 < len(found) < len(mesh.triangles())
    edges = Counter(
        (tuple(corners[i]), tuple(corners[(i + 1) % 3])) for corners in found[:, 1:].tolist() for i in range(3)
    )
    assert all(a != b and n == edges[b, a] for (a, b), n in edges.items())


def test_wrong_files_are_named(mesh: rs.LevelSet, tmp_path: Path) -> None:
    with pytest.raises(rs.InputError, match=r"ends in \.ply or \.stl, got"):
        mesh.save(tmp_path / "mesh.off")
    with pytest.raises(rs.InputError, match=r"Expected an existing folder for 'mesh\.ply', got .*nothere"):
        mesh.save(tmp_path / "nothere" / "mesh.ply")
    flat = rs.level_set(nn.Linear(4, 1), rs.Box(torch.zeros(4), torch.eye(4)[:2], 5.0))
    with pytest.raises(rs.InputError, match="inputs of 2 numbers, got 4"):
        flat.save(tmp_path / "flat.ply", inputs=True)
    with pytest.raises(rs.InputError, match=r"Expected a surface for an \.stl file, .* got curves on a plane"):
        flat.save(tmp_path / "flat.stl")
    assert not (tmp_path / "flat.stl").exists()
    with pytest.raises(rs.InputError, match=r"got 2\. Use vertices\[corners\]"):
        flat.triangles()
