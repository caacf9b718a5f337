"""Whether the smallest rows of ``make bench`` have become twice as slow, in a few seconds.

Each row is the time of some work divided by that of its floor, forward passes in float64, in seconds of the processor
and one thread, least of many rounds in turns. So the speed of the machine and other programs cancel, as far as they
can; only a ratio that doubles is a failure.

python benchmarks/guard.py                        # compare with docs/benchmarks/bench.json, exit code 1 for a failure
python benchmarks/guard.py --store                # after a change of speed that is meant
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import torch

import regionscope as rs
from exact_cases import box, images, mlp
from results import surroundings
from table import Row, load, store
from timing import busy_seconds

__all__ = ["CASES", "doubled", "load"]

ROUNDS = 40
Work = Callable[[], object]


def partition(slice: rs.Slice, *sizes: int) -> tuple[Work, Work]:
    """The partition of a network that was read before, and a forward pass over its vertices."""
    model = mlp(*sizes).double()
    program = rs.trace(model, (sizes[0],))
    vertices = slice.embed(rs.linear_regions(program, slice).vertices)
    return lambda: rs.linear_regions(program, slice), lambda: model(vertices)


def points(n: int, *sizes: int) -> tuple[Work, Work]:
    """The regions of n points, and a forward pass for each entry of each of them."""
    model = mlp(*sizes).double()
    program = rs.trace(model, (sizes[0],))
    x = images(n, sizes[0])
    rows = x.repeat_interleave(sizes[0], 0)
    return lambda: rs.regions_at(program, x), lambda: model(rows)


CASES: dict[str, Callable[[], tuple[Work, Work]]] = {
    "plane 2-[32]*3-2, read before": lambda: partition(box(), 2, 32, 32, 32, 2),
    "segment 784-[200]*3-10, read before": lambda: partition(rs.Segment(*images(2, 784)), 784, 200, 200, 200, 10),
    "regions of 50 points, mlp 64-[128]*3-10": lambda: points(50, 64, 128, 128, 128, 10),
}


def measure(case: str) -> Row:
    """The least time of the work and of its floor."""
    work, floor = CASES[case]()
    with torch.no_grad():
        rounds = [(busy_seconds(work), busy_seconds(floor)) for _ in range(ROUNDS)]
    seconds, bottom = map(min, zip(*rounds, strict=True))
    return {"case": case, "seconds": seconds, "floor": bottom, "ratio": seconds / bottom, "peak_gib": None}


def doubled(rows: Sequence[Row], stored: Sequence[Row]) -> list[str]:
    """A sentence for each row whose ratio is more than twice the stored one."""
    before = {row["case"]: row["ratio"] for row in stored}
    return [
        f"{row['case']}: {row['ratio']:.3g} floors, {before[row['case']]:.3g} stored"
        for row in rows
        if row["ratio"] > 2 * before.get(row["case"], row["ratio"])
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="fail if a small benchmark takes twice the stored number of floors")
    parser.add_argument("--store", action="store_true", help="store the ratios")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for case in CASES:
        rows.append(measure(case))
        print(f"{case:44} {1e3 * rows[-1]['seconds']:8.3g} ms {rows[-1]['ratio']:8.3g} floors", flush=True)
    if options.store:
        store("guard", [{**row, **surroundings()} for row in rows])
        return
    slow = doubled(rows, load("guard"))
    if slow:
        sys.exit(
            "Expected ratios of at most twice the stored ones, got " + "; ".join(slow) + ". Find what slowed down."
        )


if __name__ == "__main__":
    main()
