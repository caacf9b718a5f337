"""What a number was computed with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any

import torch

__all__ = ["provenance"]


def provenance() -> dict[str, Any]:
    """The versions and the machine, as plain values."""
    return {
        "regionscope": version("regionscope"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
