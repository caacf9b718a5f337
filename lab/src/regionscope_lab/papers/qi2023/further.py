"""What more seeds, less noise, other biases and longer lines change: Tables 2 and 3, Figures 1 and 3, Theorem 1."""

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
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.qi2023.toy import DEPTH, Counts, against, by_width, counts_of, ratios
from regionscope_lab.papers.rules import Graded, combined, in_range, single_run
from regionscope_lab.papers.seed_table import Runs, SeedTable
from regionscope_lab.papers.workspace import Place, Workspace

NOISES, VARIANCES = (0.05, 0.1, 0.15), (1e-6, 1e-4, 1e-2, 1e-1, 1.0, 10.0)
_REACH = 1.5  # largest by smallest value that counts as a constant


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
        model = zoo.mlp([1, *[width] * 3, 1], seed=seed).double()
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in model:
                if isinstance(layer, nn.Linear):
                    deviation = (2 / layer.in_features) ** 0.5
                    layer.weight.normal_(0, deviation, generator=generator)
                    layer.bias.normal_(0, deviation * variance**0.5, generator=generator)
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


def _answered(table: SeedTable, function: str, values: str, **chosen: Any) -> Counts:
    """Stored answers by width and epoch, one value for each seed."""
    counts: Counts = {}
    for one in sorted(
        table.answers(f"qi2023.further.{function}", **chosen), key=lambda one: (one["width"], one["seed"])
    ):
        for epoch, value in zip(one["epochs"], one[values], strict=True):
            counts.setdefault(one["width"], {}).setdefault(epoch, []).append(value)
    return counts


def table3_more(table: SeedTable, runs: Runs) -> Finding:
    stored, more = (
        counts_of(by_width(runs)),
        _answered(table, "counts_in_training", "regions", data="gaussian_quantiles"),
    )
    both = {w: {epoch: [*one[epoch], *more[w][epoch]] for epoch in paper.EPOCHS} for w, one in stored.items()}
    found = against(paper.QUANTILES, both, settles=True)
    return Finding({name: one for name, one in found.claims.items() if name != "start"}, (), found.figures)


def table2_noise(table: SeedTable, runs: Runs) -> Finding:
    claims, rows = {}, []
    for noise in NOISES:
        counts = _answered(table, "counts_in_training", "regions", data="two_moons", noise=noise)
        cells = [
            single_run(value, counts[width][epoch], said=".0f")
            for width, values in paper.MOONS.items()
            for epoch, value in zip(paper.EPOCHS, values, strict=True)
            if epoch
        ]
        claims[f"cells-{noise:g}"] = combined(cells)
        claims[f"figure1-{noise:g}"] = single_run(7082, counts[64][100], said=",.0f")
        rows += [(noise, f"[{w}, {w}, {w}]", fmean(one[100]), paper.MOONS[w][-1]) for w, one in counts.items()]
    columns = ("noise", "network", "epoch 100, mean of five seeds", "the paper")
    return Finding(claims, (Table("Linear regions with less noise in the two moons", columns, tuple(rows)),))


def theorem1_biases(table: SeedTable, runs: Runs) -> Finding:
    answers = sorted(table.answers("qi2023.further.regions_by_biases"), key=lambda one: float(one["variance"]))
    levels = {one["variance"]: fmean(one["regions"]) / (DEPTH * one["width"]) for one in answers}
    reach = max(levels.values()) / min(levels.values())
    rows = tuple((f"{variance:g}", level) for variance, level in levels.items())
    columns = ("variance of biases / variance of weights", "regions / (neurons x length)")
    graded = in_range((reach, reach, reach), 1.0, _REACH)
    return Finding(
        {"constant": replace(graded, ours=f"largest by smallest ratio {graded.ours}")},
        (Table("Before training, on [-1/2, 1/2]", columns, rows),),
    )


def figure3_lines(table: SeedTable, runs: Runs) -> Finding:
    claims: dict[str, Graded] = {}
    rows = list[tuple[str | float, ...]]()
    for data, name in (("two_moons", "chords"), ("mnist", "rays")):
        counts = _answered(table, "lines_across", "lines", data=data)
        length = fmean(one["length"] for one in table.answers("qi2023.further.lines_across", data=data))
        claims |= {f"{name}-{key}": one for key, one in ratios(counts).items()}
        rows += [
            (name, f"[{w}, {w}, {w}]", epoch, fmean(one) / (DEPTH * w), fmean(one) / (DEPTH * w * length))
            for w, by_epoch in counts.items()
            for epoch, one in by_epoch.items()
            if epoch in (0, 100)
        ]
    columns = ("lines", "network", "epoch", "regions / neurons", "regions / (neurons x length)")
    return Finding(claims, (Table("Regions along longer lines, mean of three seeds", columns, tuple(rows)),))
