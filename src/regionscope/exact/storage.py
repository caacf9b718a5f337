"""Partitions on disk: one .npz file of plain arrays, readable without regionscope and without unpickling."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact.partition import Partition, Walls
from regionscope.geometry import Box, Segment, Simplex, Slice
from regionscope.network import Program
from regionscope.tolerance import Tolerance
from regionscope.types import Stats, Status
from regionscope.writing import replace_file

if TYPE_CHECKING:
    from regionscope.exact.decision import DecisionRegions

__all__ = ["holds_decisions", "load_decision", "load_partition", "save_decision", "save_partition"]

_FORMAT = 2
_LABELS = ("piece_labels", "piece_regions", "labels")  # what decision regions have beside their partition
_KINDS: dict[str, type[Segment] | type[Simplex] | type[Box]] = {"Segment": Segment, "Simplex": Simplex, "Box": Box}


def save_partition(part: Partition, path: Path, **extra: np.ndarray[Any, Any]) -> Path:
    """Write the arrays of a partition, and its slice, counts and tolerance as JSON in ``about``."""
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    about = {
        "format": _FORMAT,
        "slice": _describe(part.slice),
        "by_layer": part.by_layer,
        "tolerance": asdict(part.tolerance),
        "stats": asdict(part.stats),
        "status": asdict(part.status),
    }
    arrays = {
        "vertices": part.vertices,
        "outputs": part.outputs,
        "corners": part.corners,
        "offsets": part.offsets,
        "sizes": part.sizes,
        "wall_vertices": part.walls.vertices,
        "wall_offsets": part.walls.offsets,
        "wall_regions": part.walls.regions,
        "wall_layer": part.walls.layer,
    }
    stored: dict[str, Any] = {"about": np.array(json.dumps(about)), **extra}
    stored |= {name: rows.cpu().numpy() for name, rows in arrays.items()}
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **stored)

    replace_file(path, write)
    return path


def save_decision(dec: DecisionRegions, path: Path) -> Path:
    """Write a partition together with the labels of its pieces and regions."""
    labels = zip(_LABELS, (dec.piece_labels, dec.piece_regions, dec.labels), strict=True)
    return save_partition(dec.partition, path, **{name: rows.cpu().numpy() for name, rows in labels})


def load_partition(path: Path, program: Program | None = None) -> Partition:
    """Read a partition written by ``save_partition``."""
    about, arrays = _read(path)
    if _LABELS[0] in arrays:
        raise InputError(
            f"{path} holds decision regions, with pieces cut at the boundary; read it with DecisionRegions.load."
        )
    return _partition(about, arrays, program)


def load_decision(path: Path, program: Program | None = None) -> tuple[Partition, Tensor, Tensor, Tensor]:
    """Read what ``save_decision`` wrote: a partition, and the labels of its pieces and regions."""
    about, arrays = _read(path)
    if _LABELS[0] not in arrays:
        raise InputError(
            f"{path} holds a partition that is not cut at the decision boundary; read it with Partition.load, or "
            "compute decision_regions."
        )
    pieces, regions, labels = (arrays[name] for name in _LABELS)
    return _partition(about, arrays, program), pieces, regions, labels


def holds_decisions(path: Path) -> bool:
    """Whether the file was written by ``save_decision``, and not by ``save_partition``."""
    with _opened(path) as file:
        return _LABELS[0] in file.files


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The archive, to be read inside; what is none, or is damaged, is one sentence."""
    if not path.is_file():
        raise InputError(f"There is no file {path}; a partition is written by Partition.save(path).")
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            yield file
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        sentence = f"{path} is not a saved partition, or is damaged; write one with Partition.save(path)."
        raise InputError(sentence) from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a file says about itself, and its arrays."""
    with _opened(path) as file:
        about = json.loads(str(file["about"]))
        arrays = {name: torch.from_numpy(file[name]) for name in file.files if name != "about"}
    found = about.get("format")
    if found != _FORMAT:
        older = isinstance(found, int) and found < _FORMAT
        way_out = "was written by an older version; compute it again" if older else "needs another version"
        raise InputError(f"Expected a partition in format {_FORMAT}, got format {found}: {path} {way_out}.")
    return about, arrays


def _partition(about: dict[str, Any], arrays: dict[str, Tensor], program: Program | None) -> Partition:
    names = ("vertices", "offsets", "regions", "layer")
    return Partition(
        slice=_rebuild(about["slice"]),
        **{name: arrays[name] for name in ("vertices", "outputs", "corners", "offsets", "sizes")},
        walls=Walls(**{name: arrays[f"wall_{name}"] for name in names}),
        by_layer=about["by_layer"],
        tolerance=Tolerance(**about["tolerance"]),
        stats=Stats(**about["stats"]),
        status=Status(**about["status"]),
        program=program,
    )


def _describe(piece: Slice) -> dict[str, Any]:
    """A slice as JSON: its kind and its parts. JSON writes a float64 with all the digits that give it back."""
    about: dict[str, Any] = {
        "kind": type(piece).__name__,
        "origin": piece.origin.tolist(),
        "basis": piece.basis.tolist(),
    }
    if isinstance(piece, Segment):
        about |= {"lo": piece.lo, "hi": piece.hi}
    if isinstance(piece, Box):
        about["radius"] = piece.radius.tolist()
    return about


def _rebuild(about: dict[str, Any]) -> Slice:
    """The slice that ``_describe`` was given, bit for bit."""
    parts = {name: value for name, value in about.items() if name != "kind"}
    arrays = {
        name: torch.tensor(value, dtype=torch.float64, device="cpu")
        for name, value in parts.items()
        if isinstance(value, list)
    }
    return _KINDS[about["kind"]].from_parts(**(parts | arrays))
