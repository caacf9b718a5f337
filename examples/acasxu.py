"""The advisories of the 45 ACAS Xu networks over distance and angle, with exact boundaries, as one figure.

python examples/acasxu.py MODELS --out FOLDER        # MODELS: a folder with ACASXU_run2a_1_1_batch_2000.onnx[.gz], ...
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from pathlib import Path

import torch
from matplotlib.patches import Patch
from torch import Tensor, nn

import regionscope as rs
from regionscope import plot
from regionscope.plot import style

ADVISORIES = ["clear of conflict", "weak left", "weak right", "strong left", "strong right"]
SCALING = [
    (19791.091, 60261.0),
    (0.0, 2 * math.pi),
    (0.0, 2 * math.pi),
    (650.0, 1100.0),
    (600.0, 1200.0),
]  # offset, unit
SECONDS_LEFT = [0, 1, 5, 10, 20, 50, 60, 80, 100]  # until loss of vertical separation, by the second number of a file


class Advisory(nn.Module):
    """The network gives costs; the advisory is the one of least cost."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return -self.network(x)  # type: ignore[no-any-return]


def plane(distance: float, heading: float, speeds: tuple[float, float]) -> rs.Box:
    """Distance in [0, distance] feet and angle in [-pi, pi] vary; heading and both speeds are fixed."""
    ends = [(0.0, distance), (-math.pi, math.pi), (heading,) * 2, (speeds[0],) * 2, (speeds[1],) * 2]
    low, high = (
        torch.tensor([(end[side] - a) / b for end, (a, b) in zip(ends, SCALING, strict=True)], dtype=torch.float64)
        for side in (0, 1)
    )
    directions = torch.zeros(2, 1, 1, 5, dtype=torch.float64)
    directions[0, 0, 0, 0] = directions[1, 0, 0, 1] = 1.0
    return rs.Box(((low + high) / 2).reshape(1, 1, 5), directions, (high - low)[:2] / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--distance", type=float, default=20_000.0, help="feet")
    parser.add_argument("--heading", type=float, default=-math.pi / 2, help="of the intruder, radians")
    parser.add_argument("--speeds", type=float, nargs=2, default=(700.0, 600.0), help="own and the intruder's, ft/s")
    options = parser.parse_args()
    where = plane(options.distance, options.heading, tuple(options.speeds))
    files = sorted(path for path in options.models.glob("ACASXU_run2a_*.onnx*") if path.suffix in (".onnx", ".gz"))
    figure, axes = style.figure(5, 9, width=10.35, height=6)
    rows = []
    for ax in axes:
        ax.set_axis_off()
    for path in files:
        before, left = (int(n) for n in re.findall(r"_(\d)_(\d)_", path.name)[0])
        network = Advisory(rs.read_onnx(path))
        start = time.perf_counter()
        part = rs.linear_regions(network, where)
        seconds = time.perf_counter() - start
        part.check()
        decision = rs.decision_regions(network, where)
        ax = axes[(before - 1) * 9 + left - 1]
        ax.set_axis_on()
        plot.decision_regions(decision, ax=ax, boundary=False, rasterized=True)
        plot.decision_boundary(decision, ax=ax, width=0.4)
        ax.set_aspect("auto")
        ax.set_title(f"{decision.count} of {part.n_linear_regions:,}", fontsize=5, pad=2)
        rows.append(
            {"network": path.name.split(".")[0], "activation_regions": part.n_activation_regions,
             "linear_regions": part.n_linear_regions, "decision_regions": decision.count, "seconds": seconds}
        )  # fmt: skip
        print(f"{before} {left}: {part.n_linear_regions:,} linear, {decision.count} decision regions, {seconds:.1f} s")
    style.map_axes(axes, ticks=False)
    for column, left_seconds in enumerate(SECONDS_LEFT):
        axes[36 + column].set_xlabel(f"{left_seconds} s", fontsize=6)
    for row, name in enumerate(ADVISORIES):
        axes[9 * row].set_ylabel(f"after {name}", fontsize=5)
    colours = style.class_colours(torch.arange(5), pale=True)
    handles = [Patch(facecolor=tuple(colour), label=name) for colour, name in zip(colours, ADVISORIES, strict=True)]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=7, frameon=False)
    figure.savefig(options.out / "acasxu.png", dpi=160)
    (options.out / "acasxu.json").write_text(json.dumps({"plane": vars(options), "rows": rows}, indent=1, default=str))


if __name__ == "__main__":
    main()
