"""The error family: every error a user can cause is a ``RegionscopeError`` with one full sentence.

A message says what came, what is accepted, and what to do.
"""

from __future__ import annotations

__all__ = [
    "CheckFailed",
    "InputError",
    "LimitReached",
    "NotPiecewiseAffine",
    "RegionscopeError",
    "SliceError",
    "UntraceableModel",
]


class RegionscopeError(Exception):
    """Base of all errors that regionscope raises on purpose."""


class InputError(RegionscopeError, ValueError):
    """An argument has the wrong shape, type or value (NaN weights, an empty list, a missing file...)."""


class SliceError(InputError):
    """A slice cannot be built: duplicate points, lost rank, wrong shapes."""


class NotPiecewiseAffine(RegionscopeError, TypeError):
    """The network has a layer on which exact regions are not defined."""


class UntraceableModel(RegionscopeError, TypeError):
    """torch.fx cannot read the module's forward (for instance, it branches on values)."""


class LimitReached(RegionscopeError, RuntimeError):
    """A budget such as ``max_regions`` was reached before the work was done."""


class CheckFailed(RegionscopeError, AssertionError):
    """A result failed to prove itself."""
