"""What to say about a value that an option does not take: what it takes, what was given, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_KINDS = {"int": "a whole number", "float": "a number", "pair": "two numbers"}


def wrong_value(option: str, entry: dict[str, Any], words: Sequence[str]) -> str | None:
    """The sentence for the option that ``entry`` of the table describes; None for options that take any text.

    words: the command line.

    >>> wrong_value("--slices", {"type": "int", "min": 1, "default": 100}, ["--slices", "0"])
    "Expected a whole number of at least 1 for --slices, got '0'. Write --slices 100, for example."
    """
    kind = entry["type"]
    got = ", ".join(map(repr, _given(option, words, 2 if kind == "pair" else 1)))
    if isinstance(kind, list):
        return f"Expected one of {', '.join(kind)} for {option}, got {got}. Choose one of them."
    if kind not in _KINDS:
        return None
    least = entry.get("min")
    wanted = _KINDS[kind] + ("" if least is None else f" of at least {least}")
    example = entry.get("default")
    if example is None:
        smallest = 0.1 if kind == "float" else 1
        example = (0, 1) if kind == "pair" else least or smallest
    shown = " ".join(f"{number:g}" for number in (example if isinstance(example, list | tuple) else [example]))
    return f"Expected {wanted} for {option}, got {got}. Write {option} {shown}, for example."


def _given(option: str, words: Sequence[str], count: int) -> list[str]:
    """The values of the last use of the option, which counts; ``--option=value`` is one word."""
    last = max(i for i, word in enumerate(words) if word == option or word.startswith(f"{option}="))
    first = words[last].partition("=")[2:] if "=" in words[last] else ()
    return [*first, *words[last + 1 :]][:count]
