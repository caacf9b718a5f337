"""A page with a surface that you can turn: one HTML file with the mesh and a small WebGL program inside it."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regionscope.errors import InputError
from regionscope.exact import LevelSet
from regionscope.explorer.page import json_text, read_part, script, whole_page
from regionscope.geometry.ragged import owners
from regionscope.plot import style


def surface_page(found: LevelSet) -> str:
    """The text of the page. Coordinates are stored in float32, which a graphics card draws."""
    if found.dim != 3:
        raise InputError("Expected a level set in three dimensions, got one on a plane. Draw it with plot.level_set().")
    low, high = found.slice.corners.amin(0), found.slice.corners.amax(0)
    triangles = found.triangles()
    face = owners(found.offsets - 2 * torch.arange(len(found.offsets), device=found.offsets.device), len(triangles))
    arrays = {
        "points": (found.vertices - (low + high) / 2).to(torch.float32),
        "triangles": triangles.to(torch.int32),
        "face": face.to(torch.int32),
        "normals": found.normals.to(torch.float32),
        "edges": found.edges.to(torch.int32),
    }
    whole = float((high - low).norm()) / 2
    reach = float((found.vertices - (low + high) / 2).norm(dim=1).max()) if len(found) else whole
    colours = np.round(255 * style.region_colours(torch.arange(len(found)))).astype(np.uint8)
    document: dict[str, Any] = {
        "title": "Level set",
        "what": _what(found),
        "reach": min(1.35 * reach, whole) if len(found) else whole,
        "half": ((high - low) / 2).tolist(),
        "facts": _facts(found),
        "arrays": {name: _text(array.cpu().numpy()) for name, array in arrays.items()} | {"colours": _text(colours)},
        "areas": [float(f"{area:.6g}") for area in found.areas.tolist()],
    }
    data = [script("surface", json_text(document))]
    return whole_page("Level set", main=read_part("surface.html"), data=data, programs=("surface.js",))


def _what(found: LevelSet) -> str:
    if found.classes is None:
        return f"exact surface f = {found.value:g}"
    return f"exact decision boundary of class {' and class '.join(map(str, found.classes))}"


def _facts(found: LevelSet) -> list[tuple[str, str]]:
    return [
        ("faces", f"{len(found):,}"),
        ("vertices", f"{len(found.vertices):,}"),
        ("area", f"{found.area:.6g}"),
        ("Euler characteristic", str(found.euler)),
        ("components", str(found.n_components)),
        ("border edges", f"{len(found.boundary_edges):,}"),
    ]


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
