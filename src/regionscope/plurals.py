"""Numbers with their nouns in sentences: "1 run", "2 runs"."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is 1.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
