"""Proven maps of networks with smooth activations, against one forward pass of the cells' corners.

python benchmarks/bench_smooth.py                # all networks; JSON in docs/benchmarks/smooth-cpu.json, and the figure
python benchmarks/bench_smooth.py 128            # the networks whose name holds the word
python benchmarks/bench_smooth.py --plain        # errors without signs, for comparison; stores nothing
python benchmarks/bench_smooth.py --figure       # the figure from the stored rows
python benchmarks/bench_smooth.py --lines 200    # regions that 200 points on a line miss, on 200 lines

Networks are trained on the digits of scikit-learn (those of 28 x 28 pixels are enlarged digits). The plane goes through
three images of different classes, the segment joins two. Seconds are those of one thread of the process.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regionscope as rs
from regionscope.plot import style
from regionscope_lab.data.toy import digits
from results import surroundings
from table import load, store

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "smooth_frontier.png"
SHARES = (0.3, 0.1, 0.05, 0.02, 0.01)


@dataclass(frozen=True)
class Case:
    """A network, the size of its images, and the undecided share that is asked for.

    flat: whether it takes vectors. is_random: it has random weights (Kaiming, normal) in place of training, and its
        slices are six units wide around 0, where it has many regions.
    """

    name: str
    build: Callable[[], nn.Module]
    size: int
    undecided: float
    flat: bool = True
    is_random: bool = False


def dense(widths: list[int], activation: type[nn.Module]) -> nn.Module:
    layers: list[nn.Module] = []
    for n, m in pairwise(widths[:-1]):
        layers += [nn.Linear(n, m), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.GELU(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(256, 120), nn.GELU(), nn.Linear(120, 84), nn.GELU(), nn.Linear(84, 10),
    )  # fmt: skip


CASES = [
    Case("64-[128]^3-10 GELU", lambda: dense([64, *[128] * 3, 10], nn.GELU), 8, 0.01),
    Case("64-[128]^6-10 GELU", lambda: dense([64, *[128] * 6, 10], nn.GELU), 8, 0.01),
    Case("64-[128]^6-10 SiLU", lambda: dense([64, *[128] * 6, 10], nn.SiLU), 8, 0.01),
    Case("LeNet 28x28 GELU", lenet, 28, 0.02, flat=False),
    Case("64-[256]^8-10 GELU", lambda: dense([64, *[256] * 8, 10], nn.GELU), 8, 0.01),
    Case("64-[128]^6-10 GELU, random", lambda: dense([64, *[128] * 6, 10], nn.GELU), 8, 0.01, is_random=True),
]


def trained(case: Case) -> tuple[nn.Module, Tensor, Tensor]:
    """The network after training, all images, and the first image of each class."""
    data = digits()
    images = data.inputs if case.size == 8 else F.interpolate(data.inputs, size=case.size, mode="bilinear")
    x = images.flatten(1) if case.flat else images
    torch.manual_seed(0)
    model = case.build()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for layer in model.modules():
        if case.is_random and isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.normal_(layer.bias, std=0.1)
    for _ in range(0 if case.is_random else 15 if case.flat else 4):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), data.labels[batch]).backward()
            optimizer.step()
    firsts = torch.stack([(data.labels == label).nonzero()[0, 0] for label in range(10)])
    return model.eval(), x, x[firsts]


def floor(model: nn.Module, slice: rs.Slice, corners: Tensor) -> float:
    """Seconds of one float64 forward pass of the corners."""
    model = model.double()
    with torch.no_grad():
        start = time.process_time()
        for part in slice.embed(corners).split(512):
            model(part)
        return time.process_time() - start


def measure(case: Case) -> list[dict[str, object]]:
    model, _, images = trained(case)
    plane: rs.Slice = rs.Simplex(images[[3, 5, 8]])
    segment = rs.Segment(images[3], images[8])
    if case.is_random:
        axes = torch.linalg.qr(torch.randn(64, 2, dtype=torch.float64))[0].T
        plane, segment = rs.Box(torch.zeros(64), axes, 3.0), rs.Segment(-3 * axes[0], 3 * axes[0])
    rs.decision_map(model, segment)
    rows: list[dict[str, object]] = []
    curve = []
    for share in [share for share in SHARES if share >= case.undecided]:
        start = time.process_time()
        m = rs.decision_map(model, plane, undecided=share)
        seconds = time.process_time() - start
        curve.append((m.n_passes, m.undecided))
    bottom = floor(model, plane, torch.cat(m.cells))
    rows.append({
        "case": f"map, {case.name}", "network": case.name, "seconds": seconds, "floor": bottom,
        "ratio": seconds / bottom, "cells": len(m), "passes": m.n_passes, "undecided": m.undecided, "curve": curve,
        "peak_gib": None,
    })  # fmt: skip
    start = time.process_time()
    line = rs.decision_map(model, segment)
    regions = line.n_regions
    seconds = time.process_time() - start
    bottom = floor(model, segment, torch.cat(line.cells))
    rows.append({
        "case": f"count on a segment, {case.name}", "network": case.name, "seconds": seconds, "floor": bottom,
        "ratio": seconds / bottom, "cells": len(line), "passes": line.n_passes, "regions": regions, "peak_gib": None,
    })  # fmt: skip
    return rows


def missed(case: Case, n_lines: int) -> dict[str, object]:
    """Proven numbers of regions between random pairs of images, and those on 200 equally spaced points of each line."""
    model, x, _ = trained(case)
    model = model.double()
    generator = torch.Generator().manual_seed(1)
    proven, sampled, open_lines = 0, 0, 0
    lines_with_misses = 0
    start = time.process_time()
    for _ in range(n_lines):
        a, b = torch.randperm(len(x), generator=generator)[:2].tolist()
        segment = rs.Segment(x[a], x[b])
        regions = rs.decision_map(model, segment).n_regions
        with torch.no_grad():
            labels = model(segment.embed(torch.linspace(0, 1, 200, dtype=torch.float64)[:, None])).argmax(1)
        if not isinstance(regions, int):
            open_lines += 1
            continue
        on_grid = 1 + int((labels.diff() != 0).sum())
        proven, sampled = proven + regions, sampled + on_grid
        lines_with_misses += on_grid < regions
    n = n_lines - open_lines
    return {
        "case": f"lines, {case.name}", "lines": n, "open": open_lines, "proven": proven / n, "sampled": sampled / n,
        "missed": (proven - sampled) / n, "lines_with_misses": lines_with_misses,
        "seconds": time.process_time() - start, "ratio": 0.0, "peak_gib": None,
    }  # fmt: skip


def figure() -> None:
    """Undecided share against passes of cells, from the stored rows."""
    drawn, (ax,) = style.figure(1, 1, width=5.5, height=3.6)
    for i, row in enumerate(row for row in load("smooth-cpu") if "curve" in row):
        passes, shares = zip(*row["curve"], strict=True)
        ax.plot(
            passes, [100 * share for share in shares], marker="o", markersize=3, label=row["network"], color=f"C{i}"
        )
    ax.set(xscale="log", yscale="log", xlabel="cells that went through the network", ylabel="undecided share (%)")
    ax.legend(frameon=False, fontsize="small")
    drawn.savefig(FIGURE, dpi=150)


def without_signs() -> None:
    """From now on, bound all errors without signs."""
    for name in ("network", "decision_map"):
        importlib.import_module(f"regionscope.smooth.{name}").MOST_ERRORS = 0  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description="time decision_map against forward passes")
    parser.add_argument("networks", nargs="*", help="words of the names of the wanted networks; all by default")
    parser.add_argument("--plain", action="store_true", help="errors without signs; stores nothing")
    parser.add_argument("--figure", action="store_true", help="the figure alone")
    parser.add_argument("--lines", type=int, help="number of lines on which to compare with 200 points each")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.plain:
        without_signs()
    for case in CASES if not options.figure else []:
        if not options.networks or any(word in case.name for word in options.networks):
            rows = measure(case) if options.lines is None else [missed(case, options.lines)]
            for row in rows:
                print({key: value for key, value in row.items() if key != "network"}, flush=True)
            if not options.plain:
                store(
                    "smooth-cpu" if options.lines is None else "smooth-lines",
                    [{**row, **surroundings()} for row in rows],
                )
    if not options.plain:
        figure()


if __name__ == "__main__":
    main()
