"""The exact level set of a signed distance network, beside its whole partition and beside marching cubes.

python benchmarks/bench_surface.py                # an 8-layer network of width 32; JSON in benchmarks/results/
python benchmarks/bench_surface.py --steps 20000  # trained longer

The network learns the signed distance to a torus from random points of [-1, 1]^3. Marching cubes (scikit-image, skipped
where it is not installed) reads the same network on grids; the distance of its vertices to the exact surface is
estimated as |f| / |gradient of f|. Times are seconds of the processor. Promise: the level set is 5 times faster than
the whole partition.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.lab.zoo import mlp

RESULTS = Path(__file__).parent / "results"
GRIDS = (64, 128, 256)
BOX = rs.Box.between(-1, 1, (3,))


def torus(x: Tensor) -> Tensor:
    return torch.hypot(x[:, :2].norm(dim=1) - 0.5, x[:, 2]) - 0.25


def trained(width: int, layers: int, steps: int, seed: int) -> nn.Module:
    """A ReLU network that learned the distance to the torus, with Adam and a learning rate that decays to 0."""
    model = mlp([3, *[width] * layers, 1], seed=seed)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        x = 2 * torch.rand(1024, 3, generator=generator) - 1
        optimizer.zero_grad()
        (model(x)[:, 0] - torus(x)).abs().mean().backward()
        optimizer.step()
        decay.step()
    return model.double().eval()


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def off_surface(model: nn.Module, points: Tensor) -> tuple[float, float]:
    """Mean and largest distance of points to the zero set, to first order."""
    distances = []
    for part in points.split(100_000):
        x = part.clone().requires_grad_()
        values = model(x)[:, 0]
        (slope,) = torch.autograd.grad(values.sum(), x)
        distances.append((values.detach() / slope.norm(dim=1).clamp(min=1e-12)).abs())
    whole = torch.cat(distances)
    return float(whole.mean()), float(whole.max())


def marching_cubes(model: nn.Module, n: int) -> dict[str, Any]:
    """Vertices and triangles of the network's values on a grid of n^3 points."""
    from skimage.measure import marching_cubes as cubes

    axis = torch.linspace(-1, 1, n, dtype=torch.float64)

    def run() -> Any:
        with torch.no_grad():
            grid = torch.cartesian_prod(axis, axis, axis)
            values = torch.cat([model(part)[:, 0] for part in grid.split(1 << 17)]).reshape(n, n, n).numpy()
        return cubes(values, 0.0, spacing=(2 / (n - 1),) * 3)

    took, (points, faces, *_) = seconds(run)
    mean, most = off_surface(model, torch.from_numpy(np.asarray(points, dtype=np.float64)) - 1)
    return {"method": f"marching cubes, {n}^3", "faces": len(faces), "seconds": took, "mean": mean, "largest": most}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = trained(args.width, args.layers, args.steps, args.seed)
    program = rs.trace(model, (3,))
    taken = [seconds(lambda: rs.level_set(program, BOX)) for _ in range(args.repeats + 1)][1:]
    level, surface = min(taken, key=lambda one: one[0])
    taken = [seconds(lambda: rs.linear_regions(program, BOX)) for _ in range(args.repeats)]
    whole, part = min(taken, key=lambda one: one[0])
    mean, most = off_surface(model, surface.points)
    print(f"3-[{args.width}]^{args.layers}-1 after {args.steps:,} steps, seed {args.seed}, {args.threads} threads")
    print(f"whole partition {whole:.2f} s, {len(part):,} regions; level set {level:.2f} s")
    print(f"partition / level set: {whole / level:.1f} (promise: at least 5)")
    print(f"Euler characteristic {surface.euler}, {len(surface.boundary_edges)} border edges, area {surface.area:.6f}")
    rows = [{"method": "level_set", "faces": len(surface), "seconds": level, "mean": mean, "largest": most}]
    if importlib.util.find_spec("skimage") is None:
        print("scikit-image is not installed: marching cubes are left out")
    else:
        rows += [marching_cubes(model, n) for n in GRIDS]
    print(f"{'method':24}{'faces':>10}{'seconds':>10}{'mean dist.':>13}{'largest':>13}")
    for row in rows:
        print(f"{row['method']:24}{row['faces']:10,}{row['seconds']:10.2f}{row['mean']:13.2e}{row['largest']:13.2e}")
    document = vars(args) | {
        "torch": torch.__version__, "regions": len(part), "partition (s)": whole, "level set (s)": level,
        "partition / level set": whole / level, "euler": surface.euler, "area": surface.area, "rows": rows,
    }  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "surface.json").write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
