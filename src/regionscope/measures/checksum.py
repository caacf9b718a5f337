"""A checksum of a model, of its arguments and of inputs, by value: the same in every process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from hashlib import blake2b
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.geometry import Slice
from regionscope.inputs import Examples
from regionscope.network.private_copy import tensors_of
from regionscope.network.structure import layers_of

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
        found = blake2b(digest_size=8)
        for part in self._parts(value):
            found.update(part)
        return found.hexdigest()

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
        found = tensors_of(module)
        weights = {name: tensor for name, tensor in found.items() if id(tensor) not in self._weights}
        packed = {name: value for name, value in module.state_dict().items() if name not in found}  # when quantised
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
