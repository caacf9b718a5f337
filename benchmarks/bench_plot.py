"""How long it takes to draw more than 100,000 linear regions, to the finished file.

python benchmarks/bench_plot.py                     # table on screen, JSON in benchmarks/results/
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from matplotlib.figure import Figure

import regionscope as rs
from regionscope import plot
from regionscope_lab.zoo import mlp
from results import write

LIMIT_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description="time to draw many regions")
    parser.add_argument("--width", type=int, default=300, help="of each of the three hidden layers")
    options = parser.parse_args()
    square = rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0)
    network = mlp([2, *[options.width] * 3, 2], seed=0)
    part, dec = rs.linear_regions(network, square), rs.decision_regions(network, square)
    counted = part.n_linear_regions  # compared once, before the clock starts: drawing computes nothing
    print(f"{len(part):,} activation regions, {counted:,} linear regions, {torch.get_num_threads()} threads")
    pictures = {
        "linear regions": lambda ax, **more: plot.linear_regions(part, ax=ax, **more),
        "decision mosaic": lambda ax, **more: plot.decision_mosaic(dec, ax=ax, **more),
        "zero lines": lambda ax, **more: plot.zero_lines(part, ax=ax, **more),
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, draw in pictures.items():
            for kind, rasterized in (("png", False), ("pdf", False), ("svg", False), ("pdf", True)):
                start = time.perf_counter()
                figure = Figure(figsize=(6, 6), dpi=150)
                draw(figure.add_subplot(), rasterized=rasterized)
                path = Path(folder) / f"regions.{kind}"
                figure.savefig(path)
                taken, size = time.perf_counter() - start, path.stat().st_size / 2**20
                rows.append({"picture": name, "file": kind, "rasterized": rasterized, "seconds": taken, "MiB": size})
                label = f"{name}, {kind}{' with an image' if rasterized else ''}"
                print(f"{label:<36} {taken:6.1f} s  {size:6.1f} MiB" + ("  TOO SLOW" * (taken > LIMIT_SECONDS)))
    write("plot", {"regions": len(part), "rows": rows})


if __name__ == "__main__":
    main()
