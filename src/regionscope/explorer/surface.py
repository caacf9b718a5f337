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


def surface_page(surface: LevelSet) -> str:
    """The text of the page. Coordinates are stored in float32, which a graphics card draws."""
    if surface.dim != 3:
        raise InputError("Expected a level set in three dimensions, got one on a plane. Draw it with plot.level_set().")
    low, high = surface.slice.corners.amin(0), surface.slice.corners.amax(0)
    triangles = surface.triangles()
    offsets = surface.offsets
    face = owners(offsets - 2 * torch.arange(len(offsets), device=offsets.device), len(triangles))
    arrays = {
        "points": (surface.vertices - (low + high) / 2).to(torch.float32),
        "triangles": triangles.to(torch.int32),
        "face": face.to(torch.int32),
        "normals": surface.normals.to(torch.float32),
        "edges": surface.edges.to(torch.int32),
    }
    whole = float((high - low).norm()) / 2
    reach = float((surface.vertices - (low + high) / 2).norm(dim=1).max()) if len(surface) else whole
    colours = np.round(255 * style.region_colours(torch.arange(len(surface)))).astype(np.uint8)
    document: dict[str, Any] = {
        "title": "Level set",
        "what": _what(surface),
        "reach": min(1.35 * reach, whole) if len(surface) else whole,
        "half": ((high - low) / 2).tolist(),
        "facts": _facts(surface),
        "arrays": {name: _text(array.cpu().numpy()) for name, array in arrays.items()} | {"colours": _text(colours)},
        "areas": [float(f"{area:.6g}") for area in surface.areas.tolist()],
    }
    data = [script("surface", json_text(document))]
    return whole_page("Level set", main=read_part("surface.html"), data=data, programs=("surface.js",))


def _what(surface: LevelSet) -> str:
    if surface.classes is None:
        return f"exact surface f = {surface.value:g}"
    return f"exact decision boundary of class {' and class '.join(map(str, surface.classes))}"


def _facts(surface: LevelSet) -> list[tuple[str, str]]:
    return [
        ("faces", f"{len(surface):,}"),
        ("vertices", f"{len(surface.vertices):,}"),
        ("area", f"{surface.area:.6g}"),
        ("Euler characteristic", str(surface.euler)),
        ("components", str(surface.n_components)),
        ("border edges", f"{len(surface.boundary_edges):,}"),
    ]


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
