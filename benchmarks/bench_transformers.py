"""The instruments of sequence models against their floors, on the zoo's GPT and ViT with random weights.

python benchmarks/bench_transformers.py                # table on screen, JSON in benchmarks/results/
python benchmarks/bench_transformers.py --device cuda  # larger models, more points

Floors: for local complexity, region counts and spline features one forward pass of the model over the same points,
ready made, in the best of a few batches; for exact regions of an MLP block the block over the final vertices. Each
round runs the floor and then the instrument. The ratio is the median of the rounds, since the speed of a machine
changes from minute to minute. On a CPU the times are processor seconds in one thread, so that other work on the machine
counts as little as possible.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.network import full_precision
from regionscope_lab.zoo import transformer as zoo
from results import write
from timing import busy_seconds

LIMIT = 1.3  # of local complexity
_GRID = 200  # points of region_count on a line


@dataclass(frozen=True)
class Sizes:
    """Of the models and of the points: small on a CPU."""

    width: int
    depth: int
    heads: int
    tokens: int
    vocabulary: int
    points: tuple[int, ...]  # of local complexity: few points show the fixed cost of a call
    prompts: int
    rounds: int  # for the fewest points, fewer for more
    slices: int = 0  # of region_count; 0: local complexity alone


SIZES = {
    "cpu": (
        Sizes(
            width=128, depth=4, heads=4, tokens=32, vocabulary=256, points=(32, 64, 128), prompts=128, rounds=9,
            slices=2,
        ),
        Sizes(width=384, depth=6, heads=6, tokens=32, vocabulary=256, points=(16,), prompts=16, rounds=3),
    ),
    "cuda": (  # of GPT-2 and ViT-Base
        Sizes(
            width=768, depth=12, heads=12, tokens=64, vocabulary=50257, points=(32, 64, 256), prompts=256, rounds=9,
            slices=8,
        ),
    ),
}  # fmt: skip


def forward(model: nn.Module, inputs: Tensor, n: int, batches: tuple[int, ...]) -> Any:
    """A function that runs the model over n inputs, in the fastest of the batches."""

    def over(rows: int, batch: int) -> None:
        with torch.no_grad(), full_precision():
            for start in range(0, rows, batch):
                size = min(batch, rows - start)
                model(inputs[torch.arange(size, device=inputs.device) % len(inputs)])

    some = min(n, max(batches))

    def least(batch: int) -> float:
        return min(busy_seconds(lambda: over(some, batch), inputs.device) for _ in range(4))

    best = min(batches, key=least)
    return lambda: over(n, best)


class Bench:
    """A GPT and a ViT of some sizes, and a row for each instrument."""

    def __init__(self, device: torch.device, sizes: Sizes) -> None:
        torch.manual_seed(0)
        self.device, self.sizes = device, sizes
        self.batches = (32, 128) if device.type == "cpu" else (64, 256, 1024)
        shape = {"depth": sizes.depth, "width": sizes.width, "heads": sizes.heads}
        text = zoo.gpt(classes=sizes.vocabulary, input_shape=(sizes.tokens,), activation="relu", **shape)
        image = zoo.vit(classes=10, input_shape=(3, 32, 32), **shape)
        self.text, self.image = (model.eval().to(device) for model in (text, image))
        self.ids = torch.randint(1, sizes.vocabulary, (sizes.prompts, sizes.tokens), device=device)
        self.images = torch.rand(max(sizes.points), 3, 32, 32, device=device)
        different = len(self.ids.unique(dim=0))
        if different < max(sizes.points):
            raise ValueError(f"Expected at least {max(sizes.points)} different prompts, got {different}.")
        self.rows: list[dict[str, object]] = []

    def row(
        self, kind: str, instrument: str, n: int, work: Callable[[], object], floor: Callable[[], object],
        rounds: int = 0,
    ) -> None:  # fmt: skip
        network = f"{kind}, {self.sizes.depth} x {self.sizes.width}"
        busy_seconds(floor, self.device), busy_seconds(work, self.device)  # to warm up
        bottom, seconds = zip(
            *(
                (busy_seconds(floor, self.device), busy_seconds(work, self.device))
                for _ in range(rounds or self.sizes.rounds)
            ),
            strict=True,
        )
        ratios = [own / least for own, least in zip(seconds, bottom, strict=True)]
        self.rows.append({
            "network": network, "instrument": instrument, "forward_passes": n, "rounds": len(ratios),
            "seconds": statistics.median(seconds), "floor": statistics.median(bottom),
            "ratio": statistics.median(ratios), "ratio_least": min(ratios), "ratio_most": max(ratios),
        })  # fmt: skip
        times = f"{statistics.median(seconds):9.3f} {statistics.median(bottom):9.3f}"
        spread = f"{statistics.median(ratios):6.2f} {min(ratios):6.2f} {max(ratios):6.2f}"
        print(f"{network:13} {instrument:34} {n:8d} {times} {spread}", flush=True)

    def on_text(self, n: int) -> Any:
        return forward(self.text, self.ids, n, self.batches)

    def on_images(self, n: int) -> Any:
        return forward(self.image, self.images, n, self.batches)

    def local_complexity(self) -> None:
        for points in self.sizes.points:
            n = 50 * points
            rounds = max(3, self.sizes.rounds * self.sizes.points[0] // points | 1)  # an odd number
            plain = partial(rs.local_complexity, self.text, self.ids[:points], radius=0.1)
            self.row("GPT", "local_complexity", n, plain, self.on_text(n), rounds)
            of_images = partial(rs.local_complexity, self.image, self.images[:points], radius=0.5)
            self.row("ViT", "local_complexity", n, of_images, self.on_images(n), rounds)

    def other_instruments(self) -> None:
        text, ids, slices = self.text, self.ids, self.sizes.slices
        n = slices * _GRID
        self.row(
            "GPT", "region_count, next token", n, lambda: rs.region_count(text, ids, slices=slices), self.on_text(n)
        )
        found = rs.block(text, "layers.0.mlp", ids[0])
        plane = rs.Box(found.activation, torch.eye(self.sizes.width, device=self.device)[:2], 1.0)
        inputs = plane.embed(rs.linear_regions(found.program, plane).vertices)
        with torch.no_grad():
            self.row(
                "GPT", "block, exact plane", len(inputs),
                lambda: rs.linear_regions(found.program, plane), lambda: found.program(inputs),
            )  # fmt: skip
        self.row(
            "ViT", "region_count", n,
            lambda: rs.region_count(self.image, self.images, slices=slices), self.on_images(n),
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="time the instruments of transformers against their floors")
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    heads = f"{'seconds':>9} {'floor':>9} {'ratio':>6} {'least':>6} {'most':>6}"
    print(f"{'model':13} {'instrument':34} {'passes':>8} {heads}")
    rows = []
    for sizes in SIZES[device.type]:
        bench = Bench(device, sizes)
        bench.local_complexity()
        if sizes.slices:
            bench.other_instruments()
        rows += bench.rows
    print(f"aim: local_complexity at most {LIMIT} of its floor")
    clock = "seconds" if device.type == "cuda" else "processor seconds"
    report = {"clock": clock, "sizes": [vars(sizes) for sizes in SIZES[device.type]], "rows": rows}
    print(f"wrote {write(f'transformers_{device.type}', report, device)}")


if __name__ == "__main__":
    main()
