"""Exact level sets of signed distance networks, beside marching cubes.

python benchmarks/bench_surface.py [--rounds 3] [--threads 2]    # JSON in benchmarks/results/surface-cpu.json
python benchmarks/bench_surface.py --publish                     # also in docs/benchmarks/

The networks are those of ``examples/gallery/level_set.py`` and a torus of 8 layers of width 32. Marching cubes
(scikit-image, skipped where it is not installed) reads each network in float32 on grids. The distance of a vertex to
the zero set is |f| / |gradient of f| in float64. All methods of a network run in turn, ``--rounds`` times, and the
least time of each counts; ``cpu`` is processor time, which other programs on the machine disturb less than
``seconds``. ``bench_level_set.py`` compares level sets with whole partitions.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import importlib.util
import io
import runpy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import regionscope as rs
from results import write
from signed_distance import trained
from timing import timed

ROOT = Path(__file__).parent.parent
GRIDS = (64, 128, 256)
BOX = rs.Box.between(-1, 1, (3,))
DEEP = "torus, 8 layers"


def gallery() -> dict[str, nn.Module]:
    """The networks that the program of the gallery trains: a torus, two balls and a gyroid."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        found = runpy.run_path(str(ROOT / "examples" / "gallery" / "level_set.py"))
    return {name: model.double().eval() for name, model in found["models"].items()}


def in_turn(methods: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float, Any]]:
    """Least time on the clock, least time of the processor, and result of methods that run in turn."""
    found: dict[str, tuple[float, float, Any]] = {}
    for _ in range(rounds):
        for name, work in methods.items():
            gc.collect()
            result, took = timed(work, "cuda" if torch.cuda.is_initialized() else "cpu")
            least = found.get(name, (torch.inf, torch.inf))
            found[name] = min(least[0], took[0]), min(least[1], took[1]), result
    return found


def off_surface(model: nn.Module, points: Tensor) -> tuple[float, float]:
    """Mean and largest distance of points to the zero set, to first order."""
    distances = []
    for part in points.double().split(100_000):
        x = part.to(next(model.parameters()).device, copy=True).requires_grad_()
        values = model(x)[:, 0]
        (slope,) = torch.autograd.grad(values.sum(), x)
        distances.append((values.detach() / slope.norm(dim=1).clamp(min=1e-12)).abs())
    whole = torch.cat(distances)
    return float(whole.mean()), float(whole.max())


def marching_cubes(model: nn.Module, n: int) -> tuple[Any, Any]:
    """Vertices and triangles of the network's values on a grid of n^3 points; ``model`` is in float32."""
    from skimage.measure import marching_cubes as cubes

    axis = torch.linspace(-1, 1, n)
    with torch.no_grad():
        plane = torch.cartesian_prod(torch.zeros(1), axis, axis)
        parts = [model(plane + torch.tensor([float(x), 0.0, 0.0]))[:, 0] for x in axis]
    points, triangles, *_ = cubes(torch.cat(parts).reshape(n, n, n).numpy(), 0.0, spacing=(2 / (n - 1),) * 3)
    return points - 1, triangles


def of_triangles(points: Any, triangles: Any) -> tuple[int, float]:
    """Euler characteristic and area of a triangle mesh."""
    ends = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
    edges = len(np.unique(ends.astype(np.int64) @ [len(points), 1]))
    a, b, c = (points[triangles[:, i]].astype(np.float64) for i in range(3))
    return len(points) - edges + len(triangles), float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def measure(name: str, model: nn.Module, rounds: int) -> list[dict[str, Any]]:
    """One row for each method."""
    single = copy.deepcopy(model).float()
    methods: dict[str, Callable[[], Any]] = {"level_set": lambda: rs.level_set(model, BOX)}
    if importlib.util.find_spec("skimage") is not None:
        methods |= {f"marching cubes, {n}^3": lambda n=n: marching_cubes(single, n) for n in GRIDS}
    rows = []
    for method, (seconds, cpu, found) in in_turn(methods, rounds).items():
        if isinstance(found, rs.LevelSet):
            points, count, euler, area = found.points, len(found), found.euler, found.area
        else:
            euler, area = of_triangles(*found)
            points, count = torch.from_numpy(found[0]), len(found[1])
        mean, largest = off_surface(model, points)
        rows.append({
            "network": name, "method": method, "seconds": seconds, "cpu": cpu, "faces": count, "vertices": len(points),
            "euler": euler, "area": area, "mean": mean, "largest": largest,
        })  # fmt: skip
        numbers = f"{count:9,} {euler:5} {area:10.6f} {mean:9.1e} {largest:9.1e} {seconds:8.2f} {cpu:8.2f}"
        print(f"{name:16} {method:22} {numbers}", flush=True)
    return rows


def write_results(name: str, document: dict[str, Any], device: str, *, publish: bool) -> None:
    """Store the numbers; ``publish`` also puts them into docs/benchmarks."""
    write(name, document, device)
    if publish:
        write(name, document, device, folder=ROOT / "docs" / "benchmarks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--publish", action="store_true", help="also write to docs/benchmarks/")
    args = parser.parse_args()
    if importlib.util.find_spec("skimage") is None:
        if args.publish:
            raise SystemExit("Expected scikit-image with --publish, found none. Install it: pip install scikit-image")
        print("scikit-image is not installed: marching cubes are left out")
    torch.set_num_threads(1)  # two threads are slower for batches this small
    networks = gallery() | {DEEP: trained("torus", 30_000)}
    torch.set_num_threads(args.threads)
    titles = ("faces", 9), ("Euler", 5), ("area", 10), ("mean", 9), ("largest", 9), ("seconds", 8), ("cpu", 8)
    print(f"{'network':16} {'method':22} " + " ".join(f"{title:>{width}}" for title, width in titles))
    rows = [row for name, model in networks.items() for row in measure(name, model, args.rounds)]
    write_results("surface-cpu", {"rounds": args.rounds, "rows": rows}, "cpu", publish=args.publish)


if __name__ == "__main__":
    main()
