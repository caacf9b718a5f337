"""A penalty on soft local complexity: does it lower Li's region count and the generalisation gap?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from regionscope.complexity import local_complexity, soft_local_complexity
from regionscope.measures import generalisation_gap, region_count
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Experiment
from regionscope_lab.data import Dataset, load
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.rules import ABOVE_ZERO, FIT, in_range, over_seeds
from regionscope_lab.papers.seed_table import Runs, SeedTable
from regionscope_lab.papers.workspace import Place, Workspace

_DIMS, _TEMPERATURE = 4, 0.5  # of the penalty: new directions at each step
_MEASUREMENT_SEED = 1_000_003  # of the directions and lines of the measurements, which no step of the training takes
_PILOT_SEED = 100  # seed of the runs without penalty that try numbers of epochs
STRENGTHS = (0.0, 0.01, 0.1, 1.0)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Data, network and training of a run but for its penalty and seed. radius: of all neighbourhoods."""

    data: str
    n_train: int | None
    n_test: int | None
    network: str
    options: dict[str, Any]
    radius: float
    epochs: int
    lr: float
    batch: int
    points: int
    lines: int


_MLP = {"depth": 3, "width": 100}
SETTINGS: dict[Size, Setting] = {
    "smoke": Setting(
        data="digits", n_train=64, n_test=100, network="mlp", options={"depth": 2, "width": 8}, radius=1.0, epochs=3,
        lr=0.1, batch=16, points=8, lines=5,
    ),
    "desk": Setting(
        data="mnist", n_train=1000, n_test=10_000, network="mlp", options=_MLP, radius=1.0, epochs=60, lr=0.05,
        batch=64, points=500, lines=500,
    ),
    "full": Setting(
        data="cifar10", n_train=10_000, n_test=None, network="cnn",
        options={"depth": 5, "width": 64, "bn": False, "flatten": True}, radius=1.0, epochs=120, lr=0.05, batch=128,
        points=1000, lines=500,
    ),
}  # fmt: skip


def trained(place: Place, *, setting: dict[str, Any], strength: float, seed: int) -> dict[str, Any]:
    """Numbers at the end of one training with a penalty: ``strength`` times the share of units that fold softly."""
    run = Setting(**setting)
    spec = DataSpec(name=run.data, n_train=run.n_train, n_test=run.n_test)
    split = load(spec, root=place.data_root).to(place.device)
    model = zoo.build(
        run.network, classes=split.train.n_classes, input_shape=split.train.input_shape, seed=seed, **run.options
    ).to(place.device)
    _descend(model, split.train, run, strength, seed)
    inputs = split.train.inputs
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed), device="cpu")
    points = inputs[order[: run.points].to(inputs.device)]
    errors = generalisation_gap(model, *((part.inputs, part.labels) for part in (split.train, split.test)))
    complexity = local_complexity(model, points, radius=run.radius, seed=_MEASUREMENT_SEED)
    regions = region_count(model, inputs, slices=run.lines, seed=_MEASUREMENT_SEED)
    return {
        "lc": complexity.mean, "units": float(sum(complexity.units.values())), "regions": regions.value,
        "train_error": 100 * errors.train_error.value, "test_error": 100 * errors.test_error.value,
        "gap": 100 * errors.value,
    }  # fmt: skip


def _descend(model: nn.Module, data: Dataset, setting: Setting, strength: float, seed: int) -> None:
    """SGD with momentum 0.9 and a cosine schedule; ``seed`` sets the order of the batches and the directions.

    A loop of its own: ``train`` adds nothing to its loss, and the stored answers have these random numbers.
    """
    source = torch.Generator().manual_seed(seed)
    steps = setting.epochs * -(-len(data) // setting.batch)
    optimiser = torch.optim.SGD(model.parameters(), lr=setting.lr, momentum=0.9)
    course = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    units = sum(local_complexity(model, data.inputs[:1], dims=1, radius=setting.radius).units.values())
    for _ in range(setting.epochs):
        order = torch.randperm(len(data), generator=source, device="cpu").to(data.inputs.device)
        for part in order.split(setting.batch):
            loss = functional.cross_entropy(model(data.inputs[part]), data.labels[part])
            if strength:
                folds = soft_local_complexity(
                    model, data.inputs[part], dims=_DIMS, radius=setting.radius, temperature=_TEMPERATURE,
                    generator=source,
                )  # fmt: skip
                loss = loss + strength * folds.mean() / units
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            course.step()


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """All strengths, with the fewest epochs with which a pilot without penalty fits its data, else the most."""
    setting = of_a_length_that_fits(workspace, SETTINGS[size], (30, 60) if size == "full" else ())
    seeds = (0,) if size == "smoke" else (0, 1, 2)
    asked = [_asked(setting, strength, seed) for strength in STRENGTHS for seed in seeds]
    workspace.compute_with_place(trained, asked)


def of_a_length_that_fits(workspace: Workspace, longest: Setting, shorter: Sequence[int]) -> Setting:
    """With the first of these numbers of epochs with which a run without penalty fits its data, else the longest."""
    for epochs in shorter:
        setting = replace(longest, epochs=epochs)
        (pilot,) = workspace.compute_with_place(trained, [_asked(setting, 0.0, _PILOT_SEED)])
        if pilot["train_error"] < FIT:
            return setting
    return longest


def _asked(setting: Setting, strength: float, seed: int) -> dict[str, Any]:
    return {"setting": asdict(setting), "strength": strength, "seed": seed}


def penalty(table: SeedTable, runs: Runs) -> Finding:
    stored = table.answers("beyond.penalty.trained")
    largest = max(one["setting"]["n_train"] for one in stored)  # an archive has smaller sizes, too
    every = [one for one in stored if one["seed"] != _PILOT_SEED and one["setting"]["n_train"] == largest]
    every.sort(key=lambda one: int(one["seed"]))
    by_strength = {strength: [one for one in every if one["strength"] == strength] for strength in STRENGTHS}
    plain, claims = by_strength[0.0], {}
    for strength in STRENGTHS[1:]:
        pairs = list(zip(plain, by_strength[strength], strict=True))
        for name in ("lc", "regions"):
            falls = [1 - after[name] / before[name] for before, after in pairs]
            claims[f"{name}-{strength:g}"] = in_range(over_seeds(falls), *ABOVE_ZERO, said=".1%")
        gaps = [before["gap"] - after["gap"] for before, after in pairs]
        claims[f"gap-{strength:g}"] = in_range(over_seeds(gaps), *ABOVE_ZERO, said="+.2f", unit=" points")
    columns = ("lc", "regions", "gap", "train_error", "test_error")
    rows = tuple(
        (strength, *(fmean(one[name] for one in mine) for name in columns)) for strength, mine in by_strength.items()
    )
    return Finding(claims, (Table("Means over seeds", ("strength", *columns), rows),))
