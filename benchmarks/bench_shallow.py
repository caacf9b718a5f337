"""Gradient flows: cost of one flow in a batch against one at a time, and 1,000 flows of width 100 on 50 points.

python benchmarks/bench_shallow.py                  # table on screen, JSON in benchmarks/results/
python benchmarks/bench_shallow.py --flows 1000     # all of them
"""

from __future__ import annotations

import argparse

import torch

from regionscope_lab.shallow import FlowOptions, gradient_flows, initial_theta
from regionscope_lab.shallow.flow import conserved_drift
from regionscope_lab.shallow.losses import log_threshold
from regionscope_lab.shallow.teachers import random_teacher, sample
from results import write
from timing import timed

WIDTH, POINTS = 100, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flows", type=int, default=128, help="flows in the batch")
    parser.add_argument("--alone", type=int, default=4, help="flows that are also run one at a time")
    parser.add_argument("--until", type=float, default=50.0, help="stop at this -log L")
    parser.add_argument("--rtol", type=float, default=1e-5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    data = sample(random_teacher(3, seed=1), POINTS, seed=2)
    theta = initial_theta(chosen.flows, WIDTH, sigma_h=1.0, sigma_o=1e-3, seed=3)
    options = FlowOptions(rtol=chosen.rtol, max_log_loss=chosen.until, direction_tol=0.0, max_steps=4000)
    gradient_flows(theta[:2], data.x, data.y, FlowOptions(max_steps=20))
    alone, (alone_wall, alone_used) = timed(
        lambda: gradient_flows(theta[: chosen.alone], data.x, data.y, options, chunk=1)
    )
    batch, (wall, used) = timed(lambda: gradient_flows(theta, data.x, data.y, options))
    same = float((alone.theta - batch.theta[: chosen.alone]).abs().max() / batch.theta.abs().max())
    won = int((log_threshold(len(data), options.loss) < batch.F).sum())
    row = {
        "flows": chosen.flows, "width": WIDTH, "points": POINTS, "until": chosen.until,
        "rtol": chosen.rtol,
        "alone_cpu_seconds_per_flow": alone_used / chosen.alone, "batch_cpu_seconds_per_flow": used / chosen.flows,
        "alone_wall_seconds_per_flow": alone_wall / chosen.alone, "batch_wall_seconds": wall,
        "speedup_cpu": alone_used / chosen.alone * chosen.flows / used,
        "steps_per_flow": float(batch.steps.double().mean()),
        "rejected_per_flow": float(batch.rejected.double().mean()),
        "classified": won, "largest_drift": float(conserved_drift(theta, batch.theta).max()), "difference": same,
    }  # fmt: skip
    for name, value in row.items():
        print(f"{name:30} {value:.4g}" if isinstance(value, float) else f"{name:30} {value}")
    write("shallow", row)


if __name__ == "__main__":
    main()
