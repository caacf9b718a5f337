"""The error family: every error a user can cause is a ``RegionscopeError`` with one full sentence.

A message says what was expected, what was found, and what to do next. The sentences stand where they are raised. Those
that many functions share are in ``checks`` (a wrong argument), ``inputs`` (data) and ``network/refuse`` (a layer that
exact regions do not accept).
"""

from __future__ import annotations

__all__ = [
    "Busy",
    "CheckFailed",
    "Damaged",
    "DiskFull",
    "InputError",
    "LimitReached",
    "LockLost",
    "MissingLibrary",
    "NotPiecewiseAffine",
    "RegionscopeError",
    "SliceError",
    "Stopped",
    "UntraceableModel",
    "WrongFile",
]


class RegionscopeError(Exception):
    """Base class of all errors of regionscope."""


class InputError(RegionscopeError, ValueError):
    """An argument has the wrong shape, type or value (NaN weights, an empty list, a missing file...)."""


class SliceError(InputError):
    """A slice cannot be built: duplicate points, lost rank, wrong shapes."""


class NotPiecewiseAffine(RegionscopeError, TypeError):
    """The network has a layer on which exact regions are not defined."""


class UntraceableModel(RegionscopeError, TypeError):
    """torch.fx cannot read the module's forward (for instance, it branches on values)."""


class LimitReached(RegionscopeError, RuntimeError):
    """A limit such as ``max_regions`` was reached before the computation finished."""


class CheckFailed(RegionscopeError, AssertionError):
    """A result does not agree with the network, or its regions do not cover the slice."""


class MissingLibrary(InputError):
    """An optional library is not installed; the sentence names the extra it comes with."""


class WrongFile(InputError):
    """A file is not what its format says; ``what`` is the sentence without its full stop."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}.")
        self.what = what


class Busy(RegionscopeError):
    """Another process works on this run."""


class LockLost(RegionscopeError):
    """Another process took this run over, because this one was silent for too long."""


class DiskFull(RegionscopeError):
    """There is no room for a file; what was there before is still there, whole."""


class Damaged(RegionscopeError):
    """A file is there and does not hold what was written to it; the sentence says what is wrong."""


class Stopped(RegionscopeError):
    """The run was asked to stop; its state is saved, and the next start continues from there."""
