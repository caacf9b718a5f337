"""The counts of finished slices in a file, so that a count that was killed can be resumed.

JSON lines that are only ever added to, so that a kill can tear nothing but the last one. The first line is the setting,
all that the count of slice i depends on; every other line holds the counts of the slices that follow:

    {"region_count": {"sampler": "Hulls", "seed": 0, "dim": 1, ..., "model": "3f0c5d1e8a76b924"}}
    {"first": 0, "counts": [3, 5, 2]}
    {"first": 3, "counts": [4, 4, 1]}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.checks import is_integer, read_path
from regionscope.errors import Damaged, InputError
from regionscope.file_io import append_bytes, check_parent, cut_torn_line, flush_folder, parse_json, plain
from regionscope.geometry import Slice
from regionscope.inputs import Examples
from regionscope.network import device_and_dtype
from regionscope.network.call.wrappers import unwrapped
from regionscope.network.private_copy import tensors_of
from regionscope.network.program import layers_of
from regionscope.sampled.drawn_slices import DrawnSlices, GivenSlices, SliceSampler
from regionscope.sampled.grid import RefinedCounts

_KIND = "region_count"
_LONGEST_SETTING = 1 << 16  # bytes
_TYPES = {"counts": torch.int64, "plain": torch.int64, "grid": torch.int64, "settled": torch.bool}


class CountFile:
    """The counts of one setting, slice by slice, in a file.

    finished: what the file held when it was opened. A file of another setting or another kind raises ``InputError`` and
    stays as it is. A torn last line is cut off; other damage raises ``Damaged``. The first ``append`` creates the file.
    """

    def __init__(self, path: str | Path, setting: Mapping[str, Any]) -> None:
        self.path = read_path(path)
        if self.path.exists() and not self.path.is_file():
            raise InputError(
                f"Expected a file for the counts, got {str(self.path)!r}, a folder or device. Pass a file name."
            )
        check_parent(self.path)
        self._setting = json.dumps({_KIND: plain(setting)}, default=float).encode() + b"\n"
        self._begun = self.path.exists() and self._has_setting()
        if self._begun:
            cut_torn_line(self.path)
        self._columns = tuple(_TYPES) if setting["method"] == "refined" else ("counts",)
        rows = [{name: torch.empty(0, dtype=_TYPES[name], device="cpu") for name in self._columns}]
        rows += self._read() if self._begun else ()
        columns = {name: torch.cat([row[name] for row in rows]) for name in self._columns}
        self.finished = RefinedCounts(**columns) if setting["method"] == "refined" else columns["counts"]
        self._n = len(columns["counts"])

    def append(self, result: Tensor | RefinedCounts) -> None:
        """Add the counts of the next slices, and return when they are on disk."""
        columns = {"counts": result} if isinstance(result, Tensor) else vars(result)
        line = {"first": self._n, **{name: columns[name].tolist() for name in self._columns}}
        append_bytes(self.path, (b"" if self._begun else self._setting) + json.dumps(line).encode() + b"\n")
        if not self._begun:
            flush_folder(self.path.parent)
        self._begun, self._n = True, self._n + len(columns["counts"])

    def _has_setting(self) -> bool:
        """Whether the file begins with this setting. If it holds only a part of the setting, it is emptied: False."""
        with self.path.open("rb") as file:
            line = file.readline(_LONGEST_SETTING)
        if self._setting.startswith(line) and line != self._setting:
            cut_torn_line(self.path)
            return False
        try:
            setting = dict(parse_json(line)[_KIND])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"Expected a file that region_count or linear_region_count wrote, got {str(self.path)!r}, which holds "
                "something else. Choose another name for the counts."
            ) from error
        wanted = parse_json(self._setting)[_KIND]
        differing = [name for name in {**wanted, **setting} if wanted.get(name) != setting.get(name)]
        if differing:
            expected, got = (
                ", ".join(f"{name}={values.get(name)!r}" for name in differing) for values in (wanted, setting)
            )
            raise InputError(
                f"Expected counts for {expected} in {str(self.path)!r}, got counts for {got}. Repeat the call that "
                "began the file, or choose another file."
            )
        return True

    def _read(self) -> Iterator[dict[str, Tensor]]:
        """The columns of each line after the first, without slices that an earlier line holds too."""
        n = 0
        with self.path.open("rb") as file:
            file.readline()
            for number, line in enumerate(file, 2):
                try:
                    row = parse_json(line)
                    columns = {name: torch.tensor(row[name], device="cpu") for name in self._columns}
                    first, length = row["first"], len(columns["counts"])
                except (ValueError, KeyError, TypeError, RuntimeError) as error:
                    raise self._damaged(number) from error
                fits = all(
                    column.shape == (length,) and column.dtype == _TYPES[name] for name, column in columns.items()
                )
                if not (fits and is_integer(first, least=0) and first <= n):
                    raise self._damaged(number)
                yield {name: column[n - first :] for name, column in columns.items()}
                n = max(n, first + length)

    def _damaged(self, line: int) -> Damaged:
        return Damaged(
            f"Expected the counts of further slices in line {line} of {str(self.path)!r}, got something else. Delete "
            "this line and all lines after it to count these slices again."
        )


def setting_of(
    model: Any, inputs: Examples | None, sampler: SliceSampler, *, method: str, grid: int | None = None,
    max_points: int | None = None, autocast: torch.dtype | None = None, pieces: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """All that the count of slice i depends on. Of the model, what ``checksum`` says.

    pieces: what ``linear_region_count`` counts; None for decision regions.
    """
    if not isinstance(model, nn.Module):
        raise InputError(
            f"Expected a torch module for path, whose weights the file is compared with, got {type(model).__name__}. "
            "Pass the module itself, or leave path out."
        )
    if not isinstance(sampler, DrawnSlices | GivenSlices):
        raise InputError(
            f"Expected Hulls, RandomDirections, LinesFromOrigin or a list of slices for path, got "
            f"{type(sampler).__name__}(), whose slices the file cannot be compared with. Pass a list of slices."
        )
    inner = unwrapped(model)
    return {
        "sampler": type(sampler).__name__,
        **{name: value for name, value in vars(sampler).items() if name in ("seed", "dim", "alpha", "length")},
        **({} if pieces is None else {"pieces": pieces}),
        "method": method,
        "grid": grid,
        "max_points": max_points if method == "refined" else None,
        "autocast": None if autocast is None else str(autocast),
        "device": device_and_dtype(inner)[0].type,
        "inputs": checksum(sampler.slices if isinstance(sampler, GivenSlices) else inputs),
        "model": checksum(inner),
    }


# A checksum of a model, of its arguments and of inputs, by value: the same in every process.

_PLAIN = (int, float, complex, str, bytes, range, torch.dtype, torch.device, type(None))
_LOADED = 32  # inputs that are compared where each is loaded by itself


def checksum(value: Any) -> str:
    """A checksum of ``value``, from what decides the result of a computation with it:

    - modules: the path, type and settings of each layer, and the weights
    - tensors, arrays, inputs and slices: their numbers
    - numbers, strings and enum members: their values
    - lists, mappings, sets and partials: their parts
    - functions: name, bytecode, constants, defaults and closure
    - other objects: their type alone

    Of inputs that are loaded one by one, their number and 32 of them are used. The code of classes, and what a function
    reads from elsewhere, has no effect.
    """
    return _Checksum().digest(value)


class _Checksum:
    """The digest of a value. Modules and weights that occur twice are added once; cycles of objects end."""

    def __init__(self) -> None:
        self._weights: set[int] = set()  # ids of parameters and buffers
        self._modules: set[int] = set()  # ids
        self._open: set[int] = set()  # ids of the objects that contain the current one

    def digest(self, value: Any) -> str:
        hashed = blake2b(digest_size=8)
        for part in self._parts(value):
            hashed.update(part)
        return hashed.hexdigest()

    def _parts(self, value: Any) -> Iterator[Any]:
        if id(value) in self._open:
            yield b"again\n"
            return
        self._open.add(id(value))
        if isinstance(value, Tensor):
            yield from _numbers(value)
        elif isinstance(value, Enum):
            yield f"{type(value).__qualname__}.{value.name}\n".encode()
        elif isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            yield f"{array.dtype} {array.shape}\n".encode()
            yield from self._parts(array.tolist()) if array.dtype.hasobject else [array.tobytes()]
        elif isinstance(value, _PLAIN):
            yield f"{value!r}\n".encode()
        elif isinstance(value, set | frozenset):
            yield from sorted(b"".join(map(bytes, self._parts(part))) for part in value)
        elif isinstance(value, Mapping | list | tuple):
            yield f"{len(value)} parts\n".encode()
            for part in value.items() if isinstance(value, Mapping) else value:
                yield from self._parts(part)
        else:
            yield f"{_kind(value)}\n".encode()
            yield from self._parts_of_object(value)
        self._open.discard(id(value))

    def _parts_of_object(self, value: Any) -> Iterator[Any]:
        if isinstance(value, nn.Module):
            yield from self._parts_of_module(value)
        elif isinstance(value, Slice):
            yield from self._parts([value.origin, value.basis, value.corners])
        elif isinstance(value, Examples):
            some = torch.linspace(0, len(value) - 1, min(len(value), _LOADED), dtype=torch.float64, device="cpu").long()
            yield from self._parts([len(value), value.all() if value.in_memory else value.take(some)])
        elif isinstance(value, partial):
            yield from self._parts([value.func, value.args, value.keywords])
        elif isinstance(value, MethodType):
            yield from self._parts([value.__func__, value.__self__])
        elif isinstance(value, FunctionType):
            closure = [_content(cell) for cell in value.__closure__ or ()]
            yield from self._parts([value.__code__, value.__defaults__, value.__kwdefaults__, closure])
        elif isinstance(value, CodeType):
            yield from self._parts([value.co_name, value.co_code, value.co_consts, value.co_names])

    def _parts_of_module(self, module: nn.Module) -> Iterator[Any]:
        if id(module) in self._modules:
            return
        self._modules.update(map(id, module.modules()))
        tensors = tensors_of(module)
        weights = {name: tensor for name, tensor in tensors.items() if id(tensor) not in self._weights}
        packed = {name: value for name, value in module.state_dict().items() if name not in tensors}  # when quantised
        self._weights.update(map(id, weights.values()))
        yield from self._parts([*layers_of(module, hidden=True), weights, packed])


def _numbers(value: Tensor) -> Iterator[Any]:
    try:
        flat = value.detach().cpu().contiguous().reshape(-1)
        yield f"{value.dtype} {tuple(value.shape)}\n".encode()
        yield flat.view(torch.uint8).numpy().data
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"Expected dense tensors with values for path, got another one ({error}). Leave path out."
        ) from error


def _kind(value: Any) -> str:
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    return name if isinstance(name, str) else type(value).__qualname__


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing assigned yet
        return None
