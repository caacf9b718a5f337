"""The answers that followup.py reads: counts with less noise and more seeds, other biases, and longer lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.exact import linear_regions
from regionscope.geometry import Box, Segment
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Experiment
from regionscope_lab.data import load
from regionscope_lab.papers.declaration import Size
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.qi2023.theorem1 import he_weights
from regionscope_lab.papers.workspace import Place, Workspace

NOISES, VARIANCES = (0.05, 0.1, 0.15), (1e-6, 1e-4, 1e-2, 1e-1, 1.0, 10.0)


def counts_in_training(
    *, data: str, noise: float | None, width: int, seed: int, epochs: list[int], points: int
) -> dict[str, Any]:
    """Linear regions on the square at some epochs of the training of Tables 2 and 3. noise: of two moons."""
    options = {} if noise is None else {"noise": noise}
    split = load(DataSpec(name=data, n_train=points, n_test=2, seed=5, options=options)).train
    counts: list[int] = []

    def look(epoch: int, model: nn.Module) -> None:
        counts.append(linear_regions(model, Box.between(-1.0, 1.0, (2,))).n_linear_regions)

    model = zoo.mlp([2, *[width] * 3, split.n_classes], seed=seed)
    paper.train_as_printed(model, split, look, epochs=epochs, seed=seed)
    return {"regions": counts}


def regions_by_biases(*, width: int, variance: float, networks: int) -> dict[str, Any]:
    """Regions on [-1/2, 1/2] of untrained networks: weights of variance 2 / fan-in, biases of ``variance`` times it."""
    counts = []
    for seed in range(networks):
        model = he_weights(zoo.mlp([1, *[width] * 3, 1], seed=seed).double(), biases=variance, seed=seed)
        counts.append(linear_regions(model, Segment([-0.5], [0.5])).n_linear_regions)
    return {"regions": counts}


def lines_across(
    place: Place, *, data: str, width: int, seed: int, epochs: list[int], points: int, lines: int
) -> dict[str, Any]:
    """Mean linear regions along lines through the origin and training points, at some epochs.

    Two moons: whole chords of the square. MNIST: rays from the origin to the images.
    """
    split = load(DataSpec(name=data, n_train=points, n_test=2, seed=5), root=place.data_root).train
    inputs = split.inputs.double().flatten(1)
    segments = [
        _chord(point) if data == "two_moons" else Segment(torch.zeros_like(point), point) for point in inputs[:lines]
    ]
    counts: list[float] = []

    def look(epoch: int, model: nn.Module) -> None:
        counts.append(fmean(part.n_linear_regions for part in linear_regions(model, segments)))

    model = zoo.mlp([inputs.shape[1], *[width] * 3, split.n_classes], seed=seed)
    paper.train_as_printed(model, replace(split, inputs=inputs.float()), look, epochs=epochs, seed=seed)
    lengths = [float((one.embed(torch.tensor([[1.0]])) - one.embed(torch.tensor([[0.0]]))).norm()) for one in segments]
    return {"lines": counts, "length": fmean(lengths)}


def _chord(point: Tensor) -> Segment:
    """The line through the origin and a point, from border to border of the square."""
    end = point / point.abs().max()
    return Segment(-end, end)


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Everything that the items of this file read."""
    smoke = size == "smoke"
    widths, epochs, points = ((8,), [0, 2], 40) if smoke else (paper.WIDTHS, list(paper.EPOCHS), 1000)
    common = {"epochs": epochs, "points": points}
    more = [{"data": "gaussian_quantiles", "noise": None, "width": w, "seed": seed, **common}
            for seed in ((10,) if smoke else range(10, 15)) for w in widths]  # fmt: skip
    quieter = [{"data": "two_moons", "noise": noise, "width": w, "seed": seed, **common}
               for seed in ((0,) if smoke else range(5)) for noise in NOISES for w in widths]  # fmt: skip
    workspace.compute(regions_by_biases, [
        {"width": 8 if smoke else 64, "variance": one, "networks": 3 if smoke else 100} for one in VARIANCES
    ])  # fmt: skip
    along = {"epochs": [0, 2] if smoke else list(range(0, 101, 10)), "points": points, "lines": 4 if smoke else 100}
    sets = ("two_moons",) if smoke else ("two_moons", "mnist")
    workspace.compute_with_place(lines_across, [
        {"data": data, "width": w, "seed": seed, **along} for data in sets for seed in (0, 1, 2) for w in widths
    ])  # fmt: skip
    workspace.compute(counts_in_training, quieter)
    workspace.compute(counts_in_training, more)
