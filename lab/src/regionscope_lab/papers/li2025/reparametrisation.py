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
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Bars, Series
from regionscope_lab.papers.li2025 import settings
from regionscope_lab.papers.stored import last_model, training_points
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Place, Workspace

Answer = Mapping[str, Any]

_KINDS = {
    "layers": "first layer times 2, second divided by 2",
    "neurons": "every hidden neuron times a random factor, undone in the next layer",
    "last": "last layer times 2",
}
_MEASURES = {
    "norm": "norm of the weights",
    "distance": "distance from the initial weights",
    "margin": "mean output margin",
    "sharpness": "sharpness",
    "regions": "regions on a line",
}
_MOVES = (  # what the paper says moves, and under which change
    ("norm", "neurons"), ("distance", "layers"), ("distance", "neurons"), ("margin", "last"), ("sharpness", "neurons"),
)  # fmt: skip
_CHANGED = 0.01  # share by which a number must change to count as moved
_LINES: dict[Size, int] = {"smoke": 10, "desk": 100, "full": 100}


def runs_of_section3(size: Size) -> tuple[Experiment, ...]:
    """The middle setting of the MLP on digits, with every seed; a small network shows it as well as a large one."""
    every = settings.grid("smoke" if size == "smoke" else "desk", "mlp", "digits")
    seeds = dict.fromkeys(one.seed for one in every)
    each = [[one for one in every if one.seed == seed] for seed in seeds]
    return tuple(same[len(same) // 2] for same in each)


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


def section3(workspace: Workspace, size: Size) -> Outcome:
    runs = [run.path.name for run in workspace.runs(runs_of_section3(size))]
    kinds = ("none", *_KINDS)
    asked = [{"run": run, "kind": kind, "lines": _LINES[size]} for run in runs for kind in kinds]
    answers = iter(workspace.compute_with_place(rescaled, asked))
    return of_rescaled([{kind: next(answers) for kind in kinds} for _ in runs])


def of_rescaled(networks: Sequence[Mapping[str, Answer]]) -> Outcome:
    """``networks``: for each the answers by kind of change, and for "none"."""
    pairs = [
        (before, after)
        for one in networks
        for kind in _KINDS
        for before, after in zip(one["none"]["regions"], one[kind]["regions"], strict=True)
    ]
    unlike = sum(before != after for before, after in pairs)
    claims = [
        Claim("region counts that differ after a change", "0", f"{unlike} of {len(pairs)}",
              verdict.holds(unlike, len(pairs)), f"{len(networks)} networks, {len(_KINDS)} changes, exact counts"),
    ]  # fmt: skip
    for name, kind in _MOVES:
        ratios = _ratios(networks, name, kind)
        still = sum(abs(ratio - 1) <= _CHANGED for ratio in ratios)
        claims.append(
            Claim(f"{_MEASURES[name]}, after / before: {_KINDS[kind]}", "changes", f"{fmean(ratios):.3f}",
                  verdict.holds(still, len(ratios)), f"from {min(ratios):.3f} to {max(ratios):.3f}")
        )  # fmt: skip
    largest = max(one[kind]["change"] for one in networks for kind in ("layers", "neurons"))
    claims.append(
        Claim("largest change of an output, share of the largest", "0", f"{largest:.0e}", verdict.shown(),
              "without the last layer's change, which keeps labels only")
    )  # fmt: skip
    means = {kind: [fmean(_ratios(networks, name, kind)) for name in _MEASURES] for kind in _KINDS}
    return Outcome(
        claims=tuple(claims),
        tables=(Table("After / before, mean over networks", ("change", *_MEASURES.values()),
                      tuple((_KINDS[kind], *values) for kind, values in means.items())),),
        charts=(Bars(
            title="Effect of weight changes that keep every label", x_label="", y_label="after / before",
            names=tuple(_MEASURES), series=tuple(Series(label=kind, x=(), y=tuple(v)) for kind, v in means.items()),
        ),),
        notes=(
            "A claim that a number changes counts as failed for a network where it changes by 1% or less. Outputs are "
            "the same after the first two changes up to rounding; the third doubles them and keeps their order.",
        ),
    )  # fmt: skip


def _ratios(networks: Sequence[Mapping[str, Answer]], name: str, kind: str) -> list[float]:
    """After / before for each network; of region counts, the sums over all lines."""

    def number(answer: Answer) -> float:
        return float(sum(answer[name])) if name == "regions" else float(answer[name])

    return [number(one[kind]) / number(one["none"]) for one in networks]
