"""Results on disk: one .npz file of plain arrays and a JSON header, readable without regionscope and without pickle."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.checks import is_integer
from regionscope.errors import InputError, WrongFile
from regionscope.file_io import ARRAY_FILE_ERRORS, check_parent, parse_json, replace_file
from regionscope.geometry import Box, Polygon, Segment, Simplex, Slice
from regionscope.tolerance import LOST_SHARE, Tolerance
from regionscope.types import Stats, Status

_FORMAT = 3
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Segment, Simplex, Box, Polygon)}


def save_arrays(path: Path, about: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Path:
    """Write arrays, and ``about`` as JSON under that name; returns the path, which ends in .npz."""
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    check_parent(path)
    stored: dict[str, Any] = {name: rows.cpu().numpy() for name, rows in arrays.items()}
    header = {"format": _FORMAT, **about}
    stored["about"] = np.array(json.dumps({"checksum": _checksum(header, stored), **header}))

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **stored)

    replace_file(path, write)
    return path


def load_arrays(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what ``save_arrays`` wrote: the header and the arrays, checked (see ``_check``)."""
    with _opened(path) as file:
        about = dict(parse_json(str(file["about"])))
        written = about.get("format")
        if written != _FORMAT:
            older = isinstance(written, int) and written < _FORMAT
            way_out = "Compute the partition again" if older else "Install a newer regionscope to read it"
            raise WrongFile(f"Expected a partition in format {_FORMAT}, got format {written} in {path}. {way_out}")
        stored = {name: file[name] for name in file.files if name != "about"}
        arrays = {name: torch.from_numpy(array) for name, array in stored.items()}
        _check(about, arrays)
        if about.pop("checksum", None) != _checksum(about, stored):
            raise ValueError("its checksum does not fit: it was changed after it was written")
    return about, arrays


def read_tolerance(about: Mapping[str, Any]) -> Tolerance:
    """The thresholds in the header of a file. Files of older versions also hold a ``rank``, which nothing used."""
    return Tolerance(**{name: value for name, value in about["tolerance"].items() if name != "rank"})


def _checksum(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Of the header and of all arrays with their names, types and shapes."""
    digest = blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _check(about: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> None:
    """``ValueError`` with the reason unless all arrays fit together and the regions cover the slice."""
    slice = slice_from_json(about["slice"])
    inputs = (slice.origin, slice.basis, slice.corners)
    if slice.basis.shape[1:] != slice.origin.shape or not all(bool(part.isfinite().all()) for part in inputs):
        raise ValueError("its slice is not valid")
    layers, complete = about["by_layer"], bool(Status(**about["status"]))
    kinds = (read_tolerance(about), Stats(**about["stats"]))
    counts = layers.values() if isinstance(layers, dict) else [layers]
    if not all(map(is_integer, counts)) or not all(map(_is_numbers, kinds)):
        raise ValueError("its header lacks numbers")
    v, k, r = len(arrays["vertices"]), slice.dim, len(arrays["sizes"])
    _numbers(arrays, "vertices", (v, k), torch.float64)
    _numbers(arrays, "outputs", (v, arrays["outputs"].shape[-1]), torch.float64, torch.float32)
    _numbers(arrays, "sizes", (r,), torch.float64)
    _rows(arrays, "corners", "offsets", r, v)
    w = len(arrays["wall_layer"])
    _rows(arrays, "wall_vertices", "wall_offsets", w, v)
    _indices(arrays, "wall_regions", (w, 2), -1, r)
    _indices(arrays, "wall_layer", (w,), -1, len(layers) + 1)
    inner = int((arrays["wall_regions"] >= 0).all(1).sum())
    for name in ("wall_same", "wall_undecided") if complete else ():
        _numbers(arrays, name, (inner,), torch.bool)
    if "labels" in arrays:
        _indices(arrays, "piece_labels", (r,), 0, 2**62)
        _indices(arrays, "labels", (len(arrays["labels"]),), 0, 2**62)
        _indices(arrays, "piece_regions", (r,), 0, len(arrays["labels"]))
    if r < max(layers.values(), default=0):
        raise ValueError(f"it has {r} regions, but its counts are larger")
    if not abs(float(arrays["sizes"].sum()) - slice.size) <= LOST_SHARE * slice.size:
        raise ValueError("its regions do not cover its slice")


def _is_numbers(values: Any) -> bool:
    """Whether all fields of a small value are finite numbers."""
    return all(type(value) in (int, float) and math.isfinite(value) for value in vars(values).values())


def _numbers(arrays: Mapping[str, Tensor], name: str, shape: tuple[int, ...], *dtypes: torch.dtype) -> None:
    array = arrays[name]
    if tuple(array.shape) != shape or array.dtype not in dtypes or not bool(array.isfinite().all()):
        raise ValueError(f"{name} is not an array of finite numbers of shape {shape}")


def _indices(arrays: Mapping[str, Tensor], name: str, shape: tuple[int, ...], low: int, high: int) -> None:
    _numbers(arrays, name, shape, torch.int64, torch.int32, torch.int16)
    if arrays[name].numel() and not low <= int(arrays[name].min()) <= int(arrays[name].max()) < high:
        raise ValueError(f"{name} holds indices that are out of range")


def _rows(arrays: Mapping[str, Tensor], name: str, offsets: str, rows: int, vertices: int) -> None:
    """Ragged rows of vertices: row i is ``name[offsets[i]:offsets[i + 1]]``, and none is empty."""
    n = len(arrays[name])
    _indices(arrays, name, (n,), 0, vertices)
    _indices(arrays, offsets, (rows + 1,), 0, n + 1)
    ends = arrays[offsets]
    if int(ends[0]) != 0 or int(ends[-1]) != n or bool((ends.diff() < 1).any()):
        raise ValueError(f"{offsets} does not split {name} into rows")


def array_names(path: Path) -> list[str]:
    """Names of the arrays in a file."""
    with _opened(path) as file:
        return list(file.files)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The archive, to be read inside. Raises InputError if the file is missing or damaged."""
    if not path.is_file():
        raise InputError(f"No file found at {path}. Pass a file that Partition.save(path) wrote.")
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            yield file
    except WrongFile:
        raise
    except (*ARRAY_FILE_ERRORS, AttributeError, IndexError) as error:
        found = str(error).rstrip(".")
        reason = "" if "pickle" in found else f" ({found})"  # numpy's advice there is to trust the file
        sentence = (
            f"Expected a saved partition, got {path}, which is another file or damaged{reason}. "
            "Write one with Partition.save(path)."
        )
        raise InputError(sentence) from error


def slice_to_json(slice: Slice) -> dict[str, Any]:
    """A slice as JSON: its kind and its parts. JSON writes a float64 with all the digits that give it back."""
    parts = {name: part.tolist() if isinstance(part, Tensor) else part for name, part in vars(slice).items()}
    return {"kind": type(slice).__name__, **parts}


def slice_from_json(about: Mapping[str, Any]) -> Slice:
    """The slice that ``slice_to_json`` was given, bit for bit."""
    parts = {name: value for name, value in about.items() if name != "kind"}
    arrays = {
        name: torch.tensor(value, dtype=torch.float64, device="cpu")
        for name, value in parts.items()
        if isinstance(value, list)
    }
    slice: Slice = _KINDS[about["kind"]].from_parts(**(parts | arrays))
    return slice
