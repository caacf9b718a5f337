"""Read the pickles of CIFAR without running any code in them.

A pickle is a program. Here it may call four names, and none of them is what it thinks: arrays and dtypes are built by
two harmless classes of this module, so that not even NumPy sees what the file says before it has been checked.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regionscope.errors import InputError, WrongFile
from regionscope_lab.data.files import read_head

_LARGEST = 2**30  # the largest file of CIFAR has 155 MB
_MOST_TUPLES = 1000  # a file of CIFAR has six; deep nests of them could exhaust the stack
_PLAIN = ("u1", "i1", "i2", "i4", "i8", "f4", "f8")
_FORBIDDEN = {
    "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX",
    "NEXT_BUFFER", "READONLY_BUFFER",
}  # fmt: skip
_BROKEN = (pickle.UnpicklingError, ArithmeticError, AttributeError, EOFError, LookupError, TypeError, ValueError)


class _UnsafePickle(Exception):
    """Raised with the reason why a pickle is refused."""


class _PickledDtype:
    """Stands for numpy.dtype: remembers its code."""

    def __init__(self, code: Any = b"", *_: Any) -> None:
        self.code = _text(code)

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 2 or _text(state[1]) not in ("<", "|", "="):
            raise _UnsafePickle("an array has a dtype other than plain little-endian numbers")


class _PickledArray:
    """Stands for numpy.ndarray: remembers shape, dtype and bytes, and makes an array of them once they agree."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> NDArray[Any]:
        match self.state:
            case (int(), tuple() as shape, _PickledDtype() as dtype, bool() | int() as fortran, bytes() as raw):
                pass
            case _:
                raise _UnsafePickle("an array is not described by a shape, a plain dtype and bytes")
        if dtype.code not in _PLAIN:
            raise _UnsafePickle(f"an array has the dtype {dtype.code[:20]!r}; accepted are {', '.join(_PLAIN)}")
        if len(shape) > 8 or not all(isinstance(n, int) and 0 <= n <= _LARGEST for n in shape):
            raise _UnsafePickle("an array has a shape that is not a tuple of at most 8 integers")
        kind = np.dtype(f"<{dtype.code}")
        if math.prod(shape) * kind.itemsize != len(raw):
            raise _UnsafePickle(f"an array of shape {shape} and dtype {dtype.code!r} has {len(raw):,} bytes")
        return np.frombuffer(raw, dtype=kind).reshape(shape, order="F" if fortran else "C")


class _Encoded:
    """Stands for the call by which Python 3 writes bytes in the old protocols: gives these bytes.

    A class and no function, because a pickle may set the attributes of what it can name, unless __setstate__ is there.
    """

    def __new__(cls, text: Any, encoding: Any = "latin1") -> bytes:  # type: ignore[misc]
        if not isinstance(text, str) or _text(encoding) != "latin1":
            raise _UnsafePickle("bytes are written in an encoding other than latin1")
        return text.encode("latin1")

    def __setstate__(self, state: Any) -> None:
        raise _UnsafePickle("it changes an object that it may only refer to")


_NAMES: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _PickledArray,
    ("numpy", "dtype"): _PickledDtype,
    ("numpy.core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): _PickledArray,
    ("_codecs", "encode"): _Encoded,
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise _UnsafePickle(
                f"it asks for {f'{module}.{name}'[:80]}, but only arrays, dicts, lists, strings and numbers are read"
            )
        return _NAMES[module, name]


def read_pickle(path: Path) -> dict[str, Any]:
    """The dict in a pickle file: its keys as text, its arrays as arrays. Anything else than plain data is refused.

    Nothing of the file is run. Texts of Python 2 come as bytes. Cost: the file is read and walked through once before
    it is loaded, so that a claimed size or memo index beyond the file never costs memory.
    """
    raw = read_head(path, _LARGEST + 1)
    try:
        if len(raw) > _LARGEST:
            raise _UnsafePickle(f"it has more than {_LARGEST:,} bytes")
        _look_through(raw)
        content = _Restricted(io.BytesIO(raw), encoding="bytes").load()
        if not isinstance(content, dict):
            raise _UnsafePickle(f"it holds a {type(content).__name__} where a dict is expected")
        return {
            _text(key): value.array() if isinstance(value, _PickledArray) else value for key, value in content.items()
        }
    except _UnsafePickle as error:
        raise InputError(
            f"Expected a pickle of plain data at {str(path)!r}, got another: {error}. Download it again."
        ) from error
    except _BROKEN as error:
        raise WrongFile(
            f"Expected a pickle at {str(path)!r}, got {len(raw):,} bytes that cannot be unpickled ({error})"
        ) from error


def _look_through(raw: bytes) -> None:
    """Check the pickle program without running it; refuse what plain data does not need."""
    tuples = 0
    for word, argument, _ in pickletools.genops(raw):
        tuples += word.name.startswith("TUPLE")
        if word.name in _FORBIDDEN:
            raise _UnsafePickle(f"it uses the opcode {word.name}, which plain data does not need")
        if "PUT" in word.name and isinstance(argument, int) and argument > len(raw):
            raise _UnsafePickle(f"it asks for {argument:,} memo entries in a file of {len(raw):,} bytes")
        if tuples > _MOST_TUPLES:
            raise _UnsafePickle(f"it holds more than {_MOST_TUPLES:,} tuples")


def _text(value: Any) -> str:
    if not isinstance(value, str | bytes):
        raise _UnsafePickle(f"it has a {type(value).__name__} where a string is expected")
    return value.decode("latin1") if isinstance(value, bytes) else value
