"""What a measure returned, as named numbers with their spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from regionscope.complexity import LocalComplexity
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition
from regionscope.measures.norms import ParameterNorms

__all__ = ["Reading", "readings"]

Reading = tuple[str, float, float | None]
"""Name, value, spread (None where the value is exact)."""


def readings(name: str, result: Any) -> list[Reading]:
    """The numbers in ``result``.

    Accepted: a number (also a tensor or array of one element); anything with ``value`` and ``stderr``, such as an
    ``Estimate`` or a ``RegionCount``; a ``LocalComplexity`` (its mean), ``Partition``, ``DecisionRegions``,
    ``ParameterNorms``; and a mapping of such things, whose entries are called ``name.key`` (``name`` where the key is
    empty).
    """
    if isinstance(result, Mapping):
        return [each for key, entry in result.items() for each in readings(f"{name}.{key}" if key else name, entry)]
    if isinstance(result, Partition):
        return readings(name, {"": result.n_linear_regions, "activation": result.n_activation_regions})
    if isinstance(result, ParameterNorms):
        return readings(name, {"l1": result.l1, "l2": result.l2})
    return [(name, *_number(name, result))]


def _number(name: str, result: Any) -> tuple[float, float | None]:
    if isinstance(result, LocalComplexity):
        return result.mean, result.stderr
    if isinstance(result, DecisionRegions):
        return float(result.count), None
    if hasattr(result, "value") and hasattr(result, "stderr"):
        return float(result.value), float(result.stderr)
    if isinstance(result, Tensor | np.ndarray | np.generic):
        if np.prod(result.shape) == 1:
            return float(result.item()), None
    elif isinstance(result, int | float):
        return float(result), None
    elif isinstance(getattr(result, "value", None), int | float):
        return float(result.value), None
    raise InputError(
        f"The measure {name!r} returned {_described(result)}; a number, an Estimate, or a mapping of names to numbers "
        "is needed."
    )


def _described(result: Any) -> str:
    shape = f" of shape {tuple(result.shape)}" if isinstance(result, Tensor | np.ndarray) else ""
    return f"{type(result).__name__}{shape}"
