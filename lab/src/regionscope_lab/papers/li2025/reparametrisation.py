"""Section 3: rescaling weights without changing a label moves norm, margin and sharpness, but not the region count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.measures import distance_from, output_margin, parameter_norms, region_count, sharpness
from regionscope_lab import zoo
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.rules import by_seed, every_case
from regionscope_lab.papers.seed_table import Runs, SeedTable
from regionscope_lab.papers.workspace import Place, Workspace, last_model, training_points

_KINDS = {
    "layers": "first layer times 2, second divided by 2",
    "neurons": "every hidden neuron times a random factor, undone in the next layer",
    "last": "last layer times 2",
}


def rescale(model: nn.Module, kind: str) -> None:
    """Change the weights of a ReLU network of linear layers in place, and no label that it predicts.

    kind: "layers" (first layer times 2, second divided by 2), "neurons" (each hidden neuron times its own factor, which
    the next layer undoes), "last" (last layer times 2) or "none". Factors of neurons are exp(z) with z standard normal.
    """
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if len(layers) < 2 or any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
        raise InputError(
            "Expected at least two linear layers and no batch normalisation, got another network. "
            "Pass an MLP without batch normalisation."
        )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for i, layer in enumerate(layers[:-1]):
            factors = torch.ones(layer.out_features, dtype=torch.float64)
            if kind == "neurons":
                factors = torch.randn(layer.out_features, generator=generator, dtype=torch.float64).exp()
            elif kind == "layers" and i == 0:
                factors = 2 * factors
            _scale(layer, factors)
            layers[i + 1].weight.div_(factors.to(layers[i + 1].weight))
        if kind == "last":
            _scale(layers[-1], torch.full((layers[-1].out_features,), 2.0))


def _scale(layer: nn.Linear, factors: Tensor) -> None:
    own = factors.to(layer.weight)
    layer.weight.mul_(own[:, None])
    layer.bias.mul_(own)


def rescaled(place: Place, run: str, kind: str, lines: int) -> dict[str, Any]:
    """All measures of a stored network after ``rescale``, in float64, and the largest change of an output."""
    folder = place.run(run)
    inputs, labels = training_points(folder, place.data_root)
    inputs = inputs.double()
    model, spec = last_model(folder).double(), folder.experiment.network
    first = zoo.build(
        spec.name, classes=folder.split(place.data_root).n_classes, input_shape=tuple(inputs.shape[1:]),
        seed=folder.experiment.seed, **spec.options,
    )  # fmt: skip
    with torch.no_grad():
        before = model(inputs)
        rescale(model, kind)
        change = float((model(inputs) - before).abs().max() / before.abs().max())
    return {
        "norm": parameter_norms(model).l2,
        "distance": distance_from(model, first.double()),
        "margin": output_margin(model, inputs, labels).value,
        "sharpness": sharpness(model, inputs, labels, samples=None, tolerance=1e-6).value,
        "regions": region_count(model, inputs, slices=lines, method="exact").counts.tolist(),
        "change": change,
    }


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Every change of every network, and none."""
    lines = 10 if size == "smoke" else 100
    stored = workspace.runs(runs["digits"])
    asked = [{"run": run.path.name, "kind": kind, "lines": lines} for run in stored for kind in ("none", *_KINDS)]
    workspace.compute_with_place(rescaled, asked)


_MOVES = {"distance": ("layers", "neurons"), "margin": ("last",), "norm": ("neurons",), "sharpness": ("neurons",)}


def section3(table: SeedTable, runs: Runs) -> Finding:
    networks: dict[str, dict[str, dict[str, Any]]] = {}
    for one in table.answers("li2025.reparametrisation.rescaled"):
        networks.setdefault(one["run"], {})[one["kind"]] = one
    pairs = [
        pair
        for mine in networks.values()
        for kind in _KINDS
        for pair in zip(mine["none"]["regions"], mine[kind]["regions"], strict=True)
    ]
    moved = {
        name: [mine[kind][name] / mine["none"][name] for mine in networks.values() for kind in kinds]
        for name, kinds in _MOVES.items()
    }
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (kind, *(fmean(mine[kind][name] / mine["none"][name] for mine in networks.values()) for name in _MOVES))
        for kind in _KINDS
    )
    return Finding(
        {
            "regions": every_case(sum(a != b for a, b in pairs), len(pairs)),
            **{
                name: by_seed(
                    [1 if abs(one - 1) > 0.01 else -1 for one in ratios], f"changes by a factor of {fmean(ratios):.3g}"
                )
                for name, ratios in moved.items()
            },
        },
        (Table("After / before, mean over networks", ("change", *_MOVES), rows),),
    )
