"""Children of the test's own process, to be killed: they have loaded everything, so that they start at once."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable

import pytest
import torch


def start(action: Callable[[], object]) -> int:
    """Call ``action`` in a child, which ends with code 0 after it or 1 after an error, and return its number.

    A child that hangs is ended after two minutes.
    """
    if torch.accelerator.is_available():
        pytest.skip("torch cannot compute gradients in a fork on a machine with a GPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads, as in a worker
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.alarm(120)
        torch.set_num_threads(1)  # the other threads of torch are not copied, and it would wait for them
        action()
        code = 0
    except BaseException:  # noqa: BLE001  nothing of a child may return into the tests
        traceback.print_exc()
    finally:
        os._exit(code)


def end(child: int) -> int:
    """Wait for the child: its exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill(child: int) -> int:
    """Send signal 9, and return how the child ended; it may have ended before."""
    os.kill(child, signal.SIGKILL)
    return end(child)
