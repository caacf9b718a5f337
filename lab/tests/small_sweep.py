"""A small sweep for the tests of sweeps."""

from __future__ import annotations

from typing import Any

from regionscope_lab.sweep import Sweep

BASE: dict[str, Any] = {
    "data": {"name": "random_labels", "n_train": 24, "n_test": 12},
    "network": {"name": "mlp", "options": {"width": 6}},
    "training": {"epochs": 2, "batch_size": 12},
}
MEASURES = [{"instrument": "parameter_norms", "name": "norm"}, {"instrument": "error_rate", "name": "gap"}]


def small(*seeds: int, **grid: list[Any]) -> Sweep:
    """A run of less than a second for each seed and each point of the grid."""
    return Sweep.from_dict({"base": BASE, "measure": MEASURES, "grid": {**grid, "seed": list(seeds)}})
