"""Slow, obvious twins of the fast measures: one point, one vertex, one unit at a time. For tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor, nn


def vertices_one_by_one(x: Tensor, frame: Tensor, radius: float) -> list[Tensor]:
    """The vertices around one point x (*shape), for a frame (P, *shape)."""
    return [x + radius * v for v in frame] + [x - radius * v for v in frame]


def inputs_of_layer(model: nn.Module, module: nn.Module, vertex: Tensor) -> list[Tensor]:
    """The flat inputs of ``module`` in a forward pass of one vertex: one for each time it is called."""
    kept: list[Tensor] = []

    def before(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        kept.append(args[0].detach().clone().flatten())

    handle = module.register_forward_pre_hook(before)
    try:
        with torch.no_grad():
            model(vertex[None])
    finally:
        handle.remove()
    return kept


def local_complexity_by_hooks(
    model: nn.Module,
    x: Tensor,
    frames: Sequence[Tensor],
    radius: float,
    watched: dict[str, tuple[nn.Module, Sequence[float]]],
) -> dict[str, list[int]]:
    """Counts for each point of x (b, *shape) at the inputs of the watched modules, {name: (module, where it folds)}.

    A module that is called more than once must be watched as "name", "name#2", ... in the order of its calls.
    """
    counts: dict[str, list[int]] = {name: [] for name in watched}
    for point, frame in zip(x, frames, strict=True):
        for name, (module, folds) in watched.items():
            call = int(name.split("#")[1]) - 1 if "#" in name else 0
            seen = [
                inputs_of_layer(model, module, vertex)[call] for vertex in vertices_one_by_one(point, frame, radius)
            ]
            cut = 0
            for unit, fold in itertools.product(range(len(seen[0])), folds):
                values = [float(values[unit]) - fold for values in seen]
                cut += any(value > 0 for value in values) and any(value < 0 for value in values)
            counts[name].append(cut)
    return counts


def deformation_of_points(points: Sequence[Tensor], antipode: Callable[[int], int]) -> tuple[float, float]:
    """Mean eccentricity and diameter of the graph on ``points`` with an edge between all but antipodal pairs."""
    n = len(points)
    lengths = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j and antipode(i) != j:
                lengths[i, j] = float((points[i].double() - points[j].double()).norm())
    distances = shortest_path(lengths, method="D", directed=False)
    eccentricity = distances.max(axis=1)
    return float(eccentricity.mean()), float(eccentricity.max())
