"""Toy data with a fixed seed. Needs the ``lab`` extra."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.errors import InputError

__all__ = ["Dataset", "two_moons"]


@dataclass(frozen=True)
class Dataset:
    """Labelled points: ``inputs`` (n, d) float32 and ``labels`` (n,) int64."""

    name: str
    inputs: Tensor
    labels: Tensor

    @property
    def n_classes(self) -> int:
        return int(self.labels.max()) + 1


def two_moons(n: int = 1000, *, noise: float = 0.2, seed: int = 0) -> Dataset:
    """Two interleaving half circles with Gaussian noise, each axis scaled so that the points span [-1, 1] exactly.

    The points come from scikit-learn's ``make_moons``; the same seed gives the same points, and no global random
    state is touched.
    """
    if n < 2:
        raise InputError(f"two_moons needs at least 2 points, and n is {n}.")
    try:
        from sklearn.datasets import make_moons
    except ImportError as missing:
        raise InputError(
            "two_moons needs scikit-learn, which is not installed; run: pip install 'regionscope[lab]'"
        ) from missing
    points, labels = make_moons(n_samples=n, noise=noise, random_state=seed)
    lowest, highest = points.min(axis=0), points.max(axis=0)
    scaled = 2 * (points - lowest) / (highest - lowest) - 1
    return Dataset("two_moons", torch.from_numpy(scaled).float(), torch.from_numpy(labels).long())
