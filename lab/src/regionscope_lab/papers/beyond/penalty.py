"""A penalty on soft local complexity: does it lower Li's region count and the generalisation gap?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from regionscope.complexity import local_complexity, soft_local_complexity
from regionscope.measures import generalisation_gap, region_count
from regionscope.measures.statistics import deviation, mean
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec
from regionscope_lab.data import Dataset, load
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Bars, Chart, Scatter, Series
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.rules import FIT as FITTED
from regionscope_lab.papers.study import Claim, Outcome, Size, Table, positive_over_seeds
from regionscope_lab.papers.workspace import Place, Workspace

_DIMS, _TEMPERATURE = 4, 0.5  # of the penalty: new directions at each step
_MEASUREMENT_SEED = 1_000_003  # of the directions and lines of the measurements, which no step of the training takes


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
_SHORTER_EPOCHS: dict[Size, tuple[int, ...]] = {"smoke": (), "desk": (), "full": (30, 60)}  # epochs to try before
_PILOT_SEED = 100  # seed of the runs that try them
STRENGTHS = (0.0, 0.01, 0.1, 1.0)
_SEEDS: dict[Size, tuple[int, ...]] = {"smoke": (0,), "desk": (0, 1, 2), "full": (0, 1, 2)}


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
    """SGD with momentum 0.9 and a cosine schedule; ``seed`` sets the order of the batches and the directions."""
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


_NumbersByStrength = Mapping[float, Sequence[Mapping[str, float]]]  # strength of the penalty -> numbers of each seed


def outcome(runs_by_strength: _NumbersByStrength) -> Outcome:
    """runs_by_strength: of the strength 0 and others, with the same seeds in the same order."""
    plain = runs_by_strength[0.0]
    runs = [one for mine in runs_by_strength.values() for one in mine]
    unfitted = sum(one["train_error"] >= FITTED for one in runs)
    claims = [
        Claim("runs with a training error below 1% (the premise)", "all", f"{len(runs) - unfitted} of {len(runs)}",
              verdict.holds(unfitted, len(runs)))
    ]  # fmt: skip
    for strength, mine in runs_by_strength.items():
        if strength:
            claims += [
                positive_over_seeds(
                    f"penalty {strength:g}: {words}: fall", "falls",
                    [1 - after / before for before, after in _pairs(plain, mine, name)], ".1%",
                )
                for name, words in (("lc", "local complexity"), ("regions", "regions on a line"))
            ]  # fmt: skip
            gaps = [before - after for before, after in _pairs(plain, mine, "gap")]
            what = f"penalty {strength:g}: gap, in points of percent: fall"
            claims.append(positive_over_seeds(what, "falls", gaps, "+.2f"))
    return Outcome(
        claims=tuple(claims),
        summary=_summary(runs_by_strength),
        tables=(_table(runs_by_strength),),
        charts=_charts(runs_by_strength),
        notes=(
            f"The loss is cross-entropy plus the strength times the share of units that fold, by soft local complexity "
            f"with temperature {_TEMPERATURE:g} on {_DIMS} new random directions at each step. Local complexity is "
            "measured at training points on 25 other directions with the same radius.",
            "A fall compares runs of the same seed, which start from the same weights; intervals are over seeds "
            "(Student's t).",
        ),
    )


def _pairs(plain: Sequence[Mapping[str, float]], mine: Sequence[Mapping[str, float]], name: str) -> Any:
    return [(one[name], other[name]) for one, other in zip(plain, mine, strict=True)]


def _summary(runs_by_strength: _NumbersByStrength) -> str:
    plain, strongest = runs_by_strength[0.0], runs_by_strength[max(runs_by_strength)]
    said = [
        f"{words} from {mean([one[name] for one in plain]):,.4g} to {mean([one[name] for one in strongest]):,.4g}"
        for name, words in (("lc", "local complexity"), ("regions", "the region count"), ("gap", "the gap in percent"))
    ]
    return f"The strongest penalty moves {said[0]}, {said[1]} and {said[2]}, means over {len(plain)} seeds."


_COLUMNS = ("lc", "regions", "gap", "train_error", "test_error")


def _table(runs_by_strength: _NumbersByStrength) -> Table:
    rows = []
    for strength, mine in runs_by_strength.items():
        columns = [[one[name] for one in mine] for name in _COLUMNS]
        rows.append((strength, *map(mean, columns), *map(deviation, columns[:3])))
    heads = ("penalty", *_COLUMNS, *(f"{name} sd" for name in _COLUMNS[:3]))
    return Table("Means over seeds", heads, tuple(rows))


def _charts(runs_by_strength: _NumbersByStrength) -> tuple[Chart, ...]:
    labels = {"lc": "local complexity", "regions": "regions on a line", "gap": "generalisation gap, %"}
    bars = tuple(
        Bars(
            title=f"{words[0].upper()}{words[1:]} by strength of the penalty", y_label=words,
            names=tuple(f"{strength:g}" for strength in runs_by_strength), x_label="strength of the penalty",
            series=(
                Series(
                    label="mean over seeds", x=tuple(runs_by_strength),
                    y=tuple(mean([one[name] for one in mine]) for mine in runs_by_strength.values()),
                    std=tuple(deviation([one[name] for one in mine]) for mine in runs_by_strength.values()),
                ),
            ),
        )
        for name, words in labels.items()
    )  # fmt: skip
    groups = tuple(
        Series(
            label=f"penalty {strength:g}", x=tuple(one["regions"] for one in mine), y=tuple(one["gap"] for one in mine)
        )
        for strength, mine in runs_by_strength.items()
    )
    title = "Region count and generalisation gap, all runs"
    scatter = Scatter.fitted(title=title, x_label=labels["regions"], y_label=labels["gap"], series=groups)
    return (*bars, scatter)


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    seeds, setting = _SEEDS[size], _of_a_length_that_fits(workspace, SETTINGS[size], _SHORTER_EPOCHS[size])
    asked = [_asked(setting, strength, seed) for strength in STRENGTHS for seed in seeds]
    answers = iter(workspace.compute_with_place(trained, asked))
    result = outcome({strength: [next(answers) for _ in seeds] for strength in STRENGTHS})
    return replace(result, notes=(*result.notes, f"All runs have {setting.epochs} epochs."))


def _of_a_length_that_fits(workspace: Workspace, longest: Setting, shorter: Sequence[int]) -> Setting:
    """With the first of these numbers of epochs with which a run without penalty fits its data, else the longest."""
    for epochs in shorter:
        setting = replace(longest, epochs=epochs)
        (pilot,) = workspace.compute_with_place(trained, [_asked(setting, 0.0, _PILOT_SEED)])
        if pilot["train_error"] < FITTED:
            return setting
    return longest


def _asked(setting: Setting, strength: float, seed: int) -> dict[str, Any]:
    return {"setting": asdict(setting), "strength": strength, "seed": seed}


PENALTY = read_study("beyond-penalty", analyse=_analyse)
