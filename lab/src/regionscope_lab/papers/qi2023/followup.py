"""What more seeds, less noise, other biases and longer lines change: Tables 2 and 3, Figures 1 and 3, Theorem 1."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Any

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.qi2023.counts import DEPTH, Counts, against, by_width, counts_of, ratios
from regionscope_lab.papers.qi2023.further import NOISES
from regionscope_lab.papers.rules import Graded, combined, in_range, single_run
from regionscope_lab.papers.seed_table import Runs, SeedTable

_REACH = 1.5  # largest by smallest value that counts as a constant


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
        claims[f"figure1-{noise:g}"] = single_run(paper.MOONS[64][-1], counts[64][100], said=",.0f")
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
        {"constant": replace(graded, ours=f"largest / smallest number {graded.ours}")},
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
