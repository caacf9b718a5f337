"""One sentence for a wrong argument that many functions have."""

from __future__ import annotations

from typing import TypeGuard

from regionscope.errors import InputError

__all__ = ["check_memory", "is_whole", "whole"]


def is_whole(value: object, *, least: int = 1) -> TypeGuard[int]:
    """Whether ``value`` is a whole number of at least ``least``; True and False are none.

    >>> is_whole(3), is_whole(3.0), is_whole(True), is_whole(0)
    (True, False, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def whole(name: str, value: object, *, least: int = 1) -> int:
    """``value`` as a whole number of at least ``least``, or an ``InputError`` that names it."""
    if not is_whole(value, least=least):
        raise InputError(f"{name} is {value!r}; a whole number of at least {least} is needed.")
    return value


def check_memory(memory: object) -> None:
    """Refuse what is neither None nor enough bytes to work with."""
    if memory is not None and not is_whole(memory, least=1 << 20):
        raise InputError(f"memory is {memory!r}; a whole number of bytes is needed, at least 1 MiB (1048576).")
