"""The checks of Appendix C of Humayun et al. 2023, at full size: a few seconds.

1. A linear network without bias (784 inputs, 50 layers of 400): every unit folds at the origin, for all radii and
   numbers of directions. With ReLU between the layers this is no longer so, and it is shown next to it.
2. Moving the neighbourhood from [0]^d to [10]^d (18 layers of 100, LeakyReLU 0.01, r = 5) lowers local complexity, and
   more directions add less and less (Figure 17).

    python examples/appendix_c.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import nn

import regionscope as rs

RADII = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]
DIMS = [2, 10, 25, 50, 100, 200]
SHIFTS = torch.linspace(0, 10, 11)


def stack(depth: int, width: int, *, bias: bool, activation: nn.Module | None) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for i in range(depth):
        layers.append(nn.Linear(784 if i == 0 else width, width, bias=bias))
        if activation is not None:
            layers.append(activation)
    return nn.Sequential(*layers)


def main() -> None:
    parser = argparse.ArgumentParser(description="Appendix C")
    parser.add_argument("--out", type=Path, default=Path("examples/output"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    origin = torch.zeros(1, 784)
    for name, activation in (("linear", None), ("ReLU", nn.ReLU())):
        model = stack(50, 400, bias=False, activation=activation)
        print(f"{name} network without bias, units that fold at the origin out of 20,000")
        print("      P " + "".join(f"{f'r = {radius:g}':>12}" for radius in RADII))
        for dims in DIMS:
            counts = [
                int(rs.local_complexity(model, origin, dims=dims, radius=radius, linear_outputs=True).total)
                for radius in RADII
            ]
            print(f"{dims:7d} " + "".join(f"{count:12,d}" for count in counts))
    model = stack(18, 100, bias=True, activation=nn.LeakyReLU(0.01))
    centers = SHIFTS[:, None].expand(-1, 784)
    figure = Figure(figsize=(10, 4), dpi=130, layout="constrained")
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    print("LC at [s]^d of 18 layers of 100, LeakyReLU 0.01, r = 5, for s = 0, 1, ..., 10")
    for dims in DIMS:
        counts = rs.local_complexity(model, centers, dims=dims, radius=5.0).total.tolist()
        print(f"P = {dims:4d}: " + " ".join(f"{count:5d}" for count in counts))
        left.plot(SHIFTS, counts, label=f"P = {dims}")
    for radius in (0.5, 1.0, 2.0, 5.0, 10.0):
        right.plot(SHIFTS, rs.local_complexity(model, centers, dims=20, radius=radius).total, label=f"r = {radius:g}")
    left.set(xlabel="shift s of the neighbourhood to [s]^d", ylabel="local complexity", title="r = 5")
    right.set(xlabel="shift s of the neighbourhood to [s]^d", title="P = 20")
    left.legend(fontsize="small")
    right.legend(fontsize="small")
    figure.savefig(options.out / "appendix_c.png")
    print(f"wrote {options.out / 'appendix_c.png'}")


if __name__ == "__main__":
    main()
