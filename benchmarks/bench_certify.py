"""Certificates against the partitions that they prove, in CPU seconds of one core.

The seconds of a partition include its linear regions, which it computes when they are asked for: a certificate proves
them, too.

OMP_NUM_THREADS=1 python benchmarks/bench_certify.py  # table on screen, JSON in docs/benchmarks/certify-cpu.json
OMP_NUM_THREADS=1 python benchmarks/bench_certify.py plane  # the cases whose name holds the word

The exit code is 1 if a certificate takes more than three times the partition while bounds decide 99.9% of the signs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

import regionscope as rs
from results import surroundings
from timing import timed

REPORT = Path(__file__).parent.parent / "docs" / "benchmarks" / "certify-cpu.json"
LIMIT = 3.0
SQUARE = rs.Box.between(-1.0, 1.0, (2,))


def mlp(*widths: int) -> nn.Module:
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Residual(nn.Module):
    """A CNN with batch norm and a residual sum, for images of 8 x 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(a, 4, 3, padding=1) for a in (1, 4))
        self.norm, self.last = nn.BatchNorm2d(4), nn.Linear(4 * 64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.first(x)).relu()
        out: torch.Tensor = self.last((y + self.second(y).relu()).flatten(1))
        return out


def pooling(a: int, b: int, size: int, stride: int, pixels: int) -> nn.Module:
    """Two convolutions, each with ReLU and max-pooling behind it, for images of pixels x pixels."""
    first = [nn.Conv2d(1, a, 3, padding=1), nn.ReLU(), nn.MaxPool2d(size, stride), nn.Conv2d(a, b, 3), nn.ReLU()]
    layers = nn.Sequential(*first, nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(layers, nn.Linear(layers(torch.zeros(1, 1, pixels, pixels)).shape[1], 10))


def images(n: int, *shape: int) -> list[torch.Tensor]:
    return [torch.rand(*shape) for _ in range(n)]


def cases() -> dict[str, Callable[[], tuple[nn.Module, rs.Slice]]]:
    """By name: a network with default initialisation, and a slice."""
    planes = {f"2-[{w}]^3, plane": lambda w=w: (mlp(2, w, w, w, 2), SQUARE) for w in (32, 64, 128, 256)}
    return planes | {
        "784-[128]^3, triangle": lambda: (mlp(784, 128, 128, 128, 10), rs.Simplex(images(3, 784))),
        "784-[256]^3, segment": lambda: (mlp(784, 256, 256, 256, 10), rs.Segment(*images(2, 784))),
        "784-[512]^4, segment": lambda: (mlp(784, *[512] * 4, 10), rs.Segment(*images(2, 784))),
        "CNN, triangle": lambda: (Residual().eval(), rs.Simplex(images(3, 1, 8, 8))),
        "max-pooling CNN, triangle": lambda: (pooling(4, 4, 2, 2, 8), rs.Simplex(images(3, 1, 8, 8))),
        "max-pooling CNN with windows that overlap, triangle": lambda: (
            pooling(4, 4, 3, 2, 12),
            rs.Simplex(images(3, 1, 12, 12)),
        ),
        "max-pooling CNN 28 x 28, segment": lambda: (pooling(6, 16, 2, 2, 28), rs.Segment(*images(2, 1, 28, 28))),
        "3-[16]^2, cube": lambda: (mlp(3, 16, 16, 3), rs.Box.between(-1.0, 1.0, (3,))),
        "3-[32]^2, cube": lambda: (mlp(3, 32, 32, 3), rs.Box.between(-1.0, 1.0, (3,))),
    }


def measured(model: nn.Module, where: rs.Slice, compute: Callable[..., Any], repeats: int) -> dict[str, Any]:
    """The least seconds of some runs, partition and certificate by turns."""
    times = []
    for _ in range(repeats):
        part, first = timed(lambda: compute(model, where))
        pieces = part.partition if isinstance(part, rs.DecisionRegions) else part
        _, merging = timed(partial(getattr, pieces, "n_linear_regions"))
        certificate, second = timed(part.certify)
        times.append((first.processor + merging.processor, second.processor))
    partition, proof = (min(column) for column in zip(*times, strict=True))
    return {
        "regions": len(pieces),
        "certified": certificate.certified,
        "signs": certificate.signs,
        "in_integers": certificate.recomputed,
        "partition_seconds": round(partition, 3),
        "certificate_seconds": round(proof, 3),
        "ratio": round(proof / partition, 2),
    }


def main() -> int:
    """Parse the command line, measure, and write the report; other cases stay in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("word", nargs="?", default="", help="only the cases whose name holds this word")
    parser.add_argument("--repeats", type=int, default=3, help="number of runs; the fastest counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found, slow = {}, False
    kinds = {"linear regions": rs.linear_regions, "decision regions": rs.decision_regions}
    for name, build in cases().items():
        for kind, compute in kinds.items():
            if options.word in f"{name}, {kind}":
                torch.manual_seed(0)
                one = measured(*build(), compute, options.repeats)
                found[f"{name}, {kind}"] = one | surroundings()
                slow |= one["ratio"] > LIMIT and one["in_integers"] <= 0.001 * one["signs"]
                print(f"{name}, {kind}: {one}", flush=True)
    known = json.loads(REPORT.read_text(encoding="utf-8")) if REPORT.exists() else {}
    REPORT.write_text(json.dumps(known | found, indent=1) + "\n", encoding="utf-8")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
