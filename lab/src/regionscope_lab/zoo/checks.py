"""One sentence for each wrong argument of a network."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regionscope.checks import check_shape
from regionscope.errors import InputError


def flag(name: str, value: object) -> bool:
    """``value`` as a truth value; 0 and 1 are not taken for one."""
    if not isinstance(value, bool):
        raise InputError(f"Expected {name} to be True or False, got {value!r}. Replace it by True or False.")
    return value


def number(name: str, value: object, *, below: float = math.inf) -> float:
    """``value`` as a finite number, 0 or more and smaller than ``below``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < below:
        end = "" if math.isinf(below) else f" and smaller than {below:g}"
        raise InputError(
            f"Expected {name} to be a finite number of at least 0{end}, got {value!r}. "
            "Set it to a number in this range, such as 0.5."
        )
    return float(value)


def channels_of(input_shape: Sequence[int]) -> int:
    """The channels of an image (channels, height, width); other shapes cannot be convolved."""
    sizes = check_shape(input_shape)
    if len(sizes) != 3:
        raise InputError(
            "Expected an input_shape (channels, height, width) for a convolutional network, such as (3, 32, 32), "
            f"got {sizes}. For other inputs use 'mlp'."
        )
    return sizes[0]
