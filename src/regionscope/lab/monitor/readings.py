"""What a measure returned, as named numbers with their spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from regionscope.errors import InputError
from regionscope.types import Readable, Reading


def readings(name: str, result: Any) -> list[Reading]:
    """The numbers in ``result``.

    Accepted: a number (also a tensor or array of one element); a result with ``readings()``, as all results of
    regionscope have; anything with ``value`` and ``stderr``; and a mapping of such things, whose entries are called
    ``name.key`` (``name`` where the key is empty).
    """
    if isinstance(result, Mapping):
        return [each for key, entry in result.items() for each in readings(f"{name}.{key}" if key else name, entry)]
    if isinstance(result, Readable):
        return [
            (f"{name}.{key}" if key else name, float(value), None if error is None else float(error))
            for key, value, error in result.readings()
        ]
    return [(name, *_number(name, result))]


def _number(name: str, result: Any) -> tuple[float, float | None]:
    if isinstance(result, Tensor | np.ndarray | np.generic):
        if np.prod(result.shape) == 1:
            return float(result.item()), None
    elif isinstance(result, int | float):
        return float(result), None
    elif isinstance(value := getattr(result, "value", None), int | float):
        error = getattr(result, "stderr", None)
        return float(value), None if error is None else float(error)
    raise InputError(
        f"Expected a number, a result with readings(), or a mapping of names to these from the measure {name!r}, got "
        f"{_described(result)}. "
        "Return one of these from the measure."
    )


def _described(result: Any) -> str:
    shape = f" of shape {tuple(result.shape)}" if isinstance(result, Tensor | np.ndarray) else ""
    return f"{type(result).__name__}{shape}"
