"""Numbers as text: with their nouns ("1 run", "2 runs") and with their standard errors ("12.35 ± 0.079")."""

from __future__ import annotations

import math


def counted(n: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is 1.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def estimated(value: float, stderr: float | None) -> str:
    """A number with its standard error, where there is one.

    >>> estimated(12.3456, 0.0789), estimated(3, None), estimated(3.5, math.nan)
    ('12.35 ± 0.079', '3', '3.5')
    """
    return f"{value:.4g}" if stderr is None or math.isnan(stderr) else f"{value:.4g} ± {stderr:.2g}"
