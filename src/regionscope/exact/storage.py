"""Results on disk: one .npz file of plain arrays and a JSON header, readable without regionscope and without pickle."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.geometry import Box, Segment, Simplex, Slice
from regionscope.writing import replace_file

__all__ = ["array_names", "load_arrays", "save_arrays", "slice_from_json", "slice_to_json"]

_FORMAT = 2
_KINDS: dict[str, type[Segment] | type[Simplex] | type[Box]] = {"Segment": Segment, "Simplex": Simplex, "Box": Box}


def save_arrays(path: Path, about: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Path:
    """Write arrays, and ``about`` as JSON under that name; returns the path, which ends in .npz."""
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    stored: dict[str, Any] = {"about": np.array(json.dumps({"format": _FORMAT, **about}))}
    stored |= {name: rows.cpu().numpy() for name, rows in arrays.items()}
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **stored)

    replace_file(path, write)
    return path


def load_arrays(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what ``save_arrays`` wrote: the header and the arrays."""
    with _opened(path) as file:
        about = json.loads(str(file["about"]))
        arrays = {name: torch.from_numpy(file[name]) for name in file.files if name != "about"}
    found = about.get("format")
    if found != _FORMAT:
        older = isinstance(found, int) and found < _FORMAT
        way_out = "was written by an older version; compute it again" if older else "needs another version"
        raise InputError(f"Expected a partition in format {_FORMAT}, got format {found}: {path} {way_out}.")
    return about, arrays


def array_names(path: Path) -> list[str]:
    """Names of the arrays in a file."""
    with _opened(path) as file:
        return list(file.files)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The archive, to be read inside. Raises InputError if the file is missing or damaged."""
    if not path.is_file():
        raise InputError(f"There is no file {path}; a partition is written by Partition.save(path).")
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            yield file
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        sentence = f"{path} is not a saved partition, or is damaged; write one with Partition.save(path)."
        raise InputError(sentence) from error


def slice_to_json(piece: Slice) -> dict[str, Any]:
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


def slice_from_json(about: Mapping[str, Any]) -> Slice:
    """The slice that ``slice_to_json`` was given, bit for bit."""
    parts = {name: value for name, value in about.items() if name != "kind"}
    arrays = {
        name: torch.tensor(value, dtype=torch.float64, device="cpu")
        for name, value in parts.items()
        if isinstance(value, list)
    }
    return _KINDS[about["kind"]].from_parts(**(parts | arrays))
