"""Level sets of signed distance networks with 8 layers of width 32, beside their whole partition of [-1, 1]^3.

python benchmarks/bench_level_set.py [--rounds 3]      # JSON in benchmarks/results/level-set-cpu.json
python benchmarks/bench_level_set.py --publish         # also in docs/benchmarks/
python benchmarks/bench_level_set.py --device cuda

Each shape is learned in 3,000 and in 30,000 steps (about eight minutes on a CPU for the first time; the weights are
kept). ``level_set`` and ``linear_regions`` run in turn, ``--rounds`` times, and the least time of each counts: that of
the processor in one thread, or by the clock on a GPU. Aim: the level set is 5 times faster than the whole partition.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import regionscope as rs
from bench_surface import in_turn, write_results
from signed_distance import SHAPES, mean_error, trained

STEPS = (3_000, 30_000)
BOX = rs.Box.between(-1, 1, (3,))
AIM = 5


def measure(shape: str, steps: int, rounds: int, device: str) -> dict[str, Any]:
    """One row: both numbers of pieces, both times, and their ratio."""
    model = trained(shape, steps)
    error = mean_error(model, shape)
    model = model.to(device)
    found = in_turn(
        {"level_set": lambda: rs.level_set(model, BOX), "linear_regions": lambda: rs.linear_regions(model, BOX)}, rounds
    )
    (surface, own), (part, whole) = (
        (result, processor if device == "cpu" else clock) for clock, processor, result in found.values()
    )
    return {
        "shape": shape, "steps": steps, "error": error, "faces": len(surface), "regions": len(part),
        "level_set": own, "linear_regions": whole, "ratio": whole / own,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--publish", action="store_true", help="also write to docs/benchmarks/")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'shape':10} {'steps':>7} {'error':>8} {'faces':>7} {'regions':>9} {'level set':>9} {'partition':>9} ratio")
    rows = []
    for steps in STEPS:
        for shape in SHAPES:
            row = measure(shape, steps, args.rounds, args.device)
            rows.append(row)
            pieces = f"{row['error']:8.4f} {row['faces']:7,} {row['regions']:9,}"
            times = f"{row['level_set']:9.3f} {row['linear_regions']:9.3f} {row['ratio']:5.1f}"
            print(f"{shape:10} {steps:7,} {pieces} {times}", flush=True)
    print(f"aim: {AIM}, met by {sum(row['ratio'] >= AIM for row in rows)} of {len(rows)} networks")
    write_results(f"level-set-{args.device}", {"rounds": args.rounds, "rows": rows}, args.device, publish=args.publish)


if __name__ == "__main__":
    main()
