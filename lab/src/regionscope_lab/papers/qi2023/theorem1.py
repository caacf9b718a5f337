"""Theorem 1 at its own initial weights, and Figure 3 with them: linear regions along lines, over neurons and length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from regionscope.exact import linear_regions
from regionscope.geometry.slices import Segment
from regionscope.measures import linear_region_count
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Experiment
from regionscope_lab.data import load
from regionscope_lab.papers.declaration import Size
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.workspace import Workspace

BIASES = {  # what the biases are drawn from; the theorem names the variance of "weights and biases" once
    "he": "biases of variance 2 / fan-in",
    "default": "PyTorch's default biases",
    "small": "biases of variance 1e-6",
}
_LENGTHS = (0.5, 1.0, 2.0)  # of intervals around 0


def he_weights(model: nn.Sequential, *, biases: str | float, seed: int) -> nn.Sequential:
    """Draw weights with mean 0 and variance 2 / fan-in (equation 16), and biases as ``BIASES`` says, in place.

    biases: a number is their variance over that of the weights.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                deviation = math.sqrt(2 / layer.in_features)
                layer.weight.normal_(0, deviation, generator=generator)
                if isinstance(biases, str):
                    spread = {"he": deviation, "small": 1e-3}.get(biases)
                else:
                    spread = deviation * biases**0.5
                if spread is not None:
                    layer.bias.normal_(0, spread, generator=generator)
    return model


def at_start(*, width: int, biases: str, networks: int) -> dict[str, Any]:
    """Linear regions of untrained networks with one input and one output, on intervals of several lengths around 0."""
    found: dict[str, list[int]] = {str(length): [] for length in _LENGTHS}
    for seed in range(networks):
        model = zoo.mlp([1, *[width] * 3, 1], seed=seed)
        he_weights(model, biases=biases, seed=seed)
        parts = linear_regions(model.double(), [Segment([-length / 2], [length / 2]) for length in _LENGTHS])
        for length, part in zip(_LENGTHS, parts, strict=True):
            found[str(length)].append(part.n_linear_regions)
    return found


def lines_in_training(
    *, width: int, biases: str, seed: int, epochs: list[int], points: int, lines: int
) -> dict[str, Any]:
    """Mean linear regions along lines from the origin to points of two moons, during training as for Figure 3."""
    data = load(DataSpec(name="two_moons", n_train=points, n_test=2, seed=5)).train
    model = he_weights(zoo.mlp([2, *[width] * 3, 2], seed=seed), biases=biases, seed=seed)
    found: dict[str, Any] = {"lines": [], "accuracy": [], "length": float(data.inputs.norm(dim=1).mean())}

    def look(epoch: int, model: nn.Module) -> None:
        count = linear_region_count(model, data.inputs, through="origin", slices=lines, seed=seed)
        found["lines"].append(count.value)
        found["accuracy"].append(float((model(data.inputs).argmax(1) == data.labels).double().mean()))

    paper.train_as_printed(model, data, look, epochs=epochs, seed=seed)
    return found


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Untrained networks of every width and bias, and networks trained from He weights."""
    smoke = size == "smoke"
    widths, networks = (
        ((8, 16), 4) if smoke else ((16, 32, 64, 128, 256), 200) if size == "full" else ((16, 32, 64), 50)
    )
    workspace.compute(
        at_start, [{"width": w, "biases": biases, "networks": networks} for biases in BIASES for w in widths]
    )
    epochs = [0, 2, 4] if smoke else list(range(0, 101, 5))
    asked = [
        {
            "width": width,
            "biases": "he",
            "seed": seed,
            "epochs": epochs,
            "points": 96 if smoke else 1000,
            "lines": 8 if smoke else 100,
        }
        for width in ((32, 16) if smoke else (64, 32, 16))
        for seed in ((5, 0, 1) if smoke else (5, 0, 1, 2, 3, 4, 6, 7, 8, 9))
    ]
    workspace.compute(lines_in_training, asked)
