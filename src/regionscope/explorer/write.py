"""``explore``: a training or a partition as one self-contained HTML file."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regionscope.checks import check_class_names
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, LevelSet, Partition
from regionscope.explorer.encode import Packed, ProvenFrame, encode, encode_map, slope_norms
from regionscope.explorer.figures import bokeh
from regionscope.explorer.page import json_text, page, read_part, script, whole_page
from regionscope.file_io import check_parent, replace_file
from regionscope.geometry.ragged import owners
from regionscope.monitor.frames import Frame, TrainingFrames, frames_of_partitions, thin
from regionscope.plot import style
from regionscope.smooth import DecisionMap

LIMIT = 30_000_000  # bytes of one page
_EMPTY_PAGE_BYTES = 2_000_000  # Bokeh and the page itself
_FIRST_HEIGHT = 720  # pixels, the height of a frame until its page fits it
Explorable = (
    TrainingFrames
    | Partition
    | DecisionRegions
    | LevelSet
    | DecisionMap
    | Sequence[tuple[int, Partition | DecisionRegions]]
)
"""What a page shows; a list has a training step and a partition in each entry."""


@dataclass(frozen=True)
class Written:
    """The file, its size in bytes, the number of frames it shows, and notes about what was left out."""

    path: Path
    size: int
    frames: int
    of: int
    notes: tuple[str, ...]


def explore(
    what: Explorable,
    path: str | Path,
    *,
    class_names: Sequence[str] | None = None,
    limit: int = LIMIT,
) -> Written:
    """Write the explorer of a partition to ``path``: one HTML file that works offline.

    Pairs of a training step and a partition become the frames of a training; ``TrainingFrames`` hold data and curves
    too. A proven map of a smooth network becomes a page with its cells. A level set in three dimensions becomes a page
    with a surface that you can turn; the file is as large as its mesh.

    class_names: one name for each class, in the order of the labels; by default they are numbers.
    If the page would exceed ``limit`` bytes, frames are left out evenly; regions are never left out. The page and the
    result say so. One frame is always kept. Cost: about 50 bytes for each region of each frame.
    """
    path = Path(path)
    check_parent(path)
    made = _page(what, class_names, limit)
    replace_file(path, lambda temporary: temporary.write_text(made.text, encoding="utf-8"))
    return Written(path, path.stat().st_size, made.frames, made.of, made.notes)


@dataclass(frozen=True)
class Inline:
    """The explorer inside a notebook: the HTML of its page, and its height in pixels (None: as it needs)."""

    page: str
    height: int | None

    def __repr__(self) -> str:
        return f"Inline({len(self.page) / 1e6:.1f} MB, height={self.height})"

    def _repr_html_(self) -> str:
        """A frame with the page inside it, which needs no file and no server."""
        style = f"width:100%;height:{self.height or _FIRST_HEIGHT}px;border:0"
        fit = " data-fit" if self.height is None else ""
        return f'<iframe title="Explorer"{fit} style="{style}" srcdoc="{html.escape(self.page)}"></iframe>'


def inline(
    what: Explorable,
    *,
    height: int | None = None,
    class_names: Sequence[str] | None = None,
    limit: int = LIMIT,
) -> Inline:
    """The explorer of a training or a partition, displayed inside a notebook.

    height: height of the frame in pixels; None fits it to the page. class_names, limit: as in ``explore``. The
    notebook stores the page, about 2 MB or more.
    """
    return Inline(_page(what, class_names, limit).text, height)


@dataclass(frozen=True)
class _Page:
    text: str
    frames: int
    of: int
    notes: tuple[str, ...]


def _page(
    what: Explorable,
    class_names: Sequence[str] | None,
    limit: int,
) -> _Page:
    if isinstance(what, LevelSet):
        if class_names is not None:
            raise InputError("Expected no class_names with a level set, whose page names no class. Leave them out.")
        return _Page(surface_page(what), 1, 1, ())
    bokeh()
    if isinstance(what, DecisionMap):
        return _Page(_map_page(what, class_names), 1, 1, ())
    training = _frames_of(what, class_names)
    packed = [encode(frame) for frame in training.frames]
    kept = _fitting(packed, limit - _EMPTY_PAGE_BYTES)
    notes = []
    if len(kept) < len(packed):
        notes.append(
            f"All {len(packed)} frames would need {sum(map(len, packed)) / 1e6:,.0f} MB, more than the limit of "
            f"{limit / 1e6:,.0f} MB: {len(kept)} of them are shown, each with all its regions."
        )
    text = page(training, [packed[i] for i in kept], scales=_scales([training.frames[i] for i in kept]), notes=notes)
    return _Page(text, len(kept), len(packed), (*training.notes, *notes))


def _map_page(result: DecisionMap, class_names: Sequence[str] | None) -> str:
    if result.slice.dim > 2:
        raise InputError(f"Expected a map of dimension 1 or 2, got dimension {result.slice.dim}. Map a plane.")
    n = result.judge.n_labels
    names = tuple(map(str, range(n))) if class_names is None else check_class_names(class_names, n)
    stopped = [] if result.status else [result.status.reason]
    shown = ProvenFrame(result.slice, tuple(names), torch.where(result.labels < 0, n, result.labels))
    notes = [f"{100 * result.undecided:.2g} % of the slice is undecided.", *stopped]
    return page(shown, [encode_map(result)], scales={}, notes=notes)


def _frames_of(what: Any, class_names: Sequence[str] | None) -> TrainingFrames:
    if isinstance(what, TrainingFrames):
        if class_names is None:
            return what
        return replace(what, class_names=check_class_names(class_names, len(what.class_names)))
    parts = [(0, what)] if isinstance(what, Partition | DecisionRegions) else what
    if not isinstance(parts, list | tuple) or not all(map(_is_moment, parts)):
        raise InputError(
            "Expected a partition, decision regions, a proven map, a level set, pairs of a step and a partition, or "
            f"training frames, got {type(what).__name__}. Compute one, for example with "
            "regionscope.linear_regions(model, slice)."
        )
    return frames_of_partitions(parts, class_names=class_names)


def _is_moment(pair: Any) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], Partition | DecisionRegions)


def _fitting(packed: Sequence[Packed], room: int) -> list[int]:
    """The most frames, evenly spread, that fit into ``room`` bytes; the last one alone where not even two do."""
    sizes = np.array([len(part) for part in packed])
    at_best = int(np.searchsorted(np.sort(sizes).cumsum(), room, side="right"))  # if the smallest ones were taken
    for most in range(at_best, 1, -1):
        kept = thin(len(packed), most)
        if sizes[kept].sum() <= room:
            return kept
    return thin(len(packed), 1)


def _scales(frames: Sequence[Frame]) -> dict[str, tuple[float, float]]:
    """The range of log10 of sizes and of slopes that the colours cover: 98 % of the area of all frames."""
    sizes = np.concatenate([frame.linear.sizes.cpu().numpy() for frame in frames])
    slopes = np.concatenate([slope_norms(frame.linear).cpu().numpy() for frame in frames])

    def span(values: NDArray[np.float64]) -> tuple[float, float]:
        order = np.argsort(values)
        order = order[values[order] > 0]
        seen = np.cumsum(sizes[order])
        if not len(order) or seen[-1] == 0:
            return 0.0, 1.0
        low, high = np.log10(values[order[np.searchsorted(seen, [0.01 * seen[-1], 0.99 * seen[-1]])]])
        return (float(low), float(high)) if high - low > 1e-6 else (float(low) - 0.5, float(high) + 0.5)

    return {"size": span(sizes), "slope": span(slopes)}


# A page with a surface that you can turn: one HTML file with the mesh and a small WebGL program inside it.


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
