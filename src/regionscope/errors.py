"""The exceptions of regionscope. All of them are subclasses of ``RegionscopeError``.

A message says what was expected, what was found, and what to do next.
"""
# Messages that many functions share are in checks (arguments), inputs (data) and network/refuse (layers).

from __future__ import annotations

__all__ = [
    "Busy",
    "CallFailed",
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
    """An argument has the wrong shape, type or value (for example NaN weights, an empty list or a missing file)."""


class SliceError(InputError):
    """A slice cannot be built: duplicate points, lost rank, wrong shapes."""


class NotPiecewiseAffine(RegionscopeError, TypeError):
    """The network has a layer on which exact regions are not defined."""


class UntraceableModel(RegionscopeError, TypeError):
    """torch.fx cannot trace the forward pass (for instance, because it branches on values)."""


class LimitReached(RegionscopeError, RuntimeError):
    """A limit such as ``max_regions`` was reached before the computation finished."""


class CheckFailed(RegionscopeError, AssertionError):
    """A result does not agree with the network, or its regions do not cover the slice."""


class CallFailed(InputError):
    """The model does not take these inputs: they have the wrong shape or type, or its forward pass failed."""


class MissingLibrary(InputError):
    """An optional library is not installed; the message names the extra to install."""


class WrongFile(InputError):
    """A file does not have the expected format; ``what`` is the message without its full stop."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}.")
        self.what = what


class Busy(RegionscopeError):
    """Another process works on this run."""


class LockLost(RegionscopeError):
    """Another process took over this run, because this process did not renew its lock in time."""


class DiskFull(RegionscopeError):
    """The disk is full. The file is as it was before."""


class Damaged(RegionscopeError):
    """A file does not hold what was written to it; the message says what is wrong."""


class Stopped(RegionscopeError):
    """The run was asked to stop; its state is saved, and the next start continues from there."""
