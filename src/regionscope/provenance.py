"""What a number was computed with."""

from __future__ import annotations

import os
import platform
import shlex
import socket
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from regionscope.version import __version__


def provenance(device: torch.device | None = None) -> dict[str, Any]:
    """The versions, the machine and, where it is given, the device, as plain values."""
    known = {
        "regionscope": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
    if device is None:
        return known
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    return {**known, "device": str(device), "device_name": name}


_LIBRARIES = ("torch", "numpy", "scipy", "matplotlib", "typer", "rich", "safetensors")
_EXTRAS = (
    "bokeh",
    "captum",
    "distributed",
    "flint",
    "IPython",
    "lightning",
    "onnx",
    "pandas",
    "sklearn",
    "tensorboard",
)


def show_versions() -> None:
    """Print the versions of regionscope, of Python and of the libraries in use, and the machine, for bug reports."""
    packages = metadata.packages_distributions()
    installed = sorted({package for name in (*_LIBRARIES, *_EXTRAS) for package in packages.get(name, ())})
    lines = {"regionscope": __version__, "python": platform.python_version(), "system": platform.platform()}
    lines |= {package: metadata.version(package) for package in installed}
    lines |= {f"cuda:{i}": torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())}
    sys.stdout.write("".join(f"{name:<13}{value}\n" for name, value in lines.items()))


def run_provenance(*, device: torch.device, seed: int) -> dict[str, Any]:
    """What a run was computed with: as above, and the commit of the code, the host, the device, the command, the seed.

    ``commit`` is None where the package is installed from a wheel or git is missing; it ends in "+" where files under
    version control had changed since.
    """
    return {
        **provenance(device),
        "commit": _commit(),
        "host": socket.gethostname(),
        "system": platform.platform(),
        "threads": torch.get_num_threads(),
        "seed": seed,
        "command": shlex.join(sys.argv),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def _commit() -> str | None:
    package = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=40", "--match="],
            cwd=package, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
        tracked = subprocess.run(
            ["git", "ls-files", "--error-unmatch", Path(__file__).name],
            cwd=package, capture_output=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if tracked.returncode == 0 else None
