"""Meshes for other programs: PLY as text, with coordinates that read back bit for bit, and STL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from regionscope.errors import InputError
from regionscope.file_io import check_parent, replace_file
from regionscope.formatting import either
from regionscope.types import Array


def write_mesh(path: Path, points: Array, corners: Array, offsets: Array) -> Path:
    """Write polygons, or segments where the points have two coordinates, in the format that the name ends in.

    points: (v, 2) or (v, 3). corners, offsets: ragged faces; triangles for an .stl file.
    """
    if path.suffix not in MESH_FILES:
        raise InputError(f"Expected a file that ends in {either(MESH_FILES)}, got {str(path)!r}. Change the name.")
    check_parent(path)
    segments = points.shape[1] == 2
    if segments:
        points = np.concatenate([points, np.zeros((len(points), 1))], 1)
    rows = np.split(corners, offsets[1:-1]) if len(offsets) > 1 else []
    made = MESH_FILES[path.suffix](points, rows, segments)
    content = made if isinstance(made, bytes) else ("\n".join(made) + "\n").encode("ascii")
    replace_file(path, lambda temporary: temporary.write_bytes(content))
    return path


def _ply(points: Array, rows: list[Array], segments: bool) -> Iterator[str]:
    """Turk, The PLY polygon file format, 1994: a header, the vertices, then the faces with their number of corners."""
    yield from ("ply", "format ascii 1.0", "comment written by regionscope", f"element vertex {len(points)}")
    yield from (f"property double {axis}" for axis in "xyz")
    if segments:
        yield from (f"element edge {len(rows)}", "property int vertex1", "property int vertex2")
    else:
        yield from (f"element face {len(rows)}", "property list int int vertex_indices")
    yield "end_header"
    yield from _numbers(points)
    for row in rows:
        yield _words(row if segments else [len(row), *row])


def _stl(points: Array, rows: list[Array], segments: bool) -> bytes:
    """Binary STL: a header of 80 bytes, the number of triangles, and for each its normal and three corners in float32.

    Triangles with two corners that are equal in float32 are left out: the triangles beside them then meet.
    """
    if segments:
        raise InputError(
            "Expected a surface for an .stl file, which holds triangles, got curves on a plane. Write a .ply file."
        )
    corners = points[np.array(rows, dtype=np.int64).reshape(-1, 3)]
    stored = corners.astype(np.float32)
    apart = (stored != np.roll(stored, 1, axis=1)).any(2).all(1)
    corners, stored = corners[apart], stored[apart]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    triangles = np.zeros(len(stored), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("unused", "<u2")])
    triangles["normal"] = np.divide(normals, lengths, out=np.zeros_like(normals), where=lengths > 0)
    triangles["corners"] = stored
    header = b"written by regionscope".ljust(80)  # "solid" at the start would announce a text file
    return header + len(triangles).to_bytes(4, "little") + triangles.tobytes()


def _numbers(points: Array) -> Iterator[str]:
    return (" ".join(map(repr, row)) for row in points.tolist())


def _words(row: Any) -> str:
    return " ".join(str(int(i)) for i in row)


MESH_FILES: dict[str, Callable[[Array, list[Array], bool], Iterator[str] | bytes]] = {
    ".ply": _ply, ".stl": _stl,
}  # fmt: skip
"""The endings that ``write_mesh`` knows."""
