"""A frame as bytes for the browser: small typed arrays, each corner once, walls and regions as indices."""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.colors import to_hex
from torch import Tensor

from regionscope.exact import Partition
from regionscope.geometry import Slice
from regionscope.monitor.frames import Frame, TrainingCurve, TrainingFrames
from regionscope.monitor.tracking import locate
from regionscope.plot import style
from regionscope.smooth import DecisionMap
from regionscope.smooth.cells import Intervals, Polygons
from regionscope.types import Array


@dataclass(frozen=True)
class Packed:
    """One frame, ready for the page.

    about: counts, labels of layers, and for each array its name, type, and place in the bytes.
    payload: the arrays one after the other, gzip in base64.
    """

    about: dict[str, Any]
    payload: str

    def __len__(self) -> int:
        return len(self.payload)


@dataclass(frozen=True, eq=False)
class ProvenFrame:
    """A proven map in the place of ``TrainingFrames``: no data and no curves.

    labels_shown: the labels of its cells; the label after the last class is that of undecided cells.
    """

    slice: Slice
    class_names: tuple[str, ...]
    labels_shown: Tensor
    title: str = "Proven labels"
    notes: tuple[str, ...] = ()
    curves: tuple[TrainingCurve, ...] = ()
    input_names: tuple[str, ...] = ()
    steps_per_epoch: float | None = None

    @property
    def points(self) -> Tensor:
        """No data lie on the map."""
        return torch.empty(0, self.slice.dim, device="cpu")

    labels = property(lambda self: torch.empty(0, dtype=torch.int64, device="cpu"))


Shown = TrainingFrames | ProvenFrame


def encode(frame: Frame) -> Packed:
    """Pack what the page shows of a frame: the pieces of equal label (or the linear regions, where labels are unknown),
    their walls, and for each piece its linear, activation and decision region, label, size, slope and pattern.

    Coordinates and numbers are rounded to float32. Cost: in proportion to the number of corners.
    """
    decision, linear = frame.decision, frame.linear
    mesh = linear if decision is None else decision.partition
    home, activation = _rows_of_pieces(frame, mesh)
    lines, line_of = frame.ids.unique(return_inverse=True)
    palette, colour = np.unique(style.region_colours(lines), axis=0, return_inverse=True)
    walls = mesh.walls
    arrays = _geometry(
        mesh.slice, mesh.vertices, mesh.corners, mesh.offsets, walls.vertices, walls.regions, walls.layer
    ) | {
        "activation": activation,
        "linear": line_of[home],
        "ids": lines,
        "colour": colour.reshape(-1),
        "size": mesh.sizes,
        "norm": slope_norms(linear)[home],
    }
    about: dict[str, Any] = {
        "step": frame.step,
        "epoch": frame.epoch,
        "pieces": len(mesh),
        "palette": [to_hex(row) for row in palette],
        "layers": list((linear if mesh.program is None else mesh).layers),
        "counts": {"activation": int(activation.max()) + 1, "linear": len(lines)},
    }
    if decision is not None:
        arrays |= {"decision": decision.piece_regions, "label": decision.piece_labels}
        about["counts"]["decision"] = decision.count
    if linear.program is not None and linear.program.folds:
        about["units"] = _widths(linear)
        arrays["active"] = _active(linear)[home].T.reshape(-1)
    if mesh.program is not None and mesh.by_layer:
        arrays["wall_unit"] = _wall_units(mesh)
    return _pack(about, arrays)


def encode_map(result: DecisionMap) -> Packed:
    """Pack the cells of a proven map with their labels; the label after the last one is that of undecided cells.

    Cost: in proportion to the number of corners.
    """
    parts, labels = result.parts, result.labels
    if isinstance(parts, Polygons):
        vertices, corners, offsets = parts.coords, parts.loops, parts.offsets
        ends, sides = np.asarray(parts.mesh.edges), np.asarray(parts.mesh.edge_cells())
    else:
        assert isinstance(parts, Intervals)
        number = np.arange(len(parts))
        vertices, offsets, ends = parts.ends[:, None], 2 * np.arange(len(parts) + 1), np.arange(len(parts) + 1)
        corners, sides = parts.vertices(number).reshape(-1), np.stack([ends - 1, np.append(number, -1)], 1)
    layer = np.where((sides >= 0).all(1), 0, -1)
    tensors = [torch.from_numpy(array) for array in (vertices, corners, offsets, ends, sides, layer)]
    arrays: dict[str, Any] = dict(_geometry(result.slice, *tensors))
    arrays |= {
        "cell": np.arange(len(result)),
        "label": torch.where(labels < 0, result.judge.n_labels, labels),
        "size": result.sizes,
    }
    counts = {"cell": len(result)}
    return _pack({"step": 0, "epoch": None, "pieces": len(result), "layers": [], "counts": counts}, arrays)


def slope_norms(part: Partition) -> Tensor:
    """The largest stretch of each region's affine map on the slice, per unit of length in input space (r,).

    The spectral norm of the map from orthonormal coordinates of the slice to the outputs.
    """
    frame = part.slice.basis.flatten(1).to(part.vertices)
    values, vectors = torch.linalg.eigh(frame @ frame.T)
    slope = (vectors * values.rsqrt()).T @ part.maps.slope  # (r, k, c), in an orthonormal frame
    stretch: Tensor = torch.linalg.eigvalsh(slope @ slope.transpose(1, 2))[:, -1]
    return stretch.clamp(min=0).sqrt()


def shown(slice: Slice, coords: Tensor) -> Tensor:
    """The coordinates that the axes show: those of the input where it has as many numbers as the slice."""
    return slice.embed(coords).flatten(1) if is_input_space(slice) else coords


def is_input_space(slice: Slice) -> bool:
    """Whether the slice has as many dimensions as the input has numbers, which the axes then show."""
    return slice.origin.numel() == slice.dim


def _rows_of_pieces(frame: Frame, mesh: Partition) -> tuple[Tensor, Tensor]:
    """For each piece: its row in ``frame.linear``, and the number of its activation region."""
    if frame.decision is None:
        rows = torch.arange(len(mesh), device="cpu")
        return rows, rows
    parents = frame.decision.piece_parents
    if frame.linear is mesh:
        return torch.arange(len(mesh), device="cpu"), parents
    # The largest piece of an activation region tells which one it is: its middle is the safest against rounding.
    order = mesh.sizes.argsort()
    largest = torch.zeros(int(parents.max()) + 1, dtype=torch.int64, device="cpu")
    largest[parents[order]] = order
    return locate(frame.linear, mesh.interior[largest]).clamp(min=0)[parents], parents


def _geometry(
    slice: Slice, vertices: Tensor, corners: Tensor, offsets: Tensor, walls: Tensor, pieces: Tensor, layer: Tensor
) -> dict[str, Tensor]:
    """Corners, counter-clockwise outlines and walls in the plane; an interval becomes a band of height 1.

    walls: the vertices of each. pieces: those on both sides (-1 outside). layer: of each wall (-1 for the border).
    """
    coords, v = shown(slice, vertices), len(vertices)
    ends = walls.reshape(-1, slice.dim)
    if slice.dim == 1:
        coords = torch.cat(
            [torch.cat([coords, torch.zeros_like(coords)], 1), torch.cat([coords, torch.ones_like(coords)], 1)]
        )
        a, b = corners.reshape(-1, 2).T
        corners = torch.stack([a, b, b + v, a + v], 1).reshape(-1)
        ends = torch.cat([ends, ends + v], 1)
    sides = offsets.diff() * (3 - slice.dim)
    if _mirrored(slice):
        corners = _reversed(corners, sides)
    return {
        "x": coords[:, 0],
        "y": coords[:, 1],
        "corners": corners,
        "sides": sides,
        "wall_from": ends[:, 0],
        "wall_to": ends[:, 1],
        "wall_left": pieces[:, 0] + 1,  # 0 is outside the slice
        "wall_right": pieces[:, 1] + 1,
        "wall_layer": layer + 1,  # 0 is the border of the slice
    }


def _mirrored(slice: Slice) -> bool:
    """Whether the axes show the slice in a mirror, so that its counter-clockwise outlines appear clockwise."""
    return slice.origin.numel() == slice.dim and bool(torch.linalg.det(slice.basis.flatten(1)) < 0)


def _reversed(corners: Tensor, sides: Tensor) -> Tensor:
    """The corners of each piece in the other direction; piece i has ``sides[i]`` of them."""
    ends = sides.cumsum(0)
    return corners[(2 * ends - sides - 1).repeat_interleave(sides) - torch.arange(len(corners), device="cpu")]


def _active(part: Partition) -> Tensor:
    """How many units of each fold are on another piece than their first (for ReLU: active), (r, layers)."""
    widths = _widths(part)
    patterns = part.patterns()[:, : sum(widths)]
    return torch.stack([(layer > 0).sum(1) for layer in patterns.split(widths, 1)], 1)


def _wall_units(part: Partition) -> Tensor:
    """The first unit of its layer that folds at each wall, from 1; 0 where there is none (w,)."""
    found, walls = part.wall_units(), part.walls
    own = found.layers == walls.layer[found.walls]
    beyond = 1 + int(found.units.max()) if len(found) else 0
    first = torch.full_like(walls.layer, beyond).scatter_reduce(0, found.walls[own], found.units[own], "amin")
    return (first + 1) * (first < beyond)


def _widths(part: Partition) -> list[int]:
    """The number of units of each fold; the label of decision regions, which comes last, is none."""
    assert part.program is not None
    return [fold.n_units for fold in part.program.folds[: len(part.by_layer)]]


def _pack(about: dict[str, Any], arrays: dict[str, Any]) -> Packed:
    layout, chunks, place = [], [], 0
    for name, values in arrays.items():
        array = _smallest(values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values))
        raw = array.tobytes()
        layout.append([name, array.dtype.name, place, len(array)])
        padding = -len(raw) % 4
        chunks += [raw, b"\0" * padding]
        place += len(raw) + padding
    packed = gzip.compress(b"".join(chunks), compresslevel=6, mtime=0)
    return Packed({**about, "arrays": layout}, base64.b64encode(packed).decode("ascii"))


def _smallest(array: Array) -> Array:
    if array.dtype.kind == "f":
        return array.astype("<f4")
    largest = int(array.max()) if array.size else 0
    return array.astype("<u1" if largest < 2**8 else "<u2" if largest < 2**16 else "<u4")
