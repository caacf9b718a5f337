"""Theorem 1 at its own initial weights, and Figure 3 with them: linear regions along lines, over neurons and length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from regionscope.exact import linear_regions
from regionscope.geometry.slices import Segment
from regionscope.measures import linear_region_count
from regionscope.measures.statistics import standard_error
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec
from regionscope_lab.data import load
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.qi2023 import lines, paper
from regionscope_lab.papers.qi2023.read import Course, curves
from regionscope_lab.papers.qi2023.settings import DEPTH, SEED
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.train.small_mlp import train_small

BIASES = {  # what the biases are drawn from; the theorem names the variance of "weights and biases" once
    "he": "biases of variance 2 / fan-in",
    "default": "PyTorch's default biases",
    "small": "biases of variance 1e-6",
}
_JUDGED = "he"
_LENGTHS = (0.5, 1.0, 2.0)  # of intervals around 0
_HE = "He initialisation, "

Starts = Mapping[str, Mapping[int, Mapping[str, Sequence[int]]]]  # regions by biases, width and length, of each network


@dataclass(frozen=True)
class Theorem1Grid:
    """Widths and networks of Theorem 1; widths, seeds, epochs, points and lines of Figure 3."""

    start_widths: tuple[int, ...]
    networks: int
    widths: tuple[int, ...]
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    points: int = 1000
    lines: int = 100


_EVERY5 = tuple(range(0, 101, 5))
_SEEDS = (SEED, 0, 1, 2, 3, 4, 6, 7, 8, 9)
GRIDS: dict[Size, Theorem1Grid] = {
    "smoke": Theorem1Grid((8, 16), 4, (16, 32), (SEED, 0), (0, 2, 4), points=96, lines=8),
    "desk": Theorem1Grid((16, 32, 64), 50, paper.WIDTHS, _SEEDS, _EVERY5),
    "full": Theorem1Grid((16, 32, 64, 128, 256), 200, paper.WIDTHS, _SEEDS, _EVERY5),
}


def he_weights(model: nn.Sequential, *, biases: str, seed: int) -> nn.Sequential:
    """Draw weights with mean 0 and variance 2 / fan-in (equation 16), and biases as ``BIASES`` says, in place."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                deviation = math.sqrt(2 / layer.in_features)
                layer.weight.normal_(0, deviation, generator=generator)
                if biases != "default":
                    layer.bias.normal_(0, deviation if biases == "he" else 1e-3, generator=generator)
    return model


def at_start(*, width: int, biases: str, networks: int) -> dict[str, Any]:
    """Linear regions of untrained networks with one input and one output, on intervals of several lengths around 0."""
    found: dict[str, list[int]] = {str(length): [] for length in _LENGTHS}
    for seed in range(networks):
        model = zoo.mlp([1, *[width] * DEPTH, 1], seed=seed)
        he_weights(model, biases=biases, seed=seed)
        parts = linear_regions(model.double(), [Segment([-length / 2], [length / 2]) for length in _LENGTHS])
        for length, part in zip(_LENGTHS, parts, strict=True):
            found[str(length)].append(part.n_linear_regions)
    return found


def lines_in_training(
    *, width: int, biases: str, seed: int, epochs: list[int], points: int, lines: int
) -> dict[str, Any]:
    """Mean linear regions along lines from the origin to points of two moons, during training as for Figure 3."""
    data = load(DataSpec(name="two_moons", n_train=points, n_test=2, seed=SEED)).train
    model = he_weights(zoo.mlp([2, *[width] * DEPTH, 2], seed=seed), biases=biases, seed=seed)
    found: dict[str, Any] = {"lines": [], "accuracy": [], "length": float(data.inputs.norm(dim=1).mean())}

    def look(epoch: int, model: nn.Sequential) -> None:
        count = linear_region_count(model, data.inputs, through="origin", slices=lines, seed=seed)
        found["lines"].append(count.value)
        found["accuracy"].append(float((model(data.inputs).argmax(1) == data.labels).double().mean()))

    train_small(model, data.inputs, data.labels, epochs=epochs, on_epoch=look, seed=seed)
    return found


def judge_start(found: Starts) -> tuple[Claim, ...]:
    """Equation 27, E[P] = |S| j: proportional to the neurons and to the length, and at what level."""
    claims = []
    for biases, by_width in found.items():
        longest = str(_LENGTHS[-1])
        ratio = {width: _ratio(counts[longest], width, longest) for width, counts in by_width.items()}
        widest = max(by_width)
        by_length = {length: _ratio(counts, widest, length) for length, counts in by_width[widest].items()}
        level, judged = fmean(ratio.values()), biases == _JUDGED
        start = f"Theorem 1, {BIASES[biases]}: "
        claims += [
            _constant(f"{start}regions / (neurons x length) over widths", ratio, judged, "width"),
            _constant(f"{start}regions / (neurons x length) over lengths, width {widest}", by_length, judged, "length"),
            Claim(
                f"{start}regions / (neurons x length), mean over widths",
                "about 1 (equation 27)",
                f"{level:.3f}",
                verdict.near(1.0, level) if judged else verdict.shown(),
            ),
        ]
    return tuple(claims)


def _ratio(counts: Sequence[int], width: int, length: str) -> float:
    return fmean(counts) / (DEPTH * width * float(length))


def _error(counts: Sequence[int], width: int, length: str) -> float:
    """Standard error of ``_ratio``, over networks."""
    return standard_error(counts) / (DEPTH * width * float(length))


def _constant(what: str, values: Mapping[Any, float], judged: bool, of: str) -> Claim:
    """Largest by smallest of a number that the paper says is constant."""
    reach = max(values.values()) / min(values.values())
    return Claim(
        f"{what}, largest / smallest",
        "constant",
        f"{reach:.2f}: " + ", ".join(f"{value:.3f} ({of} {name})" for name, value in values.items()),
        verdict.near(1.0, reach, factor=lines.RANGE) if judged else verdict.shown(),
    )


def judge_training(ratios: dict[int, Course], length: float) -> tuple[Claim, ...]:
    """Figure 3 with He weights: constant over epochs, constant over widths, and at what level."""
    levels = {width: fmean(one.means) for width, one in ratios.items()}
    return (
        *(replace(claim, what=_HE + claim.what) for claim in lines.judge(ratios, length)),
        _constant(f"{_HE}all widths: regions / neurons, mean over epochs", levels, True, "width"),
    )


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    grid = GRIDS[size]
    asked: list[dict[str, Any]] = [
        {"width": width, "biases": biases, "networks": grid.networks}
        for biases in BIASES
        for width in reversed(grid.start_widths)
    ]
    starts: dict[str, dict[int, Any]] = {biases: {} for biases in BIASES}
    for one, answer in zip(asked, workspace.compute(at_start, asked), strict=True):
        starts[one["biases"]] = {one["width"]: answer, **starts[one["biases"]]}
    trained: list[dict[str, Any]] = [
        {"width": width, "biases": _JUDGED, "seed": seed, "epochs": list(grid.epochs), "points": grid.points,
         "lines": grid.lines}
        for width in reversed(grid.widths)
        for seed in grid.seeds
    ]  # fmt: skip
    answers = workspace.compute(lines_in_training, trained)
    by_width: dict[int, list[Any]] = {width: [] for width in grid.widths}
    for one, answer in zip(trained, answers, strict=True):
        by_width[one["width"]].append(answer["lines"])
    ratios = {width: Course(grid.epochs, np.array(rows) / (DEPTH * width)) for width, rows in by_width.items()}
    return outcome_of(starts, ratios, answers[0]["length"], fmean(one["accuracy"][-1] for one in answers))


def outcome_of(starts: Starts, ratios: dict[int, Course], length: float, accuracy: float) -> Outcome:
    """Claims, tables and figures of both parts."""
    rows: tuple[tuple[str | int, ...], ...] = tuple(
        (BIASES[biases], width, *(
            f"{_ratio(counts[str(one)], width, str(one)):.3f} (± {_error(counts[str(one)], width, str(one)):.1g})"
            for one in _LENGTHS
        ))
        for biases, by_width in starts.items()
        for width, counts in by_width.items()
    )  # fmt: skip
    longest = str(_LENGTHS[-1])
    series = tuple(
        Series.of(
            BIASES[biases],
            (
                (float(width), _ratio(counts[longest], width, longest), _error(counts[longest], width, longest))
                for width, counts in by_width.items()
            ),
        )
        for biases, by_width in starts.items()
    )
    networks = len(starts[_JUDGED][max(starts[_JUDGED])][longest])
    return Outcome(
        claims=(*judge_start(starts), *judge_training(ratios, length)),
        tables=(
            Table("Theorem 1: regions / (neurons x length) before training",
                  ("biases", "width", *(f"length {one:g}" for one in _LENGTHS)), rows),
            lines.table(f"{_HE}regions / neurons, mean over seeds", ratios, 1.0),
            lines.table(f"{_HE}regions / (neurons x {length:.2f}), per unit of length", ratios, length),
        ),
        charts=(
            Lines(title=f"Theorem 1: before training, intervals of length {_LENGTHS[-1]:g}", x_scale="log",
                  x_label="width of three hidden layers", y_label="linear regions / (neurons x length)", series=series),
            Lines(title="Figure 3 with He initialisation", x_label="epoch", y_label="linear regions / neurons",
                  series=curves({str([width] * DEPTH): one for width, one in ratios.items()})),
        ),
        notes=(
            f"Theorem 1: {networks} networks of three hidden layers with one input and one output for each width; "
            "regions are exact. The paper assumes zero-centred weights of variance 2 / fan-in and does not say how "
            "biases are drawn. Biases of the same variance are judged; the others are shown, since the number of "
            "breakpoints depends on the density of the biases.",
            "Figure 3: as on the page qi2023-figure3, but with weights and biases of mean 0 and variance 2 / fan-in; "
            f"the mean training accuracy at the end is {accuracy:.3f}. The rules are those of that page, with one more "
            "for the widths, and were written down before the runs.",
            "The paper's text names neither the noise of its two moons nor any seed; the data are those of the page "
            "qi2023-figure3.",
            "sd: standard deviation over seeds; ± is a standard error over networks.",
        ),
    )  # fmt: skip


THEOREM1 = read_study("qi2023-theorem1", analyse=_analyse)
