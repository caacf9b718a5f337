"""Theorem 1 before training, and Figure 3 from weights and biases of variance 2 / fan-in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.qi2023.counts import DEPTH, Counts, ratios
from regionscope_lab.papers.rules import Graded, combined, every_case, in_range
from regionscope_lab.papers.seed_table import Runs, SeedTable
from regionscope_lab.statistics import t_interval

LENGTHS = ("0.5", "1.0", "2.0")
BIASES = {"he": "variance 2 / fan-in", "default": "PyTorch's default", "small": "variance 1e-6"}


def theorem1(table: SeedTable, runs: Runs) -> Finding:
    answers = sorted(
        table.answers("qi2023.theorem1.at_start"), key=lambda one: (list(BIASES).index(one["biases"]), one["width"])
    )

    def levels(one: Mapping[str, Sequence[int]], width: int, length: str) -> tuple[float, float, float]:
        return t_interval([count / (DEPTH * width * float(length)) for count in one[length]])

    every = {
        (one["biases"], one["width"], length): levels(one, one["width"], length)
        for one in answers
        for length in LENGTHS
    }
    judged = {key: value for key, value in every.items() if key[0] == "he"}

    def constant(group: Mapping[Any, tuple[float, float, float]]) -> Graded:
        """Largest by smallest mean, which the paper says is constant."""
        means = [value for value, _, _ in group.values()]
        reach = max(means) / min(means)
        return in_range((reach, reach, reach), 1.0, 1.5)

    widths = {key: value for key, value in judged.items() if key[2] == LENGTHS[-1]}
    lengths = {key: value for key, value in judged.items() if key[1] == max(width for _, width, _ in judged)}
    proportional, widest = constant(lengths), max(width for _, width, _ in every)
    reaches = {
        words: constant({key: value for key, value in every.items() if key[:2] == (name, widest)}).ours
        for name, words in BIASES.items()
        if name != "he"
    }
    others = ", ".join(f"{reach} (biases: {words})" for words, reach in reaches.items())
    over = sum(low > 1 for _, low, _ in every.values())
    worst = max(every.items(), key=lambda item: item[1][0])
    rows = tuple(
        (BIASES[one["biases"]], one["width"], *(every[one["biases"], one["width"], length][0] for length in LENGTHS))
        for one in answers
    )
    return Finding(
        {
            "widths": constant(widths),
            "lengths": replace(proportional, ours=f"{proportional.ours}; {others}"),
            "level": combined(
                [in_range(value, 0.5, 2.0) for value in judged.values()],
                f"{fmean(v for v, _, _ in judged.values()):.3f} on average",
            ),
            "bound": every_case(
                sum(low > 1 for _, low, _ in judged.values()),
                len(judged),
                f"at most {max(v for v, _, _ in judged.values()):.2f}",
            ),
            "bound-any": every_case(
                over,
                len(every),
                f"up to {worst[1][0]:.2f} regions per neuron and unit of length (biases: {BIASES[worst[0][0]]})",
            ),
        },
        (
            Table(
                "Regions / (neurons x length) before training",
                ("biases", "width", *(f"length {one}" for one in LENGTHS)),
                rows,
            ),
        ),
    )


def figure3_he(table: SeedTable, runs: Runs) -> Finding:
    counts: Counts = {}
    for one in sorted(table.answers("qi2023.theorem1.lines_in_training"), key=lambda one: (one["width"], one["seed"])):
        for epoch, value in zip(one["epochs"], one["lines"], strict=True):
            counts.setdefault(one["width"], {}).setdefault(epoch, []).append(value)
    rows = tuple(
        (f"[{w}, {w}, {w}]", epoch, fmean(one) / (DEPTH * w))
        for w, by_epoch in counts.items()
        for epoch, one in by_epoch.items()
        if epoch % 10 == 0
    )
    return Finding(
        ratios(counts),
        (
            Table(
                "Regions along lines over neurons, He initialisation",
                ("network", "epoch", "regions / neurons"),
                rows,
                detail=True,
            ),
        ),
    )
