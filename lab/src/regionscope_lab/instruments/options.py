"""Options of instruments, read from the signatures of the public functions: names, types and defaults."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch

from regionscope.checks import is_integer
from regionscope.errors import InputError

PARTS = ("train", "test", "random")
_Pair = tuple[float, float]
_OF_NETWORK = ("output", "args")  # of a run, its network has them
_DTYPES = ("float16", "bfloat16", "float32", "float64")

OWN: dict[str, Any] = {
    "points": Literal["points"], "n": int | None, "domain": _Pair | None, "by_layer": bool,
    "by_position": bool, "relative": bool, "seed": int | None,
    "where": Literal["auto", "box", "plane"], "margin": float | None, "box": _Pair | None, "dims": int | None,
    "loss": Literal["cross_entropy", "mse"] | None,
}  # fmt: skip
"""Types of the options that measures of a run have beside those of the function: what is measured on, and where."""


@dataclass(frozen=True)
class Option:
    """The default of an option, and the types that it takes."""

    default: Any
    types: tuple[Any, ...]


def options_of(
    function: Callable[..., Any] | None, fixed: Mapping[str, Any], without: tuple[str, ...]
) -> dict[str, Option]:
    """The options ``own``, with their defaults, and every parameter of ``function`` that a file can hold.

    Parameters that a run sets itself (the model, the data, a progress bar) have no default or a type that
    no file holds. ``without``: further ones that a run decides.
    """
    known = {name: Option(default, _flat(OWN[name])) for name, default in fixed.items()}
    if function is None:
        return known
    hints = get_type_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        types = _flat(hints[name])
        chosen_elsewhere = name in (*known, *without, *_OF_NETWORK)
        if chosen_elsewhere or parameter.default is parameter.empty or not any(map(_storable, types)):
            continue
        default = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
        known[name] = Option(None, (*types, NoneType)) if name == "seed" else Option(default, types)
    return known


def accepted_options(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ``options`` that are parameters of ``function``, as it takes them: pairs as tuples, dtypes by name."""
    hints = get_type_hints(function)
    known = inspect.signature(function).parameters
    accepted = {}
    for name, value in options.items():
        if name in known:
            types = _flat(hints[name])
            if isinstance(value, str) and torch.dtype in types:
                value = getattr(torch, value)
            accepted[name] = tuple(value) if isinstance(value, list) and _Pair in types else value
    return accepted


def check_option(instrument: str, name: str, value: Any, types: tuple[Any, ...]) -> None:
    """Raise ``InputError`` for a value that can never work."""
    words, fits = _rule(name, types)
    if value is None:
        words, good = "given", NoneType in types
    else:
        good = fits(value)
    if not good:
        raise InputError(
            f"Expected {name} of {instrument} to be {words}, got {value!r}. Change it, or leave it out for the default."
        )


def _rule(name: str, types: tuple[Any, ...]) -> tuple[str, Callable[[Any], bool]]:
    """The values that an option of these types accepts, in words and as a function."""
    choices = tuple(choice for kind in types if get_origin(kind) is Literal for choice in get_args(kind))
    if torch.dtype in types:
        choices = _DTYPES
    if name == "points":
        return f"one of {', '.join(PARTS)}, or a list of them", _are_parts
    if choices:
        return "one of " + ", ".join(choices), lambda value: value in choices
    if bool in types:
        return "true or false", lambda value: isinstance(value, bool)
    if name == "position":
        return "a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)
    if int in types:
        least = 0 if name == "seed" else 1
        return f"a whole number of at least {least}", lambda value: is_integer(value, least=least)
    if _Pair in types:
        return "two finite numbers, the smaller first", _is_pair
    if float in types and name == "margin":
        return "a number of at least 0", lambda value: _is_number(value) and value >= 0
    if float in types:
        return "a positive number", lambda value: _is_number(value) and value > 0
    return "a text or a list of texts", lambda value: all(
        isinstance(entry, str) for entry in (value if isinstance(value, list | tuple) else [value])
    )


def _flat(hint: Any) -> tuple[Any, ...]:
    """The members of a union."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _storable(hint: Any) -> bool:
    return hint in (int, float, bool, str, torch.dtype, _Pair) or get_origin(hint) is Literal


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value)) and value[0] < value[1]


def _are_parts(value: Any) -> bool:
    parts = [value] if isinstance(value, str) else value
    return isinstance(parts, list | tuple) and len(parts) > 0 and all(part in PARTS for part in parts)
