"""What every benchmark stores beside its numbers: the versions, the machine, and how busy it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from regionscope.provenance import provenance

__all__ = ["FOLDER", "surroundings", "write"]

FOLDER = Path(__file__).parent / "results"


def surroundings(device: torch.device | str = "cpu") -> dict[str, Any]:
    """The versions, the machine, the name of the device, torch's threads, and the load of the machine now."""
    name = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else "cpu"
    load = round(os.getloadavg()[0], 2)
    return {**provenance(), "device": name, "threads": torch.get_num_threads(), "load": load}


def write(name: str, report: dict[str, Any], device: torch.device | str = "cpu", *, folder: Path = FOLDER) -> Path:
    """Write a report with its surroundings to ``name``.json in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**surroundings(device), **report}, indent=1) + "\n", encoding="utf-8")
    return path
