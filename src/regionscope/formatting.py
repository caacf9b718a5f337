"""Text of numbers, with their nouns ("2 runs") or standard errors ("12.35 ± 0.079"), and of foreign errors."""

from __future__ import annotations

import math
from collections.abc import Iterable


def counted(n: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is 1.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def either(words: Iterable[str]) -> str:
    """The words as a choice.

    >>> either([".png"]), either([".png", ".pdf", ".svg"])
    ('.png', '.png, .pdf or .svg')
    """
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def size_name(dim: int) -> str:
    """The word for the size of something of this dimension.

    >>> [size_name(dim) for dim in (1, 2, 3)]
    ['length', 'area', 'volume']
    """
    return {1: "length", 2: "area"}.get(dim, "volume")


def with_article(noun: str) -> str:
    """A noun with "a" or "an", by its first letter.

    >>> with_article("dict"), with_article("ImageClassifierOutput")
    ('a dict', 'an ImageClassifierOutput')
    """
    return f"{'an' if noun[0] in 'AEIOUaeiou' else 'a'} {noun}"


def estimated(value: float, stderr: float | None) -> str:
    """A number with its standard error, where there is one.

    >>> estimated(12.3456, 0.0789), estimated(25103.2, 123.4), estimated(25103.0, None), estimated(3.5, math.nan)
    ('12.35 ± 0.079', '25100 ± 120', '25103', '3.5')
    """
    error = "" if stderr is None or math.isnan(stderr) else f" ± {_rounded(stderr, 2)}"
    return f"{_rounded(value, 4)}{error}"


def first_line(error: BaseException | None) -> str:
    """The first line of an error's message; "" if it has none.

    >>> first_line(ValueError("first line\\nsecond line"))
    'first line'
    """
    return next(iter(str(error).strip().splitlines()), "")


def described(error: BaseException) -> str:
    """The error's type and the first line of its message, as one clause that ends in a full stop.

    >>> described(ValueError("first line\\nsecond line")), described(ValueError())
    ('ValueError: first line.', 'ValueError.')
    """
    line = first_line(error).rstrip(".")
    return f"{type(error).__name__}: {line}." if line else f"{type(error).__name__}."


def _rounded(number: float, digits: int) -> str:
    """This number of significant digits, all of a whole number, and no exponent up to 1e15."""
    if abs(number) >= 1e15:
        return f"{number:.{digits}g}"
    short = float(number) if float(number).is_integer() else float(f"{number:.{digits}g}")
    return f"{short:.0f}" if short.is_integer() else f"{short:.{digits}g}"
